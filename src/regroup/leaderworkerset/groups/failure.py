"""What counts as a failure of a member, and what is known of it (spec/leaderworkerset.md 5.1). Pure.

Judges pods only. Whether a failure leads to anything (policy, guard, budget) is ``decide``'s business.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from regroup.kube.pod import ContainerStatus, Pod, Terminated
from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset.groups.members import workers_digest
from regroup.leaderworkerset.keys import ABSORBED_RESTARTS
from regroup.leaderworkerset.view import GroupView, WorkerSet, is_retained, revision_of, worker_index

_REVISION_OF_SET = "controller-revision-hash"
_TEXT_LIMIT = 200
_LATEST = datetime.max.replace(tzinfo=UTC)
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class Signal(StrEnum):
    """How a failure showed itself."""

    RESTART = "container restarted"
    FAILED = "pod failed"
    DELETED = "pod is being deleted"
    VANISHED = "pod is gone"
    REPLACED = "a member was replaced while nobody looked"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of one member, with the evidence that its status still holds."""

    signal: Signal
    pod: str
    uid: str
    index: int
    restarts: int = 0
    container: str = ""
    exit_code: int | None = None
    reason: str = ""
    node: str = ""
    at: datetime | None = None

    @property
    def loses_pod(self) -> bool:
        """The pod itself is lost, not only a container of it."""
        return self.signal in {Signal.DELETED, Signal.VANISHED}

    def sentence(self) -> str:
        """For a person, one clause without a full stop."""
        who = f"{'leader' if self.index == 0 else 'worker'} pod {self.pod}"
        match self.signal:
            case Signal.RESTART:
                code = "" if self.exit_code is None else f" with exit code {self.exit_code}"
                reason = f" ({self.reason})" if self.reason and self.reason != "Error" else ""
                return f"container {self.container} of {who} restarted{code}{reason}"
            case Signal.FAILED:
                return f"{who} failed" + (f" ({self.reason})" if self.reason else "")
            case Signal.DELETED:
                return f"{who} is being deleted" + (f" from node {self.node}" if self.node else "")
            case Signal.VANISHED:
                return f"{who} is gone"
            case Signal.REPLACED:
                return "a worker pod was replaced while nobody looked"


@dataclass(frozen=True, slots=True)
class Absorbed:
    """What a skip has already forgiven a pod (5.4, Q1): a restart total, and whether its deletion is forgiven too."""

    restarts: int = 0
    deletion: bool = False

    @classmethod
    def of(cls, pod: Pod) -> "Absorbed":
        number, _, rest = pod.metadata.annotations.get(ABSORBED_RESTARTS, "").partition(",")
        return cls(int(number) if number.isdigit() and len(number) < 12 else 0, rest == "deletion")

    def text(self) -> str:
        """As the annotation holds it."""
        return f"{self.restarts},deletion" if self.deletion else str(self.restarts)


def find_failures(view: GroupView) -> tuple[Failure, ...]:
    """Every failure of the group's current incarnation, the earliest first.

    A leader that is being deleted is no failure: the group is being replaced anyway. Pods of another revision than their
    leader are being rolled, and workers beyond the size are surplus.
    """
    leader = view.leader
    if leader is None:
        return ()
    found = [failure for pod in view.members if (failure := _of_pod(pod, view)) is not None]
    present = {pod.metadata.uid for pod in view.workers}
    for gone in view.departed:
        pod = gone.pod
        if gone.leader_uid != leader.metadata.uid or pod.metadata.uid in present or not _judged(pod, view):
            continue
        if not Absorbed.of(pod).deletion and not _leaves_by_design(pod, view):
            found.append(_evidence(pod, Signal.VANISHED, at=gone.at))
    if not found and (replaced := _replaced(view)) is not None:
        found.append(replaced)
    return tuple(sorted(found, key=lambda one: (one.at or _LATEST, one.index, one.uid)))


def was_refused(pod: Pod) -> bool:
    """The pod failed and none of its containers has ever started: its node would not have it (case C136)."""
    if pod.phase != "Failed":
        return False
    return not any(
        one.restart_count or (one.state is not None and (one.state.running or one.state.terminated)) or _last_end(one)
        for one in pod.all_container_statuses()
    )


def complete(view: GroupView) -> bool:
    """Every member exists at the leader's revision, none is being deleted, and the worker set is at rest as it should be."""
    leader, rules = view.leader, view.rules
    if leader is None or rules is None or leader.deleting:
        return False
    workers = [pod for pod in view.workers if revision_of(pod) == view.revision and not pod.deleting]
    if len(workers) != rules.size - 1 or len(workers) != len(view.workers):
        return False
    return rules.size == 1 or (view.worker_set is not None and _at_rest(view.worker_set, workers))


def _at_rest(worker_set: WorkerSet, workers: Iterable[Pod]) -> bool:
    found = worker_set.object
    if worker_set.deleting or worker_set.drift or found.status.observed_generation < found.metadata.generation:
        return False
    return not any(_is_rolled_by(found, pod) for pod in workers)


def _replaced(view: GroupView) -> Failure | None:
    """The status remembers other workers for this very leader: one was replaced while nobody looked (B27, case C01)."""
    leader = view.leader
    if leader is None or not view.recorded_workers or not complete(view):
        return None
    if workers_digest(pod.metadata.uid for pod in view.workers) == view.recorded_workers:
        return None
    newest = max(view.workers, key=lambda pod: pod.metadata.creation_timestamp or _EARLIEST, default=leader)
    return Failure(
        signal=Signal.REPLACED,
        pod=newest.metadata.name,
        uid=newest.metadata.uid,
        index=worker_index(newest),
        node=newest.spec.node_name,
        at=newest.metadata.creation_timestamp,
    )


def _judged(pod: Pod, view: GroupView) -> bool:
    """Same revision as the leader, inside the group's size, and not kept as evidence of an exhausted group."""
    size = view.rules.size if view.rules is not None else 1
    return revision_of(pod) == view.revision and worker_index(pod) < size and not is_retained(pod)


def _deleted_at(pod: Pod) -> datetime | None:
    """When the deletion was asked for: its timestamp is the end of the grace period, which may be yet to come."""
    ends = pod.metadata.deletion_timestamp
    return ends - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0) if ends is not None else None


def _of_pod(pod: Pod, view: GroupView) -> Failure | None:
    if not _judged(pod, view):
        return None
    is_leader = worker_index(pod) == 0
    absorbed = Absorbed.of(pod)
    if pod.deleting:
        if is_leader or absorbed.deletion or _leaves_by_design(pod, view):
            return None
        return _evidence(pod, Signal.DELETED, at=_deleted_at(pod))
    if pod.phase == "Failed" and not absorbed.deletion:
        return _evidence(pod, Signal.FAILED)
    if pod.phase in {"Running", "Pending"} and pod.restarts > absorbed.restarts:
        return _evidence(pod, Signal.RESTART)
    return None


def _leaves_by_design(pod: Pod, view: GroupView) -> bool:
    """The worker set itself takes the pod away, because its replicas or template were changed by hand (Q30).

    Such a change is put right, and is nobody's failure: the pod is of another controller revision than the set updates to, or
    lies beyond the replicas that the set has at the moment.
    """
    if view.worker_set is None or view.worker_set.deleting:
        return False
    found = view.worker_set.object
    return _is_rolled_by(found, pod) or worker_index(pod) > found.replicas


def _is_rolled_by(found: StatefulSet, pod: Pod) -> bool:
    current, update = pod.metadata.labels.get(_REVISION_OF_SET, ""), found.status.update_revision
    return bool(current and update and current != update)


def _evidence(pod: Pod, signal: Signal, *, at: datetime | None = None) -> Failure:
    container = _worst_container(pod.all_container_statuses())
    ended = _last_end(container) if container is not None else None
    return Failure(
        signal=signal,
        pod=pod.metadata.name,
        uid=pod.metadata.uid,
        index=worker_index(pod),
        restarts=pod.restarts,
        container=container.name[:_TEXT_LIMIT] if container is not None else "",
        exit_code=ended.exit_code if ended is not None else None,
        reason=((ended.reason if ended is not None and signal is Signal.RESTART else "") or pod.status.reason)[:_TEXT_LIMIT],
        node=pod.spec.node_name,
        at=at or (ended.finished_at if ended is not None else None),
    )


def _worst_container(statuses: Iterable[ContainerStatus]) -> ContainerStatus | None:
    """The container that ended last among those that restarted or ended."""
    ended = [status for status in statuses if status.restart_count or _last_end(status) is not None]
    return max(ended, key=_end_time, default=None)


def _last_end(status: ContainerStatus) -> Terminated | None:
    state, last = status.state, status.last_state
    if state is not None and state.terminated is not None:
        return state.terminated
    return last.terminated if last is not None else None


def _end_time(status: ContainerStatus) -> datetime:
    ended = _last_end(status)
    return (ended.finished_at if ended is not None else None) or _EARLIEST
