"""Files that a command leaves for others."""

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a file that somebody may wait for: it is there with all of its text or not at all. Raises ``OSError``."""
    if file.exists() and not file.is_file():  # a pipe or a terminal cannot be replaced
        file.write_text(text, encoding="utf-8")
        return
    file = file.resolve()  # a link stays, and leads to the new text
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
