"""Leaves out what libraries would bring along for nothing: a process that runs for months keeps it for months."""

import sys


def import_structlog() -> None:
    """Import structlog without rich, which it would take for tracebacks that show local variables: ours never do, because those
    may be secrets. It is five MiB, and nobody's who prints no tables; those who do import rich themselves, later."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    modules: dict[str, object] = sys.modules  # type: ignore[assignment]  # None is Python's own way to say that there is none
    modules["rich"] = None
    try:
        import structlog  # noqa: F401, PLC0415 - for those who come after
    finally:
        del modules["rich"]
