"""Which changes of objects can matter to a group at all. Pure.

Most events of a large cluster are none of our business: counts in the status of a worker set, a condition of somebody else, a
time or a message. Told apart here, at the cost of a comparison, they cause no look. Anything that a view or a rule reads must be
part of the comparison; what it does not name is not read.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from regroup.kube.meta import HasMeta, ObjectMeta
from regroup.kube.node import OUT_OF_SERVICE_TAINT, UNREACHABLE_TAINT, Node
from regroup.kube.pod import Pod, PodStatus
from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.groups.budget import COUNTED, CorruptCounts, parse_counted, parse_counts
from regroup.leaderworkerset.keys import GROUP_INDEX, PREFIX, RESTART_COUNTS
from regroup.leaderworkerset.view import is_hash_key, is_whole
from regroup.runtime.store import Change

T = TypeVar("T", bound=HasMeta)
K = TypeVar("K")

_COUNTS = frozenset({RESTART_COUNTS, COUNTED})


def unless(same: Callable[[T, T], bool], map: Callable[[Change[T]], Iterable[K]]) -> Callable[[Change[T]], Iterable[K]]:
    """``map``, asked only about changes that are more than ``same``; objects that come or go always are."""

    def ask(change: Change[T]) -> Iterable[K]:
        if change.old is not None and change.new is not None and same(change.old, change.new):
            return ()
        return map(change)

    return ask


def same_pod(old: Pod, new: Pod) -> bool:
    """Whether nothing that is read of a pod is different: its metadata, its spec, its phase, its containers, the type, status
    and reason of its conditions. Conditions under a foreign domain are nobody's business here."""
    if old.raw_status != new.raw_status and not _same_status(old.status, new.status):
        return False
    return _same_meta(old.metadata, new.metadata) and old.spec == new.spec


def same_worker_set(old: StatefulSet, new: StatefulSet) -> bool:
    """Whether nothing that is read of a worker set is different: its counts of pods are not read, the pods are; only in Hash mode
    whether it is whole (4.2)."""
    then, now = old.status, new.status
    if is_hash_key(new.metadata.labels.get(GROUP_INDEX, "")) and is_whole(old) != is_whole(new):
        return False
    return (
        old.metadata.generation == new.metadata.generation
        and then.observed_generation == now.observed_generation
        and then.update_revision == now.update_revision
        and _same_meta(old.metadata, new.metadata)
    )


def same_leader_set(old: StatefulSet, new: StatefulSet) -> bool:
    """Whether nothing that a pass reads of a leader set is different. Of its status that is how many leaders there are: how many
    are ready, their pods say."""
    return (
        old.metadata.generation == new.metadata.generation
        and old.status.replicas == new.status.replicas
        and old.spec == new.spec
        and _same_meta(old.metadata, new.metadata)
    )


def says_otherwise(old: LeaderWorkerSet, new: LeaderWorkerSet) -> bool:
    """Whether all groups have to hear of it: the spec, the deletion, an annotation. A status is our own doing."""
    return (
        old.metadata.uid != new.metadata.uid
        or old.metadata.generation != new.metadata.generation
        or old.metadata.deleting != new.metadata.deleting
        or not same_annotations(old, new)
    )


def health_of(node: Node) -> tuple[object, ...]:
    """What the node-loss rule and exclusive topology read of a node."""
    ready = node.ready
    taints = tuple((key, node.taint(key) is not None) for key in (UNREACHABLE_TAINT, OUT_OF_SERVICE_TAINT))
    return (ready.status if ready is not None else "", taints, node.metadata.labels)


def same_annotations(old: LeaderWorkerSet, new: LeaderWorkerSet) -> bool:
    """Whether the annotations say the same, restart counters apart."""
    if old.metadata.raw_annotations == new.metadata.raw_annotations:
        return True
    return _without_counts(old) == _without_counts(new)


def recounted(old: LeaderWorkerSet, new: LeaderWorkerSet) -> Iterable[str] | None:
    """Group indexes whose restart counter is different; None when that cannot be read."""
    then, now = old.metadata.annotations, new.metadata.annotations
    if all(then.get(name) == now.get(name) for name in _COUNTS):
        return ()
    try:
        counts = _different(parse_counts(then.get(RESTART_COUNTS)), parse_counts(now.get(RESTART_COUNTS)))
    except CorruptCounts:
        return None
    counted = _different(parse_counted(then.get(COUNTED)), parse_counted(now.get(COUNTED)))
    return {key.rpartition("/")[2] for key in (*counts, *counted)}


def _same_meta(old: ObjectMeta, new: ObjectMeta) -> bool:
    return (
        old.uid == new.uid
        and old.deletion_timestamp == new.deletion_timestamp
        and old.deletion_grace_period_seconds == new.deletion_grace_period_seconds
        and old.raw_labels == new.raw_labels
        and old.raw_annotations == new.raw_annotations
        and old.raw_finalizers == new.raw_finalizers
        and old.raw_owner_references == new.raw_owner_references
    )


def _same_status(old: PodStatus, new: PodStatus) -> bool:
    return (
        old.phase == new.phase
        and old.reason == new.reason
        and old.raw_container_statuses == new.raw_container_statuses
        and old.raw_init_container_statuses == new.raw_init_container_statuses
        and _signs(old) == _signs(new)
    )


def _signs(status: PodStatus) -> set[tuple[str, str, str]]:
    return {(one.type, one.status, one.reason) for one in status.conditions if "/" not in one.type or one.type.startswith(PREFIX)}


def _without_counts(lws: LeaderWorkerSet) -> dict[str, str]:
    return {name: value for name, value in lws.metadata.annotations.items() if name not in _COUNTS}


def _different(old: dict[str, K], new: dict[str, K]) -> Iterable[str]:
    return (key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
