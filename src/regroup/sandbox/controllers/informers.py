"""The informers that several built-in controllers share, so that each object is read and kept once."""

from collections.abc import Callable, Iterable, Mapping

from regroup.kube.meta import HasMeta
from regroup.kube.resources import PODS, REPLICASETS
from regroup.runtime.cache import Informer
from regroup.runtime.manager import Manager
from regroup.sandbox.controllers.deploying.replicas import ReplicaSet
from regroup.sandbox.controllers.views import Pod, controller_uids, uncontrolled_namespaces

CONTROLLER = "controller"
"""Index: the UID of the controlling owner."""
ORPHANS = "orphans"
"""Index: the namespace of what no controller owns."""
NAMESPACE = "namespace"
STALE_RECHECK = 1.0
"""Seconds after which a key is looked at again whose own writes the cache has not shown, should no event bring it back."""


def by_namespace(obj: HasMeta) -> Iterable[str]:
    """Index function: the namespace."""
    return (obj.metadata.namespace,)


_POD_INDEXERS: Mapping[str, Callable[[Pod], Iterable[str]]] = {
    CONTROLLER: controller_uids,
    ORPHANS: uncontrolled_namespaces,
    NAMESPACE: by_namespace,
}


_SET_INDEXERS: Mapping[str, Callable[[ReplicaSet], Iterable[str]]] = {
    CONTROLLER: controller_uids,
    ORPHANS: uncontrolled_namespaces,
    NAMESPACE: by_namespace,
}


def replica_set_informer(manager: Manager) -> Informer[ReplicaSet]:
    """All ReplicaSets, indexed as the pods are."""
    return manager.cache.informer(REPLICASETS, type=ReplicaSet, indexers=_SET_INDEXERS)


def pod_informer(manager: Manager) -> Informer[Pod]:
    """All pods, indexed by controller and namespace."""
    return manager.cache.informer(PODS, type=Pod, indexers=_POD_INDEXERS)
