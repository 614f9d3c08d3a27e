"""Counts and conditions of an InferenceReplica, and what a status write costs (spec/omenative.md 3.4, 6.2; 112-114, 119)."""

from typing import Any

import pytest
from tests.omenative.ome_simulator import World

R = "RecreateInstanceOnPodRestart"


def unavailable(value: int) -> dict[str, Any]:
    return {"updateStrategy": {"rollingUpdate": {"maxUnavailable": value}}}


def two(**arguments: Any) -> World:
    world = World(policy=R, replicas=2, lifecycle=unavailable(1), **arguments).settle()
    world.run(5)
    return world


def test_all_are_ready() -> None:
    """6.2."""
    world = two()
    assert world.condition() == ("True", "AllInstancesReady", "2/2 Instances Ready")
    status = world.status
    counts = (status.replicas, status.ready_replicas, status.serving_replicas, status.available_replicas)
    assert counts == (2, 2, 2, 2)
    assert (status.updated_replicas, status.updated_ready_replicas) == (2, 2)
    assert status.label_selector == "component=engine,ome.io/inferenceservice=qwen3-0-6b,ome.io/managed-by=OMENative"
    assert status.observed_generation == world.generation


def test_one_restarts_within_the_budget() -> None:
    """113: 1/2 serving (min 1), told with the restart itself, before a pod is touched."""
    world = two()
    world.crash(world.pod(0))
    world.operate(die="status")
    assert world.status.serving_replicas == 1
    assert world.condition() == ("True", "MinimumAvailable", "1/2 Instances serving (min 1)")


def test_both_restart() -> None:
    """114."""
    world = two()
    for index in (0, 1):
        world.crash(world.pod(index))
    world.operate()
    assert world.condition() == ("False", "ReplicaCountMismatch", "0/2 Instances serving, need 1 (no rollout in flight)")


def test_one_of_one_restarts() -> None:
    """112."""
    world = World(policy=R).settle()
    world.crash(world.pod())
    world.run(1)
    assert world.condition() == ("False", "ReplicaCountMismatch", "0/1 Instances serving, need 1 (no rollout in flight)")


def test_one_is_failed() -> None:
    """119: whatever else is true."""
    world = two()
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    world.crash(world.pod(0))
    world.until(lambda: world.row(0).phase == "Failed", limit=120)
    assert world.condition() == ("False", "InstanceFailed", "At least one Instance has Phase=Failed")
    assert world.condition("RolloutStalled")[:2] == ("False", "Progressing")
    world.edit_lifecycle(updateStrategy={"rollingUpdate": {"maxSurge": 0}})
    world.roll("img:2")
    world.operate()
    assert world.condition("RolloutStalled")[:2] == ("True", "InstancesFailing")


@pytest.mark.parametrize(("served", "reason"), [(False, "PodGroupCRDNotInstalled"), (True, "GangSchedulingAvailable")])
def test_gang_scheduling(served: bool, reason: str) -> None:
    """6.2: for gangs only."""
    world = World(workers=1)
    world.gang_api = served
    world.operate()
    assert world.condition("GangSchedulingUnavailable")[1] == reason
    single = World()
    single.operate()
    assert all(one.type != "GangSchedulingUnavailable" for one in single.status.conditions)


def test_times_move_only_with_the_status() -> None:
    """lastTransitionTime stays while only words change."""
    world = two()
    before = next(one for one in world.status.conditions if one.type == "Ready")
    world.crash(world.pod(0))
    world.run(1)
    after = next(one for one in world.status.conditions if one.type == "Ready")
    assert after.reason != before.reason
    assert after.last_transition_time == before.last_transition_time


def test_available_needs_min_ready_seconds() -> None:
    """3.4: Ready for that long, listed on the headless Service, not on its way out."""
    world = World(min_ready=20).settle()
    assert world.status.available_replicas == 1
    pod = world.pod()
    pod.probe_fails = True
    world.step()
    pod.probe_fails = False
    world.run(10)
    assert (world.status.serving_replicas, world.status.available_replicas) == (1, 0)
    assert world.outcome is not None
    assert world.outcome.wake is not None
    assert world.outcome.wake == 11.0
    world.tick(world.outcome.wake)
    world.operate()
    assert world.status.available_replicas == 1


def test_a_start_costs_few_status_writes() -> None:
    """Own budget: pods that come one by one are not worth a write each."""
    world = World(policy=R, workers=6)
    for number in range(40):
        world.operate()
        world.tick()
        for place, pod in enumerate(sorted(world.pods)):
            world.pods[pod].probe_fails = number < 5 + place
    assert world.ready()
    assert world.status_writes <= 4
