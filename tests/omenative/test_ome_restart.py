"""Restarts of whole Instances, from trigger to Ready (spec/omenative.md 4.2, 4.5, 4.6, section 8)."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from tests.omenative.ome_simulator import CHART, MAIN, SERVICE, Container, World

from regroup.omenative.api.row import Operation
from regroup.omenative.outcome import DeletePod, SetGate

R = "RecreateInstanceOnPodRestart"
POD = f"{SERVICE}-engine-0-default-0"
PREFIX = "OMENative component=engine instance=0"


def single(**kwargs: object) -> World:
    """F1, Ready and settled."""
    world = World(policy=R, **kwargs).settle()  # type: ignore[arg-type] # the fixture's own arguments
    world.run(10)
    return world


def gang(**kwargs: object) -> World:
    """F3, Ready and settled."""
    world = World(workers=3, **kwargs).settle()  # type: ignore[arg-type] # the fixture's own arguments
    world.run(10)
    return world


def restarted(world: World) -> bool:
    """It restarted and is Ready again."""
    return world.ready() and bool(world.told("RestartCompleted"))


def test_an_oom_kill_is_told_word_by_word() -> None:
    """15, 72, 82: the seed's own example; all of it in one status write before a pod is touched."""
    world = single()
    world.crash(world.pod(), reason="OOMKilled", code=137)
    killed = world.now
    written, touched = world.status_writes, len(world.writes)

    outcome = world.operate(die="status")

    assert world.status_writes == written + 1
    assert len(world.writes) == touched
    cause = f"pod {POD} container ome-container restarted after Ready: OOMKilled (exit 137)"
    assert [event.message for event in outcome.events] == [f"{PREFIX} restart triggered: {cause} (incarnation=2)"]
    row = world.row()
    assert (row.phase, row.incarnation) == ("Restarting", 2)
    operation = row.operation
    assert operation is not None
    assert (operation.type, operation.step) == ("Restart", "Drain")
    assert operation.id == f"restart-0-{int(killed.timestamp())}"
    assert operation.reason == cause
    assert operation.deadline == killed + timedelta(minutes=30)
    failure = row.last_failure
    assert failure is not None
    assert (failure.pod_name, failure.container_name, failure.reason, failure.exit_code) == (POD, MAIN, "OOMKilled", 137)
    assert failure.time == killed.replace(microsecond=0)


def test_the_evidence_outlives_the_recovery() -> None:
    """82, 117: lastFailure stays at Ready, readySince is the new entry, and the old restart triggers nothing."""
    world = single()
    first = world.row().ready_since
    world.crash(world.pod(), reason="OOMKilled", code=137)
    world.until(lambda: restarted(world))
    row = world.row()
    assert row.last_failure is not None
    assert row.last_failure.reason == "OOMKilled"
    assert row.ready_since is not None
    assert first is not None
    assert row.ready_since > first
    world.run(120)
    assert world.row().incarnation == 2
    assert world.told("RestartCompleted") == [f"{PREFIX} restart complete (incarnation=2)"]


@pytest.mark.parametrize(
    ("reason", "ended", "words"),
    [
        ("", True, "restarted after Ready: Error (exit 3) (incarnation=2)"),
        ("Error", False, "restarted after Ready (incarnation=2)"),
    ],
)
def test_texts_of_a_restarted_container(reason: str, ended: bool, words: str) -> None:
    """16, 17: a blank reason is an Error; without a termination record the reason is left out."""
    world = single()
    pod = world.pod()
    world.crash(pod, reason=reason, code=3)
    if not ended:
        pod.container().last = None
    world.operate()
    assert world.told("RestartTriggered") == [f"{PREFIX} restart triggered: pod {POD} container ome-container {words}"]


def test_side_cars_and_init_containers_never_trigger() -> None:
    """18, 19, 32 (C43): only the name ome-container counts, wherever it stands in the list."""
    world = single()
    pod = world.pod()
    for name, init in (("metrics", False), ("server", False), ("fetch", True)):
        pod.containers.insert(0, Container(name=name, init=init, running_since=world.now))
    for _ in range(3):
        for name in ("metrics", "server", "fetch"):
            world.crash(pod, container=name)
        world.run(5)
    assert world.row().incarnation == 1
    assert world.told("RestartTriggered") == []
    world.crash(pod)
    world.operate()
    assert world.row().incarnation == 2


def test_a_boot_crash_is_part_of_the_start() -> None:
    """20, 21: what ended before Ready triggers nothing, then or later."""
    world = World(policy=R)
    world.until(lambda: bool(world.pods) and world.pod().phase == "Running")
    world.crash(world.pod())
    world.crash(world.pod())
    world.settle()
    world.run(60)
    assert world.row().incarnation == 1
    assert world.told("RestartTriggered") == []


def test_an_end_in_the_second_of_ready_was_before_it() -> None:
    """9.34: whole seconds."""
    world = single()
    since = world.row().ready_since
    world.crash(world.pod(), at=since)
    world.run(5)
    assert world.row().incarnation == 1
    world.crash(world.pod())
    world.operate()
    assert world.row().incarnation == 2


def test_a_worker_takes_the_whole_gang_along() -> None:
    """22, 78: all four pods are made anew, same names, next incarnation, same revision."""
    world = gang()
    before, names = world.uids_of(), set(world.pods)
    hashes = {pod.labels["ome.io/revision-hash"] for pod in world.instance()}
    world.crash(world.pod(0, "worker", 2))
    world.until(lambda: restarted(world))
    assert set(world.pods) == names
    assert not before & world.uids_of()
    assert {pod.labels["ome.io/instance-incarnation"] for pod in world.instance()} == {"2"}
    assert {pod.labels["ome.io/revision-hash"] for pod in world.instance()} == hashes


def test_an_evicted_worker() -> None:
    """23, 83: gone is gone; there is nothing to read, so an earlier failure stays."""
    world = gang()
    world.crash(world.pod(0, "leader"), reason="OOMKilled", code=137)
    world.until(lambda: restarted(world))
    kept = world.row().last_failure
    world.vanish(world.pod(0, "worker", 1))
    world.operate()
    assert world.told("RestartTriggered")[-1] == f"{PREFIX} restart triggered: pod count 3 below desired 4 (incarnation=3)"
    assert world.row().last_failure == kept


def test_a_pod_on_its_way_out_still_counts() -> None:
    """9.22: the restart begins when it is gone."""
    world = gang()
    world.grace = timedelta(seconds=20)
    world.kubectl_delete(world.pod(0, "worker", 1))
    world.run(15)
    assert world.row().phase == "Ready"
    world.run(10)
    assert world.row().incarnation == 2


def test_an_evicted_leader_is_named() -> None:
    """24 (C49): the pod says why, and that survives."""
    world = gang()
    pod = world.pod(0, "leader")
    world.fail(pod, reason="Evicted", message="The node was low on resource: memory.")
    world.operate()
    assert f"pod {pod.name} failed (Evicted)" in world.told("RestartTriggered")[0]
    world.until(lambda: restarted(world))
    failure = world.row().last_failure
    assert failure is not None
    assert (failure.pod_name, failure.reason) == (pod.name, "Evicted")


def test_a_failed_pod_with_an_exit_code() -> None:
    """25."""
    world = single()
    world.fail(world.pod(), code=1)
    world.operate()
    assert f"pod {POD} container ome-container failed (Error, exit 1)" in world.told("RestartTriggered")[0]


def test_a_succeeded_pod_is_one_too_few() -> None:
    """26."""
    world = single()
    world.pod().phase = "Succeeded"
    world.operate()
    assert world.told("RestartTriggered") == [f"{PREFIX} restart triggered: pod count 0 below desired 1 (incarnation=2)"]


def test_an_unready_pod_is_no_failure() -> None:
    """27, 110: nothing happens to the row, counts fall."""
    world = gang()
    world.pod(0, "worker", 1).probe_fails = True
    world.run(60)
    row = world.row()
    assert (row.phase, row.incarnation, row.serving_pod_count) == ("Ready", 1, 3)
    assert world.status.serving_replicas == 0
    assert world.told("RestartTriggered") == []


def test_policy_restarts_wait_for_no_budget() -> None:
    """29: both Instances of F2 restart in one pass at maxUnavailable 1."""
    world = World(policy=R, replicas=2, lifecycle={"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}).settle()
    world.run(5)
    for index in (0, 1):
        world.crash(world.pod(index))
    world.operate()
    assert world.phases() == ["Restarting", "Restarting"]
    assert world.status.serving_replicas == 0


def test_old_pods_leave_rotation_before_any_is_deleted() -> None:
    """73, 74, 75, 76, 77: gate off, drained, all deleted in one pass, none made before the last is gone."""
    world = gang()
    world.crash(world.pod(0, "worker", 0))
    first = world.operate()
    assert [type(action) for action in first.actions] == [SetGate]
    assert first.actions[0].holders == (("RestartDrain", "0-2"),)  # type: ignore[attr-defined] # it is a SetGate
    leader = world.pod(0, "leader")
    assert not leader.in_rotation
    leader.listed_ready = True
    waiting = world.operate()
    assert not waiting.actions
    assert "stop routing" in world.why()
    leader.listed_ready = False
    deleting = world.operate()
    assert [type(action) for action in deleting.actions] == [DeletePod] * 4
    made = len([write for write in world.writes if write.startswith("create")])
    world.tick(2)
    world.operate()
    world.operate()
    assert len([write for write in world.writes if write.startswith("create")]) == made
    world.until(lambda: restarted(world))


def test_min_ready_seconds_start_again_after_a_flap() -> None:
    """79, 80: Restarting for 30 s of continuous Ready."""
    world = single(min_ready=30)
    world.crash(world.pod())
    world.until(lambda: world.row().incarnation == 2 and bool(world.instance()) and world.pod().ready_since is not None)
    world.run(20)
    pod = world.pod()
    pod.probe_fails = True
    world.step()
    pod.probe_fails = False
    world.step()
    again = pod.ready_since
    assert again is not None
    world.until(lambda: restarted(world))
    ready_since = world.row().ready_since
    assert ready_since is not None
    assert timedelta(seconds=30) <= ready_since - again <= timedelta(seconds=31)
    assert world.told("RestartCompleted") == [f"{PREFIX} restart complete (incarnation=2)"]


def test_an_orphan_holds_the_restart_up() -> None:
    """81, 9.30: told once, nothing deleted, nothing made; gone or labelled again, the restart goes on."""
    world = gang()
    orphan = world.pod(0, "worker", 1)
    label = orphan.labels.pop("ome.io/instance-incarnation")
    world.crash(world.pod(0, "leader"))
    before = list(world.writes)
    world.run(60)
    assert world.writes == before
    message = f"found orphan pod qwen3-native/{orphan.name} without ome.io/instance-incarnation; refusing to delete"
    assert world.told("FoundOrphan") == [f"{PREFIX} {message}"]
    orphan.labels["ome.io/instance-incarnation"] = label
    world.until(lambda: restarted(world))
    assert world.row().incarnation == 2


def test_a_stranger_is_no_member() -> None:
    """9.32: a pod that no operation made triggers nothing and is not deleted with the others."""
    world = gang()
    stranger = world.pod(0, "worker", 2)
    world.vanish(stranger)
    world.run(60)
    assert world.row().incarnation == 2
    stranger.name += "-copy"
    stranger.phase = "Failed"
    world.pods[stranger.name] = stranger
    world.run(60)
    assert world.row().incarnation == 2
    world.crash(world.pod(0, "leader"))
    world.run(60)
    assert world.row().incarnation == 3
    assert stranger.name in world.pods
    assert stranger.gone_at is None


def test_two_failing_pods() -> None:
    """84: the Failed one is recorded."""
    world = gang()
    world.crash(world.pod(0, "leader"), reason="OOMKilled", code=137)
    failed = world.pod(0, "worker", 1)
    world.fail(failed, code=2)
    world.operate()
    failure = world.row().last_failure
    assert failure is not None
    assert (failure.pod_name, failure.exit_code) == (failed.name, 2)


@pytest.mark.parametrize("die", ["status", "actions:0", "actions:1", "actions:2"])
def test_a_killed_operator_continues_from_the_row(die: str) -> None:
    """85, C47: cut anywhere, the incarnation is exactly 2, and the reason is what was first written."""
    world = gang()
    world.crash(world.pod(0, "worker", 0))
    for number in range(12):
        world.operate(die=die)
        if number == 0:
            operation = world.row().operation
            assert operation is not None
            reason = operation.reason
        world.operate(die=die)
        operation = world.row().operation
        assert operation is None or operation.reason == reason
        world.tick()
        if die.startswith("actions"):
            die = f"actions:{number}"
    world.run(40)
    assert world.row().incarnation == 2
    assert world.row().phase == "Ready"
    assert {pod.labels["ome.io/instance-incarnation"] for pod in world.instance()} == {"2"}
    assert sum(write.startswith("create") for write in world.writes) == 8
    assert len(world.told("RestartTriggered")) <= 1


def test_two_restarts_in_a_row() -> None:
    """120: incarnation 3, two events."""
    world = single()
    for number in (2, 3):
        world.crash(world.pod())
        world.until(lambda number=number: world.row().incarnation == number and world.ready())  # type: ignore[misc] # bound now
        world.run(3)
    assert len(world.told("RestartTriggered")) == 2
    assert len(world.told("RestartCompleted")) == 2


def test_a_policy_edit_starts_nothing_by_itself() -> None:
    """11, 12, 13: no pod is touched by R -> None -> R; a restart under way finishes; R sees what happened under None."""
    world = single()
    writes = list(world.writes)
    world.edit_lifecycle(restartPolicy="None")
    world.run(5)
    world.edit_lifecycle(restartPolicy=R)
    world.run(5)
    assert world.writes == writes
    world.edit_lifecycle(restartPolicy="None")
    world.crash(world.pod())
    world.run(600, step=10)
    assert world.row().incarnation == 1
    world.edit_lifecycle(restartPolicy=R)
    world.operate()
    assert world.row().incarnation == 2
    world.edit_lifecycle(restartPolicy="None")
    world.until(lambda: restarted(world))
    assert world.row().incarnation == 2


def test_a_gang_that_loses_a_member_before_it_is_ready() -> None:
    """30: a restart to incarnation 2. While its pods are still being made, nothing is lost yet."""
    world = World(workers=3)
    world.start_delay = timedelta(seconds=600)
    world.run(5)
    world.vanish(world.pod(0, "worker", 1))
    world.operate()
    assert "gang member lost: 3 of 4 pods present" in world.told("RestartTriggered")[0]
    assert world.row().incarnation == 2


def test_a_gang_that_loses_all_members_before_it_is_ready() -> None:
    """31: the create path makes it anew at incarnation 1."""
    world = World(workers=3)
    world.start_delay = timedelta(seconds=600)
    world.run(5)
    for pod in world.instance():
        world.vanish(pod)
    world.start_delay = timedelta(seconds=2)
    world.settle()
    assert world.row().incarnation == 1
    assert world.told("RestartTriggered") == []


def test_the_writes_of_one_restart() -> None:
    """Budget: two status writes, and one write a pod for delete, create and gate; one gate off for the routed pod."""
    world = gang()
    status, writes = world.status_writes, len(world.writes)
    world.crash(world.pod(0, "worker", 1))
    world.until(lambda: restarted(world))
    world.run(10)
    made = world.writes[writes:]
    assert world.status_writes - status == 2
    assert len(made) == 3 * 4 + 1
    assert made[0] == f"gate off {SERVICE}-engine-0-leader-0"


def test_a_settled_replica_costs_nothing() -> None:
    """The status that stands, no action, no wake-up."""
    world = gang()
    outcome = world.operate()
    assert outcome.status == world.stored
    assert not outcome.actions
    assert not outcome.events
    assert outcome.wake is None


@pytest.mark.parametrize("phase", ["Migrating", "Deleting", "Updating"])
def test_other_operations_own_their_instances(phase: str) -> None:
    """28, 107: a pod that fails there opens no restart; a migration's Instance is left alone altogether."""
    world = single()
    status = world.stored
    assert status is not None
    kind = {"Migrating": "Migrate", "Deleting": "Delete", "Updating": "Update"}[phase]
    operation = Operation(id="x-0-1", type=kind, step="Drain", target_revision=world.update_revision)
    row = msgspec.structs.replace(status.rows[0], phase=phase, operation=operation)
    world.stored = msgspec.structs.replace(status, raw_rows=(row,))
    world.crash(world.pod())
    world.fail(world.pod(), code=1)
    writes = list(world.writes)
    world.operate()
    assert world.told("RestartTriggered") == []
    if phase == "Migrating":
        world.run(30)
        assert world.writes == writes
        assert world.row().operation == operation
        assert world.row().incarnation == 1


def test_each_component_has_its_own_batch() -> None:
    """56: two replicas know nothing of each other."""
    settings = replace(CHART, start=replace(CHART.start, repair_batch_size=1))
    for component in ("engine", "decoder"):
        world = World(component=component, replicas=2, settings=settings).settle()
        world.run(90, step=10)
        for pod in world.pods.values():
            world.wedge(pod)
        world.operate()
        assert world.phases() == ["Restarting", "Ready"]


def test_a_gone_revision_is_told_once() -> None:
    """4.6 B: nothing to make the pods from; it waits, told once, and goes on when the revision is back."""
    world = single()
    world.crash(world.pod())
    world.operate()
    kept = world.revisions
    world.roll("img:2")
    world.revisions = world.revisions[1:]
    world.run(60)
    assert not world.pods
    assert len(world.told("RepairRevisionGone")) == 1
    world.revisions = kept
    world.until(lambda: restarted(world))
