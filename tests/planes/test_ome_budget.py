"""What ``maxUnavailable`` holds and what it does not, on a cluster: spec/omenative.md 4.4.2, 4.4.3; behaviours 62-65, 67, 68, 70,
71; C59.

Gangs whose worker is wedged while their leader serves; the operator is away while that happens, so that its first pass sees all.
"""

from typing import Any

from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, service_manifest
from tests.planes.plane import Plane

from regroup.omenative.api.row import FAILED, READY, UPDATING
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, MAIN_CONTAINER

GRACE = 5
SLOW = {"sandbox.regroup.dev/ready-delay": "8s"}
HELD = (
    "OMENative component=engine instance={} crash-loop repair held by Budget: "
    "per-Component unavailability budget {} exhausted (would become {})"
)


async def start(
    plane: Plane, *, instances: int, budget: int | str | None, policy: str = "None", kind: str = "SurgeThenDrain", **rolling: Any
) -> Ome:
    """Gangs of two whose pods are older than the grace, and no operator."""
    ome = Ome(plane)
    soon = {"operation": "1s", "gate": "1s"}
    await ome.settings(stuckPodGracePeriod=f"{GRACE}s", requeue=soon)
    body = gang_runtime("gang", workers=1)
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "gang", body, field_manager="kubectl")
    wanted = {**({"maxUnavailable": budget} if budget is not None else {}), **rolling}
    await ome.apply(
        service_manifest(
            runtime="gang",
            instances=instances,
            policy=policy,
            lifecycle={"updateStrategy": {"type": kind, "rollingUpdate": wanted}},
            # It names the workers itself, so that its stable Service routes to leaders only (2.5).
            engine={"leader": {}, "worker": {"size": 1}, "annotations": SLOW},
        )
    )
    await ome.wait_ready(instances)
    await plane.sleep(GRACE + 1, exact=True)
    await plane.stop_operator()
    return ome


async def first(plane: Plane, ome: Ome, *, mark: int = -1) -> list[int]:
    """The Instances that the first pass opened, once it has opened some."""
    since = len(plane.requests) if mark < 0 else mark
    if mark < 0:
        await plane.start_operator()
    found: list[list[int]] = await plane.wait_for(
        lambda: [one for one in ome.restarting(since) if one], timeout=30, what="a restart is open"
    )
    return found[0]


def workers(ome: Ome, *indices: int) -> list[str]:
    return [ome.pod_name(index, "worker") for index in indices]


async def held(plane: Plane, ome: Ome) -> str:
    """What the only RepairHeld says."""
    notes = await plane.wait_for(lambda: ome.events("RepairHeld"), timeout=30, what="a repair is held")
    assert len(notes) == 1
    text: str = notes[0].note
    return text


async def new_image(ome: Ome, image: str) -> None:
    runner = {"name": MAIN_CONTAINER, "image": image}
    await ome.patch({"engine": {"leader": {"runner": runner}, "worker": {"runner": runner}}})


async def test_an_update_that_takes_pods_offline_is_charged(plane: Plane) -> None:
    """Behaviours 62, 70: one Instance is being recreated, so the repair of a serving gang waits; told once, whatever number of
    passes."""
    async with plane:
        ome = await start(plane, instances=2, budget=1, kind="RecreatePod", partition=1)
        await plane.start_operator()
        await plane.faults.refuse_image("server:2")
        await new_image(ome, "server:2")
        await ome.wait_row(1, phase=UPDATING)
        await ome.wedge(*workers(ome, 0))
        assert await held(plane, ome) == HELD.format(0, 1, 2)
        mark = len(plane.requests)
        await plane.sleep(100)
        row = await ome.row(0)
        assert row is not None
        assert (row.phase, row.incarnation) == (READY, 1)
        assert not any(ome.restarting(mark))
        assert len(await ome.events("RepairHeld")) == 1
        # With an image that can be had the update ends, and the repair opens.
        await new_image(ome, "server:3")
        await ome.wait_restarted(0)


async def test_a_surge_is_not_charged(plane: Plane) -> None:
    """Behaviour 63: a replacement that is being made beside its source takes nothing offline."""
    async with plane:
        ome = await start(plane, instances=2, budget=1, partition=1)
        await plane.start_operator()
        await plane.faults.refuse_image("server:2")
        await ome.settings(stuckPodGracePeriod="10m")
        await new_image(ome, "server:2")
        await ome.wait_row(1, phase=UPDATING)
        await ome.wedge(*workers(ome, 0))
        await ome.settings(stuckPodGracePeriod=f"{GRACE}s")
        await ome.wait_row(0, phase="Restarting", timeout=30)
        assert await ome.events("RepairHeld") == []


async def test_no_budget_no_wait(plane: Plane) -> None:
    """Behaviour 64: four serving gangs at once."""
    async with plane:
        ome = await start(plane, instances=4, budget=None)
        await ome.wedge(*workers(ome, 0, 1, 2, 3))
        assert await first(plane, ome) == [0, 1, 2, 3]


async def test_a_percentage_is_rounded_up(plane: Plane) -> None:
    """Behaviour 65: 25% of 5 are 2."""
    async with plane:
        ome = await start(plane, instances=5, budget="25%")
        await ome.wedge(*workers(ome, 0, 1, 2, 3, 4))
        assert await first(plane, ome) == [0, 1]


async def test_a_restart_that_the_policy_started_is_charged(plane: Plane) -> None:
    """Behaviour 67: whatever opened it, the repair of another serving gang waits until it is over."""
    async with plane:
        ome = await start(plane, instances=2, budget=1, policy=RECREATE)
        await ome.crash(ome.pod_name(1, "leader"))
        await ome.wedge(*workers(ome, 0))
        assert await first(plane, ome) == [1]
        assert await held(plane, ome) == HELD.format(0, 1, 2)
        mark = len(plane.requests)
        await ome.wait_restarted(1)
        await ome.wait_restarted(0)
        assert [0, 1] not in ome.restarting(mark)


async def test_one_opens_and_nobody_is_told_of_the_other(plane: Plane) -> None:
    """Behaviour 68: of two serving gangs one opens; the write that opens it has no word of a repair that is held."""
    async with plane:
        ome = await start(plane, instances=2, budget=1)
        await ome.wedge(*workers(ome, 0, 1))
        mark = len(plane.requests)
        await plane.start_operator()
        assert await first(plane, ome, mark=mark) == [0]
        opening = next(entry for entry in plane.writes(since=mark) if "Restarting" in str(entry.body))
        assert "RepairHeld" not in str(opening.body)
        # The next pass opens none (9.3): then it is told.
        assert await held(plane, ome) == HELD.format(1, 1, 2)
        await ome.wait_ready(2)


async def test_a_budget_of_nothing(plane: Plane) -> None:
    """Behaviour 71, C59 run 3: a serving one never opens, told once with its index and the budget; a dark one does."""
    async with plane:
        ome = await start(plane, instances=3, budget=0)
        await ome.wedge(*workers(ome, 2))
        await plane.start_operator()
        assert await held(plane, ome) == HELD.format(2, 0, 1)
        await plane.sleep(60)
        await ome.wedge(ome.pod_name(0, "leader"))
        row = await ome.wait_restarted(0)
        assert row.incarnation == 2
        other = await ome.row(2)
        assert other is not None
        assert (other.phase, other.incarnation) == (READY, 1)
        assert len(await ome.events("RepairHeld")) == 1


async def test_dark_ones_at_once_and_serving_ones_in_turn(plane: Plane) -> None:
    """C59 run 1: 0 and 1 serve nothing and go at once; 2 and 3 one after the other, each when no other restarts."""
    async with plane:
        ome = await start(plane, instances=4, budget=1)
        await ome.wedge(ome.pod_name(0, "leader"), ome.pod_name(1, "leader"), *workers(ome, 2, 3))
        mark = len(plane.requests)
        assert await first(plane, ome) == [0, 1]

        async def all_new() -> bool:
            rows = await ome.rows()
            return all(row.phase == READY and row.incarnation == 2 for row in rows.values())

        await plane.wait_for(all_new, timeout=120, what="all are repaired")
        states = ome.restarting(mark)
        assert all(set(one) <= {0, 1} or len(one) == 1 for one in states), states
        assert FAILED not in {row.phase for row in (await ome.rows()).values()}


async def test_policy_restarts_wait_for_no_budget(plane: Plane) -> None:
    """Behaviours 29, 114, C59 run 2: all four restart in one pass at maxUnavailable 1; the component is short of its minimum."""
    async with plane:
        ome = await start(plane, instances=4, budget=1, policy=RECREATE)
        await ome.crash(*(ome.pod_name(index, "leader") for index in range(4)))
        assert await first(plane, ome) == [0, 1, 2, 3]

        async def short() -> bool:
            found = await ome.condition("EngineReady")
            return found is not None and (found.status, found.reason, found.message) == (
                "False",
                "InsufficientAvailable",
                "0/4 Instances serving, need 3",
            )

        await plane.wait_for(short, timeout=30, what="EngineReady says 0/4")
        await ome.wait_ready(4)
        assert len(await ome.events("RestartTriggered")) == 4
