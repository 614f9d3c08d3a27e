"""The EndpointSlice controller: keeps the slices of each Service that selects pods."""

from collections.abc import Iterable

from regroup.kube.meta import object_ref
from regroup.kube.node import Node
from regroup.kube.resources import ENDPOINT_SLICES, NODES, SERVICES
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.informers import NAMESPACE, STALE_RECHECK, pod_informer
from regroup.sandbox.controllers.selecting import LABELS, Selectors, by_labels, candidates
from regroup.sandbox.controllers.slices import (
    MANAGED_BY_LABEL,
    MANAGER,
    SERVICE_NAME_LABEL,
    EndpointSlice,
    Service,
    SliceChanges,
    reconcile,
)
from regroup.sandbox.controllers.views import Pod, labels_equal
from regroup.wire.errors import Conflict, NotFound, WireError

NAME = "endpointslice-controller"
WORKERS = 5
REST_PER_POD = 1 / 2000
"""Seconds between two passes over a Service, for each pod that it selects: a pass reads all of them, and while a set of 8,000
starts one pass for each of its pods would cost more than everything else in the cluster."""
TICK = 0.001
"""Seconds that a timer may fire early: what is due within them is due, or a pass would put itself off without end."""
ZONE_LABEL = "topology.kubernetes.io/zone"

Key = tuple[str, str]


class EndpointSlices:
    """Services and the slices they own. A key is a Service."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder | None) -> None:
        self._client = manager.client
        self._recorder = recorder
        self._services = manager.cache.informer(SERVICES, type=Service)
        self._selectors: Selectors[Key] = Selectors()
        self._services.add_handler(self._note)
        self._pods = pod_informer(manager)
        self._pods.store.add_indexer(LABELS, by_labels)
        self._nodes = manager.cache.informer(NODES, type=Node)
        self._slices = manager.cache.informer(ENDPOINT_SLICES, type=EndpointSlice, indexers={SERVICE_NAME_LABEL: _service_of})
        self._expectations: Expectations[Key] = Expectations(clock=manager.clock)
        self._clock = manager.clock
        self._rests: dict[Key, float] = {}
        """Until when a Service is left alone."""
        self.controller: Controller[Key] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS)
        self.controller.watches(self._services, _own_key)
        self.controller.watches(self._pods, self._services_of_pod)
        self.controller.watches(self._slices, self._service_of_slice)
        self.controller.watches(self._nodes, self._services_on_node)

    async def reconcile(self, key: Key) -> Result:
        """Bring the slices of one Service in line."""
        service = self._services.store.get(*key)
        if service is None or service.metadata.deleting or not service.selects:
            # The slices of a Service that is gone are owned by it: the garbage collector takes them.
            self._expectations.forget(key)
            self._rests.pop(key, None)
            return Result()
        now = self._clock.monotonic()
        if (rest := self._rests.get(key, now) - now) > TICK:
            return Result(requeue_after=rest)
        if not self._expectations.satisfied(key):
            # Names are made by the server: on a cache without our last slice, its endpoints would get a second one.
            return Result(requeue_after=STALE_RECHECK)
        selector = service.spec.raw_selector or {}
        near = candidates(self._pods.store, key[0], selector, otherwise=NAMESPACE)
        pods = [pod for pod in near if _selected(selector, pod)]
        self._rests[key] = now + len(pods) * REST_PER_POD
        zones = {node.metadata.name: node.metadata.labels.get(ZONE_LABEL, "") for node in self._nodes.store.values()}
        slices = [
            entry
            for entry in self._slices.store.index(SERVICE_NAME_LABEL, "/".join(key))
            if entry.metadata.labels.get(MANAGED_BY_LABEL) == MANAGER
        ]
        try:
            await self._write(key, service, reconcile(service, pods, slices, zones=zones))
        except Conflict:
            # Somebody else has changed a slice: its event brings the key back, and the rate limit makes sure.
            self.controller.queue.add_rate_limited(key)
            return Result()
        except WireError as error:
            self._tell(service, error)
            raise
        return Result()

    async def _write(self, key: Key, service: Service, changes: SliceChanges) -> None:
        namespace = service.metadata.namespace
        for body in changes.create:
            made = await self._client.create(ENDPOINT_SLICES, body, namespace=namespace, type=EndpointSlice)
            self._expectations.expect_created(key, uid=made.metadata.uid, by_uid=self._slices.store.by_uid)
        for source, body in changes.update:
            name = source.metadata.name
            made = await self._client.replace(ENDPOINT_SLICES, name, body, namespace=namespace, type=EndpointSlice)
            version = made.metadata.resource_version
            self._expectations.expect_version(
                key, uid=made.metadata.uid, resource_version=version, by_uid=self._slices.store.by_uid
            )
        for source in changes.delete:
            meta = source.metadata
            try:
                await self._client.delete(ENDPOINT_SLICES, meta.name, namespace=namespace, uid=meta.uid)
            except NotFound:
                continue
            self._expectations.expect_deleted(key, uid=meta.uid, by_uid=self._slices.store.by_uid)

    def _tell(self, service: Service, error: WireError) -> None:
        if self._recorder is None:
            return
        self._recorder.event(
            object_ref(service, api_version="v1", kind="Service"),
            type="Warning",
            reason="FailedToUpdateEndpointSlices",
            message=f"Error updating Endpoint Slices for Service {service.metadata.key}: {error}",
            action="UpdateEndpointSlices",
        )

    def _service_of_slice(self, change: Change[EndpointSlice]) -> Iterable[Key]:
        meta = change.object.metadata
        name = meta.labels.get(SERVICE_NAME_LABEL)
        if not name:
            return ()
        key = (meta.namespace, name)
        if change.new is None:
            self._expectations.note_gone(key, uid=meta.uid)
        return (key,)

    def _services_on_node(self, change: Change[Node]) -> Iterable[Key]:
        """A node that comes or goes brings its pods into the slices, or takes them out."""
        if change.old is not None and change.new is not None:
            return
        name = change.object.metadata.name
        spaces = {pod.metadata.namespace for pod in self._pods.store.values() if pod.spec.node_name == name}
        for service in self._services.store.values():
            if service.selects and service.metadata.namespace in spaces:
                yield service.metadata.namespace, service.metadata.name

    def _services_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        if change.old is not None and change.new is not None and not _matters(change.old, change.new):
            return ()
        found: dict[Key, None] = {}
        for pod in (change.old, change.new):
            if pod is not None:
                found.update(dict.fromkeys(self._selectors.of(pod.metadata.namespace, pod.metadata.labels)))
        return found

    def _note(self, change: Change[Service]) -> None:
        """Keep who selects what."""
        meta, service = change.object.metadata, change.new
        key = (meta.namespace, meta.name)
        if service is not None and service.selects:
            self._selectors.put(key, namespace=meta.namespace, wanted=service.spec.raw_selector or {})
        else:
            self._selectors.drop(key)


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:
    """Add the controller to the manager."""
    manager.add_controller(EndpointSlices(manager, recorder=recorder).controller)


def _matters(old: Pod, new: Pod) -> bool:
    """Whether a change of a pod can change an endpoint or who selects it."""
    return (
        old.metadata.uid != new.metadata.uid
        or old.deleting != new.deleting
        or old.ready != new.ready
        or old.terminal != new.terminal
        or old.status.pod_ip != new.status.pod_ip
        or old.spec.node_name != new.spec.node_name
        or old.spec.hostname != new.spec.hostname
        or not labels_equal(old.metadata.labels, new.metadata.labels)
    )


def _selected(selector: dict[str, str], pod: Pod) -> bool:
    labels = pod.metadata.labels
    return all(labels.get(key) == value for key, value in selector.items())


def _service_of(entry: EndpointSlice) -> Iterable[str]:
    name = entry.metadata.labels.get(SERVICE_NAME_LABEL)
    return (f"{entry.metadata.namespace}/{name}",) if name else ()


def _own_key(change: Change[Service]) -> Iterable[Key]:
    meta = change.object.metadata
    return ((meta.namespace, meta.name),)
