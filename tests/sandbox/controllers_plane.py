"""An API server with built-in controllers and no kubelets: the tests play the kubelets by hand, under virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.sandbox.controllers_fixtures import NOW

from regroup.kube.resources import NAMESPACES, PODS
from regroup.runtime.clock import LoopClock, timestamp
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.sandbox.apiserver.server import ApiServer
from regroup.wire.client import Client, Page
from regroup.wire.errors import AlreadyExists, NotFound
from regroup.wire.resource import Resource
from regroup.wire.transport import Request, Response, Stream, Transport

Setup = Callable[..., None]


@dataclass
class Recorded:
    """A transport that remembers the writes that went through it."""

    inner: Transport
    writes: list[str] = field(default_factory=list)

    async def request(self, request: Request, *, timeout: float) -> Response:
        if request.method != "GET" and "/events" not in request.path:
            self.writes.append(f"{request.method} {request.path}")
        return await self.inner.request(request, timeout=timeout)

    def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AbstractAsyncContextManager[Stream]:
        return self.inner.stream(request, connect_timeout=connect_timeout, read_timeout=read_timeout)

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class Plane:
    """A running control plane, and hands for a test."""

    server: ApiServer
    client: Client
    recorded: Recorded
    clock: LoopClock

    def writes(self) -> list[str]:
        """The controllers' writes since the last call, without the common beginning of their paths."""
        taken = [entry.replace("/api/v1/namespaces/default/", "").replace("/apis/apps/v1/namespaces/default/", "")
                 for entry in self.recorded.writes]  # fmt: skip
        self.recorded.writes.clear()
        return taken

    async def settle(self, seconds: float = 1.0) -> None:
        """Let the controllers work."""
        await asyncio.sleep(seconds)

    async def get(self, resource: Resource, name: str, *, namespace: str | None = "default") -> dict[str, Any]:
        return await self.client.get(resource, name, namespace=namespace)

    async def find(self, resource: Resource, name: str, *, namespace: str | None = "default") -> dict[str, Any] | None:
        """The object, or None when there is none."""
        with suppress(NotFound):
            return await self.client.get(resource, name, namespace=namespace)
        return None

    async def names(self, resource: Resource, *, namespace: str | None = "default") -> list[str]:
        return sorted(entry["metadata"]["name"] for entry in await self.list(resource, namespace=namespace))

    async def list(self, resource: Resource, *, namespace: str | None = "default") -> list[dict[str, Any]]:
        page: Page[dict[str, Any]] = await self.client.list_all(resource, namespace=namespace)
        return page.items

    async def create(self, resource: Resource, body: dict[str, Any], *, namespace: str | None = "default") -> dict[str, Any]:
        return await self.client.create(
            resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body}, namespace=namespace
        )

    async def pod_status(self, name: str, *, phase: str = "Running", ready: bool = True, ip: str = "10.0.0.1") -> None:
        """What a kubelet would report."""
        now = timestamp(self.clock.now())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now}
        status = {"phase": phase, "conditions": [condition], "podIP": ip}
        await self.client.merge_patch(PODS, name, {"status": status}, namespace="default", subresource="status")

    async def finish(self, name: str) -> None:
        """A kubelet has stopped the pod: its last deletion, without grace."""
        await self.client.delete(PODS, name, namespace="default", grace_period_seconds=0)


@asynccontextmanager
async def control_plane(*setups: Setup, server: ApiServer | None = None) -> AsyncIterator[Plane]:
    """A server whose controllers are those of ``setups``; with ``server``, new controllers on one that ran before."""
    clock = LoopClock(start=NOW)
    clock.now()
    rng = Random(7)
    server = server or ApiServer(clock=clock, rng=rng)
    recorded = Recorded(server.transport())
    client = Client(server.transport(), user_agent="test", rng=rng)
    ours = Client(recorded, user_agent="kube-controller-manager", rng=rng)
    manager = Manager(ours, clock=clock, rng=rng)
    recorder = EventRecorder(ours, component="controllers", instance="test", clock=clock)
    for setup in setups:
        setup(manager, recorder=recorder)
    manager.add(recorder.run, name="events")
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    running = asyncio.create_task(manager.run())
    try:
        ready = asyncio.create_task(manager.ready.wait())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            ready.cancel()
            await running
        yield Plane(server, client, recorded, clock)
    finally:
        if running.done() and not running.cancelled():
            running.result()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await ours.close()
        await client.close()
