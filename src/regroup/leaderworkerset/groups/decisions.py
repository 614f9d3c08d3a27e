"""The decisions that one look at a group can end with. Plain values: who makes them is ``decide``, who carries them out is
``controller.act``. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.failure import Absorbed, Failure


@dataclass(frozen=True, slots=True)
class PodId:
    """A pod that was judged: every write to it carries this UID."""

    name: str
    uid: str


def pod_id(pod: Pod) -> PodId:
    """The identity of ``pod``."""
    return PodId(pod.metadata.name, pod.metadata.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """``rule`` names the paragraph that decided, ``why`` is for a person, ``facts`` are what it rested on."""

    rule: str
    why: str
    facts: Sequence[str] = ()
    again_at: datetime | None = None
    """Look again then even if nothing changes; None: only when something does."""

    @property
    def name(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay(Decision):
    """Nothing is to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Decision):
    """Something has to happen elsewhere first."""

    event: str = ""
    """Reason of an event that tells it, empty for none."""
    warning: bool = False
    pod: PodId | None = None
    missing: Sequence[str] = ()
    """Names of the first member pods that their set has not made yet: somebody else may have the name."""
    on_pod: bool = False
    """The event is about ``pod``, not about the LeaderWorkerSet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(Decision):
    """A failure while the group starts: forgiven for good (5.4). ``absorb`` is what is noted on which pods."""

    failures: Sequence[Failure]
    absorb: Sequence[tuple[PodId, Absorbed]]
    unschedulable: str = ""
    """The pod that cannot be placed, which is told in a GroupUnschedulable event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defer(Decision):
    """Recreate later: the group is too young (5.7). ``marked``: the decision is already durable on the leader."""

    leader: PodId
    until: datetime
    remaining: int
    """Whole seconds, rounded up."""
    count: int
    marked: bool
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreate(Decision):
    """Delete the leader in the foreground and its workers with it; their owners make new ones (5.2 steps 13-15)."""

    leader: PodId
    failure: Failure | None
    """None when only the durable decision of an earlier look is left."""
    count: int | None = None
    """What the restart counter is to hold before the deletion; None where none is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaust(Decision):
    """The budget is used up: mark, retain, delete, and leave it to a person (5.6.1)."""

    leader: PodId
    retain: Sequence[PodId]
    """Workers that get the clean-up finalizer."""
    mark: bool
    """The leader is not marked yet: a recover annotation that it may have was set before exhaustion and is removed."""
    delete: bool
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover(Decision):
    """A person asked for it: forget the count, let go of the retained pods, workers first (5.6.4)."""

    leader: PodId
    pods: Sequence[PodId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Decision):
    """Normal clean-up of retained pods: their finalizer goes, workers first; counters stay (5.6.5)."""

    pods: Sequence[PodId]
    forget_count: bool = False
    """Hash, scaled away: the counter goes too, because the next leader would take it over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Force(Decision):
    """Remove a member that is stuck on a dead node, with grace period 0 (Q29)."""

    pod: PodId
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit(Decision):
    """Lift the leader's scheduling gate (4.3)."""

    leader: PodId
    owned: frozenset[str] | None = None
    """Hash, where a counter is kept: the counters that are other leaders' own. The highest free one of the leader's revision
    becomes the leader's before the gate is lifted (5.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService(Decision):
    """Make the per-replica Service (3.4)."""

    leader: PodId


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePodGroups(Decision):
    """Make the PodGroups that the gang is placed by (3.6)."""

    leader: PodId
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWorkers(Decision):
    """Make the worker set (3.3)."""

    leader: PodId


@dataclass(frozen=True, slots=True, kw_only=True)
class TellReady(Decision):
    """Hash: write the condition group-ready of the leader, which its readiness gate waits for (4.2)."""

    leader: PodId
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairWorkers(Decision):
    """Put back what somebody changed by hand in the worker set (Q30)."""

    set_name: str
    set_uid: str
    fields: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWorkers(Decision):
    """Delete the worker set in the foreground, with its pods."""

    set_name: str
    set_uid: str
    leader_uid: str = ""
    """Also tell all workers of this leader to end at once; empty: leave that to garbage collection."""


def needs_fresh_reads(decision: Decision) -> bool:
    """Whether it is taken again on fresh reads of the leader and the LeaderWorkerSet before anything is written
    (spec/leaderworkerset.md 8.4)."""
    match decision:
        case Exhaust() | Recover() | Force():
            return True
        case Recreate(count=None, failure=Failure(uid=failed)):
            # Nothing is counted, so all that is written is a deletion. Where a worker failed, the deletion's UID precondition
            # finds in the same moment what a read of the leader would (5.2 steps 6 and 14), and need not wait for one. A leader
            # that failed itself may be on its way already, by its own set.
            return failed == decision.leader.uid
        case Recreate():
            return True
        case _:
            return False
