"""The namespace controller: empties a namespace that is being deleted, then lets it go.

A namespace keeps its finalizer ``kubernetes`` in ``spec.finalizers`` until nothing is left in it; what is left and why is told in
its conditions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import structlog

from regroup.kube.meta import Condition, ObjectView, View
from regroup.kube.resources import NAMESPACES, PODS
from regroup.runtime.clock import timestamp
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.discovery import discover
from regroup.wire.errors import ApiError, NotFound, WireError
from regroup.wire.resource import Resource

NAME = "namespace-controller"
WORKERS = 5
FINALIZER = "kubernetes"
RECHECK = 8.0
"""Seconds until a namespace with something left in it is looked at again, unless its pods need longer."""


class NamespaceSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a namespace."""

    raw_finalizers: tuple[str, ...] | None = msgspec.field(name="finalizers", default=None)


class NamespaceStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a namespace."""

    phase: str = ""
    raw_conditions: tuple[Condition, ...] | None = msgspec.field(name="conditions", default=None)


class Namespace(ObjectView, frozen=True, gc=False, kw_only=True):
    """A namespace as its controller sees it."""

    spec: NamespaceSpec = NamespaceSpec()
    raw_status: NamespaceStatus | None = msgspec.field(name="status", default=None)

    @property
    def finalizers(self) -> Sequence[str]:
        return self.spec.raw_finalizers or ()

    @property
    def conditions(self) -> Sequence[Condition]:
        return (self.raw_status.raw_conditions if self.raw_status is not None else None) or ()


@dataclass(slots=True)
class Remainder:
    """What a pass over a namespace found left."""

    objects: dict[str, int] = field(default_factory=dict)
    """Number of objects left, by resource."""
    finalizers: dict[str, int] = field(default_factory=dict)
    """Number of objects left that carry a finalizer, by finalizer."""
    failures: list[str] = field(default_factory=list)
    """Deletions that the server refused."""
    wait: float = 0.0
    """Seconds that the pods left need to end."""

    @property
    def empty(self) -> bool:
        return not self.objects and not self.failures

    def count(self, resource: Resource, metas: Iterable[ObjectView]) -> None:
        """Count the objects of one resource that are still there."""
        for entry in metas:
            self.objects[str(resource)] = self.objects.get(str(resource), 0) + 1
            for finalizer in entry.metadata.finalizers:
                self.finalizers[finalizer] = self.finalizers.get(finalizer, 0) + 1
            if resource == PODS:
                self.wait = max(self.wait, float(entry.metadata.deletion_grace_period_seconds or 0))


def conditions(remainder: Remainder, discovery_error: str, present: Sequence[Condition], now: datetime) -> list[dict[str, Any]]:
    """The conditions to be written; a condition keeps its transition time while its status stays."""
    content = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remainder.objects.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(remainder.finalizers.items()))
    refused = "; ".join(remainder.failures)
    rows = (
        ("NamespaceDeletionDiscoveryFailure", discovery_error, "DiscoveryFailed", "ResourcesDiscovered",
         "Discovery failed for some groups, {0}", "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "", "GroupVersionParsingFailed", "ParsedGroupVersions",
         "{0}", "All legacy kube types successfully parsed"),
        ("NamespaceDeletionContentFailure", refused, "ContentDeletionFailed", "ContentDeleted",
         "Failed to delete all resource types, {0}", "All content successfully deleted, may be waiting on finalization"),
        ("NamespaceContentRemaining", content, "SomeResourcesRemain", "ContentRemoved",
         "Some resources are remaining: {0}", "All content successfully removed"),
        ("NamespaceFinalizersRemaining", held, "SomeFinalizersRemain", "ContentHasNoFinalizers",
         "Some content in the namespace has finalizers remaining: {0}", "All content-preserving finalizers finished"),
    )  # fmt: skip
    before = {condition.type: condition for condition in present}
    written: list[dict[str, Any]] = []
    for kind, problem, bad, good, bad_message, good_message in rows:
        status = "True" if problem else "False"
        old = before.get(kind)
        moment = old.last_transition_time if old is not None and old.status == status else None
        written.append(
            {
                "type": kind,
                "status": status,
                "reason": bad if problem else good,
                "message": (bad_message.format(problem) if problem else good_message)[:32768],
                "lastTransitionTime": timestamp(moment or now),
            }
        )
    return written


def same_conditions(written: Sequence[Mapping[str, Any]], present: Sequence[Condition]) -> bool:
    """Whether the namespace says so already."""
    before = {condition.type: condition for condition in present}
    return all(
        (old := before.get(entry["type"])) is not None
        and (old.status, old.reason, old.message) == (entry["status"], entry["reason"], entry["message"])
        for entry in written
    )


class Namespaces:
    """Namespaces that are being deleted. A key is a name."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._namespaces = manager.cache.informer(NAMESPACES, type=Namespace)
        self._log = structlog.get_logger(NAME)
        self.controller: Controller[str] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS, timeout=120.0)
        self.controller.watches(self._namespaces, _key)

    async def reconcile(self, name: str) -> Result:
        """Delete what is in the namespace; finalize it when nothing is left."""
        namespace = self._namespaces.store.get("", name)
        if namespace is None or not namespace.metadata.deleting or FINALIZER not in namespace.finalizers:
            return Result()
        remainder, discovery_error = await self._empty(name)
        written = conditions(remainder, discovery_error, namespace.conditions, self._clock.now())
        if not same_conditions(written, namespace.conditions):
            body = {"metadata": {"uid": namespace.metadata.uid}, "status": {"phase": "Terminating", "conditions": written}}
            await self._client.merge_patch(NAMESPACES, name, body, subresource="status")
        if discovery_error:
            raise WireError(f"namespace {name}: {discovery_error}")
        if not remainder.empty:
            return Result(requeue_after=max(RECHECK, remainder.wait / 2 + 1.0))
        await self._finalize(name, namespace.metadata.uid)
        return Result()

    async def _empty(self, name: str) -> tuple[Remainder, str]:
        remainder = Remainder()
        try:
            catalog = await discover(self._client)
        except WireError as error:
            return remainder, str(error)
        resources = [resource for resource in catalog.removable() if resource.namespaced]
        # Pods go first: what they use must not vanish under them. Events go last: what tells of the end is not left over.
        resources.sort(key=lambda resource: (resource != PODS, resource.plural == "events", str(resource)))
        for resource in resources:
            await self._empty_of(name, resource, remainder)
            if resource == PODS and remainder.objects:
                return remainder, ""
        return remainder, ""

    async def _empty_of(self, name: str, resource: Resource, remainder: Remainder) -> None:
        try:
            if not (await self._client.list_all(resource, namespace=name, type=ObjectView)).items:
                return
            await self._client.delete_collection(
                resource,
                namespace=name,
                label_selector="",
                field_selector=f"metadata.namespace={name}",
                propagation="Background",
            )
            left = await self._client.list_all(resource, namespace=name, type=ObjectView)
        except NotFound:
            return
        except ApiError as error:
            remainder.failures.append(f"{resource}: {error}"[:500])
            return
        remainder.count(resource, left.items)

    async def _finalize(self, name: str, uid: str) -> None:
        """Take the finalizer off; the server then removes the namespace."""
        try:
            body: dict[str, Any] = await self._client.get(NAMESPACES, name)
            if body["metadata"]["uid"] != uid:
                return
            finalizers = [entry for entry in (body["spec"].get("finalizers") or []) if entry != FINALIZER]
            await self._client.replace(
                NAMESPACES, name, {**body, "spec": {**body["spec"], "finalizers": finalizers}}, subresource="finalize"
            )
        except NotFound:
            return
        self._log.info("namespace emptied", namespace=name)


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:  # noqa: ARG001 - every controller is set up alike
    """Add the controller to the manager."""
    manager.add_controller(Namespaces(manager).controller)


def _key(change: Change[Namespace]) -> Iterable[str]:
    return (change.new.metadata.name,) if change.new is not None and change.new.metadata.deleting else ()
