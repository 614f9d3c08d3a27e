"""What does the operator write for one group recreation, by the size of the group?

The Go controller: 21, 26.5 and 29 writes for sizes 2, 8 and 32, 4 to 5 events, 0.8 conflicts. One failure at a time, with time
enough before and after it for everything that is held back.
"""

from collections.abc import AsyncIterator, Mapping

from benchmarks.anchor.bed import Bed, Counted, gone
from benchmarks.report import Answer, Budget

SIZES = (2, 8, 32)
REPEATS = 3
GO_WRITES = {2: "21", 8: "26.5", 32: "29"}


async def measure() -> Answer:
    figures: dict[str, float] = {}
    conflicts = 0
    async with Bed() as bed:
        for size in SIZES:
            found = [one async for one in _recreations(bed, f"size{size}", size=size)]
            figures[f"writes_size_{size}"] = max(len(one.writes) for one in found)
            figures[f"events_size_{size}"] = max(one.events for one in found)
            conflicts += sum(one.conflicts for one in found)
        found = [one async for one in _recreations(bed, "counted", size=8, template={"maxGroupRestarts": 100})]
        figures["writes_counted"] = max(len(one.writes) for one in found)
        figures["conflicts"] = conflicts + sum(one.conflicts for one in found)
    budgets = [Budget(f"writes_size_{size}", "at most", 6, before=GO_WRITES[size]) for size in SIZES]
    budgets += [Budget(f"events_size_{size}", "at most", 2, before="4-5") for size in SIZES]
    return Answer(
        question="writes for one group recreation",
        figures=figures,
        budgets=(*budgets, Budget("writes_counted", "at most", 7), Budget("conflicts", "at most", 0, before="0.8 each")),
    )


async def _recreations(bed: Bed, name: str, *, size: int, template: Mapping[str, int] | None = None) -> AsyncIterator[Counted]:
    """What each of a few recreations cost; of one set with two groups."""
    await bed.create(replicas=2, size=size, name=name, template=template)
    for _ in range(REPEATS):
        await bed.settle()
        yield await _recreation(bed, name, size=size)
    await gone(bed, name)


async def _recreation(bed: Bed, name: str, *, size: int) -> Counted:
    mark = bed.log.mark()
    await bed.fail(f"{name}-0-{size - 1}")
    await bed.recreated(mark, [f"{name}-0", *(f"{name}-0-{index}" for index in range(1, size))])
    await bed.until_ready(name, 2)
    await bed.settle()
    return bed.counted(mark)
