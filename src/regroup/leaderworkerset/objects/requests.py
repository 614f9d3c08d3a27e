"""What the pods of a group ask for together, for a scheduler that places them at once (spec/leaderworkerset.md 3.6). Pure."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from regroup.leaderworkerset.api.types import Template
from regroup.wire.codec import format_quantity, parse_quantity

Amounts = dict[str, Decimal]


def total(templates: Iterable[Template]) -> dict[str, str]:
    """The requests of one pod of each template, summed; amounts that are no quantity count as nothing."""
    sums: Amounts = {}
    known: dict[int, Amounts] = {}
    for template in templates:
        if id(template) not in known:
            known[id(template)] = _pod(template.get("spec") or {})
        _add(sums, known[id(template)])
    return {name: format_quantity(amount) for name, amount in sorted(sums.items()) if amount > 0}


def _pod(spec: Mapping[str, Any]) -> Amounts:
    """As the scheduler counts a pod: all containers together, or the largest init container if that is more, and the overhead.

    An init container that keeps running (restartPolicy Always) counts beside all that start after it.
    """
    running: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            peak = dict(running)
        else:
            peak = dict(running)
            _add(peak, asked)
        _raise(highest, peak)
    for container in spec.get("containers") or ():
        _add(running, _asked(container))
    _raise(running, highest)
    _add(running, _amounts(spec.get("overhead")))
    return running


def _asked(container: Mapping[str, Any]) -> Amounts:
    """Requests of a container; where it only has a limit, that is what it gets."""
    resources = container.get("resources") or {}
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _amounts(values: Mapping[str, Any] | None) -> Amounts:
    return {name: amount for name, value in (values or {}).items() if (amount := _parsed(str(value))) is not None}


def _parsed(text: str) -> Decimal | None:
    try:
        return parse_quantity(text)
    except (ValueError, ArithmeticError):
        return None


def _add(sums: Amounts, more: Mapping[str, Decimal]) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, Decimal(0)) + amount


def _raise(sums: Amounts, least: Mapping[str, Decimal]) -> None:
    for name, amount in least.items():
        sums[name] = max(sums.get(name, Decimal(0)), amount)
