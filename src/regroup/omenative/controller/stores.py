"""The cache as the OMENative controllers read it, and the keys that its objects belong to."""

from collections.abc import Iterable
from dataclasses import dataclass

from regroup.kube.meta import HasMeta, ObjectView
from regroup.kube.node import Node
from regroup.kube.workloads import ControllerRevision, Service
from regroup.omenative.controller.slices import EndpointSlice
from regroup.omenative.keys import COMPONENT, INFERENCE_REPLICAS, SERVICE
from regroup.omenative.names import replica_name
from regroup.omenative.replica import InferenceReplica
from regroup.omenative.view import InstancePod
from regroup.runtime.store import Store

BY_REPLICA = "replica"
BY_NODE = "node"

ReplicaKey = tuple[str, str]
"""Namespace and name of an InferenceReplica."""


@dataclass(frozen=True, slots=True)
class Stores:
    """What the replica controller reads."""

    replicas: Store[InferenceReplica]
    pods: Store[InstancePod]
    services: Store[Service]
    slices: Store[EndpointSlice]
    revisions: Store[ControllerRevision]
    nodes: Store[Node]
    pod_groups: Store[ObjectView] | None
    """None where the cluster does not serve PodGroups."""


def replica_of(found: HasMeta) -> ReplicaKey | None:
    """The replica that an object belongs to: its controller, else what its labels name (an orphan has no other tie)."""
    meta = found.metadata
    owner = meta.controller
    if owner is not None:
        return (meta.namespace, owner.name) if owner.kind == INFERENCE_REPLICAS.kind else None
    service, component = meta.labels.get(SERVICE, ""), meta.labels.get(COMPONENT, "")
    return (meta.namespace, replica_name(service, component)) if service and component else None


def labelled_replica(found: HasMeta) -> ReplicaKey | None:
    """The replica that labels alone name: EndpointSlices belong to their Service, which has our labels."""
    meta = found.metadata
    service, component = meta.labels.get(SERVICE, ""), meta.labels.get(COMPONENT, "")
    return (meta.namespace, replica_name(service, component)) if service and component else None


def index_text(key: ReplicaKey | None) -> Iterable[str]:
    """A key as an index holds it."""
    return (f"{key[0]}/{key[1]}",) if key is not None else ()


def replica_index(found: HasMeta) -> Iterable[str]:
    return index_text(replica_of(found))


def labelled_index(found: HasMeta) -> Iterable[str]:
    return index_text(labelled_replica(found))


def node_index(pod: InstancePod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
