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


def test_a_lost_pod_at_freeze_restarts_at_the_resume() -> None:
    """9.8: a row under the policy that recreates is never demoted."""
    world = aged()
    world.pause("Freeze")
    world.vanish(world.pod())
    world.run(60)
    assert world.row().phase == "Ready"
    assert not world.pods
    world.resume()
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
