"""Does a group cost the same CPU in a storm of 200 groups as in one of 20? One set of 200 groups of 8; first 20 of them fail at
once, then all. Within 20 %: what a storm costs must grow with the groups that fail and with nothing else.
"""

from benchmarks.anchor.bed import Bed
from benchmarks.anchor.storm import SIZE, strike
from benchmarks.report import Answer, Budget

FEW, MANY = 20, 200
SMALL_STORMS = 3
"""Small storms that are measured: one alone is a few clock ticks."""


async def measure() -> Answer:
    async with Bed() as bed:
        await bed.create(replicas=MANY, size=SIZE)
        await bed.settle()
        small = [await strike(bed, groups=FEW, of=MANY) for _ in range(SMALL_STORMS)]
        large = await strike(bed, groups=MANY)
    few = sum(storm.cpu for storm in small) / SMALL_STORMS / FEW
    many = large.cpu / MANY
    return Answer(
        question="CPU of a group in a storm of 200 groups, against one of 20",
        figures={"few_cpu_s": few, "many_cpu_s": many, "ratio": many / few, "conflicts": large.counted.conflicts},
        budgets=(Budget("ratio", "at most", 1.2), Budget("conflicts", "at most", 0)),
    )
