"""What a suite needs of a control plane, whichever it is: a client, faults, the operator's life, and what the operator wrote."""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from regroup.kube.meta import Condition, ObjectView, find_condition
from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.resources import CONTROLLER_REVISIONS, EVENTS, NODES, PODS, SERVICES, STATEFULSETS
from regroup.kube.workloads import ControllerRevision, StatefulSet
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.runtime.clock import Clock
from regroup.sandbox.faults import Faults
from regroup.wire.client import Client
from regroup.wire.errors import NotFound
from regroup.wire.resource import Resource
from regroup.wire.transport import Request, Response

NAMESPACE = "t"
_RESOURCES: Mapping[str, Resource] = {
    "LeaderWorkerSet": LEADERWORKERSETS,
    "Pod": PODS,
    "Service": SERVICES,
    "StatefulSet": STATEFULSETS,
}
_POLL = 0.1
_OWN_AFFAIRS = ("/events", "/leases", "/admissionregistration.k8s.io/")
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request of the operator. ``time`` is the plane's clock in seconds; ``status`` 0 means that no answer came."""

    time: float
    request: Request
    status: int

    @property
    def writes(self) -> bool:
        """Changes something of the workload: events, leases and the registration of webhooks are left out."""
        path = self.request.path
        return self.request.method in WRITES and not any(part in path for part in _OWN_AFFAIRS)

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.request.body) if self.request.body else None

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.request.query)
        return f"{self.time:.3f} {self.request.method} {self.request.path}{'?' + query if query else ''} -> {self.status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event as a person reads it."""

    reason: str
    type: str
    note: str
    count: int
    regarding: str
    related: str


class EventView(ObjectView, frozen=True, gc=False, kw_only=True):
    """An events.k8s.io/v1 Event."""

    reason: str = ""
    type: str = ""
    note: str = ""
    series: dict[str, Any] | None = None
    regarding: dict[str, Any] | None = None
    related: dict[str, Any] | None = None


class Line:
    """How the operator's requests and watches are disturbed. A suite sets the fields; the plane's transport obeys."""

    def __init__(self) -> None:
        self.answer: Callable[[Request], Response | None] = lambda request: None
        """A response in the place of the server's, or None. The request does not reach the server then."""
        self.rewrite: Callable[[Request, Response], Response] = lambda request, response: response
        """What the operator gets of the server's answer."""
        self.delay = 0.0
        """Seconds that each request takes longer."""
        self.flowing = asyncio.Event()
        """Cleared: watches deliver nothing until it is set again; nothing is lost."""
        self.flowing.set()
        self.held = ""
        """Part of a path: watches of it deliver nothing until it is let go; nothing is lost, and all others flow."""
        self.let_go = asyncio.Event()
        self.dead = False
        """Watches that are open deliver nothing more and are never closed by the server; new ones work."""
        self.cut = False
        """Watches break at the next thing that they would have delivered."""
        self.webhooks = True
        """False: API servers cannot reach the operator's webhooks."""

    def clear(self) -> None:
        """Undisturbed again."""
        self.answer = lambda request: None
        self.rewrite = lambda request, response: response
        self.delay = 0.0
        self.flowing.set()
        self.release()
        self.dead = self.cut = False
        self.webhooks = True

    def hold(self, path: str) -> None:
        """Hold the watches of one kind."""
        self.held = path
        self.let_go.clear()

    def release(self) -> None:
        """Let them go."""
        self.held = ""
        self.let_go.set()


def status_response(
    code: int, reason: str, message: str = "made up by the test", *, headers: Mapping[str, str] | None = None
) -> Response:
    """A failure as an API server answers it."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Response(code, {"content-type": "application/json", **(headers or {})}, msgspec.json.encode(body))


class Plane(ABC):
    """A control plane with the operator on it. ``async with plane:`` is its life."""

    config_namespace = NAMESPACE
    """Where the operator's ConfigMap of OMENative mode is."""
    slow_start = "60s"
    """How long the containers take that a suite wants to start slowly: longer than two restarts of another one."""
    stuck_grace = 60.0
    """The ``stuckPodGracePeriod`` in seconds that suites of OMENative mode set."""
    client: Client
    """The user's hands: not the operator's."""
    faults: Faults

    def __init__(self, *, clock: Clock) -> None:
        self.clock = clock
        self.requests: list[Recorded] = []
        """Everything that the operator has asked so far, in every life of it."""
        self.line = Line()
        """The line between the operator and the API server, which can be disturbed."""
        self._operator: asyncio.Task[None] | None = None
        self._stop_at: tuple[int, bool] = (0, False)
        self._standing = asyncio.Event()

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(self, *exc: object) -> None: ...

    @abstractmethod
    async def start_operator(self) -> None:
        """Start it and wait until it has filled its caches."""

    async def stop_operator(self) -> None:
        """Kill it: nothing in flight is finished."""
        if self._operator is not None:
            await end(self._operator)
            self._operator = None

    def kill_at(self, step: int, *, answered: bool = False) -> asyncio.Event:
        """From now on the operator stands still at its ``step``-th write: before it is sent, or after it was done but not yet
        answered. The event tells that it stands there. 0 lets it go on."""
        self._stop_at = (step, answered)
        self._standing = asyncio.Event()
        return self._standing

    async def stand_still(self, *, answered: bool) -> None:
        """Called around each write of the operator."""
        step, after = self._stop_at
        if step == 0 or after != answered:
            return
        self._stop_at = (step - 1, after)
        if step == 1:
            self._standing.set()
            await asyncio.Event().wait()

    # -- doing

    async def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Create objects, or apply them over what is there."""
        for manifest in manifests:
            meta = manifest["metadata"]
            await self.client.apply(
                _RESOURCES[manifest["kind"]],
                meta["name"],
                manifest,
                namespace=meta.get("namespace", NAMESPACE),
                field_manager="kubectl",
            )

    async def delete_pod(self, name: str, *, grace: int | None = None, propagation: Any = "Background") -> None:
        await self.client.delete(PODS, name, namespace=NAMESPACE, grace_period_seconds=grace, propagation=propagation)

    async def patch_lws(self, name: str, spec: Mapping[str, Any]) -> None:
        await self.client.merge_patch(LEADERWORKERSETS, name, {"spec": spec}, namespace=NAMESPACE)

    async def provide_volumes(self, count: int) -> None:
        """See that so many claims of 1 GiB can be bound. The sandbox binds whatever is claimed."""
        del count

    async def sleep(self, seconds: float, *, exact: bool = False) -> None:
        """Let the plane's time pass, to see what does not happen. Planes in real time wait a few seconds at most, unless the time
        itself is meant (``exact``)."""
        await asyncio.sleep(seconds)

    async def age(self, seconds: float) -> None:
        """Make all that is there so much older in the operator's eyes: the sandbox's time passes. Planes in real time put the
        operator's clock forward, which every rule about ages reads; timers that run do not fire earlier for it."""
        await asyncio.sleep(seconds)

    async def touch(self, name: str = "demo") -> None:
        """Change something of a LeaderWorkerSet that means nothing, so that the operator looks at it now."""
        patch = {"metadata": {"annotations": {"example.com/touched": str(self.clock.monotonic())}}}
        await self.client.merge_patch(LEADERWORKERSETS, name, patch, namespace=NAMESPACE)

    # -- looking

    async def lws(self, name: str = "demo") -> LeaderWorkerSet:
        return await self.client.get(LEADERWORKERSETS, name, namespace=NAMESPACE, type=LeaderWorkerSet)

    async def pods(self, name: str = "demo") -> dict[str, Pod]:
        """All pods of a LeaderWorkerSet by their names, terminating ones included."""
        page = await self.client.list_all(PODS, namespace=NAMESPACE, type=Pod, label_selector=f"{keys.NAME}={name}")
        return {pod.metadata.name: pod for pod in page.items}

    async def uids(self, name: str = "demo") -> dict[str, str]:
        return {pod.metadata.name: pod.metadata.uid for pod in (await self.pods(name)).values()}

    async def sets(self, name: str = "demo") -> dict[str, StatefulSet]:
        page = await self.client.list_all(
            STATEFULSETS, namespace=NAMESPACE, type=StatefulSet, label_selector=f"{keys.NAME}={name}"
        )
        return {found.metadata.name: found for found in page.items}

    async def revisions(self, name: str = "demo") -> list[ControllerRevision]:
        """The revisions of a LeaderWorkerSet; those of its StatefulSets carry the same labels."""
        page = await self.client.list_all(
            CONTROLLER_REVISIONS, namespace=NAMESPACE, type=ControllerRevision, label_selector=f"{keys.NAME}={name}"
        )
        return [found for found in page.items if (owner := found.metadata.controller) and owner.kind == LEADERWORKERSETS.kind]

    async def nodes(self) -> dict[str, Node]:
        return {node.metadata.name: node for node in (await self.client.list_all(NODES, type=Node)).items}

    async def condition(self, kind: str, name: str = "demo") -> Condition | None:
        return find_condition((await self.lws(name)).status.conditions, kind)

    async def events(self, reason: str = "") -> list[Event]:
        """What was told, oldest first."""
        page = await self.client.list_all(EVENTS, namespace=NAMESPACE, type=EventView)
        return [
            Event(
                reason=view.reason,
                type=view.type,
                note=view.note,
                count=int((view.series or {}).get("count", 1)),
                regarding=f"{(view.regarding or {}).get('kind')}/{(view.regarding or {}).get('name')}",
                related=f"{(view.related or {}).get('kind')}/{(view.related or {}).get('name')}",
            )
            for view in page.items
            if not reason or view.reason == reason
        ]

    async def exists(self, resource: Resource, name: str) -> bool:
        try:
            await self.client.get(resource, name, namespace=NAMESPACE)
        except NotFound:
            return False
        return True

    # -- waiting

    async def wait_for(self, predicate: Callable[[], Awaitable[Any] | Any], *, timeout: float = 60.0, what: str = "") -> Any:
        """Wait until the predicate gives something true, and give it back. Fails with ``what`` after ``timeout`` seconds."""
        end = self.clock.monotonic() + timeout
        while True:
            answer = predicate()
            value = await answer if inspect.isawaitable(answer) else answer
            if value:
                return value
            if self.clock.monotonic() >= end:
                raise AssertionError(f"not so within {timeout} s: {what or inspect.getsource(predicate).strip()[:300]}")
            await asyncio.sleep(_POLL)

    async def wait_available(self, name: str = "demo", *, timeout: float = 120.0) -> dict[str, str]:
        """Wait until all groups are ready; gives the UIDs of all pods by name."""

        async def available() -> bool:
            lws = await self.lws(name)
            condition = find_condition(lws.status.conditions, "Available")
            return (
                condition is not None
                and condition.status == "True"
                and condition.observed_generation == lws.metadata.generation
                and lws.status.ready_replicas == lws.spec.replicas
            )

        await self.wait_for(available, timeout=timeout, what=f"{name} is Available")
        return await self.uids(name)

    async def wait_recreated(
        self, old: Mapping[str, str], names: Sequence[str], *, name: str = "demo", timeout: float = 60.0
    ) -> dict[str, str]:
        """Wait until each of ``names`` is there with a UID that is not in ``old``, ready and not going."""

        async def recreated() -> bool:
            pods = await self.pods(name)
            return all(
                (pod := pods.get(one)) is not None
                and pod.metadata.uid != old.get(one)
                and pod.running_and_ready
                and not pod.deleting
                for one in names
            )

        await self.wait_for(recreated, timeout=timeout, what=f"{', '.join(names)} are recreated and ready")
        return await self.uids(name)

    # -- what the operator did

    def writes(self, *, since: int = 0) -> list[Recorded]:
        """Its writes from request number ``since`` on, events and leases apart."""
        return [entry for entry in self.requests[since:] if entry.writes]

    async def at_rest(self) -> int:
        """Wait until it writes nothing for a minute and more, or where time is real for as long as anything takes. Gives how many
        requests there were."""
        while True:
            mark = len(self.requests)
            for _ in range(3):
                await self.sleep(30)
            if not self.writes(since=mark):
                return len(self.requests)

    def deletions(self, *, since: int = 0) -> list[Recorded]:
        """Its deletions of single objects."""
        return [entry for entry in self.writes(since=since) if entry.request.method == "DELETE"]


async def ready_or_dead(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait for ``event``; the death of ``task`` ends the wait with its error."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; an error that it ended with is raised."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def lws_manifest(
    name: str = "demo",
    *,
    replicas: int = 1,
    size: int = 3,
    policy: str | None = "RecreateGroupOnPodRestart",
    template: Mapping[str, Any] | None = None,
    worker: Mapping[str, Any] | None = None,
    leader: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A LeaderWorkerSet. ``template`` adds to leaderWorkerTemplate, ``worker`` and ``leader`` are pod templates."""
    group: dict[str, Any] = {"size": size, "workerTemplate": dict(worker or pod_template())}
    if policy is not None:
        group["restartPolicy"] = policy
    group |= template or {}
    if leader is not None:
        group["leaderTemplate"] = dict(leader)
    return {
        "apiVersion": LEADERWORKERSETS.api_version,
        "kind": LEADERWORKERSETS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, **({"annotations": dict(annotations)} if annotations else {})},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": group, **spec},
    }


def pod_template(
    *,
    image: str = "worker:1",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    grace: int | None = None,
    container: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod template with one container ``main``."""
    body: dict[str, Any] = {"containers": [{"name": "main", "image": image, **(container or {})}], **spec}
    if grace is not None:
        body["terminationGracePeriodSeconds"] = grace
    meta: dict[str, Any] = {}
    if annotations:
        meta["annotations"] = dict(annotations)
    if labels:
        meta["labels"] = dict(labels)
    return {**({"metadata": meta} if meta else {}), "spec": body}


def group_names(group: int = 0, *, size: int = 3, name: str = "demo") -> list[str]:
    """The pods of a group: leader first."""
    return [f"{name}-{group}", *(f"{name}-{group}-{index}" for index in range(1, size))]
