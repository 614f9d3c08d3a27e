"""100 groups of 8 fail at the same moment: how long until all are told to go and all are Ready again, and what does it cost?

The Go controller: delete requests leave for 5 to 8 s (p50 2.3 to 2.9), all Ready after 19 to 24 s, 590 writes, 200 events, 30
conflicts, 5 s of CPU.
"""

import asyncio
from dataclasses import dataclass

from benchmarks.anchor.bed import SET, Bed, Counted, deletions, failures, median, ready_reports
from benchmarks.report import Answer, Budget

GROUPS, SIZE = 100, 8
GO_READY = 21.5
"""Seconds that the Go controller needed on the machine where it was measured; other machines differ."""


@dataclass(frozen=True, slots=True)
class Storm:
    """What one storm took, in seconds, and what the operator wrote and used."""

    deletes: list[float]
    """From the report of a group's failure to the request that deletes its leader, for each group."""
    ready: float
    """From the last failure to the last pod that is Ready again."""
    counted: Counted
    cpu: float

    def figures(self) -> dict[str, float]:
        return {
            "delete_p50_s": median(self.deletes),
            "delete_max_s": max(self.deletes),
            "ready_s": self.ready,
            "writes": len(self.counted.writes),
            "events": self.counted.events,
            "conflicts": self.counted.conflicts,
            "cpu_s": self.cpu,
        }


async def strike(bed: Bed, *, groups: int = GROUPS, of: int | None = None, timeout: float = 600.0) -> Storm:
    """Let a worker of each of the first ``groups`` fail at once, and wait until nothing is left to be done. ``of``: how many
    groups the set has, when more."""
    mark, cpu = bed.log.mark(), bed.operator.cpu_seconds()
    await asyncio.gather(*(bed.fail(f"{SET}-{group}-{1 + group % (SIZE - 1)}") for group in range(groups)))
    leaders = [f"{SET}-{group}" for group in range(groups)]
    names = leaders + [f"{SET}-{group}-{index}" for group in range(groups) for index in range(1, SIZE)]
    await bed.recreated(mark, names, timeout=timeout)
    await bed.until_ready(SET, of or groups)
    await bed.settle()
    writes = bed.log.since(mark)
    failed = {name.rpartition("-")[0]: at for name, at in failures(writes).items()}
    asked: dict[str, float] = {}
    for write in deletions(writes):
        asked.setdefault(write.name, write.received)
    ready = ready_reports(writes)
    return Storm(
        deletes=[asked[name] - failed[name] for name in leaders],
        ready=max(ready[name] for name in names) - max(failed.values()),
        counted=bed.counted(mark),
        cpu=bed.operator.cpu_seconds() - cpu,
    )


async def measure() -> Answer:
    async with Bed() as bed:
        await bed.create(replicas=GROUPS, size=SIZE)
        await bed.settle()
        storm = await strike(bed)
    return Answer(
        question="100 groups of 8 fail at once",
        figures=storm.figures(),
        budgets=(
            Budget("delete_max_s", "at most", 0.5, before="5-8"),
            Budget("ready_s", "at most", round(0.7 * GO_READY, 1), before="19-24"),
            Budget("writes", "at most", 500, before="590"),
            Budget("events", "at most", 100, before="200"),
            Budget("conflicts", "at most", 0, before="30"),
            Budget("cpu_s", "at most", 3, before="5"),
        ),
    )
