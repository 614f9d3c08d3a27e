"""What the API server refuses (spec/omenative.md 5.4, 6.1; C63)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.omenative.ome_simulator import CHART, SERVICE, World

R = "RecreateInstanceOnPodRestart"


def gang(**arguments: Any) -> World:
    settings = replace(CHART, live=replace(CHART.live, instance_ready_timeout=20.0))
    world = World(policy=R, workers=2, settings=settings, **arguments).settle()
    world.run(5)
    return world


def refuse_third(kind: str) -> Any:
    return lambda action: kind if action.name.endswith("worker-1") else None


def test_a_full_quota_parks_the_clock() -> None:
    """C63 a: waiting QuotaExceeded, no deadline, less than one create a second, Ready when it is free, same incarnation."""
    world = gang()
    world.refuse = refuse_third("Quota")
    world.crash(world.pod(0, "leader"))
    world.until(lambda: world.refused_creates > 0)
    began, tries = world.now, world.refused_creates
    world.run(40)
    operation = world.row().operation
    assert operation is not None
    assert (world.row().phase, operation.waiting, operation.deadline) == ("Restarting", "QuotaExceeded", None)
    assert (world.refused_creates - tries) / (world.now - began).total_seconds() < 1
    assert world.refused_creates > tries
    assert len(world.told("InstanceQuotaBlocked")) == 1
    world.refuse = lambda _: None
    world.until(lambda: len(world.instance()) == 3, limit=15)
    world.operate()
    operation = world.row().operation
    assert operation is not None
    assert operation.deadline is not None
    assert operation.waiting == ""
    world.until(world.ready)
    assert world.row().incarnation == 2


def test_more_than_the_quota_can_ever_give() -> None:
    """C63: waiting cannot help, so it is Failed at once; the operation of a restart is kept."""
    world = gang()
    world.refuse = refuse_third("QuotaForever")
    world.crash(world.pod(0, "leader"))
    world.until(lambda: world.row().phase == "Failed", limit=30)
    assert world.row().operation is not None
    failure = world.row().last_failure
    assert failure is not None
    assert (failure.pod_name, failure.reason) == (f"{SERVICE}-engine-0-worker-1", "QuotaExceeded")
    assert "says no" in world.told("InstanceFailed")[0]


def test_an_invalid_pod() -> None:
    """C63 d: Failed with the server's message, InstanceRejected; no more tries."""
    world = gang()
    world.refuse = refuse_third("Invalid")
    world.crash(world.pod(0, "leader"))
    world.run(60)
    assert world.row().phase == "Failed"
    assert world.refused_creates == 1
    failure = world.row().last_failure
    assert failure is not None
    assert "says no" in failure.message
    assert len(world.told("InstanceRejected")) == 1


def test_an_invalid_pod_of_a_new_instance_holds_its_revision() -> None:
    """5.4: the workload's own fault."""
    world = World()
    world.refuse = lambda _: "Invalid"
    world.run(120)
    assert world.row().phase == "Failed"
    assert world.row().operation is None
    assert world.refused_creates == 1
    assert world.status.retry_blocks[0].state == "Held"
    world.refuse = lambda _: None
    world.roll("img:2")
    world.settle()


@pytest.mark.parametrize(("kind", "event"), [("Webhook", "InstanceAdmissionUnavailable"), ("NameTaken", "InstanceRejected")])
def test_what_passes_is_tried_again_while_the_clock_runs(kind: str, event: str) -> None:
    """6.1, C49: told once, asked again every few seconds; the deadline runs on."""
    world = gang()
    world.refuse = refuse_third(kind)
    world.crash(world.pod(0, "leader"))
    world.until(lambda: world.refused_creates > 0)
    world.run(7)
    assert 2 <= world.refused_creates <= 3
    assert len(world.told(event)) == 1
    operation = world.row().operation
    assert operation is not None
    assert operation.deadline is not None
    world.refuse = lambda _: None
    world.until(world.ready)
    assert world.row().incarnation == 2


def test_one_refusal_stops_no_other_instance() -> None:
    """C64."""
    world = World(policy=R, replicas=3).settle()
    world.run(5)
    world.refuse = lambda action: "Invalid" if action.index == 1 else None
    for index in range(3):
        world.crash(world.pod(index))
    world.run(60)
    assert world.phases() == ["Ready", "Failed", "Ready"]


def test_a_pause_does_not_hide_a_quota() -> None:
    """3.6: parked by both, and re-armed when both are over."""
    world = gang()
    world.refuse = refuse_third("Quota")
    world.crash(world.pod(0, "leader"))
    world.until(lambda: world.refused_creates > 0)
    world.pause()
    world.run(30)
    world.resume()
    world.refuse = lambda _: None
    world.until(world.ready)
    assert world.row().incarnation == 2
    assert world.row().ready_since is not None
    assert world.now - world.row().ready_since < timedelta(seconds=3)  # type: ignore[operator] # not None
