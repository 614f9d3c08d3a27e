"""The crash-loop repair, its batch and its budget (spec/omenative.md 4.4; behaviours 39-56, 59-71; C57, C59)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.omenative.ome_simulator import CHART, SERVICE, Container, World

from regroup.omenative.api.row import Row
from regroup.omenative.configuration.settings import Settings
from regroup.omenative.engine.repair import Wedged, admit, to_tell

R = "RecreateInstanceOnPodRestart"


def settings(*, grace: float | None = 60.0, batch: int | None = 10) -> Settings:
    live = replace(CHART.live, stuck_pod_grace=grace)
    return replace(CHART, live=live, start=replace(CHART.start, repair_batch_size=batch))


def unavailable(value: int | str, kind: str = "SurgeThenDrain") -> dict[str, Any]:
    return {"updateStrategy": {"type": kind, "rollingUpdate": {"maxUnavailable": value}}}


def aged(*, age: float = 120, **arguments: Any) -> World:
    """A world at rest whose pods are ``age`` seconds old or more."""
    world = World(**arguments).settle()
    world.run(max(1.0, age), step=10)
    return world


def wedge_workers(world: World, *indices: int) -> None:
    for index in indices:
        world.wedge(world.pod(index, "worker", 0))


def wedge_all(world: World) -> None:
    for pod in world.pods.values():
        world.wedge(pod)


def restarting(world: World) -> list[int]:
    return [row.index for row in world.status.rows if row.phase == "Restarting"]


@pytest.mark.parametrize("policy", ["None", R])
@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ImagePullBackOff", "CreateContainerConfigError"])
def test_a_wedged_pod_is_repaired_under_either_policy(policy: str, reason: str) -> None:
    """39, 40, 9.14."""
    world = aged(policy=policy)
    world.wedge(world.pod(), reason)
    world.operate()
    pod = f"{SERVICE}-engine-0-default-0"
    text = f"OMENative component=engine instance=0 restart triggered: pod {pod} wedged in {reason} past the stuck-pod grace"
    assert world.told("RestartTriggered") == [f"{text} (incarnation=2)"]
    world.until(world.ready)
    assert world.row().incarnation == 2


def test_a_young_pod_has_its_grace() -> None:
    """41, 9.12: pod age, not the time in the state; the wake-up is at its end."""
    world = World().settle()
    pod = world.pod()
    world.now = pod.created + timedelta(seconds=59)
    world.wedge(pod)
    outcome = world.operate()
    assert world.row().phase == "Ready"
    assert outcome.wake == 1.0
    world.tick(1)
    world.operate()
    assert world.row().phase == "Restarting"


def test_a_flapping_crash_loop_reaches_its_grace() -> None:
    """C57: running now and then does not start the grace anew."""
    world = World(settings=settings(grace=20.0)).settle()
    pod = world.pod()
    for _ in range(10):
        world.wedge(pod)
        world.run(2)
        if world.row().phase != "Ready":
            break
        world.crash(pod)
        world.run(2)
    assert world.row().incarnation == 2
    assert world.now - pod.created <= timedelta(seconds=30)


@pytest.mark.parametrize("grace", [None, 0.0])
def test_without_a_grace_there_is_no_repair(grace: float | None) -> None:
    """42, C57: unset or 0 is off."""
    world = aged(settings=settings(grace=grace))
    world.wedge(world.pod())
    world.run(600, step=10)
    assert world.row().incarnation == 1


def test_an_init_container_wedges_as_well() -> None:
    """44, 9.13: and so does a side-car, though neither ever triggers the policy."""
    for init in (True, False):
        world = aged(policy="None")
        pod = world.pod()
        pod.containers.append(Container(name="extra", init=init, running_since=world.now))
        world.wedge(pod, container="extra")
        pod.probe_fails = True
        world.tick()
        world.operate()
        assert world.row().phase == "Restarting"


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_an_ordinary_wait_is_no_wedge(reason: str) -> None:
    """45."""
    world = aged()
    world.wedge(world.pod(), reason)
    world.run(300, step=10)
    assert world.row().incarnation == 1


def test_a_deleting_pod_is_no_wedge() -> None:
    """46."""
    world = aged()
    pod = world.pod()
    world.wedge(pod)
    world.grace = timedelta(seconds=100)
    world.kubectl_delete(pod)
    world.run(90)
    assert world.row().incarnation == 1


def test_a_fully_serving_instance_is_no_wedge() -> None:
    """47: whatever a container shows."""
    world = aged()
    pod = world.pod()
    pod.containers.append(Container(name="debug", init=True, waiting="CrashLoopBackOff"))
    assert pod.serves
    world.run(60)
    assert world.row().incarnation == 1


def test_a_new_grace_counts_at_once() -> None:
    """48: it is read anew in every pass."""
    world = aged(settings=settings(grace=600.0))
    world.wedge(world.pod())
    world.run(30)
    assert world.row().phase == "Ready"
    world.settings = settings(grace=60.0)
    world.operate()
    assert world.row().phase == "Restarting"


def test_a_batch_of_repairs() -> None:
    """49, 50: 10, 10, 5; nothing waits for the first to finish, nobody is told."""
    world = aged(replicas=25, policy="None")
    wedge_all(world)
    opened = []
    for _ in range(3):
        world.operate()
        opened.append(len(restarting(world)))
    assert opened == [10, 20, 25]
    assert restarting(world) == list(range(25))
    assert world.told("RepairHeld") == []


def test_a_batch_counts_instances() -> None:
    """51: 10 gangs, 40 pods."""
    world = aged(replicas=12, workers=3, policy="None")
    wedge_all(world)
    world.operate()
    assert restarting(world) == list(range(10))


def test_no_batch_no_bound() -> None:
    """52."""
    world = aged(replicas=25, policy="None", settings=settings(batch=None))
    wedge_all(world)
    world.operate()
    assert len(restarting(world)) == 25


def test_policy_restarts_do_not_count() -> None:
    """53: batch 1, one wedge and three policy restarts: all four open."""
    world = aged(replicas=4, policy=R, settings=settings(batch=1))
    world.wedge(world.pod(2))
    for index in (0, 1, 3):
        world.crash(world.pod(index))
    world.operate()
    assert restarting(world) == [0, 1, 2, 3]


def test_a_running_repair_does_not_count() -> None:
    """54."""
    world = aged(replicas=2, policy="None", settings=settings(batch=1))
    world.wedge(world.pod(0))
    world.operate()
    world.wedge(world.pod(1))
    world.operate()
    assert restarting(world) == [0, 1]


def test_replacing_pods_does_not_count() -> None:
    """55: the wedge opens, and both pods come back while it runs."""
    world = aged(replicas=3, policy="None", settings=settings(batch=1))
    world.wedge(world.pod(0))
    world.vanish(world.pod(1))
    world.vanish(world.pod(2))
    world.start_delay = timedelta(seconds=30)
    world.operate()
    assert world.phases() == ["Restarting", "Creating", "Creating"]
    world.until(world.ready)
    assert [row.incarnation for row in world.status.rows] == [2, 1, 1]


def test_one_serving_gang_at_a_time() -> None:
    """59, 60, 66: each opens when no other restarts, until all are Ready; SurgeThenDrain honours the budget too."""
    world = aged(replicas=4, workers=3, policy="None", lifecycle=unavailable(1))
    wedge_workers(world, 0, 1, 2, 3)
    most = 0
    while not all(row.incarnation == 2 and row.phase == "Ready" for row in world.status.rows):
        world.step()
        most = max(most, len(restarting(world)))
    assert most == 1
    opened = [index for _, index, phase, _ in world.history if phase == "Restarting"]
    assert opened == [0, 1, 2, 3]


def test_dark_instances_do_not_wait() -> None:
    """61, 69: what serves nothing costs nothing."""
    world = aged(replicas=4, policy=R, lifecycle=unavailable(1))
    wedge_all(world)
    world.operate()
    assert restarting(world) == [0, 1, 2, 3]


def test_dark_ones_first_then_serving_ones() -> None:
    """C59 run 1: 0 and 1 are dark and go at once; 2 and 3 go one by one, each when no other restarts."""
    world = aged(replicas=4, workers=1, policy="None", lifecycle=unavailable(1))
    for index in (0, 1):
        world.wedge(world.pod(index, "leader"))
    wedge_workers(world, 2, 3)
    world.operate()
    assert restarting(world) == [0, 1]
    assert world.told("RepairHeld") == []
    while not all(row.incarnation == 2 and row.phase == "Ready" for row in world.status.rows):
        world.step()
        busy = restarting(world)
        assert busy in ([0, 1], [0], [1], [2], [3], [])


def test_a_dark_one_with_a_higher_index_counts() -> None:
    """9.5: of what opens in one pass, a serving Instance is not one more than the budget."""
    world = aged(replicas=2, workers=1, policy="None", lifecycle=unavailable(1))
    wedge_workers(world, 0)
    world.wedge(world.pod(1, "leader"))
    world.operate()
    assert restarting(world) == [1]


def test_an_update_out_of_service_is_charged() -> None:
    """62, 70: it waits, told once with its index and the budget, over 100 passes."""
    world = aged(replicas=2, workers=3, policy="None", lifecycle=unavailable(1, "RecreatePod"))
    world.start_delay = timedelta(seconds=600)
    world.edit_lifecycle(updateStrategy={"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 1, "partition": 1}})
    world.roll("img:2")
    world.operate()
    assert world.phases() == ["Ready", "Updating"]
    wedge_workers(world, 0)
    for _ in range(100):
        world.step()
    assert world.phases() == ["Ready", "Updating"]
    text = "OMENative component=engine instance=0 crash-loop repair held by Budget: "
    assert world.told("RepairHeld") == [f"{text}per-Component unavailability budget 1 exhausted (would become 2)"]


def test_a_surge_is_not_charged() -> None:
    """63: it takes nothing offline."""
    rolling = {"maxUnavailable": 1, "partition": 1}
    world = aged(replicas=2, workers=1, policy="None", lifecycle={"updateStrategy": {"rollingUpdate": rolling}})
    world.start_delay = timedelta(seconds=600)
    world.roll("img:2")
    world.operate()
    assert world.row(1).phase == "Updating"
    wedge_workers(world, 0)
    world.operate()
    assert world.row(0).phase == "Restarting"


def test_no_budget_no_wait() -> None:
    """64."""
    world = aged(replicas=4, workers=3, policy="None")
    wedge_workers(world, 0, 1, 2, 3)
    world.operate()
    assert restarting(world) == [0, 1, 2, 3]


def test_a_percentage_is_rounded_up() -> None:
    """65: 25 % of 5 are 2."""
    world = aged(replicas=5, workers=1, policy="None", lifecycle=unavailable("25%"))
    wedge_workers(world, 0, 1, 2, 3, 4)
    world.operate()
    assert restarting(world) == [0, 1]


def test_a_policy_restart_is_charged() -> None:
    """67: whatever opened it, also in the same pass and at a higher index."""
    world = aged(replicas=2, workers=1, policy=R, lifecycle=unavailable(1))
    wedge_workers(world, 0)
    world.crash(world.pod(1, "leader"))
    world.operate()
    assert restarting(world) == [1]
    assert len(world.told("RepairHeld")) == 1


def test_one_opens_and_nobody_is_told() -> None:
    """68: the budget did not keep the component from opening any."""
    world = aged(replicas=2, workers=1, policy="None", lifecycle=unavailable(1))
    wedge_workers(world, 0, 1)
    world.operate()
    assert restarting(world) == [0]
    assert world.told("RepairHeld") == []


def test_a_budget_of_nothing() -> None:
    """71, 9.18, C59 run 3: a serving one never opens, told once; a dark one does."""
    world = aged(replicas=4, workers=1, policy="None", lifecycle=unavailable(0))
    wedge_workers(world, 2, 3)
    world.run(300, step=5)
    assert restarting(world) == []
    text = "OMENative component=engine instance=2 crash-loop repair held by Budget: "
    assert world.told("RepairHeld") == [f"{text}per-Component unavailability budget 0 exhausted (would become 1)"]
    world.wedge(world.pod(0, "leader"))
    world.operate()
    assert restarting(world) == [0]


def test_a_failed_restart_is_not_charged() -> None:
    """9.21."""
    world = aged(replicas=2, workers=1, policy="None", lifecycle=unavailable(1))
    wedge_workers(world, 0)
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    world.until(lambda: world.row(0).phase == "Failed")
    wedge_workers(world, 1)
    world.operate()
    assert world.row(1).phase == "Restarting"


@given(
    serving=st.lists(st.booleans(), max_size=30),
    out=st.integers(0, 5),
    budget=st.none() | st.integers(0, 6),
    batch=st.none() | st.integers(1, 8),
)
def test_bounds_hold_for_any_storm(serving: list[bool], out: int, budget: int | None, batch: int | None) -> None:
    """4.4.1, 4.4.2: never more than the batch, never a serving one past the budget, no dark one held but by the batch, nobody
    lost."""
    wedged = [Wedged(row=Row(index=index), text="", serves=serves) for index, serves in enumerate(serving)]
    found = admit(wedged, out_of_service=out, budget=budget, batch=batch)
    assert len(found.opened) + len(found.denied) + len(found.left_over) == len(wedged)
    if batch is not None:
        assert len(found.opened) <= batch
    opened_serving = [one for one in found.opened if one.serves]
    dark = len(found.opened) - len(opened_serving)
    if budget is not None and opened_serving:
        assert out + dark + len(opened_serving) <= budget
    assert all(one.wedged.serves for one in found.denied)
    if found.left_over:
        assert batch is not None
        assert len(found.opened) == batch
    told = to_tell(found)
    assert (told is not None) == (bool(found.denied) and not found.opened)
    indices = [one.row.index for one in found.opened]
    assert indices == sorted(indices)
