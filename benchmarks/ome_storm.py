"""A storm: all Instances crash-loop at once. Are batch and budget kept at every moment, and does an Instance cost the same in a
storm of 200 as in one of 20?

Gangs of a leader and a worker under the policy ``None``: each worker crash-loops while its leader serves, so that every repair
takes a serving Instance offline and both limits hold it (spec/omenative.md 4.4.1, 4.4.2). The limits are read from every status
that was written: how many rows restart after it, and how many it opens. One component of 200 against one of 20 with the same
share of Instances that may be out; and 50 services of 4. CPU is the operator's, by ``meter``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.planes.ome_hands import Ome
from tests.planes.plane import NAMESPACE

from benchmarks.ome_bed import Cost, OmeBed
from benchmarks.report import Answer, Budget
from benchmarks.thousand import run_virtually
from regroup.kube.resources import PODS
from regroup.omenative.api.row import RESTARTING
from regroup.omenative.keys import MAIN_CONTAINER, WORKER

FEW, MANY = 20, 200
SERVICES, EACH = 50, 4
SHARE = 10
"""Percent of a component's Instances that repairs may take out of service."""
BATCH = 10
"""``repairBatchSize`` as we ship it."""
OLD = 70.0
"""Seconds after which a pod is older than the grace that we ship."""
LOOPING = {"sandbox.regroup.dev/exit-after": f"{MAIN_CONTAINER}=10ms", "sandbox.regroup.dev/exit-code": f"{MAIN_CONTAINER}=1"}


@dataclass(frozen=True, slots=True)
class Storm:
    """What one storm came to."""

    instances: int
    cost: Cost
    most_out: int
    """Instances of one component that restarted at the same time, at most."""
    most_opened: int
    """Repairs that one status write opened, at most."""
    opened: int
    """Repairs that were opened altogether."""
    seconds: float

    @property
    def cpu_ms(self) -> float:
        return self.cost.cpu * 1000 / self.instances

    @property
    def status_kib(self) -> float:
        """KiB of InferenceReplicas' statuses that were written."""
        return sum(len(write.request.body or b"") for write in self.cost.statuses()) / 1024


async def strike(bed: OmeBed, names: Sequence[str], *, instances: int) -> Storm:
    """Let the worker of every Instance crash-loop, and wait until each was repaired once and is Ready."""
    hands = [Ome(bed, name) for name in names]
    mark = bed.mark()
    began = bed.clock.monotonic()
    for ome in hands:
        for index in range(instances):
            pod = ome.pod_name(index, WORKER)
            await bed.client.merge_patch(PODS, pod, {"metadata": {"annotations": LOOPING}}, namespace=NAMESPACE)
            await bed.faults.crash(NAMESPACE, pod, container=MAIN_CONTAINER)

    async def repaired() -> bool:
        rows = [row for one in await bed.replicas() if one.service_name in names for row in one.status.rows]
        return all(row.incarnation == 2 and row.phase == "Ready" for row in rows)

    await bed.until(repaired, timeout=7200, what="every Instance was repaired")
    seconds = bed.clock.monotonic() - began
    await bed.settle()
    cost = bed.since(mark)
    most_out, most_opened, opened = limits(cost)
    return Storm(instances * len(names), cost, most_out, most_opened, opened, seconds)


def limits(cost: Cost) -> tuple[int, int, int]:
    """From all statuses as they were written: most rows of a replica that restart at once, most repairs that one write opens, and
    all repairs."""
    most_out = most_opened = opened = 0
    known: dict[str, dict[int, int]] = {}
    for write in cost.statuses():
        rows: Sequence[Mapping[str, Any]] = write.body["status"].get("instanceStatuses") or ()
        if not 200 <= write.status < 300 or not rows:
            continue
        before = known.setdefault(write.request.path, {})
        now = {row["index"]: row["incarnation"] for row in rows}
        new = sum(incarnation > before.get(index, 1) for index, incarnation in now.items())
        before.update(now)
        opened += new
        most_opened = max(most_opened, new)
        most_out = max(most_out, sum(row["phase"] == RESTARTING for row in rows))
    return most_out, most_opened, opened


async def _component(instances: int) -> Storm:
    return await strike_alone(["storm"], instances=instances, budget=f"{SHARE}%")


async def strike_alone(names: Sequence[str], *, instances: int, budget: int | str) -> Storm:
    """A storm in a world of its own, in which ``budget`` of each component may be out."""
    async with OmeBed(pods=2 * instances * len(names) * 2) as bed:
        lifecycle = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxUnavailable": budget}}}
        # The services name the workers themselves, so that requests go to leaders only (2.5).
        engine = {"leader": {}, "worker": {"size": 1}}
        await bed.services(names, instances=instances, pods=2, policy="None", lifecycle=lifecycle, engine=engine)
        await bed.sleep(OLD)
        return await strike(bed, names, instances=instances)


def measure() -> Answer:
    few = run_virtually(_component(FEW))
    many = run_virtually(_component(MANY))
    wide = run_virtually(strike_alone([f"s{number}" for number in range(SERVICES)], instances=EACH, budget=1))
    figures = {
        "few_cpu_ms": few.cpu_ms,
        "many_cpu_ms": many.cpu_ms,
        "wide_cpu_ms": wide.cpu_ms,
        "ratio": many.cpu_ms / few.cpu_ms,
        "most_out_of_20": few.most_out,
        "most_out_of_200": many.most_out,
        "most_out_of_4": wide.most_out,
        "most_opened": max(one.most_opened for one in (few, many, wide)),
        "repairs_each": max(one.opened / one.instances for one in (few, many, wide)),
        "conflicts": sum(one.cost.conflicts for one in (few, many, wide)),
        "refused": sum(one.cost.refused for one in (few, many, wide)),
        "many_status_writes": len(many.cost.statuses()),
        "many_status_writes_each": len(many.cost.statuses()) / MANY,
        "many_status_kib_each": many.status_kib / MANY,
        "many_events_each": many.cost.events / MANY,
        "many_writes_each": len(many.cost.writes) / MANY,
        "few_writes_each": len(few.cost.writes) / FEW,
        "many_virtual_s": many.seconds,
        "few_virtual_s": few.seconds,
    }
    return Answer(
        question="a storm of crash-looping Instances: limits kept, cost of one Instance in a storm of 200 against one of 20",
        figures=figures,
        budgets=(
            Budget("most_out_of_20", "at most", FEW * SHARE / 100),
            Budget("most_out_of_200", "at most", MANY * SHARE / 100),
            Budget("most_out_of_4", "at most", 1),
            Budget("most_opened", "at most", BATCH),
            Budget("repairs_each", "at most", 1),
            Budget("repairs_each", "at least", 1),
            Budget("ratio", "at most", 1.2),
            Budget("conflicts", "at most", 0),
            Budget("refused", "at most", 0),
            Budget("many_events_each", "at most", 3),
        ),
    )
