"""Does a settled service cost an API call? One service with Instances of 1 and of 4 pods for ten minutes, then 500 services.

The budget is none: no write, no read, no event (design 8, "no-op pass of a settled group"). Watches are renewed by whoever serves
them, leases by whoever leads: neither is a service's cost, and neither is counted.
"""

import asyncio

from tests.planes.ome_hands import RECREATE

from benchmarks.ome_bed import Cost, OmeBed
from benchmarks.report import Answer, Budget
from benchmarks.thousand import run_virtually

MINUTES = 10
SERVICES = 500


async def _one() -> Cost:
    async with OmeBed(pods=20) as bed:
        await bed.services(["single"], instances=2, pods=1, policy=RECREATE)
        await bed.services(["gang"], instances=2, pods=4)
        return await _idle(bed)


async def _many() -> Cost:
    async with OmeBed(pods=SERVICES) as bed:
        await bed.services([f"s{number}" for number in range(SERVICES)], instances=1, pods=1)
        return await _idle(bed)


async def _idle(bed: OmeBed) -> Cost:
    await bed.settle()
    mark = bed.mark()
    await asyncio.sleep(60 * MINUTES)
    return bed.since(mark)


def measure() -> Answer:
    figures: dict[str, float] = {}
    for name, cost in (("one", run_virtually(_one())), ("many", run_virtually(_many()))):
        figures[f"{name}_calls"] = len(cost.writes) + cost.reads + cost.events
        figures[f"{name}_cpu_ms_per_minute"] = cost.cpu * 1000 / MINUTES
    return Answer(
        question="API calls of settled services in ten minutes: of two, and of 500",
        figures=figures,
        budgets=(Budget("one_calls", "at most", 0), Budget("many_calls", "at most", 0)),
    )
