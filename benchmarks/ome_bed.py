"""Where OMENative is measured without a real control plane: the sandbox in virtual time, with the operator metered."""

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from tests.planes.ome_hands import gang_runtime, runtime_manifest, service_manifest
from tests.planes.plane import NAMESPACE, Recorded
from tests.planes.sandbox_plane import SandboxPlane

from benchmarks.memory import resident
from benchmarks.meter import Meter, MeteredTransport
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.controller import setup as ome_setup
from regroup.omenative.controller.config import LiveConfig
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.wire.client import Client
from regroup.wire.transport import Transport

ROOM = 100
"""Pods that a node has room for."""
QUIET = 15.0
"""Seconds after which the operator has written all that it holds back: figures that nobody waits for wait for 10."""
SINGLE = "single"


@dataclass(frozen=True, slots=True)
class Cost:
    """What the operator did in a stretch of time."""

    writes: Sequence[Recorded]
    """Without events and leases."""
    reads: int
    """Requests that read, watches apart."""
    events: int
    cpu: float
    seen: int
    """Objects that its watches brought."""

    @property
    def conflicts(self) -> int:
        return sum(entry.status == 409 for entry in self.writes)

    @property
    def refused(self) -> int:
        return sum(not 200 <= entry.status < 300 for entry in self.writes)

    def statuses(self, plural: str = INFERENCE_REPLICAS.plural) -> list[Recorded]:
        """Status writes of one kind."""
        return [entry for entry in self.writes if f"/{plural}/" in entry.request.path and entry.request.path.endswith("/status")]

    def kinds(self) -> Mapping[str, int]:
        """How often which kind of object was written: for people who look into a figure."""
        return Counter(_kind(entry) for entry in self.writes)


class OmeBed(SandboxPlane):
    """``async with OmeBed(pods=...) as bed:`` is one measurement's world."""

    def __init__(self, *, pods: int) -> None:
        super().__init__(nodes=2 + pods // ROOM)
        self.meter = Meter()
        self._installed = ExitStack()

    async def __aenter__(self) -> Self:
        self._installed.enter_context(self.meter.installed(asyncio.get_running_loop()))
        return await super().__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        try:
            await super().__aexit__(*exc)
        finally:
            self._installed.close()

    async def start_operator(self) -> None:
        with self.meter.inside():
            await super().start_operator()

    def way_to_server(self) -> Transport:
        return MeteredTransport(super().way_to_server(), self.meter)

    async def _call_webhook(self, url: str, body: bytes, ca_bundle: bytes | None, timeout: float) -> bytes:
        return await self.meter.ours(super()._call_webhook(url, body, ca_bundle, timeout))

    # -- doing

    async def runtime(self, pods: int) -> str:
        """Apply a runtime whose Instances have so many pods; gives its name."""
        name = SINGLE if pods == 1 else f"gang-of-{pods}"
        body = runtime_manifest(name) if pods == 1 else gang_runtime(name, workers=pods - 1)
        await self.client.apply(CLUSTER_SERVING_RUNTIMES, name, body, field_manager="kubectl")
        return name

    async def services(
        self,
        names: Sequence[str],
        *,
        instances: int,
        pods: int,
        policy: str | None = None,
        lifecycle: Mapping[str, Any] | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        """Apply services of so many Instances of so many pods, and wait until all are Ready."""
        runtime = await self.runtime(pods)
        for name in names:
            manifest = service_manifest(
                name, runtime=runtime, instances=instances, policy=policy, lifecycle=lifecycle, engine=engine
            )
            await self.client.apply(INFERENCE_SERVICES, name, manifest, namespace=NAMESPACE, field_manager="kubectl")
        await self.until_ready(len(names) * instances, of=set(names))

    async def settle(self) -> None:
        """Wait until the operator has written all that it holds back."""
        await asyncio.sleep(QUIET)

    # -- looking

    async def replicas(self) -> Sequence[InferenceReplica]:
        return (await self.client.list_all(INFERENCE_REPLICAS, namespace=NAMESPACE, type=InferenceReplica)).items

    async def until_ready(self, instances: int, *, of: set[str] | None = None, timeout: float = 3600.0) -> None:
        """Wait until so many Instances serve."""

        async def ready() -> bool:
            found = [one for one in await self.replicas() if of is None or one.service_name in of]
            return sum(one.status.ready_replicas for one in found) == instances

        await self.until(ready, timeout=timeout, what=f"{instances} Instances are Ready")

    async def until(self, so: Callable[[], Awaitable[bool]], *, timeout: float, what: str) -> None:
        """Look every second until it is so: what hundreds of Instances do is read whole at each look."""
        end = self.clock.monotonic() + timeout
        while not await so():
            if self.clock.monotonic() >= end:
                raise AssertionError(f"not so within {timeout:g} s: {what}")
            await asyncio.sleep(1)

    def mark(self) -> tuple[int, float, int]:
        """Now; ``since`` gives what the operator did from then on."""
        return len(self.requests), self.meter.seconds, self._seen()

    def since(self, mark: tuple[int, float, int]) -> Cost:
        place, cpu, seen = mark
        asked = self.requests[place:]
        reads = [entry for entry in asked if entry.request.method == "GET" and ("watch", "true") not in entry.request.query]
        told = [entry for entry in asked if entry.request.method != "GET" and "/events" in entry.request.path]
        return Cost(
            writes=[entry for entry in asked if entry.writes],
            reads=len(reads),
            events=len(told),
            cpu=self.meter.seconds - cpu,
            seen=self._seen() - seen,
        )

    def _seen(self) -> int:
        return sum(one.events for kind in self.manager.cache.statistics() for one in kind.reflectors)

    async def memory_of_an_operator(self) -> float:
        """MiB that the caches of another operator take: one is started beside the first, and looks only."""
        gc.collect()
        before = resident()
        client = Client(super().way_to_server(), user_agent="second")
        manager = Manager(client, clock=self.clock, rng=random.Random(2))
        recorder = EventRecorder(client, component="second", instance="test", clock=self.clock)
        config = LiveConfig(client, namespace=NAMESPACE, clock=self.clock, rng=random.Random(2))
        await config.load()
        ome_setup.setup(manager, recorder=recorder, config=config)
        task = asyncio.create_task(manager.cache.run())
        await manager.cache.wait_synced()
        gc.collect()
        grown = resident() - before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return grown / 2**20


def _kind(entry: Recorded) -> str:
    parts = entry.request.path.rstrip("/").split("/")
    place = parts.index("namespaces") + 2 if "namespaces" in parts else len(parts) - 1
    status = "/status" if parts[-1] == "status" else ""
    return f"{entry.request.method} {parts[place] if place < len(parts) else parts[-1]}{status} {entry.status}"
