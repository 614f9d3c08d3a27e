"""What does the operator write for one restart of an Instance of N pods? ``benchmarks.ome_restart`` on the real plane.

At most 2N + (serving routed pods) + 4 for the Instance, and 2 for the InferenceService's own status. All together they keep the
first limit only where the failed pod has left rotation by itself; here it is reported ready again at once, so that it has to be
taken out as well, and ``all_writes`` of a shape whose pods are all routed is one more. Counted in the audit log.
"""

from tests.planes.ome_hands import RECREATE

from benchmarks.anchor.bed import Bed, Counted
from benchmarks.anchor.ome import make, pod_name, until_ready
from benchmarks.ome_restart import OF_SERVICE, SHAPES, Shape
from benchmarks.report import Answer, Budget
from regroup.omenative.keys import DEFAULT_RUNNER, MAIN_CONTAINER, WORKER


async def measure() -> Answer:
    figures: dict[str, float] = {}
    budgets: list[Budget] = []
    conflicts = 0
    async with Bed() as bed:
        for shape in SHAPES:
            found = await _restart(bed, shape)
            name = shape.name.replace("-", "_")
            whole, service = len(found.writes), _of_service(found)
            figures |= {
                f"{name}_all_writes": whole,
                f"{name}_writes": whole - service,
                f"{name}_service_writes": service,
                f"{name}_events": found.events,
            }
            limit = 2 * shape.pods + shape.routed + 4
            budgets += [Budget(f"{name}_writes", "at most", limit), Budget(f"{name}_service_writes", "at most", OF_SERVICE)]
            budgets += [Budget(f"{name}_all_writes", "at most", limit)] if not shape.leaders else []
            conflicts += found.conflicts
    return Answer(
        question="the operator's writes for one restart of an Instance of N pods",
        figures={**figures, "conflicts": conflicts},
        budgets=(*budgets, Budget("conflicts", "at most", 0)),
    )


def _of_service(counted: Counted) -> int:
    return sum(write.resource == "inferenceservices/status" for write in counted.writes)


async def _restart(bed: Bed, shape: Shape) -> Counted:
    await make(bed, [shape.name], instances=2, pods=shape.pods, policy=RECREATE, leaders=shape.leaders)
    await bed.settle()
    mark = bed.log.mark()
    runner, ordinal = (DEFAULT_RUNNER, 0) if shape.pods == 1 else (WORKER, shape.pods - 2)
    await bed.fail(pod_name(shape.name, 0, runner=runner, ordinal=ordinal), container=MAIN_CONTAINER)
    await until_ready(bed, [shape.name], instances=2, incarnation=2, only=frozenset({0}))
    await bed.settle()
    return bed.counted(mark)
