"""An API server with our CRDs and webhooks, and the InferenceService controller on it, under virtual time.

Nobody runs the replicas here: a test writes their status with its own hands.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

from tests.runtime.edges_plane import Api, start_api

from regroup.kube.resources import CONFIGMAPS, CRDS, EVENTS, NAMESPACES, VALIDATING_WEBHOOKS
from regroup.omenative.admission import webhook
from regroup.omenative.api.schema import crds
from regroup.omenative.configuration.config import CONFIG_MAP
from regroup.omenative.controller.config import LiveConfig
from regroup.omenative.controller.service_setup import ServiceWiring
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES
from regroup.runtime.admission import AdmissionServer
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.webhooks import Reach, configuration
from regroup.sandbox.apifaults import Recorded
from regroup.wire.client import Client, Page
from regroup.wire.errors import NotFound

Object = dict[str, Any]

NS = "default"
HOME = "ome"
_HOST = "https://ome.test"
RECREATE = "RecreateInstanceOnPodRestart"


class Plane:
    """What a test does and sees."""

    def __init__(self, api: Api, client: Client) -> None:
        self.api = api
        self.client = client

    async def settle(self, seconds: float = 3.0) -> None:
        await asyncio.sleep(seconds)

    async def runtime(self, name: str = "srt", **spec: Any) -> Object:
        runner = {"runner": {"name": "ome-container", "image": "server:1", "ports": [{"containerPort": 8000, "name": "http"}]}}
        base: Object = {"engineConfig": runner, "decoderConfig": runner, "routerConfig": runner}
        body = {
            "apiVersion": "ome.io/v1beta1",
            "kind": "ClusterServingRuntime",
            "metadata": {"name": name},
            "spec": {**base, **spec},
        }
        found: Object = await self.client.create(CLUSTER_SERVING_RUNTIMES, body)
        return found

    async def service(self, name: str = "svc", *, metadata: Object | None = None, **spec: Any) -> Object:
        base: Object = {"deploymentMode": "OMENative", "runtime": {"name": "srt"}, "engine": {}}
        spec = {key: value for key, value in {**base, **spec}.items() if value is not ...}
        body = {
            "apiVersion": "ome.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": name, **(metadata or {})},
            "spec": spec,
        }
        found: Object = await self.client.create(INFERENCE_SERVICES, body, namespace=NS)
        return found

    async def patch(self, name: str = "svc", **changes: Any) -> None:
        await self.client.merge_patch(INFERENCE_SERVICES, name, changes, namespace=NS)

    async def replica(self, name: str = "svc-engine") -> Object | None:
        try:
            found: Object = await self.client.get(INFERENCE_REPLICAS, name, namespace=NS)
        except NotFound:
            return None
        return found

    async def serving(self, count: int, *, name: str = "svc-engine", **more: Any) -> None:
        """The replica's controller says how many Instances serve."""
        status = {"servingReplicas": count, "replicas": 1, "observedGeneration": 1, **more}
        await self.client.merge_patch(INFERENCE_REPLICAS, name, {"status": status}, namespace=NS, subresource="status")

    async def conditions(self, name: str = "svc") -> dict[str, tuple[str, str, str]]:
        found: Object = await self.client.get(INFERENCE_SERVICES, name, namespace=NS)
        listed = found.get("status", {}).get("conditions", [])
        return {one["type"]: (one["status"], one["reason"], one["message"]) for one in listed}

    async def events(self) -> list[tuple[str, str, str]]:
        page: Page[Object] = await self.client.list_all(EVENTS, namespace=NS)
        return sorted((one["reason"], one["type"], one["note"]) for one in page.items)

    async def config(self, **parts: Any) -> None:
        data = {key: json.dumps(value) for key, value in parts.items()}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": data}
        await self.client.apply(CONFIGMAPS, CONFIG_MAP, body, namespace=HOME)

    def asked(self, *, writes: bool = True) -> list[Recorded]:
        """The operator's own requests since ``forget``, events apart."""
        found = [one for one in self.api.asked(writes=writes) if one.user_agent.startswith("regroup")]
        return [one for one in found if one.resource not in {"events", "configmaps"} and one.verb != "watch"]

    def forget(self) -> None:
        self.api.faults.record().clear()


@asynccontextmanager
async def plane(*, config: Object | None = None) -> AsyncIterator[Plane]:
    """A plane whose controller runs until the end of the block."""
    admission = AdmissionServer()
    webhook.register(admission)

    async def call(url: str, body: bytes, ca_bundle: bytes | None, timeout: float) -> bytes:
        return await admission.handle(url.removeprefix(_HOST), body)

    api = await start_api(webhook_caller=call)
    hands = Plane(api, api.client)
    await api.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    for one in crds():
        await api.client.create(CRDS, one)
    entries = webhook.webhooks(Reach(url=_HOST))
    await api.client.create(VALIDATING_WEBHOOKS, configuration("Validating", name="regroup", webhooks=entries))
    if config is not None:
        await hands.config(**config)
    client = api.new_client("regroup")
    live = LiveConfig(client, namespace=HOME, clock=api.clock, rng=Random(1))
    await live.load()
    manager = Manager(client, clock=api.clock, rng=Random(1))
    recorder = EventRecorder(client, component="omenative", instance="test", clock=api.clock)
    wiring = ServiceWiring(manager, recorder=recorder, live=lambda: live.settings.live, workers=2)
    live.on_change(wiring.wake_all)
    manager.add(recorder.run, name="events")
    manager.add(live.run, name="configuration")
    life = asyncio.create_task(manager.run())
    ready = asyncio.create_task(manager.ready.wait())
    await asyncio.wait({life, ready}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if life.done():
            life.result()
        yield hands
        if life.done():
            life.result()
    finally:
        life.cancel()
        ready.cancel()
        with suppress(asyncio.CancelledError):
            await life
