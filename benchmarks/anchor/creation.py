"""How long until a new set is Ready, and what does the operator write for it?

The Go controller: 10 groups of 8 after 1.0 to 1.2 s with 40 to 51 writes, 100 groups after 8.7 to 9.3 s with 290 writes and 16
conflicts. 0.9 times the time is to be reached.
"""

from benchmarks.anchor.bed import Bed, gone
from benchmarks.report import Answer, Budget

SIZE = 8
GO_SECONDS = {10: 1.1, 100: 9.0}
GO_WRITES = {10: "40-51", 100: "290"}
WRITES = {10: 35, 100: 220}


async def measure() -> Answer:
    figures: dict[str, float] = {}
    budgets: list[Budget] = []
    async with Bed() as bed:
        for groups, seconds in GO_SECONDS.items():
            await bed.settle()
            mark, cpu = bed.log.mark(), bed.operator.cpu_seconds()
            figures[f"ready_{groups}_s"] = await bed.create(replicas=groups, size=SIZE, name=f"new{groups}")
            await bed.settle()
            counted = bed.counted(mark)
            figures |= {
                f"writes_{groups}": len(counted.writes),
                f"events_{groups}": counted.events,
                f"conflicts_{groups}": counted.conflicts,
                f"cpu_{groups}_s": bed.operator.cpu_seconds() - cpu,
            }
            budgets += [
                Budget(f"ready_{groups}_s", "at most", round(0.9 * seconds, 2), before=f"{seconds:g}"),
                Budget(f"writes_{groups}", "at most", WRITES[groups], before=GO_WRITES[groups]),
                Budget(f"conflicts_{groups}", "at most", 0),
            ]
            await gone(bed, f"new{groups}")
    return Answer(question="a new set until it is Ready", figures=figures, budgets=tuple(budgets))
