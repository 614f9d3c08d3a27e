"""One form for templates that mean the same (spec/leaderworkerset.md 3.5, Q30; spec/omenative.md 5.1). Pure.

A template reaches us as its author wrote it, as a Go program wrote it out again (``resources: {}``, ``creationTimestamp: null``,
``1`` for ``1000m``), or with the API server's defaults. What differs only in that is equal here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.wire.codec import parse_quantity

_EMPTY_IS_ABSENT = frozenset(
    {
        "affinity",
        "annotations",
        "labels",
        "lifecycle",
        "limits",
        "metadata",
        "nodeSelector",
        "requests",
        "resources",
        "securityContext",
        "status",
    }
)
"""Objects that say nothing when they are empty. Elsewhere ``{}`` has a meaning: ``emptyDir: {}``, a selector that matches all."""
_ZERO_IS_ABSENT: dict[str, tuple[Any, ...]] = {
    "hostIPC": (False,),
    "hostNetwork": (False,),
    "hostPID": (False,),
    "hostPort": (0,),
    "readOnly": (False,),
    "stdin": (False,),
    "stdinOnce": (False,),
    "subPath": ("",),
    "tty": (False,),
    "value": ("",),
}
"""Fields for which Go cannot tell the zero value from absence."""
_PLAIN_MAPS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
"""Maps of the user's own keys, taken as they are."""
_QUANTITIES = frozenset({"limits", "requests"})


def canonical(value: Any) -> Any:
    """``value`` without what says nothing. The result shares no dict or list with it."""
    if isinstance(value, Mapping):
        return {key: kept for key, item in value.items() if not _absent(key, kept := _field(key, item), value)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [canonical(item) for item in value]
    return value


def covers(live: Any, wanted: Any) -> bool:
    """Whether everything that ``wanted`` says is so in ``live``; what only ``live`` has does not count. Both canonical."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(key in live and covers(live[key], item) for key, item in wanted.items())
    if isinstance(wanted, list):
        same_length = isinstance(live, list) and len(live) == len(wanted)
        return same_length and all(covers(have, want) for have, want in zip(live, wanted, strict=True))
    return bool(live == wanted)


def _field(key: str, item: Any) -> Any:
    if key in _PLAIN_MAPS and isinstance(item, Mapping):
        return dict(item)
    if key in _QUANTITIES and isinstance(item, Mapping):
        return {name: _quantity(amount) for name, amount in item.items()}
    return canonical(item)


def _absent(key: str, item: Any, parent: Mapping[str, Any]) -> bool:
    if item is None or item == []:
        return True
    if item == {}:
        return key in _EMPTY_IS_ABSENT
    if key == "protocol":
        return item == "TCP" and "containerPort" in parent
    return any(item == zero and type(item) is type(zero) for zero in _ZERO_IS_ABSENT.get(key, ()))


def _quantity(amount: Any) -> Any:
    """Equal amounts become equal text; what is no quantity stays as it is."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return amount
    try:
        return str(parse_quantity(amount).normalize())
    except (ValueError, ArithmeticError):
        return amount
