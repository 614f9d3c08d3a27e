"""Does an event cost the same whether there are 1,000 groups or 10,000?

Events come over the watch, through store, three indexes and a mapping, to a controller that looks at the pod's group by an index.
A round is an event on one pod of each of 500 groups chosen at random, so that no look answers for two events. Both sizes live in
one process and take turns, so that whatever else the machine does meets both, and neither finds the CPU's caches warm from its
own last round (measured alone, the lucky rounds of the small one do: 36 MB against 360 MB, 7 us of waiting for memory an event;
``best_ratio`` still shows some of it). CPU time per event, from the first byte to the last look; ``ratio`` is the median over
pairs of rounds.
"""

import asyncio
import gc
import random
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.load import GROUP_SIZE, INDEXERS, LazyPods, MemoryServer, events, pod_line
from benchmarks.report import Answer, Budget
from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.runtime.cache import Informer
from regroup.runtime.clock import LoopClock
from regroup.runtime.controller import Controller, Result
from regroup.runtime.loop import run
from regroup.runtime.manager import Manager
from regroup.wire.client import Client

FEW, MANY = 1000, 10_000
EVENTS = 500
ROUNDS = 60


@dataclass
class _Population:
    """A cluster of so many groups, with a controller that looks at them."""

    groups: int
    server: MemoryServer
    manager: Manager
    informer: Informer[Pod]
    controller: Controller[str]
    version: int
    seen: int = 0

    async def round(self, rng: random.Random) -> float:
        """CPU seconds of one event."""
        chosen = [group * GROUP_SIZE + rng.randrange(GROUP_SIZE) for group in rng.sample(range(self.groups), EVENTS)]
        changed = [pod_line(number, version=self.version + position) for position, number in enumerate(chosen)]
        self.version += EVENTS
        self.seen += EVENTS
        pieces = list(events(changed, kind="MODIFIED"))
        gc.collect()
        began = time.thread_time()
        for piece in pieces:
            self.server.send(piece)
        await self.settled()
        return (time.thread_time() - began) / EVENTS

    async def settled(self) -> None:
        """Wait until every event so far was looked at."""
        reflector, queue = self.informer.reflectors[0], self.controller.queue
        while True:
            now = queue.statistics()
            if reflector.statistics().events >= self.seen and not now.ready and not now.processing:
                return
            await asyncio.sleep(0.01)


def _populate(groups: int) -> _Population:
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
    return _Population(groups, server, manager, informer, controller, version=pods + 3)


async def _costs(*groups: int) -> list[list[float]]:
    """CPU seconds of one event in each round, for each size."""
    populations = [_populate(count) for count in groups]
    tasks = [asyncio.create_task(population.manager.run()) for population in populations]
    for population in populations:
        await population.manager.ready.wait()
        await population.settled()
    rng = random.Random(2)
    rounds = []
    for turn in range(ROUNDS):
        order = populations if turn % 2 == 0 else populations[::-1]
        costs = {population.groups: await population.round(rng) for population in order}
        rounds.append([costs[count] for count in groups])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return rounds


def measure() -> Answer:
    rounds = run(_costs(FEW, MANY))
    return Answer(
        question="cost of an event as groups grow ten times",
        figures={
            "few_us": statistics.median(few for few, _ in rounds) * 1e6,
            "many_us": statistics.median(many for _, many in rounds) * 1e6,
            "ratio": statistics.median(many / few for few, many in rounds),
            "best_ratio": min(many for _, many in rounds) / min(few for few, _ in rounds),
        },
        budgets=(Budget("ratio", "at most", 1.2),),
    )
