"""Numbers of Instances that are written as a count or as a percentage (spec/omenative.md 1.1.2). Pure."""

import re

from regroup.omenative.api.lifecycle import IntOrPercent

_PERCENT = re.compile(r"([0-9]{1,6})%")
COUNT_LIMIT = 2**31 - 1


def percent(value: str) -> int | None:
    """The number before the ``%``; None for any other text."""
    match = _PERCENT.fullmatch(value)
    return int(match[1]) if match else None


def resolve_count(value: IntOrPercent, instances: int) -> int:
    """``value`` in Instances: a percentage of ``instances`` is rounded up. Raises ``ValueError`` for any other text."""
    if isinstance(value, int):
        return value
    share = percent(value)
    if share is None:
        raise ValueError(f"{value[:60]!r} is neither a number nor a percentage")
    return -(-instances * share // 100)


def is_zero(value: IntOrPercent | None) -> bool:
    """``0`` or ``0%``: an explicit nothing."""
    return value is not None and (value == 0 if isinstance(value, int) else percent(value) == 0)
