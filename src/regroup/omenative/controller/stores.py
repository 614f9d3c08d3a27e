"""The cache as the OMENative controllers read it, and the keys that its objects belong to."""

from collections.abc import Iterable
from dataclasses import dataclass

from regroup.kube.meta import HasMeta, ObjectView
from regroup.kube.node import Node
from regroup.kube.workloads import ControllerRevision, Service
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.controller.slices import EndpointSlice
from regroup.omenative.keys import COMPONENT, SERVICE
from regroup.omenative.view import InstancePod
from regroup.runtime.store import Store

BY_COMPONENT = "component"
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

    def keys_of(self, found: HasMeta) -> Iterable[ReplicaKey]:
        """The replicas that an object may belong to, by its labels: most have one, a foreign object has none."""
        for text in component_index(found):
            for replica in self.replicas.index(BY_COMPONENT, text):
                yield replica.namespace, replica.name


def component_index(found: HasMeta) -> Iterable[str]:
    """The component that labels name; EndpointSlices have those of their Service, an orphaned pod has no other tie."""
    meta = found.metadata
    service, component = meta.labels.get(SERVICE, ""), meta.labels.get(COMPONENT, "")
    return (_text(meta.namespace, service, component),) if service and component else ()


def replica_index(replica: InferenceReplica) -> Iterable[str]:
    """The component that the replica is."""
    return (component_text(replica),)


def component_text(replica: InferenceReplica) -> str:
    """The component as the indexes have it."""
    return _text(replica.namespace, replica.service_name, replica.spec.component)


def node_index(pod: InstancePod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _text(namespace: str, service: str, component: str) -> str:
    return f"{namespace}/{service}/{component}"
