"""What the pods of a group ask for together, for a scheduler that places them at once (spec/leaderworkerset.md 3.6). Pure.

Exact: quantities are fractions until they are written.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

from regroup.leaderworkerset.types import Template

Amounts = dict[str, Fraction]

_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]*)(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?[0-9]{1,3}))?\Z")
_FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000 ** (place + 1)) for place, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(1024 ** (place + 1)) for place, unit in enumerate("KMGTPE")},
}


def total(templates: Iterable[Template]) -> dict[str, str]:
    """The requests of one pod of each template, summed; amounts that are no quantity count as nothing."""
    sums: Amounts = {}
    known: dict[int, Amounts] = {}
    for template in templates:
        if id(template) not in known:
            known[id(template)] = _pod(template.get("spec") or {})
        _add(sums, known[id(template)])
    return {name: _text(amount) for name, amount in sorted(sums.items()) if amount > 0}


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


def _parsed(text: str) -> Fraction | None:
    match = _QUANTITY.match(text)
    if match is None or not any(letter.isdigit() for letter in match[1]):
        return None
    factor = _FACTORS[match[2]] if match[2] else Fraction(10) ** int(match[3] or 0)
    return Fraction(match[1]) * factor


def _add(sums: Amounts, more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, Fraction(0)) + amount


def _raise(sums: Amounts, least: Mapping[str, Fraction]) -> None:
    for name, amount in least.items():
        sums[name] = max(sums.get(name, Fraction(0)), amount)


def _text(amount: Fraction) -> str:
    """A whole number, or thousandths, rounded up."""
    return str(int(amount)) if amount.denominator == 1 else f"{ceil(amount * 1000)}m"
