"""Structured logs: one line an entry, JSON for machines or columns for people. Set up once by the command line."""

import logging
import sys
from typing import Any, Literal, TextIO

import msgspec
import structlog

LogFormat = Literal["json", "console"]


def _encode(event: dict[str, Any], **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def configure(*, format: LogFormat, level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs to ``stream`` (standard error by default). ``console`` is coloured only on a terminal."""
    target = stream or sys.stderr
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_encode)
        if format == "json"
        else structlog.dev.ConsoleRenderer(colors=target.isatty(), pad_event_to=0)
    )
    chain: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    if format == "json":
        chain.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*chain, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(target),
        cache_logger_on_first_use=False,
    )
    # Libraries speak through the standard library: only what went wrong is worth a line.
    logging.basicConfig(stream=target, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", force=True)
