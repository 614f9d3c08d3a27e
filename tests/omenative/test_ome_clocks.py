"""Deadlines, stuck pods and holds (spec/omenative.md 3.6, 4.11; behaviours 86-91, 96, 97; C50, C53, C65)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.omenative.ome_simulator import CHART, SERVICE, World

from regroup.omenative.configuration.settings import Settings
from regroup.omenative.view import NodeFacts

R = "RecreateInstanceOnPodRestart"
POD = f"{SERVICE}-engine-0-default-0"


def settings(**live: Any) -> Settings:
    return replace(CHART, live=replace(CHART.live, **live))


def settled(**arguments: Any) -> World:
    world = World(**{"policy": R, **arguments}).settle()
    world.run(10)
    return world


def test_a_restart_that_runs_out_of_time() -> None:
    """86: Failed at 30 m, operation and pods kept."""
    world = settled()
    world.start_delay = timedelta(hours=9)
    world.crash(world.pod())
    world.operate()
    opened = world.now
    operation = world.row().operation
    assert operation is not None
    world.until(lambda: world.row().phase == "Failed", limit=1900, step=5)
    assert timedelta(minutes=30) <= world.now - opened <= timedelta(minutes=30, seconds=10)
    row = world.row()
    assert row.operation == operation
    assert row.incarnation == 2
    assert row.last_failure is not None
    assert row.last_failure.reason == "DeadlineExceeded"
    assert world.told("InstanceFailed") == [
        "OMENative component=engine instance=0 DeadlineExceeded: Restart/Drain exceeded InstanceReadyTimeout"
    ]
    assert world.pod().gone_at is None


def test_a_new_pod_that_is_stuck() -> None:
    """87: Failed early, with the pod's reason."""
    world = settled()
    world.on_create = lambda pod: setattr(pod, "blocked", "ImagePullBackOff")
    world.crash(world.pod())
    world.until(lambda: world.row().phase == "Failed", limit=120)
    failure = world.row().last_failure
    assert failure is not None
    assert (failure.pod_name, failure.reason) == (POD, "ImagePullBackOff")
    assert world.row().operation is not None
    assert f"pod {POD} stuck in ImagePullBackOff past the stuck-pod grace" in world.told("InstanceFailed")[0]
    assert world.status.retry_blocks == ()


def test_the_components_own_timeout() -> None:
    """88: 45 m beats the cluster's 30 m; 0s is none of its own (9.29)."""
    for own, minutes in (("45m", 45), ("0s", 30), ("-5m", 30)):
        world = settled(lifecycle={"instanceReadyTimeout": own})
        world.crash(world.pod())
        world.operate()
        operation = world.row().operation
        assert operation is not None
        assert operation.deadline == world.now.replace(microsecond=0) + timedelta(minutes=minutes)


def test_without_a_timeout_nothing_expires() -> None:
    """89, C53: no deadline, and the condition says so; told once."""
    world = settled(settings=settings(instance_ready_timeout=None))
    assert world.condition("InstanceReadyTimeoutUnconfigured")[0] == "True"
    assert world.condition("InstanceReadyTimeoutUnconfigured")[2].startswith("no instanceReadyTimeout is set")
    assert len(world.told("InstanceReadyTimeoutUnconfigured")) == 1
    world.start_delay = timedelta(days=9)
    world.crash(world.pod())
    world.operate()
    operation = world.row().operation
    assert operation is not None
    assert operation.deadline is None
    world.run(86400, step=600)
    assert world.row().phase == "Restarting"
    world.settings = CHART
    world.operate()
    text = "Instance readiness deadline is 30m0s"
    assert world.condition("InstanceReadyTimeoutUnconfigured") == ("False", "InstanceReadyTimeoutConfigured", text)
    operation = world.row().operation
    assert operation is not None
    assert operation.deadline is not None


def test_a_serving_instance_is_not_failed() -> None:
    """90, C53: the deadline falls into the minReadySeconds window."""
    world = settled(min_ready=30, settings=settings(instance_ready_timeout=15.0))
    world.crash(world.pod())
    world.until(lambda: world.row().incarnation == 2)
    world.until(world.ready, limit=60)
    assert world.told("InstanceFailed") == []


def fail_restart(world: World, runner: str = "default") -> None:
    """A restart that fails because its new pods are stuck."""
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    world.crash(world.pod(0, runner), reason="OOMKilled", code=137)
    world.until(lambda: world.row().phase == "Failed", limit=120)
    world.on_create = lambda _: None


@pytest.mark.parametrize("policy", [R, "None"])
def test_a_failed_instance_is_kept(policy: str) -> None:
    """91, C51: for hours, whatever happens to the policy, the scale or the operator."""
    world = settled(workers=1)
    fail_restart(world, "leader")
    kept, row = world.uids_of(), world.row()
    world.edit_lifecycle(restartPolicy=policy)
    world.edit(replicas=2)
    world.run(6 * 3600, step=60)
    assert world.uids_of(0) == kept
    assert (world.row().phase, world.row().incarnation) == ("Failed", row.incarnation)
    assert world.row().last_failure == row.last_failure
    assert world.row(1).phase == "Ready"


def test_a_failed_gang_that_loses_a_pod_is_kept() -> None:
    """4.11 against the seed: the rest is kept for inspection all the same."""
    world = settled(workers=2)
    fail_restart(world, "leader")
    world.vanish(world.pod(0, "worker", 1))
    kept = world.uids_of()
    world.run(3600, step=30)
    assert world.uids_of() == kept
    assert world.row().phase == "Failed"


def test_kept_pods_that_recover() -> None:
    """96, T13: Ready and RestartCompleted."""
    world = settled()
    fail_restart(world)
    pod = world.pod()
    pod.blocked = ""
    world.until(world.ready)
    assert world.row().incarnation == 2
    assert world.told("RestartCompleted") == ["OMENative component=engine instance=0 restart complete (incarnation=2)"]
    assert world.pod() is pod


def test_kept_pods_that_are_gone() -> None:
    """T14: the spent operation is closed, and the create path makes them anew at the same incarnation."""
    world = settled()
    fail_restart(world)
    world.vanish(world.pod())
    world.until(world.ready)
    assert world.row().incarnation == 2
    assert len(world.told("RepairClosed")) == 1


def test_a_new_pod_that_ends_is_replaced() -> None:
    """97, C50 run 1: one RestartCompleted, incarnation 2."""
    world = settled(workers=1)
    world.crash(world.pod(0, "leader"))
    world.until(lambda: {pod.labels["ome.io/instance-incarnation"] for pod in world.instance()} == {"2"})
    world.fail(world.pod(0, "worker"), reason="Evicted")
    world.until(world.ready)
    assert world.row().incarnation == 2
    name = f"{SERVICE}-engine-0-worker-0"
    assert (
        f"deleted terminal pod(s) {name} (Failed/Evicted) for recreate (Restart recycle 1)"
        in world.told("TerminalPodRecycled")[0]
    )
    assert len(world.told("RestartCompleted")) == 1


def test_new_pods_that_always_end() -> None:
    """C50 run 2: Failed at 30 s, incarnation still 2, pods kept, at most 10 made."""
    world = settled(workers=1, settings=settings(instance_ready_timeout=30.0, stuck_pod_grace=None))
    world.grace = timedelta(seconds=0)
    world.crash(world.pod(0, "leader"))
    world.operate()
    opened = world.now
    world.writes.clear()
    while world.row().phase != "Failed":
        world.step()
        for pod in world.instance():
            young = pod.labels["ome.io/instance-incarnation"] == "2" and pod.labels["ome.io/runner"] == "worker"
            if young and pod.phase == "Running" and world.now - pod.created >= timedelta(seconds=2):
                world.fail(pod, reason="Evicted")
    assert timedelta(seconds=30) <= world.now - opened <= timedelta(seconds=33)
    assert world.row().incarnation == 2
    assert sum("create" in write and "worker" in write for write in world.writes) <= 10
    assert world.pods
    assert len(world.told("InstanceFailed")) == 1


def test_old_pods_that_do_not_go() -> None:
    """C65: no new pod beside the old one, no force, and the time-out is the reason."""
    world = settled(workers=1, settings=settings(instance_ready_timeout=40.0))
    world.pod(0, "worker").node = "n2"
    world.nodes = {"n2": NodeFacts(known=False)}
    world.pod(0, "worker").stays = True
    world.crash(world.pod(0, "leader"))
    world.run(60)
    row = world.row()
    assert row.phase == "Failed"
    assert row.last_failure is not None
    assert row.last_failure.reason == "DeadlineExceeded"
    assert [pod.name for pod in world.pods.values()] == [f"{SERVICE}-engine-0-worker-0"]
    world.vanish(world.pod(0, "worker"))
    world.nodes = {}
    world.annotations["ome.io/reset-instances"] = "0"
    world.until(world.ready)
    assert len(world.pods) == 2


def test_a_new_pod_on_a_silent_node_parks_the_clock() -> None:
    """3.6, 4.6 B: NodeUnknown, and a full window when the node is back."""
    world = settled(settings=settings(instance_ready_timeout=60.0))
    world.start_delay = timedelta(hours=1)
    world.crash(world.pod())
    world.until(lambda: world.row().incarnation == 2 and bool(world.pods) and world.pod().gone_at is None)
    world.nodes = {"n1": NodeFacts(known=False)}
    world.run(300, step=5)
    operation = world.row().operation
    assert operation is not None
    assert (operation.waiting, operation.deadline) == ("NodeUnknown", None)
    world.nodes = {}
    world.operate()
    operation = world.row().operation
    assert operation is not None
    assert operation.waiting == ""
    assert operation.deadline == world.now + timedelta(seconds=60)


def test_an_unplaceable_restart_without_a_grace_of_its_own_expires() -> None:
    """Seed: "A restart has until the Instance readiness timeout"; nothing else would ever end it."""
    world = settled(settings=settings(instance_ready_timeout=60.0))
    world.on_create = lambda pod: setattr(pod, "blocked", "Unschedulable")
    world.crash(world.pod())
    world.until(lambda: world.row().phase == "Failed", limit=90)


def test_the_operator_wakes_up_for_its_clocks() -> None:
    """3.6: no watch event comes for a deadline or the end of a grace."""
    world = settled()
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    world.crash(world.pod())
    for _ in range(40):
        outcome = world.operate()
        if world.row().phase == "Failed":
            break
        assert outcome.wake is not None
        world.tick(min(outcome.wake, 5.0) or 1.0)
    assert world.row().phase == "Failed"
