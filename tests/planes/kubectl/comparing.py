"""Two transcripts of one section, step by step."""

import difflib
from collections.abc import Iterable

from tests.planes.kubectl.table import Section
from tests.planes.kubectl.typist import Said, Transcript


def differences(section: Section, *, real: Transcript, ours: Transcript, needed: bool = True) -> list[str]:
    """What differs between Kubernetes and the sandbox and is not excused; where excuses are ``needed``, also those of what is
    equal. Empty: nothing."""
    found = []
    for step, theirs, own in zip(section.steps, real, ours, strict=True):
        if theirs.code != own.code:
            found.append(f"{section}: {step}: ends with {own.code} in place of {theirs.code}\n{_lines(theirs, own)}")
        elif theirs.text == own.text and step.differs and needed:
            found.append(f"{section}: {step}: is equal, but excused: {step.differs}")
        elif theirs.text != own.text and not step.differs:
            found.append(f"{section}: {step}\n{_lines(theirs, own)}")
    return found


def changes(section: Section, *, before: Iterable[tuple[str, Said]], now: Transcript) -> list[str]:
    """Where what Kubernetes says now is not what was recorded."""
    recorded = list(before)
    if [command for command, _ in recorded] != [str(step) for step in section.steps]:
        return [f"{section}: has changed: record anew (python -m tests.planes.kubectl.recording)"]
    return [
        f"{section}: {command}: {old.code} is {new.code}\n{_lines(old, new)}"
        for (command, old), new in zip(recorded, now, strict=True)
        if old != new
    ]


def _lines(theirs: Said, own: Said) -> str:
    lines = difflib.unified_diff(theirs.text.splitlines(), own.text.splitlines(), "Kubernetes", "here", lineterm="", n=1)
    return "\n".join(f"    {line}" for line in lines)
