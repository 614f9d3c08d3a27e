"""The garbage collector: deletes what nobody owns any more, for every resource that the server serves, now or later.

It watches the metadata of everything, keeps the graph of owners (``collector.graph``), and decides on live objects
(``collector.decide``). Every deletion and every patch carries the UID and the version that was judged.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from regroup.kube.meta import ObjectMeta, ObjectView, OwnerReference
from regroup.kube.resources import CRDS
from regroup.runtime.cache import Cache
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.collector.decide import Delete, DropReferences, Keep, OwnerState, judge, owner_state
from regroup.sandbox.controllers.collector.graph import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Graph, Node
from regroup.sandbox.controllers.discovery import Catalog, discover
from regroup.sandbox.controllers.views import owner_refs
from regroup.wire.errors import Conflict, NotFound, WireError
from regroup.wire.resource import Resource

NAME = "garbage-collector-controller"
WORKERS = 20
REDISCOVER = 30.0
"""Seconds between two looks at what is served; a change of a CRD leads to one at once."""
UNSEEN_OWNER = 5.0
"""Seconds until a dependent is looked at again whose owner exists but has not come through its watch yet."""
CONFLICT_RETRIES = 5


class UnknownOwnerKind(Exception):
    """An owner reference names a kind that is not served (now): the object is kept, and looked at again later."""


@dataclass(slots=True)
class _Monitor:
    """The watch of one resource."""

    task: asyncio.Task[None]
    cache: Cache
    missed: int = 0
    """Discoveries in a row that did not name the resource."""


class GarbageCollector:
    """The graph, its watches and the work on it."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._rng = manager.rng
        self._graph = Graph()
        self._catalog = Catalog(())
        self._monitors: dict[Resource, _Monitor] = {}
        self._complete = asyncio.Event()
        self._changed = asyncio.Event()
        self._unjudged: set[str] = set()
        """UIDs of objects that are kept because an owner's kind is not served."""
        self._log = structlog.get_logger(NAME)
        self.controller: Controller[str] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS)
        manager.cache.informer(CRDS, type=ObjectView).add_handler(self._crd_changed)

    async def watch(self) -> None:
        """Keep a watch on each resource that is served. A watch that dies ends this with its error: never deaf."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                await self._resync(tasks)
                try:
                    async with asyncio.timeout(REDISCOVER):
                        await self._changed.wait()
                        # A new CRD is served a moment after it was written.
                        await asyncio.sleep(0.1)
                except TimeoutError:
                    continue

    async def reconcile(self, uid: str) -> Result:
        """Look at one object."""
        await self._complete.wait()
        node = self._graph.get(uid)
        if node is None:
            return Result()
        if node.orphaning:
            await self._orphan_dependents(node)
        elif node.deleting_dependents:
            await self._delete_dependents(node)
        elif not node.meta.deleting:
            return await self._collect(node)
        return Result()

    async def _resync(self, tasks: asyncio.TaskGroup) -> None:
        try:
            self._catalog = await discover(self._client)
        except WireError as error:
            self._log.warning("discovery failed", error=str(error)[:300])
            return
        unjudged, self._unjudged = self._unjudged, set()
        for uid in unjudged:
            self.controller.queue.add(uid)
        served = frozenset(self._catalog.collectable())
        for resource in sorted(served - self._monitors.keys(), key=str):
            cache = Cache(self._client, clock=self._clock, rng=self._rng)
            cache.informer(resource, type=ObjectView).add_handler(partial(self._observed, resource))
            self._monitors[resource] = _Monitor(tasks.create_task(cache.run()), cache)
        for resource, monitor in list(self._monitors.items()):
            monitor.missed = 0 if resource in served else monitor.missed + 1
            if monitor.missed > 1:
                # Not at the first miss: the deletions of its last objects may still be on their way through the watch.
                monitor.task.cancel()
                del self._monitors[resource]
        if not self._complete.is_set():
            # Before all is seen, an owner that merely has not been read yet would look absent to every dependent.
            await asyncio.gather(*(monitor.cache.wait_synced() for monitor in self._monitors.values()))
            self._complete.set()

    def _crd_changed(self, change: Change[ObjectView]) -> None:
        if change.old is None or change.new is None or change.old.metadata.generation != change.new.metadata.generation:
            self._changed.set()

    def _observed(self, resource: Resource, change: Change[ObjectView]) -> None:
        if change.new is not None:
            looks: Sequence[str] = self._graph.observe(resource, change.new.metadata)
        else:
            looks = self._graph.forget(change.old.metadata.uid) if change.old is not None else ()
        for uid in looks:
            self.controller.queue.add(uid)

    async def _collect(self, node: Node) -> Result:
        """Delete the object when no owner keeps it."""
        live = await self._read(node.resource, node.meta)
        if live is None or live.deleting:
            return Result()
        try:
            owners = [(reference, await self._owner_state(reference, live)) for reference in live.owner_references]
        except UnknownOwnerKind as error:
            # No failure: every discovery has another look.
            self._unjudged.add(live.uid)
            self._log.debug("kept for now", object=live.key, why=str(error))
            return Result()
        dependents = self._graph.dependents(live.uid)
        circle = any(dependent.deleting_dependents for dependent in dependents)
        match judge(live, owners, has_dependents=bool(dependents), circle=circle):
            case Keep():
                unseen = [reference for reference, _ in owners if self._graph.get(reference.uid) is None]
                return Result(requeue_after=UNSEEN_OWNER if unseen else None)
            case DropReferences(uids):
                kept = [reference for reference in live.owner_references if reference.uid not in uids]
                await self._patch(node.resource, live, {"ownerReferences": owner_refs(kept)})
            case Delete(propagation, unblock):
                if unblock:
                    patched = [{**entry, "blockOwnerDeletion": False} for entry in owner_refs(live.owner_references)]
                    live = await self._patch(node.resource, live, {"ownerReferences": patched})
                await self._delete(node.resource, live, propagation)
        return Result()

    async def _owner_state(self, reference: OwnerReference, dependent: ObjectMeta) -> OwnerState:
        if self._graph.known_absent(reference.uid):
            return OwnerState.DANGLING
        resource = self._catalog.find(api_version=reference.api_version, kind=reference.kind)
        if resource is None:
            raise UnknownOwnerKind(f"{reference.api_version} {reference.kind} of {dependent.key} is not served")
        if resource.namespaced and not dependent.namespace:
            # An object without a namespace cannot have an owner in one. Nothing can be said of the owner: keep the object.
            self._log.warning("owner reference without a namespace", object=dependent.key, owner=reference.name)
            return OwnerState.SOLID
        try:
            owner = await self._client.get(
                resource, reference.name, namespace=dependent.namespace if resource.namespaced else None, type=ObjectView
            )
        except NotFound:
            return OwnerState.DANGLING
        return owner_state(reference, owner.metadata)

    async def _delete(self, resource: Resource, live: ObjectMeta, propagation: Any) -> None:
        """Delete exactly the object that was judged; a change of anything but its owners meanwhile is no reason not to."""
        namespace = live.namespace or None
        try:
            await self._client.delete(
                resource,
                live.name,
                namespace=namespace,
                uid=live.uid,
                resource_version=live.resource_version,
                propagation=propagation,
            )
        except NotFound:
            return
        except Conflict:
            now = await self._read(resource, live)
            if now is None:
                return
            if now.owner_references != live.owner_references:
                raise
            await self._client.delete(resource, live.name, namespace=namespace, uid=live.uid, propagation=propagation)
        self._log.info("object deleted", object=live.key, kind=resource.kind, propagation=propagation)

    async def _delete_dependents(self, node: Node) -> None:
        """Foreground deletion: the owner goes when nothing blocks it any more."""
        blocking = self._graph.blocking_dependents(node.uid)
        if not blocking:
            await self._remove_finalizer(node, FOREGROUND_FINALIZER)
        for dependent in blocking:
            if not dependent.deleting_dependents:
                self.controller.queue.add(dependent.uid)

    async def _orphan_dependents(self, node: Node) -> None:
        """Take the owner's reference off each dependent, then let the owner go."""
        for dependent in self._graph.dependents(node.uid):
            await self._release(dependent, node.uid)
        await self._remove_finalizer(node, ORPHAN_FINALIZER)

    async def _release(self, dependent: Node, owner_uid: str) -> None:
        for attempt in range(CONFLICT_RETRIES):
            live = await self._read(dependent.resource, dependent.meta)
            if live is None:
                return
            kept = [reference for reference in live.owner_references if reference.uid != owner_uid]
            if len(kept) == len(live.owner_references):
                return
            try:
                await self._patch(dependent.resource, live, {"ownerReferences": owner_refs(kept)})
            except Conflict:
                if attempt == CONFLICT_RETRIES - 1:
                    raise
            else:
                return

    async def _remove_finalizer(self, node: Node, finalizer: str) -> None:
        for attempt in range(CONFLICT_RETRIES):
            live = await self._read(node.resource, node.meta)
            if live is None or finalizer not in live.finalizers:
                return
            try:
                await self._patch(node.resource, live, {"finalizers": [name for name in live.finalizers if name != finalizer]})
            except Conflict:
                if attempt == CONFLICT_RETRIES - 1:
                    raise
            else:
                return

    async def _read(self, resource: Resource, meta: ObjectMeta) -> ObjectMeta | None:
        """The live metadata of the very object; None when it is gone, or replaced by another of its name."""
        try:
            found = await self._client.get(resource, meta.name, namespace=meta.namespace or None, type=ObjectView)
        except NotFound:
            return None
        return found.metadata if found.metadata.uid == meta.uid else None

    async def _patch(self, resource: Resource, live: ObjectMeta, metadata: dict[str, Any]) -> ObjectMeta:
        """Change metadata of the version that was read. A merge patch replaces lists, so the version is a precondition."""
        body = {"metadata": {"uid": live.uid, "resourceVersion": live.resource_version, **metadata}}
        try:
            patched = await self._client.merge_patch(resource, live.name, body, namespace=live.namespace or None, type=ObjectView)
        except NotFound:
            return live
        return patched.metadata


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:  # noqa: ARG001 - every controller is set up alike
    """Add the collector to the manager."""
    collector = GarbageCollector(manager)
    manager.add(collector.watch, name=f"{NAME}-watches")
    manager.add_controller(collector.controller)
