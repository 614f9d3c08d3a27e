"""All 7 workers of 20 groups fail at the same moment: how many leaders are deleted?

The Go controller: 27 to 32 deletions for 20 groups. One is right.
"""

import asyncio

from benchmarks.anchor.bed import SET, Bed, deletions
from benchmarks.report import Answer, Budget

GROUPS, SIZE = 20, 8


async def measure() -> Answer:
    async with Bed() as bed:
        await bed.create(replicas=GROUPS, size=SIZE)
        await bed.settle()
        mark = bed.log.mark()
        workers = [f"{SET}-{group}-{index}" for group in range(GROUPS) for index in range(1, SIZE)]
        await asyncio.gather(*(bed.fail(name) for name in workers), return_exceptions=True)  # some are on their way already
        await bed.recreated(mark, [*(f"{SET}-{group}" for group in range(GROUPS)), *workers])
        await bed.until_ready(SET, GROUPS)
        await bed.settle()
        found = deletions(bed.log.since(mark))
        counted = bed.counted(mark)
    return Answer(
        question="all workers of 20 groups fail at once",
        figures={
            "leader_deletes": len(found),
            "leaders": len({write.name for write in found}),
            "events": counted.events,
            "conflicts": counted.conflicts,
        },
        budgets=(Budget("leader_deletes", "at most", GROUPS, before="27-32"), Budget("leaders", "at least", GROUPS)),
    )
