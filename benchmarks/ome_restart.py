"""What does the operator write for one restart of an Instance of N pods, and what does it tell?

Design 8: at most 2N + (serving routed pods) + 4 writes, events apart: each pod is made and put in rotation, those that requests
are routed to are taken out of it, the old pods are ended and the replica's status is written when the restart opens and when it
is over. The InferenceService's own status, which says False and then True (spec/omenative.md 4.13), is counted by itself and in
all.

Routed are all pods of a component whose InferenceService says nothing of workers, and only leaders where it does (2.5): both
shapes are measured, with a worker that fails. Counted from the crash until everything that is held back is written; the service
has a second Instance, which must cost nothing.
"""

from dataclasses import dataclass

from tests.planes.ome_hands import RECREATE, Ome
from tests.planes.plane import NAMESPACE

from benchmarks.ome_bed import Cost, OmeBed
from benchmarks.report import Answer, Budget
from benchmarks.thousand import run_virtually
from regroup.omenative.keys import INFERENCE_SERVICES, WORKER

SIZES = (1, 2, 4, 8, 16)
REPEATS = 2
OF_SERVICE = 2
"""Status writes of the InferenceService that one restart is worth."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Instances of so many pods; ``leaders``: requests go to leaders only."""

    pods: int
    leaders: bool = False

    @property
    def name(self) -> str:
        return f"{'leaders-' if self.leaders else ''}of{self.pods}"

    @property
    def routed(self) -> int:
        return 1 if self.leaders else self.pods


SHAPES = (*(Shape(pods) for pods in SIZES), *(Shape(pods, leaders=True) for pods in SIZES if pods > 1))


async def _restarts() -> dict[Shape, list[Cost]]:
    found: dict[Shape, list[Cost]] = {}
    async with OmeBed(pods=2 * sum(shape.pods for shape in SHAPES)) as bed:
        for shape in SHAPES:
            ome = Ome(bed, shape.name)
            engine = {"leader": {}, "worker": {"size": shape.pods - 1}} if shape.leaders else None
            await bed.services([ome.name], instances=2, pods=shape.pods, policy=RECREATE, engine=engine)
            await bed.settle()
            found[shape] = [await _restart(bed, ome, pods=shape.pods, incarnation=2 + number) for number in range(REPEATS)]
    return found


async def _restart(bed: OmeBed, ome: Ome, *, pods: int, incarnation: int) -> Cost:
    """The last worker crashes, or the only pod."""
    pod = ome.pod_name() if pods == 1 else ome.pod_name(runner=WORKER, ordinal=pods - 2)
    mark = bed.mark()
    await bed.faults.crash(NAMESPACE, pod, exit_code=3)
    await ome.wait_restarted(incarnation=incarnation)
    await bed.settle()
    return bed.since(mark)


def measure() -> Answer:
    found = run_virtually(_restarts())
    figures: dict[str, float] = {}
    budgets: list[Budget] = []
    for shape, costs in found.items():
        name = shape.name.replace("-", "_")
        figures[f"{name}_all_writes"] = max(len(cost.writes) for cost in costs)
        service = max(len(cost.statuses(INFERENCE_SERVICES.plural)) for cost in costs)
        figures[f"{name}_writes"] = figures[f"{name}_all_writes"] - service
        figures[f"{name}_service_writes"] = service
        figures[f"{name}_events"] = max(cost.events for cost in costs)
        budgets += [
            Budget(f"{name}_writes", "at most", 2 * shape.pods + shape.routed + 4),
            Budget(f"{name}_service_writes", "at most", OF_SERVICE),
            Budget(f"{name}_events", "at most", 2),
        ]
        if not shape.leaders:
            budgets.append(Budget(f"{name}_all_writes", "at most", 2 * shape.pods + shape.routed + 4))
    figures["refused"] = sum(cost.refused for costs in found.values() for cost in costs)
    return Answer(
        question="the operator's writes for one restart of an Instance of N pods",
        figures=figures,
        budgets=(*budgets, Budget("refused", "at most", 0)),
    )
