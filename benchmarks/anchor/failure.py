"""How fast is one failure of a group of 8 answered, with 80 pods in the set, and what does it cost?

The Go controller: delete request after 2 ms (p99 3 to 5), the whole group Ready again after 346 to 365 ms (p99 548 to 651),
0.10 s of CPU. Times are the API server's own: from the answer to the write that reports the failure.

The floor is measured in turns with it: a bare Parallel StatefulSet of 8 whose pods are all deleted at once (p50 200 ms and at
most 271 where the Go controller was measured). What the group needs beside it holds however busy a machine is: 250/200 of it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tests.planes.plane import NAMESPACE

from benchmarks.anchor.bed import IMAGE, SET, Bed, deletions, failures, median, percentile
from benchmarks.report import Answer, Budget
from regroup.kube.resources import PODS, STATEFULSETS

SIZE = 8
GROUPS = 10
FAILURES = 50
TURNS = 5
"""Rows of failures, each followed by as much time for the floor."""
BARE = "bare"
PAUSE = 0.5
"""Seconds between a group that is whole again and the next failure."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """Milliseconds from the failure to the request that deletes the leader, and until the whole group is Ready again."""

    delete: float
    ready: float


@dataclass(frozen=True, slots=True)
class Reactions:
    """Those of a row of failures, and what they cost."""

    each: Sequence[Reaction]
    cpu: float
    """CPU seconds of the operator for one failure, the pauses included."""

    def figures(self) -> dict[str, float]:
        deletes, readies = [one.delete for one in self.each], [one.ready for one in self.each]
        return {
            "delete_p50_ms": median(deletes),
            "delete_p99_ms": percentile(deletes, 0.99),
            "ready_p50_ms": median(readies),
            "ready_p99_ms": percentile(readies, 0.99),
            "cpu_s_per_failure": self.cpu,
        }


async def react(bed: Bed, *, groups: int, count: int) -> Reactions:
    """Let a worker of one group after the other fail, ``count`` times."""
    each = []
    cpu = bed.operator.cpu_seconds()
    for number in range(count):
        each.append(await _one(bed, number % groups, worker=1 + number % (SIZE - 1)))
        await asyncio.sleep(PAUSE)
    return Reactions(each, (bed.operator.cpu_seconds() - cpu) / count)


async def _one(bed: Bed, group: int, *, worker: int) -> Reaction:
    names = [f"{SET}-{group}", *(f"{SET}-{group}-{index}" for index in range(1, SIZE))]
    mark = bed.log.mark()
    await bed.fail(names[worker])
    last = await bed.recreated(mark, names)
    writes = bed.log.since(mark)
    failed = failures(writes)[names[worker]]
    asked = next(write.received for write in deletions(writes))
    return Reaction((asked - failed) * 1000, (last - failed) * 1000)


async def floor(bed: Bed) -> float:
    """Milliseconds until a bare Parallel StatefulSet is Ready again after all of its pods were deleted at once."""
    mark = bed.log.mark()
    await bed.client.delete_collection(PODS, namespace=NAMESPACE, label_selector=f"bare={BARE}")
    last = await bed.recreated(mark, [f"{BARE}-{index}" for index in range(SIZE)])
    asked = next(write.answered for write in bed.log.since(mark) if write.verb == "deletecollection")
    return (last - asked) * 1000


async def make_bare_set(bed: Bed) -> None:
    """What ``floor`` is measured at."""
    labels = {"bare": BARE}
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": BARE, "namespace": NAMESPACE},
        "spec": {
            "replicas": SIZE,
            "podManagementPolicy": "Parallel",
            "serviceName": BARE,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}},
        },
    }
    mark = bed.log.mark()
    await bed.client.create(STATEFULSETS, body, namespace=NAMESPACE)
    await bed.recreated(mark, [f"{BARE}-{index}" for index in range(SIZE)])


async def measure() -> Answer:
    async with Bed() as bed:
        await make_bare_set(bed)
        await bed.create(replicas=GROUPS, size=SIZE)
        await bed.settle()
        await react(bed, groups=GROUPS, count=5)
        floors: list[float] = []
        parts: list[Reactions] = []
        for _ in range(TURNS):
            parts.append(await react(bed, groups=GROUPS, count=FAILURES // TURNS))
            for _ in range(FAILURES // TURNS // 2):
                floors.append(await floor(bed))
                await asyncio.sleep(PAUSE)
    found = Reactions([one for part in parts for one in part.each], sum(part.cpu for part in parts) / TURNS)
    figures = found.figures()
    base = median(floors)
    return Answer(
        question="one failure of a group of 8, with 80 pods in the set",
        figures={**figures, "floor_p50_ms": base, "ready_over_floor": figures["ready_p50_ms"] / base},
        budgets=(
            Budget("delete_p99_ms", "at most", 5, before="3-5"),
            Budget("ready_p50_ms", "at most", 250, before="346-365"),
            Budget("ready_p99_ms", "at most", 350, before="548-651"),
            Budget("ready_over_floor", "at most", 1.25, before="1.8"),
            Budget("cpu_s_per_failure", "at most", 0.05, before="0.10"),
        ),
    )
