"""What a silent node means, as kube-controller-manager's node lifecycle and taint eviction controllers read it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from regroup.kube.meta import Condition, ObjectView, View, find_condition
from regroup.kube.node import NOT_READY_TAINT, UNREACHABLE_TAINT, Node, Taint
from regroup.kube.pod import PodStatus
from regroup.runtime.clock import timestamp
from regroup.sandbox.nodelifecycle.zones import EvictionRates
from regroup.sandbox.scheduler.views import Toleration

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
OURS = frozenset(
    (
        (NOT_READY_TAINT, "NoSchedule"),
        (NOT_READY_TAINT, "NoExecute"),
        (UNREACHABLE_TAINT, "NoSchedule"),
        (UNREACHABLE_TAINT, "NoExecute"),
        (UNSCHEDULABLE_TAINT, "NoSchedule"),
    )
)
"""Taints that follow from a node's state: put and taken away by this controller alone."""
NODE_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
DEFAULT_TOLERATION_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleOptions:
    """Seconds."""

    grace: float = 50.0
    """Silence after which a node's state is unknown (``--node-monitor-grace-period``)."""
    rates: EvictionRates = field(default_factory=EvictionRates)
    """How fast the pods of lost nodes are told to go."""


class BoundPodSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a pod."""

    node_name: str = ""
    tolerations: tuple[Toleration, ...] | None = None


class BoundPod(ObjectView, frozen=True, gc=False, kw_only=True):
    """A pod that is bound to a node."""

    spec: BoundPodSpec = BoundPodSpec()
    raw_status: PodStatus | None = msgspec.field(name="status", default=None)

    @property
    def conditions(self) -> Sequence[Condition]:
        return self.raw_status.conditions if self.raw_status else ()

    def ready_since_before(self, node: Node) -> bool:
        """Whether it says ``Ready`` from before its node fell silent. What it says since is the word of a kubelet that lives."""
        said, silent = find_condition(self.conditions, "Ready"), node.ready
        if said is None or said.status != "True":
            return False
        times = (said.last_transition_time, silent.last_transition_time if silent else None)
        return times[0] is None or times[1] is None or times[0] <= times[1]


def ready_status(node: Node) -> str:
    """``True``, ``False`` or ``Unknown``; a node that never reported is ``Unknown``."""
    return node.ready.status if node.ready is not None else "Unknown"


def silent_conditions(node: Node, *, now: datetime) -> list[dict[str, Any]]:
    """The conditions of a node that has not been heard of for the grace period: what was known is unknown."""
    known = {entry.type: entry for entry in node.status.conditions}
    found = []
    for kind in NODE_CONDITIONS:
        entry = known.get(kind)
        if entry is None:
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
        elif entry.status == "Unknown":
            continue
        else:
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
        moment = timestamp(now)
        found.append({"type": kind, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": moment})
    return found


def wanted_taints(node: Node, *, evict: bool, now: datetime) -> list[dict[str, Any]] | None:
    """``spec.taints`` as the node's state asks for, None when they are so already.

    ``evict`` False leaves out the NoExecute taints: it is not the node's turn, or no node of the cluster is well and the fault is
    more likely ours.
    """
    key = {"False": NOT_READY_TAINT, "Unknown": UNREACHABLE_TAINT}.get(ready_status(node))
    wanted: dict[tuple[str, str], None] = {}
    if key is not None:
        wanted[key, "NoSchedule"] = None
        if evict:
            wanted[key, "NoExecute"] = None
    if node.spec.unschedulable:
        wanted[UNSCHEDULABLE_TAINT, "NoSchedule"] = None
    present = {(taint.key, taint.effect) for taint in node.spec.taints}
    if present & OURS == set(wanted):
        return None
    kept = [_written(taint) for taint in node.spec.taints if (taint.key, taint.effect) not in OURS - set(wanted)]
    moment = timestamp(now)
    return kept + [
        {"key": name, "effect": effect, "timeAdded": moment} for name, effect in wanted if (name, effect) not in present
    ]


def _written(taint: Taint) -> dict[str, Any]:
    found: dict[str, Any] = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        found["value"] = taint.value
    if taint.time_added is not None:
        found["timeAdded"] = timestamp(taint.time_added)
    return found


def evicted_at(pod: BoundPod, taints: Iterable[Taint], *, now: datetime) -> datetime | None:
    """When ``pod`` has to leave a node with ``taints``: at once for one that it does not tolerate, else when the shortest
    ``tolerationSeconds`` is over, counted from when the taint was added. None: never."""
    moments: list[datetime] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        covering = [entry for entry in pod.spec.tolerations or () if entry.tolerates(taint)]
        if not covering:
            return now
        limits = [entry.toleration_seconds for entry in covering if entry.toleration_seconds is not None]
        if limits:
            moments.append((taint.time_added or now) + timedelta(seconds=max(0, min(limits))))
    return min(moments, default=None)


def disrupted(reason: str, message: str, *, now: datetime) -> dict[str, Any]:
    """The condition that says why a pod is taken away."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(now),
    }


def default_toleration_seconds(pod: dict[str, Any]) -> None:
    """What the DefaultTolerationSeconds admission plugin does to a pod at creation: nodes that are not ready or unreachable
    are borne for 300 s, unless the pod says something else about them. Changes ``pod``."""
    spec = pod.setdefault("spec", {})
    tolerations = list(spec.get("tolerations") or ())
    for key in (NOT_READY_TAINT, UNREACHABLE_TAINT):
        if not any(_speaks_of(entry, key) for entry in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": DEFAULT_TOLERATION_SECONDS}
            )
    spec["tolerations"] = tolerations


def _speaks_of(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in {"", key} and toleration.get("effect", "") in {"", "NoExecute"}
