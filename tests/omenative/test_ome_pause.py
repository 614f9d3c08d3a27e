"""Pause and freeze (spec/omenative.md 4.9; behaviours 100-104; C61)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.omenative.ome_simulator import CHART, World

R = "RecreateInstanceOnPodRestart"


def aged(policy: str = R, workers: int = 0) -> World:
    world = World(policy=policy, workers=workers).settle()
    world.run(120, step=10)
    return world


@pytest.mark.parametrize("workers", [0, 1])
def test_repairs_go_on_at_true(workers: int) -> None:
    """100: a crash restarts, to Ready; and so does a wedge under None."""
    world = aged(workers=workers)
    world.pause()
    world.crash(world.pod(0, "leader" if workers else "default"))
    world.until(lambda: world.ready() and world.row().incarnation == 2)
    other = aged("None", workers)
    other.pause()
    other.wedge(other.pod(0, "leader" if workers else "default"))
    other.until(lambda: other.ready() and other.row().incarnation == 2)


def test_nothing_starts_at_freeze() -> None:
    """101, 104, 9.11: neither a policy restart nor a repair; at the resume both open."""
    for wedge in (False, True):
        world = aged()
        world.pause("Freeze")
        if wedge:
            world.wedge(world.pod())
        else:
            world.crash(world.pod())
        world.run(3600, step=30)
        assert world.row().incarnation == 1
        assert "frozen" in world.why()
        world.resume()
        world.operate()
        assert world.row().phase == "Restarting"


@pytest.mark.parametrize("workers", [0, 2])
def test_lost_pods_at_freeze_restart_at_the_resume(workers: int) -> None:
    """9.8, T18, T6: without a single pod the row is Pending and no more Ready, told once; the restart comes with the resume."""
    world = aged(workers=workers)
    world.pause("Freeze")
    for pod in world.instance():
        world.vanish(pod)
    world.run(60)
    assert (world.row().phase, world.row().incarnation) == ("Pending", 1)
    assert not world.pods
    assert "frozen" in world.why()
    desired = workers + 1
    lost = f"pod count 0 below desired {desired}"
    assert world.told("InstanceDemoted") == [f"OMENative component=engine instance=0 has no pods left and is Pending: {lost}"]
    world.resume()
    world.operate()
    assert world.row().phase == "Restarting"
    world.until(lambda: world.ready() and world.row().incarnation == 2)
    assert world.told("RestartTriggered") == [f"OMENative component=engine instance=0 restart triggered: {lost} (incarnation=2)"]


def test_a_gang_that_is_short_at_freeze_stays_ready() -> None:
    """T18: it has pods; its counts tell the rest."""
    world = aged(workers=2)
    world.pause("Freeze")
    world.vanish(world.pod(0, "worker", 1))
    world.run(60)
    assert (world.row().phase, world.row().serving_pod_count) == ("Ready", 2)
    world.resume()
    world.until(lambda: world.ready() and world.row().incarnation == 2)


def test_a_frozen_instance_without_pods_goes_first_when_scaled_down() -> None:
    """2.8, 4.9: Ready rows stay, and scale-down goes on at freeze."""
    world = World(policy=R, replicas=2).settle()
    world.pause("Freeze")
    world.vanish(world.pod(0))
    world.run(5)
    world.edit(replicas=1)
    world.run(10)
    assert [row.index for row in world.status.rows] == [1]


def test_a_pending_instance_restarts_once_the_policy_recreates() -> None:
    """Seed: "OME uses the new value from then on": lost under None in a pause, and under the other policy repairs go on."""
    world = aged("None")
    world.pause()
    world.vanish(world.pod())
    world.run(5)
    assert world.row().phase == "Pending"
    world.edit_lifecycle(restartPolicy=R)
    world.until(lambda: world.ready() and world.row().incarnation == 2)


@pytest.mark.parametrize("mode", ["", "Recover", "Freeze"])
@pytest.mark.parametrize("passes", [1, 2, 4, 9])
def test_a_restart_under_way_finishes(mode: str, passes: int) -> None:
    """102, 9.10: wherever the pause meets it."""
    world = aged(workers=2)
    world.crash(world.pod(0, "leader"))
    for _ in range(passes):
        world.step()
    world.pause(mode)
    world.until(lambda: world.ready() and world.row().incarnation == 2)
    assert world.row().incarnation == 2


def test_deadlines_are_parked_and_armed_anew() -> None:
    """4.9: a full window at the resume."""
    world = World(policy=R, settings=replace(CHART, live=replace(CHART.live, instance_ready_timeout=60.0))).settle()
    world.start_delay = timedelta(hours=5)
    world.crash(world.pod())
    world.run(30)
    world.pause()
    world.run(600, step=5)
    operation = world.row().operation
    assert operation is not None
    assert (world.row().phase, operation.waiting, operation.deadline) == ("Restarting", "Paused", None)
    world.resume()
    world.operate()
    operation = world.row().operation
    assert operation is not None
    assert operation.deadline == world.now + timedelta(seconds=60)
    world.until(lambda: world.row().phase == "Failed", limit=70)


def test_scale_down_goes_on() -> None:
    """4.9."""
    world = World(replicas=2).settle()
    world.pause("Freeze")
    world.edit(replicas=1)
    world.until(lambda: len(world.pods) == 1)
    world.operate()
    assert [row.index for row in world.status.rows] == [0]
