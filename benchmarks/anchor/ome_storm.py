"""200 wedged gangs of 2 at once on the real plane: limits kept, cost of an Instance against a storm of 20 in the same component.

Each worker waits in CrashLoopBackOff while its leader serves; 10 % of the Instances may be out, 10 repairs open in a pass. The
limits are read from every version of the status that the API server had.
"""

import asyncio
from dataclasses import dataclass

from benchmarks.anchor.bed import Bed, Counted
from benchmarks.anchor.ome import Story, make, pod_name, until_ready, watched, wedge
from benchmarks.ome_storm import BATCH, FEW, MANY, OLD, SHARE
from benchmarks.report import Answer, Budget
from regroup.omenative.keys import WORKER

NAME = "storm"


@dataclass(frozen=True, slots=True)
class Storm:
    """What one came to."""

    instances: int
    counted: Counted
    story: Story
    cpu: float

    @property
    def cpu_ms(self) -> float:
        return self.cpu * 1000 / self.instances


async def strike(bed: Bed, *, instances: int) -> Storm:
    """Wedge the workers of the first ``instances``, and wait until each was repaired."""
    await bed.settle()
    await bed.sleep(OLD, exact=True)
    async with watched(bed) as story:
        mark, cpu = bed.log.mark(), bed.operator.cpu_seconds()
        await asyncio.gather(*(wedge(bed, pod_name(NAME, index, runner=WORKER)) for index in range(instances)))
        await bed.until(lambda: story.opened >= instances, what=f"{instances} repairs were opened")
        await until_ready(bed, [NAME], instances=MANY)
        await bed.settle()
    return Storm(instances, bed.counted(mark), story, bed.operator.cpu_seconds() - cpu)


async def measure() -> Answer:
    async with Bed() as bed:
        lifecycle = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxUnavailable": f"{SHARE}%"}}}
        await make(bed, [NAME], instances=MANY, pods=2, policy="None", lifecycle=lifecycle, leaders=True)
        few = await strike(bed, instances=FEW)
        many = await strike(bed, instances=MANY)
        resident = bed.operator.resident_mib()
    statuses = sum(write.resource == "inferencereplicas/status" for write in many.counted.writes)
    return Answer(
        question="200 wedged Instances of 2 pods in one component",
        figures={
            "few_cpu_ms": few.cpu_ms,
            "many_cpu_ms": many.cpu_ms,
            "ratio": many.cpu_ms / few.cpu_ms,
            "most_out": max(few.story.most_out, many.story.most_out),
            "most_opened": max(few.story.most_opened, many.story.most_opened),
            "few_opened": few.story.opened,
            "many_opened": many.story.opened,
            "status_writes": statuses,
            "writes_each": len(many.counted.writes) / MANY,
            "events": many.counted.events,
            "conflicts": few.counted.conflicts + many.counted.conflicts,
            "resident_mib": resident,
        },
        budgets=(
            Budget("most_out", "at most", MANY * SHARE / 100),
            Budget("most_opened", "at most", BATCH),
            Budget("few_opened", "at most", FEW),
            Budget("many_opened", "at most", MANY),
            Budget("ratio", "at most", 1.2),
            Budget("conflicts", "at most", 0),
        ),
    )
