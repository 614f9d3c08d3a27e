"""Logs: one line an entry, colours only on terminals, nothing that a pod's text could forge, no secrets from tracebacks."""

import io
import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import structlog

from regroup.runtime.logging import configure


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logged(format: Literal["json", "console"], *, level: str = "info", stream: io.StringIO | None = None, **fields: Any) -> str:
    target = stream or io.StringIO()
    configure(format=format, level=level, stream=target)
    structlog.get_logger("test").info("it happened", **fields)
    return target.getvalue()


def test_json_is_one_object_a_line() -> None:
    """For machines: level, time and all fields, whatever their types."""
    (line,) = logged("json", group="a/b/0", what=ValueError("x"), text="two\nlines").splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["level"], entry["group"], entry["what"]) == ("it happened", "info", "a/b/0", "x")
    assert entry["text"] == "two\nlines"
    assert entry["timestamp"].endswith("Z")


def test_text_from_outside_stays_on_its_line() -> None:
    """A pod's message can neither forge a second entry nor steer the terminal."""
    text = logged("console", message="oh\n2026-01-01 [error] forged \x1b[2J")
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert "forged" in text


def test_colours_only_on_a_terminal() -> None:
    """A file or a pipe gets plain text."""
    assert "\x1b[" not in logged("console", a=1)
    assert "\x1b[" in logged("console", a=1, stream=Terminal())


def test_the_level_is_kept() -> None:
    """What is below it is not written."""
    assert logged("console", level="warning") == ""


@pytest.mark.parametrize("format", ["console", "json"])
def test_a_traceback_shows_no_local_variables(format: Literal["json", "console"]) -> None:
    """Locals may be tokens and keys."""
    target = io.StringIO()
    configure(format=format, stream=target)

    def refuse(password: str) -> None:
        raise ValueError(f"wrong length {len(password)}")

    try:
        refuse("hunter" + "2")
    except ValueError:
        structlog.get_logger("test").exception("failed")
    assert "wrong length 7" in target.getvalue()
    assert "hunter2" not in target.getvalue()
