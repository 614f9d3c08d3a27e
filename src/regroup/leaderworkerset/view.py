"""What one look at a group rests on: frozen values, made by ``controller.observe``, read by every rule. Pure.

Must not know where the values come from, nor what will be done. Times are aware datetimes in UTC.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from regroup.kube.meta import OwnerReference
from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset.keys import (
    CLEANUP_FINALIZER,
    EXHAUSTED,
    GATE,
    LEADER_UID,
    POD_TERMINATION_POLICY,
    RECOVER,
    REVISION,
    WORKER_INDEX,
)

_HASH_KEY = 40
"""Hexadecimal digits of a group key; no ordinal has so many."""
_ORDINAL_DIGITS = 11


def is_hash_key(index: str) -> bool:
    """Whether a value of the label group-index is a drawn key (4.2)."""
    return len(index) == _HASH_KEY and all(letter in "0123456789abcdef" for letter in index)


def is_group_index(index: str) -> bool:
    """Whether a value of the label group-index can name a group: an ordinal or a drawn key."""
    return (len(index) < _ORDINAL_DIGITS and index.isdecimal() and index.isascii()) or is_hash_key(index)


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """A group: ``index`` is the value of the label group-index, in Hash mode the key that one incarnation has drawn."""

    namespace: str
    lws: str
    index: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.lws}/{self.index}"


class Policy(StrEnum):
    """``restartPolicy`` as the API spells it."""

    ON_POD_RESTART = "RecreateGroupOnPodRestart"
    AFTER_START = "RecreateGroupAfterStart"
    NONE = "None"

    @property
    def recreates(self) -> bool:
        return self is not Policy.NONE


@dataclass(frozen=True, slots=True)
class Backoff:
    """``restartBackoff`` with its defaults filled in, in seconds."""

    base: int = 10
    cap: int = 300


@dataclass(frozen=True, slots=True)
class Rules:
    """What governs one group. From the group's own revision: policy and size; from the live object: the rest
    (spec/leaderworkerset.md 5.2, 3.5)."""

    policy: Policy = Policy.ON_POD_RESTART
    size: int = 1
    guard_start: bool = False
    """The AfterStart guard applies: by the policy, or by the deprecated annotation (5.8)."""
    max_restarts: int | None = None
    backoff: Backoff | None = None
    leader_ready_first: bool = False
    """startupPolicy LeaderReady."""
    parallel: bool = False
    """podTerminationPolicy Parallel."""
    service_per_replica: bool = False
    """subdomainPolicy UniquePerReplica."""
    exclusive_topology: str = ""

    @property
    def counts(self) -> bool:
        """Whether a restart counter is kept (5.5): either feature alone is enough."""
        return self.max_restarts is not None or self.backoff is not None


@dataclass(frozen=True, slots=True)
class NodeLossRule:
    """When a member that is stuck on a dead node may be forced (Q29). ``grace`` in seconds; 0 means never."""

    grace: float = 60.0


@dataclass(frozen=True, slots=True)
class Departed:
    """A worker pod that is gone, as it was last seen, so that a replacement of the same name never hides it (8.3)."""

    pod: Pod
    leader_uid: str
    """UID of the leader that its owner chain led to, resolved while the chain was still there."""
    at: datetime


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """The worker StatefulSet of the group, and how it differs from what the group's revision says."""

    object: StatefulSet
    drift: Sequence[str] = ()
    """Names of the fields that somebody changed by hand (Q30); empty when it is as it should be."""

    @property
    def uid(self) -> str:
        return self.object.metadata.uid

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def deleting(self) -> bool:
        return self.object.metadata.deleting

    @property
    def revision(self) -> str:
        return self.object.metadata.labels.get(REVISION, "")

    @property
    def controller(self) -> OwnerReference | None:
        return self.object.metadata.controller

    def controlled_by(self, uid: str) -> bool:
        return self.controller is not None and self.controller.uid == uid


def is_whole(found: StatefulSet) -> bool:
    """All pods of a worker set are available and of one revision (4.2)."""
    status = found.status
    return (
        status.observed_generation >= found.metadata.generation
        and status.available_replicas == found.replicas
        and status.current_revision == status.update_revision
    )


@dataclass(frozen=True, slots=True)
class Owner:
    """The LeaderWorkerSet as a group's rules see it."""

    uid: str
    deleting: bool = False
    replicas: int = 1
    namespace_deleting: bool = False
    """Its namespace is being deleted, so it will be too; ``deleting`` is set as well then."""


@dataclass(frozen=True, slots=True)
class LeaderSet:
    """The workload that makes the leaders as a group's rules see it: a StatefulSet, or a Deployment in Hash mode (3.1, 3.2)."""

    uid: str
    replicas: int
    partition: int = 0
    """Always 0 in Hash mode."""
    revision: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class HashCensus:
    """All leader pods of a Hash LeaderWorkerSet, and the group-index values that still have a pod of any kind (4.5)."""

    leaders: Sequence[Pod]
    groups_with_pods: frozenset[str]
    replicas: int
    current_revision: str
    """Revision key that the leader workload carries; empty when it is not known."""
    immediate: bool
    """groupReplacementPolicy Immediate."""


class ServiceState(StrEnum):
    """The per-replica headless Service of a group (3.4)."""

    NOT_WANTED = "not wanted"
    MISSING = "missing"
    THERE = "there"
    FOREIGN = "foreign"
    """Of that name, but terminating or controlled by another UID."""


class PodGroupState(StrEnum):
    """The PodGroups that a gang is placed by (3.6)."""

    NOT_WANTED = "not wanted"
    MISSING = "missing"
    THERE = "there"
    GOING = "going"
    """Terminating, or of an earlier leader and about to be collected."""
    FOREIGN = "foreign"
    UNSERVED = "unserved"
    """The cluster does not serve the API."""


@dataclass(frozen=True, slots=True)
class PodGroups:
    """State of a group's PodGroups: the worst of them. ``why`` is for a person where they are not as they should be."""

    state: PodGroupState = PodGroupState.NOT_WANTED
    missing: Sequence[str] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group at one moment."""

    key: GroupKey
    owner: Owner | None = None
    """None: the LeaderWorkerSet does not exist."""
    rules: Rules | None = None
    """None: the revision that the group was built from cannot be read."""
    leader_set: LeaderSet | None = None
    leader: Pod | None = None
    workers: Sequence[Pod] = ()
    """Pods whose owner chain leads to the current leader, or to the LeaderWorkerSet under policy None (5.3)."""
    remnants: Sequence[Pod] = ()
    """Pods of an earlier incarnation of this group that still exist."""
    impostors: bool = False
    """A stranger carries the label that names this incarnation, so that no collection may be deleted by it (C104)."""
    telling: bool = False
    """A request is under way that tells all workers of an earlier incarnation to end. The API server finds them by their label,
    but deletes one after the other by its name, so it would hit a worker of the next incarnation that has the name by then."""
    departed: Sequence[Departed] = ()
    worker_set: WorkerSet | None = None
    service: ServiceState = ServiceState.NOT_WANTED
    pod_groups: PodGroups = PodGroups()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """Nodes that members are on; a node that is not here does not exist."""
    node_loss: NodeLossRule = NodeLossRule()
    count: int = 0
    """Stored restart count of this group and revision; 0 where none is stored."""
    counted: bool = False
    """The stored count already has the recreation of this very leader in it: decided, counted, not yet deleted."""
    counter_error: str = ""
    """Why the stored counters cannot be read; nothing may be deleted then (5.5)."""
    recorded_workers: str = ""
    """Digest of the worker UIDs that the status remembers for this leader (own extension), empty when it has none."""
    topology_value: str | None = None
    """Value of the exclusive-topology label on the leader's node; None when unknown."""
    not_before: datetime | None = None
    """The leader's gate stays until then, because the pods of its predecessors were refused one after the other (case C136)."""
    census: HashCensus | None = None
    """Hash: where the leader is gated or exhausted, and so depends on the other groups (4.5, 5.6.5)."""

    @property
    def hash_mode(self) -> bool:
        """The group is named by a drawn key, not by an ordinal (4.2)."""
        return is_hash_key(self.key.index)

    @property
    def ordinal(self) -> int | None:
        """The index as a number; None for a Hash key."""
        return int(self.key.index) if not self.hash_mode and is_group_index(self.key.index) else None

    @property
    def revision(self) -> str:
        """The revision key of the current leader, empty without one."""
        return revision_of(self.leader) if self.leader is not None else ""

    @property
    def parallel(self) -> bool:
        """podTerminationPolicy Parallel, also when the LeaderWorkerSet is gone (5.9)."""
        noted = self.leader is not None and self.leader.metadata.annotations.get(POD_TERMINATION_POLICY) == "Parallel"
        return noted or (self.rules is not None and self.rules.parallel)

    @property
    def members(self) -> Sequence[Pod]:
        """Leader first, then workers by index."""
        return ((self.leader,) if self.leader is not None else ()) + tuple(self.workers)

    @property
    def pods(self) -> Sequence[Pod]:
        """Everything of this group that exists, remnants included."""
        return (*self.members, *self.remnants)


def worker_index(pod: Pod) -> int:
    """The label worker-index, -1 when it is missing or no number."""
    value = pod.metadata.labels.get(WORKER_INDEX, "")
    return int(value) if value.isdigit() else -1


def revision_of(pod: Pod) -> str:
    """The label template-revision-hash."""
    return pod.metadata.labels.get(REVISION, "")


def is_exhausted(pod: Pod | None) -> bool:
    """Marked by us as a leader whose group used up its budget."""
    return pod is not None and pod.metadata.annotations.get(EXHAUSTED) == "true"


def wants_recovery(pod: Pod) -> bool:
    """Exactly ``true`` asks for recovery; any other value is ignored (5.6.4)."""
    return pod.metadata.annotations.get(RECOVER) == "true"


def is_retained(pod: Pod) -> bool:
    """Carries our clean-up finalizer."""
    return CLEANUP_FINALIZER in pod.metadata.finalizers


def is_gated(pod: Pod) -> bool:
    """Held by our scheduling gate."""
    return pod.gated_by(GATE)


class Membership(StrEnum):
    """Whose pod it is (4.4, 5.2 step 5, case C104)."""

    MEMBER = "member"
    REMNANT = "remnant"
    STRANGER = "stranger"


def worker_leader_uid(pod: Pod, sets: Mapping[str, StatefulSet]) -> str:
    """UID of what the owner chain of a worker ends at: its leader, or the LeaderWorkerSet under None. Empty: nobody knows.

    ``sets`` are StatefulSets by UID. When the set is gone the label that our worker template carries is the only trace left; it
    is believed only together with an owner reference to a StatefulSet, because a pod whose owner does not exist is about to be
    collected anyway.
    """
    owner = pod.metadata.controller
    if owner is None or owner.kind != "StatefulSet":
        return owner.uid if owner is not None and owner.kind == "Pod" else ""
    found = sets.get(owner.uid)
    if found is None:
        return pod.metadata.labels.get(LEADER_UID, "")
    controller = found.metadata.controller
    return controller.uid if controller is not None and controller.kind in {"Pod", "LeaderWorkerSet"} else ""


def classify_worker(
    pod: Pod, *, sets: Mapping[str, StatefulSet], set_name: str, leader_uid: str, lws_uid: str, leader_name: str | None
) -> Membership:
    """Whether a pod with worker labels belongs to the living leader, to an earlier one, or to somebody else.

    ``leader_name`` None: the name of the leader says nothing, because its workload draws it (Hash).
    """
    owner = pod.metadata.controller
    if owner is None:
        return Membership.STRANGER
    end = worker_leader_uid(pod, sets)
    if end and end in {leader_uid, lws_uid}:
        return Membership.MEMBER
    if owner.kind == "Pod":
        return Membership.REMNANT if leader_name in {None, owner.name} else Membership.STRANGER
    if owner.kind != "StatefulSet" or owner.name != set_name:
        return Membership.STRANGER
    found = sets.get(owner.uid)
    if found is None:
        return Membership.REMNANT
    controller = found.metadata.controller
    ours = controller is not None and controller.kind == "Pod" and leader_name in {None, controller.name}
    return Membership.REMNANT if ours else Membership.STRANGER


def by_index(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods in the order of worker-index, then name and UID."""
    return tuple(sorted(pods, key=lambda pod: (worker_index(pod), pod.metadata.name, pod.metadata.uid)))
