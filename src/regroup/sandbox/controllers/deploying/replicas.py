"""A ReplicaSet: how many pods it lacks, which of its pods go first, and its status. Pure."""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key
from typing import Any

import msgspec

from regroup.kube.meta import Condition, ObjectView, View, find_condition, owner_reference
from regroup.runtime.clock import timestamp
from regroup.sandbox.controllers.views import Pod

API_VERSION = "apps/v1"
KIND = "ReplicaSet"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
BURST = 500
"""Pods that one pass makes or deletes at most."""

_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSetSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a ReplicaSet. ``template`` is kept as bytes."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: dict[str, Any] | None = None
    template: msgspec.Raw = msgspec.Raw()


class ReplicaSetStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a ReplicaSet."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    raw_conditions: tuple[Condition, ...] | None = msgspec.field(name="conditions", default=None)


class ReplicaSet(ObjectView, frozen=True, gc=False, kw_only=True):
    """A ReplicaSet."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    raw_status: ReplicaSetStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> ReplicaSetStatus:
        return self.raw_status or ReplicaSetStatus()

    @property
    def replicas(self) -> int:
        """``spec.replicas``, 1 when unset."""
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def template(self) -> dict[str, Any]:
        raw = bytes(self.spec.template)
        return dict(msgspec.json.decode(raw)) if raw else {}


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """What one pass does: one of the two is empty."""

    create: int
    delete: tuple[Pod, ...]


def active(pod: Pod) -> bool:
    """Whether the pod counts: it has not ended and is not going."""
    return not pod.terminal and not pod.deleting


def plan(rs: ReplicaSet, pods: Sequence[Pod], related: Sequence[Pod], now: datetime) -> ReplicaPlan:
    """What brings the set to its size. ``related``: pods of all sets with the same owner, which tell how full a node is."""
    if rs.metadata.deleting:
        return ReplicaPlan(0, ())
    alive = [pod for pod in pods if active(pod)]
    surplus = len(alive) - rs.replicas
    if surplus <= 0:
        return ReplicaPlan(min(-surplus, BURST), ())
    return ReplicaPlan(0, tuple(victims(alive, related, min(surplus, BURST), now)))


def victims(pods: Sequence[Pod], related: Sequence[Pod], count: int, now: datetime) -> list[Pod]:
    """The ``count`` pods that are missed the least: unassigned, pending and unready ones first, then by deletion cost, crowding
    of the node, time being ready, restarts and age."""
    crowd: dict[str, int] = {}
    for pod in related:
        if active(pod):
            crowd[pod.spec.node_name] = crowd.get(pod.spec.node_name, 0) + 1

    def compare(left: Pod, right: Pod) -> int:
        return _compare(left, right, crowd, now)

    return sorted(pods, key=cmp_to_key(compare))[:count]


def build_pod(rs: ReplicaSet) -> dict[str, Any]:
    """A new pod of the set; the server makes its name."""
    template = rs.template
    template_meta = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "generateName": f"{rs.name}-",
        "namespace": rs.metadata.namespace,
        "ownerReferences": [owner_reference(rs, api_version=API_VERSION, kind=KIND)],
    }
    for key in ("labels", "annotations", "finalizers"):
        if template_meta.get(key):
            metadata[key] = deepcopy(template_meta[key])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": deepcopy(template.get("spec") or {})}


def status(rs: ReplicaSet, pods: Sequence[Pod], *, failure: str, failed: str, now: datetime) -> dict[str, Any]:
    """The status to be written. ``failure``: what went wrong in this pass, with reason ``failed``; empty when nothing did."""
    alive = [pod for pod in pods if active(pod)]
    labels: Mapping[str, str] = (rs.template.get("metadata") or {}).get("labels") or {}
    ready = [pod for pod in alive if pod.ready]
    counts: dict[str, Any] = {
        "replicas": len(alive),
        "fullyLabeledReplicas": sum(labels.items() <= dict(pod.metadata.labels).items() for pod in alive),
        "readyReplicas": len(ready),
        "availableReplicas": sum(pod.available(rs.spec.min_ready_seconds, now) for pod in ready),
        "terminatingReplicas": sum(pod.deleting and not pod.terminal for pod in pods),
        "observedGeneration": rs.metadata.generation,
        "conditions": None,
    }
    present = find_condition(rs.status.raw_conditions, "ReplicaFailure")
    if failure:
        moment = present.last_transition_time if present is not None else None
        counts["conditions"] = [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": failed,
                "message": failure[:1024],
                "lastTransitionTime": timestamp(moment or now),
            }
        ]
    return counts


def needs_writing(rs: ReplicaSet, body: Mapping[str, Any]) -> bool:
    """Whether the set's status says anything else."""
    live = rs.status
    failing = find_condition(live.raw_conditions, "ReplicaFailure") is not None
    return (
        body["replicas"] != live.replicas
        or body["fullyLabeledReplicas"] != live.fully_labeled_replicas
        or body["readyReplicas"] != live.ready_replicas
        or body["availableReplicas"] != live.available_replicas
        or body["terminatingReplicas"] != (live.terminating_replicas or 0)
        or body["observedGeneration"] != live.observed_generation
        or bool(body["conditions"]) != failing
    )


def recheck_after(rs: ReplicaSet, pods: Sequence[Pod], now: datetime) -> float | None:
    """Seconds until a ready pod becomes available."""
    seconds = rs.spec.min_ready_seconds
    if seconds <= 0:
        return None
    moments = [pod.available_at(seconds) for pod in pods if active(pod) and not pod.available(seconds, now)]
    waits = [(moment - now).total_seconds() for moment in moments if moment is not None]
    return max(min(waits), 0.0) + 0.001 if waits else None


def _compare(left: Pod, right: Pod, crowd: Mapping[str, int], now: datetime) -> int:
    """Negative when ``left`` is to go before ``right``."""
    for first, second in zip(_coarse(left, crowd), _coarse(right, crowd), strict=True):
        if first != second:
            return -1 if first < second else 1
    if left.ready and right.ready:
        order = _by_time(left, right, left.available_at(0), right.available_at(0), now)
        if order:
            return order
    if _restarts(left) != _restarts(right):
        return -1 if _restarts(left) > _restarts(right) else 1
    return _by_time(left, right, left.metadata.creation_timestamp, right.metadata.creation_timestamp, now)


def _coarse(pod: Pod, crowd: Mapping[str, int]) -> tuple[int, ...]:
    return (
        1 if pod.spec.node_name else 0,
        _PHASE_RANK.get(pod.phase, 0),
        1 if pod.ready else 0,
        _deletion_cost(pod),
        -crowd.get(pod.spec.node_name, 0),
    )


def _deletion_cost(pod: Pod) -> int:
    """What the annotation says; 0 when it is not a whole number of 32 bits written plainly."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (digits != "0" and digits.startswith("0")) or len(digits) > 10:
        return 0
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else 0


def _by_time(left: Pod, right: Pod, first: datetime | None, second: datetime | None, now: datetime) -> int:
    """The younger goes first, by powers of two of the age, so that scaling up and down does not always hit the same ones."""
    if first == second:
        return 0
    if first is None or second is None:
        return -1 if first is None else 1
    difference = _magnitude(first, now) - _magnitude(second, now)
    if difference:
        return difference
    return -1 if left.metadata.uid < right.metadata.uid else 1


def _magnitude(moment: datetime, now: datetime) -> int:
    nanoseconds = (now - moment).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def _restarts(pod: Pod) -> int:
    return max((entry.restart_count for entry in pod.status.container_statuses), default=0)
