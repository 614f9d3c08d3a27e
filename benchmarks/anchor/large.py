"""The same with 5,000 pods in the set: one failure, updates that change nothing, memory.

The Go controller: delete after 6.6 ms, the group Ready again after 1,107 ms (p50), 0.48 s of CPU for one failure, 1.46 s for
1,000 status updates that change nothing, 205 MiB resident. Ours is to be at most 1.2 times what it is with 80 pods.

The floor, a bare StatefulSet of 8 in the same namespace, says how much of the ratio is not ours: the StatefulSet controller looks
through all pods of the namespace each time it looks at a set.
"""

import asyncio

from benchmarks.anchor.bed import SET, Bed, median
from benchmarks.anchor.failure import PAUSE, SIZE, floor, make_bare_set, react
from benchmarks.anchor.settled import updates
from benchmarks.report import Answer, Budget

FEW, MANY = 10, 625
FAILURES = 25
FLOORS = 10


async def _floor(bed: Bed) -> float:
    """The median of some floors, in milliseconds."""
    floors = []
    for _ in range(FLOORS):
        floors.append(await floor(bed))
        await asyncio.sleep(PAUSE)
    return median(floors)


async def measure() -> Answer:
    async with Bed() as bed:
        await make_bare_set(bed)
        await bed.create(replicas=FEW, size=SIZE)
        await bed.settle()
        await react(bed, groups=FEW, count=5)
        few = (await react(bed, groups=FEW, count=FAILURES)).figures()
        few_floor = await _floor(bed)
        await bed.patch_lws(SET, {"replicas": MANY})
        await bed.until_ready(SET, MANY, timeout=1800)
        await bed.settle()
        resident = bed.operator.resident_mib()
        many = (await react(bed, groups=MANY, count=FAILURES)).figures()
        many_floor = await _floor(bed)
        await bed.settle()
        quiet = await updates(bed)
    return Answer(
        question="one failure of a group of 8, with 5,000 pods in the set",
        figures={
            **many,
            "delete_ratio": many["delete_p50_ms"] / few["delete_p50_ms"],
            "ready_ratio": many["ready_p50_ms"] / few["ready_p50_ms"],
            "few_delete_p50_ms": few["delete_p50_ms"],
            "few_ready_p50_ms": few["ready_p50_ms"],
            "few_floor_p50_ms": few_floor,
            "floor_p50_ms": many_floor,
            "floor_ratio": many_floor / few_floor,
            "updates_cpu_s_per_1000": quiet,
            "resident_mib": resident,
        },
        budgets=(
            Budget("delete_ratio", "at most", 1.2, before="3.3"),
            Budget("ready_ratio", "at most", 1.2, before="3.1"),
            Budget("cpu_s_per_failure", "at most", 0.06, before="0.48"),
            Budget("updates_cpu_s_per_1000", "at most", 0.10, before="1.46"),
            Budget("resident_mib", "at most", 110, before="205"),
        ),
    )
