"""Conditions of a status: set one, keep the rest. Pure.

Rule (spec/leaderworkerset.md 7.2): ``lastTransitionTime`` moves only when ``status`` changes; reason, message and
``observedGeneration`` follow without moving it.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from regroup.kube.meta import Condition
from regroup.runtime.clock import timestamp

MESSAGE_LIMIT = 32_768
"""The API's own limit for a condition's message, in characters."""


def set_condition(conditions: Sequence[Condition], wanted: Condition, *, now: datetime) -> tuple[Condition, ...]:
    """``conditions`` with ``wanted`` in the place of the one of its type, or at the end.

    ``wanted.last_transition_time`` is ignored: the old time is kept while the status stays, else it is ``now`` in whole seconds.
    """
    old = next((condition for condition in conditions if condition.type == wanted.type), None)
    moved = old is None or old.status != wanted.status or old.last_transition_time is None
    time = now.replace(microsecond=0) if moved or old is None else old.last_transition_time
    new = msgspec.structs.replace(wanted, message=wanted.message[:MESSAGE_LIMIT], last_transition_time=time)
    if old is None:
        return (*conditions, new)
    return tuple(new if condition is old else condition for condition in conditions)


def set_conditions(conditions: Sequence[Condition], wanted: Iterable[Condition], *, now: datetime) -> tuple[Condition, ...]:
    """``set_condition`` for each of ``wanted``; every one is evaluated, none stops the others."""
    result = tuple(conditions)
    for condition in wanted:
        result = set_condition(result, condition, now=now)
    return result


def to_wire(conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    """Conditions as they are written, with times in whole seconds."""
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            **({"observedGeneration": condition.observed_generation} if condition.observed_generation else {}),
            **({"lastTransitionTime": timestamp(condition.last_transition_time)} if condition.last_transition_time else {}),
        }
        for condition in conditions
    ]
