"""What does a set cost at which nothing happens: idle, and while pods report what is none of our business? How large is it?

The Go controller, at 96 pods: 0.01 to 0.02 s of CPU in 20 s idle; 0.70 s for 1,000 status updates that change nothing; 59 MiB
resident at 96 pods and 86 at 1,000.
"""

import asyncio

from tests.planes.plane import NAMESPACE

from benchmarks.anchor.bed import SET, Bed
from benchmarks.report import Answer, Budget
from regroup.kube.resources import PODS

SIZE = 8
IDLE = 20.0
UPDATES = 1000
CONCURRENT = 10
"""Updates under way at once, so that they come as a stream and not as one block."""


async def idle(bed: Bed) -> float:
    """CPU seconds of the operator in ``IDLE`` seconds in which nothing happens."""
    cpu = bed.operator.cpu_seconds()
    await asyncio.sleep(IDLE)
    return bed.operator.cpu_seconds() - cpu


async def updates(bed: Bed) -> float:
    """CPU seconds of the operator for 1,000 status updates of pods that change nothing for it: a condition of somebody else."""
    names = [pod.metadata.name for pod in await bed.pods_of(SET)]
    slots = asyncio.Semaphore(CONCURRENT)

    async def update(number: int) -> None:
        condition = {"type": "example.com/Seen", "status": "True", "message": f"update {number}"}
        async with slots:
            patch = {"status": {"conditions": [condition]}}
            name = names[number % len(names)]
            await bed.client.strategic_patch(PODS, name, patch, namespace=NAMESPACE, subresource="status")

    cpu = bed.operator.cpu_seconds()
    await asyncio.gather(*(update(number) for number in range(UPDATES)))
    await asyncio.sleep(1)  # until the operator has read the last of them
    return bed.operator.cpu_seconds() - cpu


async def measure() -> Answer:
    figures: dict[str, float] = {}
    async with Bed() as bed:
        await bed.create(replicas=12, size=SIZE)
        await bed.settle()
        mark = bed.log.mark()
        figures["idle_cpu_s_per_20_s"] = await idle(bed)
        figures["updates_cpu_s_per_1000"] = await updates(bed)
        figures["writes"] = len(bed.counted(mark).writes)
        figures["resident_mib_96"] = bed.operator.resident_mib()
        await bed.patch_lws(SET, {"replicas": 125})
        await bed.until_ready(SET, 125)
        await bed.settle()
        figures["resident_mib_1000"] = bed.operator.resident_mib()
    return Answer(
        question="a settled set: idle, updates that change nothing, memory",
        figures=figures,
        budgets=(
            Budget("idle_cpu_s_per_20_s", "at most", 0.02, before="0.01-0.02"),
            Budget("updates_cpu_s_per_1000", "at most", 0.10, before="0.70"),
            Budget("writes", "at most", 0),
            Budget("resident_mib_96", "at most", 60, before="59"),
            Budget("resident_mib_1000", "at most", 70, before="86"),
        ),
    )
