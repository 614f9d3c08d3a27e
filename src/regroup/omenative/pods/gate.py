"""The serving condition: who holds a pod out of rotation (spec/omenative.md 3.5). Pure.

Condition ``ome.io/serving`` of a pod is True when nobody holds it. The holders stand as a JSON list in its message, so that
several writers can hold one pod and each lets go only of its own hold.
"""

from typing import Any

import msgspec

from regroup.kube.meta import Condition, find_condition
from regroup.omenative.keys import SERVING_GATE
from regroup.omenative.outcome import SetGate
from regroup.omenative.view import InstancePod

Hold = tuple[str, str]
"""(userAgent, key)."""

LIFECYCLE: Hold = ("Lifecycle", "InstanceReady")
"""A pod of an Instance that is not Ready yet. A pod without the condition is held by it."""
RESTART_DRAIN = "RestartDrain"
RECREATE_DRAIN = "RecreateDrain"
SURGE_DRAIN = "SurgeDrain"
DELETE_DRAIN = "DeleteDrain"
IN_PLACE = "InPlaceUpdate"
_OURS = frozenset({LIFECYCLE[0], RESTART_DRAIN, RECREATE_DRAIN, SURGE_DRAIN, DELETE_DRAIN, IN_PLACE})
_HOLDERS, _TEXT = 16, 128


def holders(pod: InstancePod) -> tuple[Hold, ...]:
    """Who holds the pod out of rotation."""
    condition = _condition(pod)
    if condition is None:
        return (LIFECYCLE,)
    found = _parsed(condition.message)
    # A condition that is not True and names nobody was not written by us: it is as if the pod had none.
    return found or (() if condition.status == "True" else (LIFECYCLE,))


def in_rotation(pod: InstancePod) -> bool:
    """The condition is True."""
    condition = _condition(pod)
    return condition is not None and condition.status == "True"


def serves(pod: InstancePod) -> bool:
    """The pod takes requests: its containers are ready, it is in rotation, and it is not on its way out (3.4)."""
    return pod.containers_ready and in_rotation(pod) and not pod.deleting and not pod.terminal


def held(pod: InstancePod, hold: Hold, *, index: int) -> SetGate | None:
    """What puts ``hold`` on the pod; None when it is there already."""
    now = () if in_rotation(pod) else holders(pod)
    return None if hold in now else _set(pod, (*now, hold), index=index)


def released(pod: InstancePod, *, index: int) -> SetGate | None:
    """What takes every hold of ours off the pod: whoever put it there is done. Holds of others stay. None: nothing to do."""
    if in_rotation(pod):
        return None
    before = holders(pod)
    left = tuple(hold for hold in before if hold[0] not in _OURS)
    if left == before:
        return None
    return _set(pod, left, index=index)


def _set(pod: InstancePod, wanted: tuple[Hold, ...], *, index: int) -> SetGate:
    return SetGate(
        index=index, name=pod.name, uid=pod.uid, resource_version=pod.metadata.resource_version, holders=wanted[:_HOLDERS]
    )


def _condition(pod: InstancePod) -> Condition | None:
    return find_condition(pod.status.conditions, SERVING_GATE)


def _parsed(message: str) -> tuple[Hold, ...]:
    try:
        found: Any = msgspec.json.decode(message or "[]")
    except msgspec.DecodeError:
        return ()
    if not isinstance(found, list):
        return ()
    pairs = [(one.get("userAgent"), one.get("key")) for one in found[:_HOLDERS] if isinstance(one, dict)]
    return tuple((agent[:_TEXT], key[:_TEXT]) for agent, key in pairs if isinstance(agent, str) and isinstance(key, str))
