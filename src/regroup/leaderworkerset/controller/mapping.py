"""Which keys an object or a change of it names: groups, LeaderWorkerSets, and the values of the indexes. Pure."""

from collections.abc import Iterable

from regroup.kube.meta import HasMeta
from regroup.kube.pod import Pod
from regroup.kube.workloads import ControllerRevision, Deployment, ReplicaSet, Service, StatefulSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.relevance import same_leader_set
from regroup.leaderworkerset.controller.stores import BY_GROUP, BY_LEADERS, BY_NODE
from regroup.leaderworkerset.keys import GROUP_INDEX, NAME, SCHEDULING_LEVEL
from regroup.leaderworkerset.objects.gang import Level, PodGroup, Workload
from regroup.leaderworkerset.view import GroupKey, is_exhausted, is_gated, is_group_index, revision_of, worker_index
from regroup.runtime.store import Change

SetKey = tuple[str, str]


def both(change: Change[Pod]) -> Iterable[Pod]:
    """The pod as it is, and as it was where that was another group."""
    if change.new is not None:
        yield change.new
    if change.old is not None and (change.new is None or group_of(change.old) != group_of(change.new)):
        yield change.old


def group_of(found: HasMeta) -> GroupKey | None:
    """The group that labels name; None without an ordinal or a drawn key."""
    labels = found.metadata.labels
    name, index = labels.get(NAME, ""), labels.get(GROUP_INDEX, "")
    return GroupKey(found.metadata.namespace, name, index) if name and is_group_index(index) else None


def group_index(pod: Pod) -> Iterable[str]:
    labels = pod.metadata.labels
    name, index = labels.get(NAME, ""), labels.get(GROUP_INDEX, "")
    # As a GroupKey is spelled: asked twice for each change of a pod, so none is made for it.
    return (f"{pod.metadata.namespace}/{name}/{index}",) if name and is_group_index(index) else ()


def leader_index(pod: Pod) -> Iterable[str]:
    return lws_index(pod) if worker_index(pod) == 0 else ()


def node_index(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def lws_index(found: HasMeta) -> Iterable[str]:
    return (f"{found.metadata.namespace}/{found.metadata.labels.get(NAME, '')}",)


POD_INDEXES = {BY_GROUP: group_index, BY_NODE: node_index, BY_LEADERS: leader_index}


def standing(leader: Pod) -> tuple[object, ...]:
    """What other Hash groups depend on."""
    return (leader.deleting, is_gated(leader), is_exhausted(leader), revision_of(leader))


def own_key(change: Change[LeaderWorkerSet]) -> Iterable[SetKey]:
    found = change.new or change.old
    return ((found.namespace, found.name),) if found is not None else ()


def lws_of(change: Change[Service] | Change[ControllerRevision] | Change[Workload]) -> Iterable[SetKey]:
    """Objects of a LeaderWorkerSet that are gone; that ours appeared is no news."""
    if change.new is not None or change.old is None:
        return ()
    meta = change.old.metadata
    return ((meta.namespace, meta.labels.get(NAME, "")),)


def lws_of_whole_gang(change: Change[PodGroup]) -> Iterable[SetKey]:
    """The PodGroup of all replicas is gone, or is going."""
    meta = change.object.metadata
    if meta.labels.get(SCHEDULING_LEVEL) == Level.ALL and (change.new is None or change.new.metadata.deleting):
        yield (meta.namespace, meta.labels.get(NAME, ""))


def lws_of_leader_set(change: Change[StatefulSet]) -> Iterable[SetKey]:
    found = change.new or change.old
    if found is None or GROUP_INDEX in found.metadata.labels:
        return ()
    if change.old is not None and change.new is not None and same_leader_set(change.old, change.new):
        return ()
    return ((found.metadata.namespace, found.metadata.labels.get(NAME, "")),)


def lws_of_deployment(change: Change[Deployment]) -> Iterable[SetKey]:
    meta = change.object.metadata
    return ((meta.namespace, meta.labels.get(NAME, "")),)


def lws_of_resized(change: Change[ReplicaSet]) -> Iterable[SetKey]:
    """A ReplicaSet has another size, by which a rollout may come to stand still."""
    if change.old is not None and change.new is not None and change.old.replicas != change.new.replicas:
        meta = change.new.metadata
        yield (meta.namespace, meta.labels.get(NAME, ""))


def leader_set_moved(change: Change[StatefulSet] | Change[Deployment]) -> bool:
    """Replicas, partition, revision or existence of what makes the leaders changed: retained, gated and surplus groups depend
    on it."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return (
        old.metadata.generation != new.metadata.generation
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deleting != new.metadata.deleting
    )
