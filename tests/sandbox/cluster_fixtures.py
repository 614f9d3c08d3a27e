"""A whole cluster under virtual time, for tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from regroup.kube.resources import NODES, PODS
from regroup.runtime.clock import LoopClock
from regroup.sandbox.cluster import Cluster
from regroup.sandbox.kubelet.options import KubeletOptions
from regroup.wire.client import Client
from regroup.wire.errors import NotFound
from regroup.wire.resource import Resource

T = TypeVar("T")
START = datetime(2026, 1, 1, tzinfo=UTC)
QUICK = KubeletOptions(pull_time=0.05, init_time=0.05, start_delay=0.05, ready_delay=0.05, stop_delay=0.05)


@asynccontextmanager
async def running(
    *, nodes: int = 2, kubelet: KubeletOptions = QUICK, data_dir: Path | None = None, start: datetime = START
) -> AsyncIterator[Cluster]:
    """A cluster that is ready; stopped at the end."""
    cluster = Cluster(clock=LoopClock(start=start), rng=Random(1), nodes=nodes, kubelet=kubelet, data_dir=data_dir)
    task = asyncio.create_task(cluster.run())
    ready = asyncio.create_task(cluster.ready.wait())
    done, _ = await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    if task in done:
        ready.cancel()
        task.result()
    try:
        yield cluster
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task  # A part that has died fails the test.


async def eventually(look: Callable[[], Awaitable[T | None]], *, within: float = 30.0, every: float = 0.05) -> T:
    """What ``look`` gives once it gives something true. Raises ``TimeoutError`` after ``within`` seconds of the loop's time."""
    async with asyncio.timeout(within):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(every)


def pod_body(name: str, **fields: Any) -> dict[str, Any]:
    """A pod of one container ``main``; ``annotations`` without their prefix, everything else into its spec."""
    annotations = {f"sandbox.regroup.dev/{key}": value for key, value in fields.pop("annotations", {}).items()}
    spec = {"containers": [{"name": "main", "image": "example.com/main:1"}], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


class Pods:
    """Pods of the namespace ``default``, as dicts."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, name: str, **fields: Any) -> dict[str, Any]:
        return await self.client.create(PODS, pod_body(name, **fields), namespace="default")

    async def get(self, name: str) -> dict[str, Any]:
        return await self.client.get(PODS, name, namespace="default")

    async def delete(self, name: str, *, grace: int | None = None) -> None:
        await self.client.delete(PODS, name, namespace="default", grace_period_seconds=grace)

    async def until(self, name: str, holds: Callable[[dict[str, Any]], Any], *, within: float = 30.0) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            pod = await self.get(name)
            return pod if holds(pod) else None

        return await eventually(look, within=within)

    async def until_ready(self, name: str, *, within: float = 30.0) -> dict[str, Any]:
        return await self.until(name, lambda pod: condition(pod, "Ready")[0] == "True", within=within)

    async def until_gone(self, name: str, *, within: float = 60.0) -> None:
        async def look() -> bool:
            try:
                await self.get(name)
            except NotFound:
                return True
            return False

        await eventually(look, within=within)


async def items(client: Client, resource: Resource, *, namespace: str | None = None) -> list[dict[str, Any]]:
    """All objects of a kind as dicts."""
    return (await client.list_all(resource, namespace=namespace, type=dict[str, Any])).items


def condition(obj: dict[str, Any], kind: str) -> tuple[str, str]:
    """Status and reason of a condition; empty texts when it is not there."""
    for entry in obj.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry["status"], entry.get("reason", "")
    return "", ""


def container(pod: dict[str, Any], name: str = "main") -> dict[str, Any]:
    """The status of a container; empty before there is one."""
    for entry in pod.get("status", {}).get("containerStatuses", []):
        if entry["name"] == name:
            return dict(entry)
    return {"restartCount": 0, "state": {}, "lastState": {}}


async def node(client: Client, name: str) -> dict[str, Any]:
    return await client.get(NODES, name)


def taints(node: dict[str, Any]) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", [])}
