"""Durations as Go writes them: ``45m``, ``1h30m``, ``1.5s`` (spec/omenative.md 1). Pure. Values are seconds.

A number without a unit is refused: nobody can tell what was meant. Only ``0`` needs none.
"""

import re
from decimal import Decimal

_UNITS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART = r"(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:ns|us|µs|μs|ms|s|m|h)"
_WHOLE = re.compile(rf"[+-]?(?:{_PART}){{1,16}}")
_SPLIT = re.compile(r"([0-9.]+)(ns|us|µs|μs|ms|s|m|h)")
_LIMIT = Decimal(2**63 - 1) * Decimal("1e-9")
"""Go counts nanoseconds in 64 bits: about 292 years."""
_SHOWN = 60
PATTERN = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
"""What ``parse`` takes, for a schema."""


def parse(text: str) -> float:
    """``text`` in seconds. Raises ``ValueError`` that says what is wrong."""
    if text in {"0", "+0", "-0"}:
        return 0.0
    if not _WHOLE.fullmatch(text):
        if re.fullmatch(r"[+-]?[0-9.]+", text, re.ASCII):
            raise ValueError(f"missing unit in duration {_quoted(text)}: write for example 45m, 60s or 1h30m")
        raise ValueError(f"invalid duration {_quoted(text)}: write for example 45m, 60s or 1h30m")
    total = sum((Decimal(number) * _UNITS[unit] for number, unit in _SPLIT.findall(text)), Decimal(0))
    if total > _LIMIT:
        raise ValueError(f"invalid duration {_quoted(text)}: more than 292 years")
    return float(-total if text.startswith("-") else total)


def format_seconds(seconds: float) -> str:
    """``seconds`` as Go prints them: 2700 is ``45m0s``, 0.5 is ``500ms``, 0 is ``0s``."""
    value = Decimal(repr(float(seconds))).quantize(Decimal("1e-9"))
    sign, value = ("-", -value) if value < 0 else ("", value)
    if value == 0:
        return "0s"
    if value < 1:
        unit = next(name for name in ("ms", "µs", "ns") if value >= _UNITS[name])
        return f"{sign}{_plain(value / _UNITS[unit])}{unit}"
    minutes, rest = divmod(value, 60)
    hours, minutes = divmod(minutes, 60)
    head = f"{int(hours)}h{int(minutes)}m" if hours else f"{int(minutes)}m" if minutes else ""
    return f"{sign}{head}{_plain(rest)}s"


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _quoted(text: str) -> str:
    return f'"{text[:_SHOWN]}"'
