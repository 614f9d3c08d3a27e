"""The differences that are known and why a user never meets them: ``differences.yaml``, and nothing else, excuses one.

Each entry names conversations (``subject: name``, shell pattern), optionally steps and the place in the answer, and the reason.
An entry that excuses nothing any more is an error.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "differences.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """One known difference."""

    conversation: str
    why: str
    step: str = "*"
    at: str = "*"

    def covers(self, conversation: str, step: str, place: str) -> bool:
        plain = re.sub(r"\[(\d+)\]", r".\1", place)
        return (
            fnmatchcase(conversation, self.conversation)
            and fnmatchcase(step, self.step.replace("[", "[[]"))
            and fnmatchcase(plain, self.at)
        )


def load(path: Path = FILE) -> list[Excuse]:
    """All entries. An entry without a reason is an error."""
    entries: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["differences"] or []
    return [Excuse(**entry) for entry in entries]
