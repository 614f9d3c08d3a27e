"""What the plugin reads of a cluster: a service, its replicas, and live pods and events (spec/omenative.md 7). Reads only."""

import asyncio
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

POD_LIMIT = 16
"""Pods of an Instance that are shown, with their events."""


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
    """What was told of the first ``POD_LIMIT`` of these pods, however many events their namespace has."""

    async def of(pod: InstancePod) -> Sequence[PodEvent]:
        selector = f"regarding.kind={PODS.kind},regarding.uid={pod.uid}"
        page = await client.list_all(EVENTS, namespace=service.namespace, type=PodEvent, field_selector=selector)
        return page.items

    pages = await asyncio.gather(*(of(pod) for pod in pods[:POD_LIMIT]))
    return [event for page in pages for event in page]
