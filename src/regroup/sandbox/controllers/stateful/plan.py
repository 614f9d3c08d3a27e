"""What a StatefulSet needs next: one pure function from what is seen to what is to be done, and the status that goes with it.

The order is the API's promise. First every wanted ordinal is brought up, then what is beyond the range is taken down from the
top, then pods of an old revision are replaced from the top. ``OrderedReady`` stops at the first pod that has to be waited for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any, Literal

from regroup.sandbox.controllers.stateful.claims import Claims, claim_names, has_stale_claim, misowned_claims
from regroup.sandbox.controllers.stateful.identity import identity_matches, ordinal_of, revision_of, storage_matches
from regroup.sandbox.controllers.stateful.model import StatefulSet
from regroup.sandbox.controllers.views import Pod, percent_or_count

NEW_PODS = 200
"""How many pods one pass makes at most: a set may want two thousand million, and what a pass plans is held in memory."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that the plan rests on."""

    set: StatefulSet
    pods: tuple[Pod, ...]
    """The pods that the set owns."""
    claims: Claims
    current_revision: str
    update_revision: str
    collision_count: int
    now: datetime
    max_unavailable_gate: bool = False
    """Whether ``rollingUpdate.maxUnavailable`` is honoured (feature gate ``MaxUnavailableStatefulSet``)."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make the pod of an ordinal, and its claims before it."""

    ordinal: int
    revision: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this very pod (by UID)."""

    pod: Pod
    reason: Literal["terminal", "scale-down", "update"]


@dataclass(frozen=True, slots=True)
class Repair:
    """Bring the pod's identity labels, volumes and claims back to what they must be."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class MakeClaims:
    """Make the claims that a pending pod waits for."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class OwnClaims:
    """Bring the owners of the pod's claims in line with the retention policy."""

    pod: Pod


Action = Create | Delete | Repair | MakeClaims | OwnClaims


@dataclass(frozen=True, slots=True)
class Status:
    """The status to be written."""

    observed_generation: int
    replicas: int
    ready_replicas: int
    available_replicas: int
    current_replicas: int
    updated_replicas: int
    current_revision: str
    update_revision: str
    collision_count: int

    def body(self) -> dict[str, Any]:
        """The status as it is written."""
        return {
            "observedGeneration": self.observed_generation,
            "replicas": self.replicas,
            "readyReplicas": self.ready_replicas,
            "availableReplicas": self.available_replicas,
            "currentReplicas": self.current_replicas,
            "updatedReplicas": self.updated_replicas,
            "currentRevision": self.current_revision,
            "updateRevision": self.update_revision,
            "collisionCount": self.collision_count,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps, in order. A step is the row of actions for one pod; in parallel mode the steps of a phase may overlap."""

    replicas: tuple[tuple[Action, ...], ...]
    condemned_claims: tuple[tuple[Action, ...], ...]
    condemned: tuple[tuple[Action, ...], ...]
    update: tuple[Delete, ...]
    """Each one that is carried out lowers ``status.currentReplicas`` by one."""
    parallel: bool
    status: Status
    waiting_for: str
    """The pod that an ordered set waits for; empty when it waits for none."""
    recheck_after: float | None
    """Seconds until a ready pod becomes available, when nothing else will tell."""

    @property
    def idle(self) -> bool:
        return not (self.replicas or self.condemned_claims or self.condemned or self.update)


def plan(seen: Observed) -> Plan:
    """The next steps for a set. A set that is being deleted only gets its status."""
    status = count(seen)
    recheck = _recheck_after(seen)
    parallel = seen.set.parallel
    nothing = Plan((), (), (), (), parallel, status, "", recheck)
    if seen.set.metadata.deleting:
        return nothing
    by_ordinal = {ordinal_of(pod): pod for pod in seen.pods if ordinal_of(pod) >= 0}
    # Nothing here may be as long as the range of wanted ordinals: only what exists and what this pass makes is looked at.
    ordinals = range(seen.set.start, seen.set.start + seen.set.replicas)
    replicas = {ordinal: by_ordinal[ordinal] for ordinal in sorted(by_ordinal) if seen.set.owns_ordinal(ordinal)}
    condemned = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if not seen.set.owns_ordinal(ordinal)]

    rows, waiting = _replica_rows(seen, ordinals, replicas)
    if waiting:
        return replace(nothing, replicas=rows, waiting_for=waiting)
    claim_rows = tuple((OwnClaims(pod),) for pod in condemned if misowned_claims(seen.set, pod, seen.claims))
    condemned_rows, waiting = _condemned_rows(seen, replicas, condemned)
    prepared = replace(nothing, replicas=rows, condemned_claims=claim_rows, condemned=condemned_rows, waiting_for=waiting)
    if waiting or seen.set.on_delete:
        return prepared
    return replace(prepared, update=_updates(seen, ordinals, replicas))


def count(seen: Observed) -> Status:
    """The status before any step of this pass."""
    now, seconds = seen.now, seen.set.spec.min_ready_seconds
    created = [pod for pod in seen.pods if pod.phase]
    staying = [pod for pod in created if not pod.deleting]
    ready = [pod for pod in seen.pods if pod.running_and_ready]
    return Status(
        observed_generation=seen.set.metadata.generation,
        replicas=len(created),
        ready_replicas=len(ready),
        available_replicas=sum(pod.available(seconds, now) for pod in ready),
        current_replicas=sum(revision_of(pod) == seen.current_revision for pod in staying),
        updated_replicas=sum(revision_of(pod) == seen.update_revision for pod in staying),
        current_revision=seen.current_revision,
        update_revision=seen.update_revision,
        collision_count=seen.collision_count,
    )


def completed(set_: StatefulSet, status: Status) -> Status:
    """``status``, with the update revision made current when a rolling update has reached every replica."""
    if set_.on_delete:
        return status
    if not status.updated_replicas == status.ready_replicas == status.replicas == set_.replicas:
        return status
    return replace(status, current_replicas=status.updated_replicas, current_revision=status.update_revision)


def needs_writing(set_: StatefulSet, status: Status) -> bool:
    """Whether the set's status says anything else."""
    live = set_.status
    return (
        status.observed_generation > live.observed_generation
        or status.replicas != live.replicas
        or status.ready_replicas != live.ready_replicas
        or status.available_replicas != live.available_replicas
        or status.current_replicas != live.current_replicas
        or status.updated_replicas != live.updated_replicas
        or status.current_revision != live.current_revision
        or status.update_revision != live.update_revision
    )


def revision_for(seen: Observed, ordinal: int) -> str:
    """The revision that a new pod of an ordinal is made from: below the partition the current one."""
    set_ = seen.set
    if set_.on_delete or set_.status.current_revision == seen.update_revision:
        return seen.update_revision
    strategy = set_.spec.update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    kept = set_.status.current_replicas if rolling is None or rolling.partition is None else rolling.partition
    return seen.current_revision if ordinal < set_.start + kept else seen.update_revision


def _replica_rows(seen: Observed, ordinals: range, replicas: Mapping[int, Pod]) -> tuple[tuple[tuple[Action, ...], ...], str]:
    """The rows of the wanted ordinals, and the pod at which an ordered set stops."""
    rows: list[tuple[Action, ...]] = []
    absent = islice((ordinal for ordinal in ordinals if ordinal not in replicas), NEW_PODS)
    for ordinal in merge(replicas, absent):
        row, stop = _replica_row(seen, ordinal, replicas.get(ordinal))
        if row:
            rows.append(row)
        if stop and not seen.set.parallel:
            return tuple(rows), f"{seen.set.name}-{ordinal}"
    return tuple(rows), ""


def _replica_row(seen: Observed, ordinal: int, pod: Pod | None) -> tuple[tuple[Action, ...], bool]:
    """The actions for one wanted ordinal, and whether later ordinals have to wait for it."""
    set_ = seen.set
    if pod is None:
        if has_stale_claim(set_, ordinal, seen.claims):
            return (), True
        return (Create(ordinal, revision_for(seen, ordinal)),), True
    if pod.terminal:
        # Its replacement is made by a later pass, when the pod is gone: two pods of one name cannot be.
        return (() if pod.deleting else (Delete(pod, "terminal"),)), True
    row: list[Action] = []
    if pod.phase == "Pending" and any(name not in seen.claims for name in claim_names(set_, ordinal)):
        row.append(MakeClaims(pod))
    if not set_.parallel and _unavailable(seen, pod):
        return tuple(row), True
    if not (identity_matches(set_, pod) and storage_matches(set_, pod)):
        row.append(Repair(pod))
    if misowned_claims(set_, pod, seen.claims):
        row.append(OwnClaims(pod))
    return tuple(row), False


def _condemned_rows(
    seen: Observed, replicas: Mapping[int, Pod], condemned: Sequence[Pod]
) -> tuple[tuple[tuple[Action, ...], ...], str]:
    """The rows of the pods beyond the range, highest first, and the pod at which an ordered set stops."""
    if seen.set.parallel:
        return tuple((Delete(pod, "scale-down"),) for pod in condemned if not pod.deleting), ""
    if not condemned:
        return (), ""
    pod = condemned[0]
    # An ordered set takes one pod at a time, and an unavailable one only when it is the lowest unavailable one of all. It comes
    # here only when every wanted pod exists.
    lowest = [entry for entry in (*replicas.values(), *reversed(condemned)) if _unavailable(seen, entry)]
    first = lowest[0] if lowest else None
    if pod.deleting or (not _available(seen, pod) and pod is not first):
        return (), pod.metadata.name
    return ((Delete(pod, "scale-down"),),), pod.metadata.name


def _updates(seen: Observed, ordinals: range, replicas: Mapping[int, Pod]) -> tuple[Delete, ...]:
    """The pods of another revision to delete now. The partition counts from the first ordinal."""
    partitioned = ordinals[min(seen.set.partition, len(ordinals)) :]
    if seen.max_unavailable_gate:
        return _updates_within_budget(seen, ordinals, partitioned, replicas)
    for ordinal in reversed(partitioned):
        pod = replicas.get(ordinal)
        if pod is None:
            return ()
        if _replaceable(seen, pod):
            return (Delete(pod, "update"),)
        if _unavailable(seen, pod):
            return ()
    return ()


def _updates_within_budget(
    seen: Observed, ordinals: range, partitioned: range, replicas: Mapping[int, Pod]
) -> tuple[Delete, ...]:
    """As many as ``maxUnavailable`` leaves after those that are unavailable for any reason."""
    strategy = seen.set.spec.update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    allowed = percent_or_count(rolling.max_unavailable if rolling else None, len(ordinals), round_up=False, default=1)
    absent = len(ordinals) - len(replicas)
    budget = max(allowed, 1) - absent - sum(_unavailable(seen, pod) for pod in replicas.values())
    old = [replicas[ordinal] for ordinal in sorted(replicas, reverse=True) if ordinal in partitioned]
    return tuple(Delete(pod, "update") for pod in old if _replaceable(seen, pod))[: max(budget, 0)]


def _replaceable(seen: Observed, pod: Pod) -> bool:
    """Whether the update has to delete the pod. One that has ended was deleted by an earlier step of the same plan."""
    return revision_of(pod) != seen.update_revision and not pod.deleting and not pod.terminal


def _available(seen: Observed, pod: Pod) -> bool:
    return pod.running_and_ready and pod.available(seen.set.spec.min_ready_seconds, seen.now)


def _unavailable(seen: Observed, pod: Pod) -> bool:
    return pod.deleting or not _available(seen, pod)


def _recheck_after(seen: Observed) -> float | None:
    """Seconds until the first ready pod becomes available. Being ready for long enough makes no event."""
    seconds = seen.set.spec.min_ready_seconds
    if seconds <= 0:
        return None
    moments = [pod.available_at(seconds) for pod in seen.pods if pod.running_and_ready and not pod.available(seconds, seen.now)]
    waits = [(moment - seen.now).total_seconds() for moment in moments if moment is not None]
    return max(min(waits), 0.0) + 0.001 if waits else None
