"""Finds leaders in the cache: the workload that makes them, whose pod a leader is, and all leaders of a Hash LeaderWorkerSet.

Reads stores only; decides nothing. Labels alone make nobody a leader (cases C104, C112): the owner chain has to lead to the
LeaderWorkerSet.
"""

from collections.abc import Iterator, Sequence

from regroup.kube.pod import Pod
from regroup.kube.workloads import Deployment, StatefulSet
from regroup.leaderworkerset.api.types import IMMEDIATE, LeaderWorkerSet
from regroup.leaderworkerset.controller.memory import Groups
from regroup.leaderworkerset.controller.stores import BY_GROUP, BY_LEADERS, Stores
from regroup.leaderworkerset.keys import GROUP_INDEX, LEADERWORKERSETS, REVISION
from regroup.leaderworkerset.view import GroupKey, HashCensus, is_hash_key, worker_index

LeaderWorkload = StatefulSet | Deployment


class Leaders:
    """Leaders of both identity modes."""

    def __init__(self, stores: Stores, groups: Groups) -> None:
        self._stores = stores
        self._groups = groups

    def find(
        self, key: GroupKey, pods: Sequence[Pod], *, lws: LeaderWorkerSet | None, name: str
    ) -> tuple[LeaderWorkload | None, Pod | None]:
        """What makes the leaders, and the leader of one group among its ``pods``; ``name``: what an Ordinal leader is called."""
        if is_hash_key(key.index):
            made_by = self.deployment(key.namespace, key.lws, lws)
            return made_by, next((pod for pod in pods if self._made_by_replica_set(pod, key.lws, made_by)), None)
        leader_set = self.leader_set(key.namespace, key.lws, lws)
        for pod in pods:
            owner = pod.metadata.controller
            if pod.metadata.name != name or worker_index(pod) != 0 or owner is None:
                continue
            ours = leader_set is None or owner.uid == leader_set.metadata.uid
            if owner.kind == "StatefulSet" and owner.name == key.lws and ours:
                return leader_set, pod
        return leader_set, None

    def leader_set(self, namespace: str, name: str, lws: LeaderWorkerSet | None) -> StatefulSet | None:
        """The leader StatefulSet, if it is this LeaderWorkerSet's own."""
        found = self._stores.sets.get(namespace, name)
        return found if found is not None and _owned(found, lws) else None

    def deployment(self, namespace: str, name: str, lws: LeaderWorkerSet | None) -> Deployment | None:
        """The leader Deployment, if it is this LeaderWorkerSet's own."""
        found = self._stores.deployments.get(namespace, name)
        return found if found is not None and _owned(found, lws) else None

    def of(self, lws: LeaderWorkerSet) -> Iterator[Pod]:
        """All leader pods of a Hash LeaderWorkerSet, in no order."""
        made_by = self.deployment(lws.namespace, lws.name, lws)
        for pod in self._stores.pods.index(BY_LEADERS, f"{lws.namespace}/{lws.name}"):
            if self._made_by_replica_set(pod, lws.name, made_by):
                yield pod

    def census(self, lws: LeaderWorkerSet) -> HashCensus:
        """All leaders of a Hash LeaderWorkerSet, and its groups that still have pods. A walk over groups, never over all pods."""
        made_by = self.deployment(lws.namespace, lws.name, lws)
        leaders = tuple(self.of(lws))
        groups = {pod.metadata.labels.get(GROUP_INDEX, "") for pod in leaders}
        for key in self._groups.keys(lws.namespace, lws.name):
            if key.index not in groups and is_hash_key(key.index) and self._has_workers(key):
                groups.add(key.index)
        return HashCensus(
            leaders=leaders,
            groups_with_pods=frozenset(groups),
            replicas=lws.spec.replicas,
            current_revision=made_by.metadata.labels.get(REVISION, "") if made_by is not None else "",
            immediate=lws.spec.group_replacement_policy == IMMEDIATE,
        )

    def _has_workers(self, key: GroupKey) -> bool:
        """Whether pods of a group whose leader is gone are left: those of a worker set that is gone, or still a pod's (C104)."""
        return any(self._is_worker(pod, key) for pod in self._stores.pods.index(BY_GROUP, str(key)))

    def _is_worker(self, pod: Pod, key: GroupKey) -> bool:
        owner = pod.metadata.controller
        if worker_index(pod) < 1 or owner is None or owner.kind != "StatefulSet":
            return False
        found = self._stores.sets.by_uid(owner.uid)
        if found is None:
            return owner.name.startswith(f"{key.lws}-")
        return found.metadata.labels.get(GROUP_INDEX) == key.index

    def _made_by_replica_set(self, pod: Pod, lws: str, made_by: Deployment | None) -> bool:
        """Whether a ReplicaSet of the leader Deployment made the pod.

        Of a ReplicaSet that is gone only its name is left, and its pods are about to be collected.
        """
        owner = pod.metadata.controller
        if worker_index(pod) != 0 or owner is None or owner.kind != "ReplicaSet":
            return False
        found = self._stores.replica_sets.by_uid(owner.uid)
        if found is None:
            return owner.name.rpartition("-")[0] == lws
        holder = found.metadata.controller
        if holder is None or holder.kind != "Deployment" or holder.name != lws:
            return False
        return made_by is None or holder.uid == made_by.metadata.uid


def _owned(found: LeaderWorkload, lws: LeaderWorkerSet | None) -> bool:
    owner = found.metadata.controller
    if owner is None or owner.kind != LEADERWORKERSETS.kind:
        return False
    return lws is None or owner.uid == lws.metadata.uid
