"""How much memory does a cached pod take, with three indexes?

The growth of the process's resident memory while 20,000 pods are listed, of which nothing but the cache remains.
"""

import asyncio
import gc
import random
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.load import INDEXERS, LazyPods, MemoryServer
from benchmarks.report import Answer, Budget
from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.runtime.cache import Cache
from regroup.runtime.clock import LoopClock
from regroup.runtime.loop import run
from regroup.wire.client import Client

COUNT = 20_000
WARM = 200


def resident() -> int:
    """Bytes of this process in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS: this is measured on Linux only")


async def _fill(count: int) -> tuple[int, float]:
    """Bytes that the cache of ``count`` pods adds, and the seconds of one full garbage collection beside it."""
    clock = LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    cache = Cache(Client(MemoryServer(LazyPods(count), version=count + 2)), clock=clock, rng=random.Random(1))
    informer = cache.informer(PODS, type=Pod, indexers=INDEXERS)
    gc.collect()
    before = resident()
    task = asyncio.create_task(cache.run())
    await cache.wait_synced()
    began = time.perf_counter()
    gc.collect()
    collection = time.perf_counter() - began
    after = resident()
    if len(informer.store) != count:
        raise RuntimeError(f"{len(informer.store)} of {count} pods are there")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return after - before, collection


def measure() -> Answer:
    run(_fill(WARM))
    size, collection = run(_fill(COUNT))
    return Answer(
        question="memory of a cached pod",
        figures={"kib_per_pod": size / COUNT / 1024, "full_collection_ms": collection * 1000},
        budgets=(Budget("kib_per_pod", "at most", 6.0),),
    )
