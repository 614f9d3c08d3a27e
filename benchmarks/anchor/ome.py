"""InferenceServices on the bed: made, broken, and what their replicas' statuses said on the way."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.planes.ome_hands import gang_runtime, runtime_manifest, service_manifest
from tests.planes.plane import NAMESPACE

from benchmarks.anchor.bed import Bed
from regroup.kube.resources import PODS
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.row import READY, RESTARTING
from regroup.omenative.keys import (
    CLUSTER_SERVING_RUNTIMES,
    DEFAULT_RUNNER,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    MAIN_CONTAINER,
)
from regroup.runtime.clock import timestamp


def pod_name(service: str, index: int, *, runner: str = DEFAULT_RUNNER, ordinal: int = 0) -> str:
    return f"{service}-engine-{index}-{runner}-{ordinal}"


async def make(
    bed: Bed,
    names: Sequence[str],
    *,
    instances: int,
    pods: int,
    policy: str | None = None,
    lifecycle: Mapping[str, Any] | None = None,
    leaders: bool = False,
) -> None:
    """Apply services of so many Instances of so many pods, and wait until all serve. ``leaders``: requests go to leaders only."""
    runtime = "single" if pods == 1 else f"gang-of-{pods}"
    body = runtime_manifest(runtime) if pods == 1 else gang_runtime(runtime, workers=pods - 1)
    await bed.client.apply(CLUSTER_SERVING_RUNTIMES, runtime, body, field_manager="kubectl")
    engine = {"leader": {}, "worker": {"size": pods - 1}} if leaders else None
    for name in names:
        manifest = service_manifest(name, runtime=runtime, instances=instances, policy=policy, lifecycle=lifecycle, engine=engine)
        await bed.client.apply(INFERENCE_SERVICES, name, manifest, namespace=NAMESPACE, field_manager="kubectl")
    await until_ready(bed, names, instances=instances)


async def until_ready(
    bed: Bed,
    names: Sequence[str],
    *,
    instances: int,
    incarnation: int = 1,
    only: frozenset[int] | None = None,
    timeout: float = 900.0,
) -> None:
    """Wait until all Instances serve, and those of ``only`` (all) have at least that incarnation."""
    end = time.monotonic() + timeout
    while not await _ready(bed, set(names), instances=instances, incarnation=incarnation, only=only):
        bed.check()
        if time.monotonic() > end:
            raise AssertionError(f"not ready within {timeout:g} s: {', '.join(names)[:200]}")
        await asyncio.sleep(0.5)


async def _ready(bed: Bed, names: set[str], *, instances: int, incarnation: int, only: frozenset[int] | None) -> bool:
    found = (await bed.client.list_all(INFERENCE_REPLICAS, namespace=NAMESPACE, type=InferenceReplica)).items
    mine = [one for one in found if one.service_name in names]
    rows = [row for one in mine for row in one.status.rows]
    done = all(row.phase == READY and (row.incarnation >= incarnation or (only and row.index not in only)) for row in rows)
    return len(rows) == len(names) * instances and done and sum(one.status.ready_replicas for one in mine) == len(rows)


async def wedge(bed: Bed, pod: str) -> None:
    """Report that the main container of ``pod`` waits in CrashLoopBackOff, as its kubelet would."""
    now = timestamp(datetime.now(UTC))
    ended = {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}
    entry = {
        "name": MAIN_CONTAINER,
        "image": "server:1",
        "imageID": "server:1",
        "ready": False,
        "started": False,
        "restartCount": 5,
        "state": {"running": None, "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s"}},
        "lastState": {"terminated": ended},
    }
    unready = [{"type": kind, "status": "False", "lastTransitionTime": now} for kind in ("Ready", "ContainersReady")]
    patch = {"status": {"containerStatuses": [entry], "conditions": unready}}
    await bed.client.strategic_patch(PODS, pod, patch, namespace=NAMESPACE, subresource="status")


class Story:
    """Every version of the replicas' statuses, as a watch tells them."""

    def __init__(self) -> None:
        self.most_out = self.most_opened = self.opened = 0
        self._known: dict[str, dict[int, int]] = {}

    def take(self, replica: InferenceReplica) -> None:
        now = {row.index: row.incarnation for row in replica.status.rows}
        before = self._known.setdefault(replica.name, now)
        new = sum(incarnation > before.get(index, 1) for index, incarnation in now.items())
        self._known[replica.name] = now
        self.opened += new
        self.most_opened = max(self.most_opened, new)
        self.most_out = max(self.most_out, sum(row.phase == RESTARTING for row in replica.status.rows))


@asynccontextmanager
async def watched(bed: Bed) -> AsyncIterator[Story]:
    """The story of all replicas from here on."""
    story, begun = Story(), asyncio.Event()

    async def follow() -> None:
        async with bed.client.watch(
            INFERENCE_REPLICAS,
            type=InferenceReplica,
            namespace=NAMESPACE,
            timeout_seconds=3600,
            read_timeout=3600.0,
            send_initial_events=True,
        ) as events:
            async for event in events:
                if event.object is not None and event.type != "BOOKMARK":
                    story.take(event.object)
                else:
                    begun.set()

    task = asyncio.create_task(follow())
    await asyncio.wait({task, asyncio.create_task(begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield story
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
