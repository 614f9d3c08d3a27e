"""What the plugin reads of a cluster: a service, its replicas, and live pods and events (spec/omenative.md 7). Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from regroup.kube.meta import ObjectRef, ObjectView, View
from regroup.kube.resources import EVENTS, PODS
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.types import InferenceService
from regroup.omenative.keys import COMPONENT, COMPONENTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, INSTANCE_INDEX, SERVICE
from regroup.omenative.names import replica_name
from regroup.omenative.view import InstancePod
from regroup.wire.client import Client
from regroup.wire.errors import NotFound

EVENT_LIMIT = 500
"""Events of a namespace that are looked through."""


class Series(View, frozen=True, gc=False, kw_only=True):
    """``series`` of an event."""

    count: int = 1


class PodEvent(ObjectView, frozen=True, gc=False, kw_only=True):
    """An event about a pod. ``deprecated_count`` is what older recorders write."""

    reason: str = ""
    regarding: ObjectRef = ObjectRef()
    series: Series | None = None
    deprecated_count: int = msgspec.field(default=0)

    @property
    def count(self) -> int:
        return self.series.count if self.series is not None else max(1, self.deprecated_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An InferenceService and its replicas by component; a component without a replica is declared and not projected."""

    namespace: str
    name: str
    service: InferenceService
    replicas: Mapping[str, InferenceReplica | None]


async def read_service(client: Client, namespace: str, name: str) -> Service:
    """The service and the replicas of its components. Raises ``NotFound``."""
    service = await client.get(INFERENCE_SERVICES, name, namespace=namespace, type=InferenceService)
    replicas: dict[str, InferenceReplica | None] = {}
    for component in COMPONENTS:
        try:
            found: InferenceReplica | None = await client.get(
                INFERENCE_REPLICAS, replica_name(name, component), namespace=namespace, type=InferenceReplica
            )
        except NotFound:
            found = None
        if found is not None or component in service.spec.declared:
            replicas[component] = found
    return Service(namespace=namespace, name=name, service=service, replicas=replicas)


async def read_pods(client: Client, service: Service, component: str, index: int) -> Sequence[InstancePod]:
    """The pods of one Instance as they are now, by name."""
    selector = f"{SERVICE}={service.name},{COMPONENT}={component},{INSTANCE_INDEX}={index}"
    page = await client.list_all(PODS, namespace=service.namespace, label_selector=selector, type=InstancePod)
    return sorted(page.items, key=lambda pod: pod.name)


async def read_events(client: Client, service: Service, pods: Sequence[InstancePod]) -> Sequence[PodEvent]:
    """What was told of these pods, as far as the newest page of the namespace's events goes."""
    page = await client.list(EVENTS, namespace=service.namespace, type=PodEvent, limit=EVENT_LIMIT)
    uids = {pod.uid for pod in pods}
    return [event for event in page.items if event.regarding.kind == PODS.kind and event.regarding.uid in uids]
