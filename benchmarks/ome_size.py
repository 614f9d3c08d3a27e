"""Does an Instance cost the same whether there are 50 services or 200? Each service has 4 Instances of 4 pods.

From the moment that the first service is applied until the last Instance is Ready, in the sandbox: real and virtual seconds, the
operator's CPU (``meter``) and the memory of its caches, which is that of a second operator started beside the first. ``events``
are the objects that the operator's watches brought. ``python -m benchmarks ome_size_500`` is the same with 500 services: 2,000
Instances, 8,000 pods.
"""

import asyncio
import time
from dataclasses import dataclass

from benchmarks.memory import resident
from benchmarks.ome_bed import Cost, OmeBed
from benchmarks.report import Answer, Budget
from benchmarks.thousand import run_virtually

SIZES = (25, 50, 100)
INSTANCES, PODS = 4, 4


@dataclass(frozen=True, slots=True)
class Grown:
    """What so many services cost."""

    services: int
    virtual: float
    real: float
    cpu: float
    """Seconds of the whole process."""
    cost: Cost
    operator_mib: float
    resident_mib: float

    @property
    def instances(self) -> int:
        return self.services * INSTANCES

    def figures(self) -> dict[str, float]:
        of = f"of_{self.services}"
        return {
            f"{of}_virtual_s": self.virtual,
            f"{of}_real_s": self.real,
            f"{of}_cpu_s": self.cpu,
            f"{of}_operator_cpu_s": self.cost.cpu,
            f"{of}_operator_ms_per_instance": self.cost.cpu * 1000 / self.instances,
            f"{of}_operator_us_per_event": self.cost.cpu * 1e6 / self.cost.seen,
            f"{of}_writes_per_instance": len(self.cost.writes) / self.instances,
            f"{of}_told_per_instance": self.cost.events / self.instances,
            f"{of}_refused": self.cost.refused,
            f"{of}_operator_mib": self.operator_mib,
            f"{of}_operator_kib_per_pod": self.operator_mib * 1024 / (self.instances * PODS),
            f"{of}_resident_mib": self.resident_mib,
        }


async def _grow(services: int) -> Grown:
    async with OmeBed(pods=services * INSTANCES * PODS) as bed:
        loop = asyncio.get_running_loop()
        mark = bed.mark()
        virtual, real, cpu = loop.time(), time.perf_counter(), time.process_time()
        await bed.services([f"s{number}" for number in range(services)], instances=INSTANCES, pods=PODS)
        virtual, real, cpu = loop.time() - virtual, time.perf_counter() - real, time.process_time() - cpu
        await bed.settle()
        cost = bed.since(mark)
        return Grown(services, virtual, real, cpu, cost, await bed.memory_of_an_operator(), resident() / 2**20)


def grow(services: int) -> Grown:
    """Make so many services."""
    return run_virtually(_grow(services))


def compare(*sizes: int) -> Answer:
    """Each of ``sizes`` in turn, against the first."""
    grown = [grow(services) for services in sizes]
    first, last = grown[0], grown[-1]
    figures = {name: value for one in grown for name, value in one.figures().items()}
    figures["ratio"] = (last.cost.cpu / last.instances) / (first.cost.cpu / first.instances)
    figures["writes_ratio"] = (len(last.cost.writes) / last.instances) / (len(first.cost.writes) / first.instances)
    return Answer(
        question=f"cost of an Instance of {PODS} pods as services grow from {sizes[0]} to {sizes[-1]}",
        figures=figures,
        budgets=(
            Budget("ratio", "at most", 1.2),
            Budget("writes_ratio", "at most", 1.05),
            *(Budget(f"of_{one.services}_refused", "at most", 0) for one in grown),
        ),
    )


def measure() -> Answer:
    return compare(*SIZES)
