"""How long is the event loop held up at most, with 20,000 pods and a relist in which every one of them has changed?

A task that asks for its turn without pause notes the longest time between two turns, in CPU time of the thread, so that other
processes of the machine do not count: first list, relist with every object changed, relist with none changed; by a streamed list
and by pages. Handlers feed a controller that looks at each group.
"""

import asyncio
import gc
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from benchmarks.load import INDEXERS, MemoryServer, pod_line
from benchmarks.report import Answer, Budget
from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.runtime.clock import LoopClock
from regroup.runtime.controller import Controller, Result
from regroup.runtime.loop import run
from regroup.runtime.manager import Manager
from regroup.wire.client import Client

COUNT = 20_000


@dataclass
class _Turns:
    """The longest time between two turns since the last ``reset``."""

    longest: float = 0.0
    _last: float = field(default_factory=time.thread_time)

    def reset(self) -> None:
        self.longest, self._last = 0.0, time.thread_time()

    async def watch(self) -> None:
        while True:
            now = time.thread_time()
            self.longest = max(self.longest, now - self._last)
            self._last = now
            await asyncio.sleep(0)


async def _run(*, streams_lists: bool, first: list[bytes], changed: list[bytes]) -> dict[str, float]:
    server = MemoryServer(first, version=COUNT + 2, streams_lists=streams_lists)
    manager = Manager(Client(server), clock=LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC)), rng=random.Random(1))
    informer = manager.cache.informer(PODS, type=Pod, indexers=INDEXERS)
    reflector = informer.reflectors[0]

    async def look(key: str) -> Result:
        pods = informer.store.index("group", key)
        return Result() if all(pod.ready for pod in pods) else Result(requeue_after=1.0)

    controller = Controller("groups", look, clock=manager.clock)
    controller.watches(informer, lambda change: [change.object.metadata.labels["leaderworkerset.sigs.k8s.io/group-key"]])
    manager.add_controller(controller)
    gc.collect()
    turns = _Turns()
    tasks = [asyncio.create_task(manager.run()), asyncio.create_task(turns.watch())]
    stalls: dict[str, float] = {}

    async def settle(name: str, lists: int) -> None:
        while reflector.statistics().lists < lists or controller.queue.statistics().ready:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.05)
        stalls[name] = turns.longest * 1000
        gc.collect()
        turns.reset()

    await manager.ready.wait()
    await settle("first_list_ms", 1)
    server.fill(changed, version=2 * COUNT + 4)
    turns.reset()
    server.expire()
    await settle("changed_relist_ms", 2)
    server.expire()
    await settle("unchanged_relist_ms", 3)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return stalls


def measure() -> Answer:
    first = [pod_line(number, version=number + 2) for number in range(COUNT)]
    changed = [pod_line(number, version=COUNT + number + 3) for number in range(COUNT)]
    figures: dict[str, float] = {}
    for name, streams_lists in (("streamed", True), ("paged", False)):
        for stall, milliseconds in run(_run(streams_lists=streams_lists, first=first, changed=changed)).items():
            figures[f"{name}_{stall}"] = milliseconds
    figures["longest_ms"] = max(figures.values())
    return Answer(
        question="longest stall of the event loop with 20,000 pods and a relist",
        figures=figures,
        budgets=(Budget("longest_ms", "at most", 20.0),),
    )
