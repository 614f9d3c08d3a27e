"""Making Instances, and replacing single pods under the policy None (spec/omenative.md 4.8; behaviours 31, 33-38, 43, 55;
C49)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.omenative.ome_simulator import CHART, SERVICE, World

from regroup.omenative.configuration.settings import UpdateRetry

R = "RecreateInstanceOnPodRestart"


def settled(**arguments: Any) -> World:
    world = World(**arguments).settle()
    world.run(10)
    return world


def ready_again(world: World) -> None:
    """It left Ready and came back."""
    world.until(lambda: not world.ready(), limit=30)
    world.until(world.ready)


def test_the_first_create() -> None:
    """T1, T2: row first with its deadline, pods after, then Ready with the time of its entry."""
    world = World(workers=3)
    world.operate(die="status")
    row = world.row()
    assert (row.phase, row.incarnation, row.running_revision) == ("Creating", 1, "")
    assert row.operation is not None
    assert (row.operation.type, row.operation.step) == ("Create", "CreatePods")
    assert row.operation.deadline == world.now + timedelta(minutes=30)
    assert not world.pods
    world.settle()
    row = world.row()
    assert row.running_revision == world.update_revision
    assert row.operation is None
    assert row.ready_since is not None
    assert len(world.pods) == 4


def test_events_of_a_create() -> None:
    """6.1."""
    world = settled(workers=3)
    prefix = "OMENative component=engine instance=0"
    assert world.told("InstanceCreated") == [f"{prefix} materialized; 4 pod(s) requested"]
    assert world.told("InstanceReady") == [f"{prefix} is Ready (4 pod(s) serving)"]


def test_nothing_serves_before_all_are_ready() -> None:
    """3.5: a gang enters rotation together."""
    world = World(workers=3)
    world.run(1)
    world.pod(0, "worker", 2).blocked = "ContainerCreating"
    world.run(30)
    assert not any(pod.in_rotation for pod in world.pods.values())


def test_a_kubelet_restart_is_nobodys_business() -> None:
    """33: no action, incarnation 1."""
    world = settled()
    writes, status = list(world.writes), world.status_writes
    world.crash(world.pod())
    world.run(300, step=5)
    assert world.row().incarnation == 1
    assert (world.writes, world.status_writes) == (writes, status)


def test_a_deleted_pod_comes_back() -> None:
    """34: same name, same incarnation, no restart."""
    world = settled()
    before = world.uids_of()
    world.kubectl_delete(world.pod())
    ready_again(world)
    assert world.pod().uid not in before
    assert world.row().incarnation == 1
    assert world.told("RestartTriggered") == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failed_pod_is_deleted_and_comes_back(workers: int) -> None:
    """35, C49: the object that occupies the name goes first; siblings are not touched."""
    world = settled(workers=workers, policy="None")
    pod = world.pod(0, "worker", 1) if workers else world.pod()
    others = world.uids_of() - {pod.uid}
    world.fail(pod, reason="Evicted", message="low on memory")
    ready_again(world)
    assert pod.uid not in world.uids_of()
    assert others <= world.uids_of()
    assert world.row().incarnation == 1
    expected = f"deleted terminal pod(s) {pod.name} (Failed/Evicted) for recreate (Create recycle 1)"
    assert expected in world.told("TerminalPodRecycled")[0]
    assert world.row().last_failure is not None


def test_only_the_lost_worker_comes_back() -> None:
    """36, 9.9: the other pods keep their UIDs; meanwhile the Instance is Creating at the same incarnation."""
    world = settled(workers=3, policy="None")
    worker = world.pod(0, "worker", 1)
    others = world.uids_of() - {worker.uid}
    world.vanish(worker)
    world.operate()
    assert (world.row().phase, world.row().incarnation) == ("Creating", 1)
    world.until(world.ready)
    assert others < world.uids_of()
    assert worker.uid not in world.uids_of()


def test_the_lost_worker_comes_back_at_the_running_revision() -> None:
    """4.8: partial replacement never mixes revisions, though the template has changed meanwhile."""
    rolling = {"updateStrategy": {"rollingUpdate": {"partition": 1}}}
    world = settled(workers=2, policy="None", lifecycle=rolling)
    old = world.update_revision
    world.roll("img:2")
    world.vanish(world.pod(0, "worker", 1))
    ready_again(world)
    assert {pod.container().image for pod in world.instance()} == {"img:1"}
    assert world.row().running_revision == old


def test_paused_under_none_nothing_is_made() -> None:
    """37, 38, T18: Pending until the resume."""
    world = settled()
    world.pause()
    world.vanish(world.pod())
    world.run(120)
    assert not world.pods
    assert world.row().phase == "Pending"
    world.resume()
    world.until(world.ready)
    assert world.row().incarnation == 1


def test_paused_a_gang_under_none_stays_short() -> None:
    """4.9: some pods are left, so the row stays Ready and the counts fall."""
    world = settled(workers=2, policy="None")
    world.pause()
    world.vanish(world.pod(0, "worker", 1))
    world.run(60)
    assert world.row().phase == "Ready"
    assert world.row().pod_count == 2
    assert world.status.serving_replicas == 0
    world.resume()
    ready_again(world)


def test_no_new_instance_while_paused() -> None:
    """4.9: new Instances are held."""
    world = settled()
    world.pause()
    world.edit(replicas=3)
    world.run(30)
    assert [row.index for row in world.status.rows] == [0]
    world.resume()
    world.until(world.ready)
    assert [row.index for row in world.status.rows] == [0, 1, 2]


def test_a_wedge_before_ready_fails_the_create() -> None:
    """43, T3, T16: the stuck-pod clock, and then another attempt with another pod."""
    world = World()
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    world.until(lambda: world.row().phase == "Failed" if world.status.rows else False)
    row = world.row()
    assert row.operation is None
    assert row.last_failure is not None
    assert row.last_failure.reason == "CrashLoopBackOff"
    pod = f"{SERVICE}-engine-0-default-0"
    text = f"OMENative component=engine instance=0 pod {pod} stuck in CrashLoopBackOff past the stuck-pod grace"
    assert world.told("InstanceFailed") == [text]
    assert world.told("RestartTriggered") == []
    first = world.pod().uid
    world.on_create = lambda _: None
    world.settle()
    assert world.pod().uid != first
    assert world.row().incarnation == 1


def test_a_workloads_own_fault_holds_it() -> None:
    """5.4: without updateRetry the first such failure holds the revision; a new one frees it."""
    world = World()
    world.on_create = lambda pod: setattr(pod, "blocked", "ImagePullBackOff" if pod.container().image == "img:1" else "")
    world.until(lambda: bool(world.told("RetryHeld")))
    kept = world.uids_of()
    world.run(3600, step=20)
    assert world.row().phase == "Failed"
    assert world.uids_of() == kept
    world.roll("img:2")
    world.settle()


def test_a_workloads_own_fault_backs_off() -> None:
    """5.4: min(1 m * 2 ** (n - 1), 30 m) between attempts, 3 in all."""
    retry = UpdateRetry(max_attempts=3, initial_delay=60.0, max_delay=1800.0)
    world = World(settings=replace(CHART, live=replace(CHART.live, update_retry=retry)))
    world.on_create = lambda pod: setattr(pod, "blocked", "ErrImagePull")
    world.until(lambda: bool(world.told("RetryHeld")), limit=2000)
    starts = [time for time, _, phase, _ in world.history if phase == "Creating"]
    fails = [time for time, _, phase, _ in world.history if phase == "Failed"]
    waits = [(start - failed).total_seconds() for start, failed in zip(starts[1:], fails, strict=False)]
    assert len(starts) == 3
    assert 60 <= waits[0] <= 75
    assert 120 <= waits[1] <= 135


def test_a_create_follows_a_new_revision() -> None:
    """T17: a create at a revision that is not wanted any more is retired."""
    world = World()
    world.start_delay = timedelta(seconds=30)
    world.run(10)
    target = world.roll("img:2")
    world.start_delay = timedelta(seconds=2)
    world.settle()
    assert world.row().running_revision == target
    assert world.pod().container().image == "img:2"
    assert world.told("CreateAttemptSuperseded")


def test_an_unplaceable_pod() -> None:
    """3.6: parked while it waits, Failed when the grace is over, and tried again."""
    settings = replace(CHART, live=replace(CHART.live, unschedulable_grace=900.0, instance_ready_timeout=600.0))
    world = World(settings=settings)
    world.on_create = lambda pod: setattr(pod, "blocked", "Unschedulable")
    world.run(700, step=5)
    operation = world.row().operation
    assert operation is not None
    assert (operation.waiting, operation.deadline) == ("Unschedulable", None)
    world.until(lambda: world.row().phase == "Failed", limit=300)
    failure = world.row().last_failure
    assert failure is not None
    assert failure.reason == "Unschedulable"
    world.on_create = lambda _: None
    world.settle()


def test_many_new_instances_come_in_batches() -> None:
    """6.4: scaleUpPodBatchSize pods a pass, always at least one Instance."""
    start = replace(CHART.start, scale_up_pod_batch_size=8)
    world = World(replicas=5, workers=3, settings=replace(CHART, start=start))
    made = []
    for _ in range(4):
        world.operate()
        made.append(len(world.pods))
    assert made == [8, 16, 20, 20]
    small = World(replicas=2, workers=3, settings=replace(CHART, start=replace(CHART.start, scale_up_pod_batch_size=2)))
    small.operate()
    assert len(small.pods) == 4


def test_gangs_have_a_pod_group_first() -> None:
    """2.6, 121: minMember 4, before the pods, its time-out clamped; one that goes is waited for; a foreign one fails it."""
    world = World(workers=3)
    world.gang_api = True
    outcome = world.operate()
    group = outcome.actions[0]
    assert (type(group).__name__, group.name, group.min_member, group.timeout) == (  # type: ignore[attr-defined] # it is one
        "EnsurePodGroup",
        f"{SERVICE}-engine-0",
        4,
        600,
    )
    world.settle()
    other = World(workers=3)
    other.gang_api = True
    other.pod_groups[f"{SERVICE}-engine-0"] = "terminating"
    other.run(10)
    assert not other.pods
    operation = other.row().operation
    assert operation is not None
    assert (operation.waiting, operation.deadline) == ("PodGroupTerminating", None)
    other.pod_groups.clear()
    other.settle()
    foreign = World(workers=3)
    foreign.gang_api = True
    foreign.pod_groups[f"{SERVICE}-engine-0"] = "foreign"
    foreign.run(60)
    assert not foreign.pods
    assert foreign.row().phase == "Failed"
    assert len(foreign.told("InstanceFailed")) == 1
    foreign.pod_groups.clear()
    foreign.settle()


def test_a_lost_status_loses_no_instance() -> None:
    """3.3: rows are made again from the pods, the incarnation never falls."""
    world = settled(policy=R, replicas=2)
    world.crash(world.pod(1))
    world.until(lambda: world.ready() and world.row(1).incarnation == 2)
    world.run(10)
    before = {pod.uid for pod in world.pods.values()}
    world.stored = None
    world.settle()
    assert [row.incarnation for row in world.status.rows] == [1, 2]
    assert {pod.uid for pod in world.pods.values()} == before


def test_a_broken_instance_stops_no_other() -> None:
    """C64: a row that cannot be judged (a time without a zone, from another hand) is a problem of that one Instance."""
    world = settled(policy=R, replicas=3)
    status = world.stored
    assert status is not None
    rows = list(status.rows)
    since = rows[1].ready_since
    assert since is not None
    rows[1] = msgspec.structs.replace(rows[1], ready_since=since.replace(tzinfo=None))
    world.stored = msgspec.structs.replace(status, raw_rows=tuple(rows))
    for index in range(3):
        world.crash(world.pod(index))
    outcome = world.operate()
    assert [problem.partition(":")[0] for problem in outcome.problems] == ["instance 1"]
    assert world.phases() == ["Restarting", "Ready", "Restarting"]
    world.run(40)
    assert [row.incarnation for row in world.status.rows] == [2, 1, 2]
    assert world.phases() == ["Ready", "Ready", "Ready"]


def test_a_name_that_an_orphan_has() -> None:
    """4.6, 3.5: a pod without an incarnation is no pod of the operation: it is neither counted, nor deleted, nor put in
    rotation."""
    world = World(workers=1)
    world.run(1)
    orphan = world.pod(0, "worker")
    label = orphan.labels.pop("ome.io/instance-incarnation")
    world.run(30)
    assert world.row().phase == "Creating"
    assert not orphan.in_rotation
    assert orphan.gone_at is None
    orphan.labels["ome.io/instance-incarnation"] = label
    world.settle()


def test_a_pending_instance_whose_pods_are_there_after_all() -> None:
    """3.1: it goes on from what there is, without making anything."""
    world = settled()
    pod = world.pod()
    world.pause()
    world.vanish(pod)
    world.operate()
    assert world.row().phase == "Pending"
    world.pods[pod.name] = pod
    made = len(world.writes)
    world.operate()
    world.until(world.ready, limit=20)
    assert world.uids_of() == {pod.uid}
    assert not any(write.startswith("create") for write in world.writes[made:])
    world.resume()
    world.settle()


def test_a_held_create_whose_pods_come_up_after_all() -> None:
    """4.11: Ready, and what was held against the revision is forgotten."""
    world = World(workers=1)
    world.on_create = lambda pod: setattr(pod, "blocked", "ErrImagePull")
    world.until(lambda: bool(world.told("RetryHeld")))
    uids = world.uids_of()
    for pod in world.instance():
        pod.blocked = ""
    world.settle()
    assert world.uids_of() == uids
    assert world.status.retry_blocks == ()


def test_a_failed_pod_that_is_replaced_is_asked_for() -> None:
    """6.1, 35: what is told of a replacement under None counts the pod that takes the place of the ended one."""
    world = World(workers=2, policy="None").settle()
    world.fail(world.pod(0, "worker"), reason="Evicted")
    world.vanish(world.pod(0, "worker", 1))
    world.settle()
    assert world.told("InstanceCreated")[1:] == ["OMENative component=engine instance=0 materialized; 2 pod(s) requested"]
