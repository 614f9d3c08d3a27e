"""What do 100 settled services cost on the real plane: writes, CPU in 20 s, memory? Each has an Instance of one pod."""

from benchmarks.anchor.bed import Bed
from benchmarks.anchor.ome import make
from benchmarks.anchor.settled import idle
from benchmarks.report import Answer, Budget

SERVICES = 100


async def measure() -> Answer:
    async with Bed() as bed:
        await make(bed, [f"s{number}" for number in range(SERVICES)], instances=1, pods=1)
        await bed.settle()
        mark = bed.log.mark()
        cpu = await idle(bed)
        counted = bed.counted(mark)
        resident = bed.operator.resident_mib()
    return Answer(
        question=f"{SERVICES} settled services",
        figures={
            "writes": len(counted.writes),
            "events": counted.events,
            "idle_cpu_s_per_20_s": cpu,
            "resident_mib": resident,
        },
        budgets=(
            Budget("writes", "at most", 0),
            Budget("events", "at most", 0),
            Budget("idle_cpu_s_per_20_s", "at most", 0.02),
        ),
    )
