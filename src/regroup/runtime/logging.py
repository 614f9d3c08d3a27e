"""Structured logs: one line an entry, JSON for machines or columns for people. Set up once by the command line."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

import msgspec
import structlog

LogFormat = Literal["json", "console"]


def _encode(event: dict[str, Any], **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def _printable(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Text from pods must not forge lines or move a terminal's cursor; JSON escapes by itself."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in value)
    return event


def configure(*, format: LogFormat, level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs to ``stream`` (standard error by default). ``console`` is coloured only on a terminal."""
    target = stream or sys.stderr
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_encode)
        if format == "json"
        # Plain tracebacks: the pretty ones print local variables, which may be secrets.
        else structlog.dev.ConsoleRenderer(
            colors=target.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    )
    chain: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    chain.append(structlog.processors.format_exc_info if format == "json" else _printable)
    structlog.configure(
        processors=[*chain, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(target),
        cache_logger_on_first_use=False,
    )
    # Libraries speak through the standard library: only what went wrong is worth a line.
    logging.basicConfig(stream=target, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", force=True)
