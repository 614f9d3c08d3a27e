"""How fast does one watch fill the cache, compared with ``json.loads`` into dicts of the same bytes in the same run?

Both sides take the same chunks from memory: ours through client, reflector, store, three indexes and a handler; the baseline
only splits lines, decodes and puts the dict under its name. Best of three each, in CPU time.
"""

import asyncio
import gc
import json
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.load import INDEXERS, MemoryServer, events, pod_line
from benchmarks.report import Answer, Budget
from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.runtime.cache import Cache
from regroup.runtime.clock import LoopClock
from regroup.runtime.loop import run
from regroup.runtime.store import Change
from regroup.wire.client import Client

COUNT = 6000


async def _ours(chunks: Sequence[bytes]) -> float:
    server = MemoryServer([], version=1)
    clock = LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    cache = Cache(Client(server), clock=clock, rng=random.Random(1))
    informer = cache.informer(PODS, type=Pod, indexers=INDEXERS)
    keys: set[str] = set()
    done = asyncio.Event()

    def hear(change: Change[Pod]) -> None:
        keys.add(change.object.metadata.labels["leaderworkerset.sigs.k8s.io/group-key"])
        if len(informer.store) == COUNT:
            done.set()

    informer.add_handler(hear)
    task = asyncio.create_task(cache.run())
    await cache.wait_synced()
    gc.collect()
    began = time.thread_time()
    for chunk in chunks:
        server.send(chunk)
    await done.wait()
    seconds = time.thread_time() - began
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return seconds


def _dicts(chunks: Sequence[bytes]) -> float:
    store: dict[tuple[str, str], Any] = {}
    gc.collect()
    began = time.thread_time()
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            pod = json.loads(line)["object"]
            store[pod["metadata"]["namespace"], pod["metadata"]["name"]] = pod
    seconds = time.thread_time() - began
    if len(store) != COUNT:
        raise RuntimeError(f"the baseline took {len(store)} of {COUNT} pods")
    return seconds


def measure() -> Answer:
    pods = [pod_line(number, version=number + 2) for number in range(COUNT)]
    chunks = list(events(pods))
    ours = min(run(_ours(chunks)) for _ in range(3))
    dicts = min(_dicts(chunks) for _ in range(3))
    return Answer(
        question="ingest of pods over one watch, against json.loads into dicts",
        figures={
            "bytes_per_pod": sum(map(len, pods)) / COUNT,
            "ours_events_per_second": COUNT / ours,
            "dicts_events_per_second": COUNT / dicts,
            "ratio": dicts / ours,
        },
        budgets=(Budget("ratio", "at least", 8.0),),
    )
