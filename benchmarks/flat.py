"""Does an event cost the same whether there are 1,000 groups or 10,000?

Events come over the watch, through store, three indexes and a mapping, to a controller that looks at the pod's group by an index.
A round is an event on one pod of each of 500 groups chosen at random, so that no look answers for two events. CPU time per event,
from the first byte to the last look; best of sixty rounds for each size.
"""

import asyncio
import gc
import random
import time
from datetime import UTC, datetime

from benchmarks.load import GROUP_SIZE, INDEXERS, LazyPods, MemoryServer, events, pod_line
from benchmarks.report import Answer, Budget
from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.runtime.clock import LoopClock
from regroup.runtime.controller import Controller, Result
from regroup.runtime.loop import run
from regroup.runtime.manager import Manager
from regroup.wire.client import Client

FEW, MANY = 1000, 10_000
EVENTS = 500
ROUNDS = 60


async def _cost(groups: int) -> float:
    """CPU seconds of one event with so many groups."""
    pods = groups * GROUP_SIZE
    server = MemoryServer(LazyPods(pods), version=pods + 2)
    manager = Manager(Client(server), clock=LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC)), rng=random.Random(1))
    informer = manager.cache.informer(PODS, type=Pod, indexers=INDEXERS)

    async def look(key: str) -> Result:
        ready = sum(pod.ready for pod in informer.store.index("group", key))
        return Result() if ready == GROUP_SIZE else Result(requeue_after=1.0)

    controller = Controller("groups", look, clock=manager.clock)
    controller.watches(informer, lambda change: [change.object.metadata.labels["leaderworkerset.sigs.k8s.io/group-key"]])
    manager.add_controller(controller)
    task = asyncio.create_task(manager.run())
    await manager.ready.wait()
    reflector, queue = informer.reflectors[0], controller.queue

    async def settled(seen: int) -> None:
        while reflector.statistics().events < seen or queue.statistics().ready or queue.statistics().processing:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await settled(0)
    rng = random.Random(2)
    version, best = pods + 3, float("inf")
    for turn in range(ROUNDS):
        chosen = [group * GROUP_SIZE + rng.randrange(GROUP_SIZE) for group in rng.sample(range(groups), EVENTS)]
        changed = [pod_line(number, version=version + position) for position, number in enumerate(chosen)]
        version += EVENTS
        pieces = list(events(changed, kind="MODIFIED"))
        gc.collect()
        began = time.thread_time()
        for piece in pieces:
            server.send(piece)
        await settled((turn + 1) * EVENTS)
        best = min(best, (time.thread_time() - began) / EVENTS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return best


def measure() -> Answer:
    few, many = run(_cost(FEW)), run(_cost(MANY))
    return Answer(
        question="cost of an event as groups grow ten times",
        figures={"few_us": few * 1e6, "many_us": many * 1e6, "ratio": many / few},
        budgets=(Budget("ratio", "at most", 1.2),),
    )
