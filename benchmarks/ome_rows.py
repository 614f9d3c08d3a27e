"""How often, and how long, is the status of one InferenceReplica with 200 Instances written?

A status is written whole: rows are one list, and a merge patch has lists whole. So what counts is how seldom: once a pass, and
not for each event of each pod (spec/omenative.md 3.3). One component of 200 Instances of 2 pods is made, then one Instance
restarts, then all pods report what is no business of ours.
"""

import asyncio

from tests.planes.ome_hands import RECREATE, Ome
from tests.planes.plane import NAMESPACE

from benchmarks.ome_bed import Cost, OmeBed
from benchmarks.report import Answer, Budget
from benchmarks.thousand import run_virtually
from regroup.kube.resources import PODS
from regroup.omenative.keys import WORKER

INSTANCES, PODS_EACH = 200, 2
NAME = "wide"


async def _story() -> tuple[Cost, Cost, Cost]:
    async with OmeBed(pods=INSTANCES * PODS_EACH) as bed:
        ome = Ome(bed, NAME)
        mark = bed.mark()
        await bed.services([NAME], instances=INSTANCES, pods=PODS_EACH, policy=RECREATE)
        await bed.settle()
        made = bed.since(mark)
        mark = bed.mark()
        await bed.faults.crash(NAMESPACE, ome.pod_name(7, WORKER))
        await ome.wait_restarted(7)
        await bed.settle()
        restarted = bed.since(mark)
        mark = bed.mark()
        condition = {"type": "example.com/Seen", "status": "True"}
        for name in await ome.pods():
            patch = {"status": {"conditions": [condition]}}
            await bed.client.strategic_patch(PODS, name, patch, namespace=NAMESPACE, subresource="status")
        await asyncio.sleep(60)
        return made, restarted, bed.since(mark)


def _figures(name: str, cost: Cost) -> dict[str, float]:
    statuses = [len(write.request.body or b"") for write in cost.statuses()]
    return {
        f"{name}_status_writes": len(statuses),
        f"{name}_events_seen": cost.seen,
        f"{name}_status_kib": sum(statuses) / 1024,
        f"{name}_largest_kib": max(statuses, default=0) / 1024,
        f"{name}_cpu_ms": cost.cpu * 1000,
    }


def measure() -> Answer:
    made, restarted, seen = run_virtually(_story())
    figures = {**_figures("creation", made), **_figures("restart", restarted), **_figures("noise", seen)}
    figures["noise_cpu_us_per_event"] = seen.cpu * 1e6 / seen.seen
    return Answer(
        question="status writes of one InferenceReplica with 200 Instances",
        figures=figures,
        budgets=(
            Budget("creation_status_writes", "at most", INSTANCES / 10),
            Budget("restart_status_writes", "at most", 2),
            Budget("noise_status_writes", "at most", 0),
        ),
    )
