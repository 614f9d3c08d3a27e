"""The sandbox as a plane: everything in this process, over the in-process transport, under virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

from tests.planes.plane import NAMESPACE, Plane, Recorded, end, ready_or_dead

from regroup.kube.resources import CONFIGMAPS, CRDS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from regroup.leaderworkerset.admission import webhook
from regroup.leaderworkerset.controller.setup import Settings, setup
from regroup.omenative.admission import webhook as ome_webhook
from regroup.omenative.controller import setup as ome_setup
from regroup.omenative.controller.config import LiveConfig
from regroup.operator import manifests
from regroup.operator.manifests import ManifestOptions
from regroup.operator.webhooks import configurations
from regroup.runtime.admission import AdmissionServer
from regroup.runtime.clock import LoopClock
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.metrics import Metrics
from regroup.sandbox.apiserver.webhooks import WebhookFailed
from regroup.sandbox.cluster import Cluster
from regroup.sandbox.faults import Faults
from regroup.wire.client import Client
from regroup.wire.errors import ConnectionFailed
from regroup.wire.transport import Request, Response, Stream, Transport

START = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
_HOST = "https://regroup-webhook.test"


class SandboxPlane(Plane):
    """A sandbox cluster and one operator, both deterministic."""

    def __init__(self, *, nodes: int = 6, seed: int = 1, settings: Settings | None = None) -> None:
        super().__init__(clock=LoopClock(start=START))
        self._rng = random.Random(seed)
        self._settings = settings or Settings()
        self.admission = AdmissionServer()
        webhook.register(self.admission, provider=self._settings.scheduler_provider)
        ome_webhook.register(self.admission)
        self.cluster = Cluster(clock=self.clock, rng=self._rng, nodes=nodes, webhook_caller=self._call_webhook)
        self._cluster: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._cluster = asyncio.create_task(self.cluster.run(), name="cluster")
        await ready_or_dead(self.cluster.ready, self._cluster)
        self.client = self.cluster.client("kubectl")
        self.faults = Faults(self.client, clock=self.clock)
        await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for crd in manifests.crds(ManifestOptions()):
            await self.client.create(CRDS, crd)
        for settings in manifests.settings(ManifestOptions(namespace=NAMESPACE)):
            await self.client.create(CONFIGMAPS, settings, namespace=NAMESPACE)
        for body in configurations(url=_HOST):
            resource = MUTATING_WEBHOOKS if body["kind"] == MUTATING_WEBHOOKS.kind else VALIDATING_WEBHOOKS
            await self.client.create(resource, body)
        await self.start_operator()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop_operator()
        if self._cluster is not None:
            await end(self._cluster)

    def set_settings(self, settings: Settings) -> None:
        """For the operator that is started next; the webhooks stay as they are."""
        self._settings = settings

    async def start_operator(self) -> None:
        client = Client(RecordingTransport(self.way_to_server(), self), user_agent="regroup")
        self.manager = manager = Manager(client, clock=self.clock, rng=self._rng)
        recorder = EventRecorder(client, component="leaderworkerset", instance="test", clock=self.clock)
        manager.add(recorder.run, name="events")
        self.metrics = Metrics()
        self.wiring = setup(manager, recorder=recorder, settings=self._settings, metrics=self.metrics, rng=self._rng)
        config = LiveConfig(client, namespace=NAMESPACE, clock=self.clock, rng=self._rng)
        await config.load()
        ome_recorder = EventRecorder(client, component="ome-controller-manager", instance="test", clock=self.clock)
        manager.add(ome_recorder.run, name="events of OMENative")
        ome_setup.setup(manager, recorder=ome_recorder, config=config, metrics=self.metrics)
        self._operator = asyncio.create_task(manager.run(), name="operator")
        await ready_or_dead(manager.ready, self._operator)

    def way_to_server(self) -> Transport:
        """The operator's transport, before it is recorded and disturbed."""
        return self.cluster.transport()

    async def _call_webhook(self, url: str, body: bytes, ca_bundle: bytes | None, timeout: float) -> bytes:
        if not self.line.webhooks:
            raise WebhookFailed(f'Post "{url}": connection refused')
        return await self.admission.handle(url.removeprefix(_HOST), body)


class RecordingTransport:
    """The operator's line to the API server: notes what was asked, and disturbs what the suite wants disturbed."""

    def __init__(self, inner: Transport, plane: Plane) -> None:
        self._inner = inner
        self._plane = plane

    async def request(self, request: Request, *, timeout: float) -> Response:
        plane, line = self._plane, self._plane.line
        entry = Recorded(plane.clock.monotonic(), request, 0)
        if entry.writes:
            await plane.stand_still(answered=False)
        place = len(plane.requests)
        plane.requests.append(entry)
        if line.delay:
            await asyncio.sleep(line.delay)
        made_up = line.answer(request)
        response = made_up if made_up is not None else await self._inner.request(request, timeout=timeout)
        plane.requests[place] = replace(entry, status=response.status)
        if entry.writes:
            await plane.stand_still(answered=True)
        return line.rewrite(request, response)

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        made_up = self._plane.line.answer(request)
        if made_up is not None:
            yield _Answered(made_up)
            return
        async with self._inner.stream(request, connect_timeout=connect_timeout, read_timeout=read_timeout) as stream:
            yield _Disturbed(stream, self._plane, path=request.path, read_timeout=read_timeout)

    async def close(self) -> None:
        await self._inner.close()


class _Answered:
    """A stream that turned out to be one whole answer."""

    def __init__(self, response: Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._response.body

    async def read(self) -> bytes:
        return self._response.body


class _Disturbed:
    """A watch on a line that may be held up or dead."""

    def __init__(self, inner: Stream, plane: Plane, *, path: str, read_timeout: float) -> None:
        self._inner = inner
        self._path = path
        self._line = plane.line
        self._read_timeout = read_timeout
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner.chunks():
            if self._line.cut:
                raise ConnectionFailed("cut by the test")
            if self._line.dead:
                # What a real socket does: silence, until the reader's own limit.
                await asyncio.sleep(self._read_timeout)
                raise ConnectionFailed("nothing came for the read time limit")
            await self._line.flowing.wait()
            if self._line.held and self._line.held in self._path:
                await self._line.let_go.wait()
            yield chunk

    async def read(self) -> bytes:
        return await self._inner.read()
