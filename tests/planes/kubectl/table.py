"""The table of commands: sections of ``commands/*.yaml``, each a story of kubectl commands in a namespace of its own.

A step is a command line, or a mapping with ``run`` and how it is played and compared (``Step``). The files of a section lie in
the folder that its commands run in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command."""

    run: str
    text: str = ""
    """Its standard input."""
    edit: str = ""
    """What ``kubectl edit`` gets for an editor: a sed script."""
    until: str = ""
    """It is repeated until its plain output matches this."""
    only: str = ""
    """Of its output only the lines that match this are compared: how often progress was told is a matter of time."""
    sort: bool = False
    """The order of its lines is nobody's promise."""
    since: float = 0.0
    """The kubectl that has the command, or asks for it what the sandbox has."""
    differs: str = ""
    """Why the words differ on the sandbox. The exit code is compared all the same, and words that are equal are an error."""

    def __str__(self) -> str:
        return f"kubectl {self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One story."""

    topic: str
    name: str
    steps: Sequence[Step]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return f"{self.topic}-{self.name}".replace(" ", "-")

    def __str__(self) -> str:
        return f"{self.topic}: {self.name}"


def load() -> list[Section]:
    """All sections in the order of their files."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        entries: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
        for entry in entries:
            steps = [Step(run=step) if isinstance(step, str) else Step(**step) for step in entry.pop("steps")]
            found.append(Section(topic=path.stem, steps=steps, **entry))
    return found
