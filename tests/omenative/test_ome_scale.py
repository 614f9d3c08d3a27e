"""How many Instances there are (spec/omenative.md 2.8, 5.7; behaviours 98, 99) and the end of all of them."""

from dataclasses import replace
from datetime import timedelta

from tests.omenative.ome_simulator import CHART, SERVICE, World

R = "RecreateInstanceOnPodRestart"


def test_the_lowest_free_indices() -> None:
    """2.8: gaps are filled, and are legal."""
    world = World(policy=R, replicas=4).settle()
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    world.crash(world.pod(1))
    world.until(lambda: world.row(1).phase == "Failed", limit=120)
    world.edit(replicas=3)
    world.until(lambda: len(world.status.rows) == 3)
    assert [row.index for row in world.status.rows] == [0, 2, 3]
    world.on_create = lambda _: None
    world.edit(replicas=5)
    world.settle()
    assert [row.index for row in world.status.rows] == [0, 1, 2, 3, 4]


def test_who_goes_is_drained_first() -> None:
    """5.7: out of rotation, drained, deleted, row gone; Ready ones with the lowest indices stay."""
    world = World(replicas=3, workers=1).settle()
    world.run(5)
    world.edit(replicas=1)
    world.operate()
    assert [row.phase for row in world.status.rows] == ["Ready", "Deleting", "Deleting"]
    assert not world.pod(2, "leader").in_rotation
    assert all(pod.gone_at is None for pod in world.pods.values())
    world.until(lambda: len(world.status.rows) == 1)
    assert {pod.labels["ome.io/instance-index"] for pod in world.pods.values()} == {"0"}


def test_waves_of_a_scale_down() -> None:
    """5.7: scaleDownPodBatchSize pods, the highest indices first."""
    settings = replace(CHART, start=replace(CHART.start, scale_down_pod_batch_size=4))
    world = World(replicas=5, workers=1, settings=settings).settle()
    world.edit(replicas=1)
    world.operate()
    assert [row.index for row in world.status.rows if row.phase == "Deleting"] == [3, 4]
    world.until(lambda: len(world.status.rows) == 1)


def test_an_overdue_drain_is_told_and_never_failed() -> None:
    """5.7, 6.2: once, and as a condition."""
    settings = replace(CHART, live=replace(CHART.live, instance_ready_timeout=30.0))
    world = World(replicas=2, settings=settings).settle()
    world.pod(1).stays = True
    world.edit(replicas=1)
    world.run(120)
    assert [row.phase for row in world.status.rows] == ["Ready", "Deleting"]
    assert len(world.told("DrainOverdue")) == 1
    assert world.condition("DrainOverdue")[:2] == ("True", "DrainsOverdue")
    world.pod(1).stays = False
    world.run(10)
    assert world.condition("DrainOverdue")[:2] == ("False", "DrainsWithinDeadline")


def test_a_scale_up_during_a_restart() -> None:
    """98: the new ones are made meanwhile, and become Ready."""
    world = World(policy=R).settle()
    world.run(5)
    world.pod().stays = True
    world.crash(world.pod())
    world.operate()
    world.edit(replicas=3)
    world.until(lambda: [row.phase for row in world.status.rows] == ["Restarting", "Ready", "Ready"])


def test_a_scale_down_takes_a_restarting_instance() -> None:
    """99: deleted, not restarted."""
    world = World(policy=R, replicas=6).settle()
    world.run(5)
    world.crash(world.pod(5))
    world.operate()
    world.edit(replicas=3)
    world.until(lambda: len(world.status.rows) == 3)
    world.run(20)
    assert [row.index for row in world.status.rows] == [0, 1, 2]
    assert len(world.pods) == 3
    assert world.told("RestartCompleted") == []


def test_down_and_up_again_quickly() -> None:
    """C82: what is on its way out goes; meanwhile others are made at free indices, and gaps are legal (2.8)."""
    world = World(replicas=4).settle()
    for _ in range(4):
        world.edit(replicas=1)
        world.run(2)
        world.edit(replicas=4)
        world.run(1)
    world.settle()
    world.run(20)
    assert len(world.status.rows) == 4
    assert {int(pod.labels["ome.io/instance-index"]) for pod in world.pods.values()} == {row.index for row in world.status.rows}
    assert len(world.pods) == 4


def test_a_teardown() -> None:
    """5.7: drained, deleted, then the finalizer goes; nothing is made any more."""
    world = World(policy=R, replicas=2, workers=1).settle()
    world.run(5)
    made = sum("create" in write for write in world.writes)
    world.deleted_at = world.now
    world.operate()
    assert [row.phase for row in world.status.rows] == ["Deleting", "Deleting"]
    assert not any(pod.gone_at for pod in world.pods.values())
    world.until(lambda: not world.finalizers)
    assert not world.pods
    assert sum("create" in write for write in world.writes) == made
    outcome = world.operate()
    assert not outcome.actions


def test_a_teardown_that_does_not_end() -> None:
    """5.7: past the deadline the drain is not waited for; what blocks is told once."""
    settings = replace(CHART, live=replace(CHART.live, teardown_deadline=60.0))
    world = World(settings=settings).settle()
    world.endpoints_lag = timedelta(hours=9)
    world.deleted_at = world.now
    pod = world.pod()
    for _ in range(80):
        world.operate()
        world.tick()
        pod.listed_ready = True
    assert len(world.told("TeardownDeadlineExceeded")) == 1
    assert f"{SERVICE}-engine-0-default-0" not in world.pods
    stuck = World(settings=settings).settle()
    stuck.pod().stays = True
    stuck.deleted_at = stuck.now
    stuck.run(120)
    assert len(stuck.told("TeardownBlocked")) == 1
    assert stuck.finalizers


def test_a_stuck_repair_holds_no_scale_down_back() -> None:
    """3.3: deletions come before restarts in a pass."""
    world = World(policy=R, replicas=2).settle()
    world.pod(0).stays = True
    world.crash(world.pod(0))
    world.run(10)
    world.edit(replicas=1)
    world.operate()
    assert [row.phase for row in world.status.rows] == ["Deleting", "Ready"]
    world.pod(0).stays = False
    world.until(lambda: [row.index for row in world.status.rows] == [1])
