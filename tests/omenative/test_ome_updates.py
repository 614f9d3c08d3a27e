"""Rolling a changed template out (spec/omenative.md 5; behaviours 105-109, 92; case C44)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.omenative.ome_simulator import CHART, SERVICE, SimPod, World

from regroup.omenative.configuration.settings import Settings, UpdateRetry

R = "RecreateInstanceOnPodRestart"
ENGINE = f"{SERVICE}-engine"


def lifecycle(kind: str = "SurgeThenDrain", **rolling: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": kind, "rollingUpdate": rolling}}


def settled(**arguments: Any) -> World:
    """A world at rest."""
    world = World(**arguments).settle()
    world.run(10)
    return world


def rolled(world: World, revision: str) -> bool:
    """Every Instance is Ready at ``revision``."""
    return world.ready() and all(row.running_revision == revision for row in world.status.rows)


def with_retries(**live: Any) -> Settings:
    retry = UpdateRetry(max_attempts=3, initial_delay=60.0, max_delay=1800.0)
    return replace(CHART, live=replace(CHART.live, update_retry=retry, **live))


def test_an_image_change_surges() -> None:
    """105: ordinal 1, incarnation 1, no restart; the old pod serves until the new one does."""
    world = settled(policy=R)
    target = world.roll("img:2")
    lowest = 1
    while not rolled(world, target):
        world.step()
        lowest = min(lowest, sum(pod.serves for pod in world.instance()))
    world.run(30)
    assert list(world.pods) == [f"{ENGINE}-0-default-1"]
    assert world.pod(ordinal=1).container().image == "img:2"
    row = world.row()
    assert (row.incarnation, row.active_ordinal) == (1, 1)
    assert lowest == 1
    assert world.told("RestartTriggered") == []
    assert world.status.current_revision == target
    world.roll("img:3")
    world.until(lambda: rolled(world, world.update_revision))
    assert world.row().active_ordinal == 0


def test_a_restart_keeps_the_active_ordinal() -> None:
    """2.1: and with it the pod's name."""
    world = settled(policy=R)
    world.roll("img:2")
    world.until(lambda: rolled(world, world.update_revision))
    world.run(20)
    world.crash(world.pod(ordinal=1))
    world.until(lambda: world.ready() and world.row().incarnation == 2)
    assert list(world.pods) == [f"{ENGINE}-0-default-1"]


def test_min_ready_seconds_delay_the_drain() -> None:
    """5.3: the old pod stays for the whole window."""
    world = settled(min_ready=30)
    world.roll("img:2")
    world.until(lambda: len(world.pods) == 2 and world.pod(ordinal=1).ready_since is not None)
    world.run(28)
    assert world.pod(ordinal=0).serves
    world.run(6)
    assert not world.pods.get(f"{ENGINE}-0-default-0") or not world.pod().serves


@pytest.mark.parametrize("policy", [R, None])
def test_a_budget_of_one_moves_one_at_a_time(policy: str | None) -> None:
    """5.3: maxSurge 1; a Terminating pod keeps the slot until its grace is over."""
    world = settled(replicas=3, policy=policy, lifecycle=lifecycle(maxSurge=1))
    target = world.roll("img:2")
    most = 0
    while not rolled(world, target):
        world.step()
        most = max(most, len(world.pods))
    assert most == 4
    assert world.status.rollout_hold is None


def test_a_budget_of_nothing_stalls_and_says_so() -> None:
    """5.3: 0 = stall, with a hold record; the hold's time stays."""
    world = settled(lifecycle=lifecycle(maxSurge=0))
    world.roll("img:2")
    world.operate()
    hold = world.status.rollout_hold
    assert hold is not None
    assert (hold.gate, hold.target) == ("Budget", world.update_revision)
    assert hold.reason == "per-Component surge budget 0 exhausted (would become 1)"
    world.run(60)
    assert world.status.rollout_hold == hold
    assert world.row().running_revision != world.update_revision


def test_the_partition_keeps_the_lowest() -> None:
    """5.3, 6.2: Staged."""
    world = settled(replicas=3, lifecycle=lifecycle(partition=2))
    target = world.roll("img:2")
    world.run(60)
    assert [row.running_revision == target for row in world.status.rows] == [False, False, True]
    text = f"Staged at partition 2: 1/3 Instances on {target}, 2 held on the prior revision"
    assert world.condition() == ("True", "Staged", text)
    world.edit_lifecycle(**lifecycle(partition=0))
    world.until(lambda: rolled(world, target))


def test_an_instance_that_the_partition_keeps_still_restarts() -> None:
    """4.3: nothing would ever take its repair over."""
    world = settled(policy=R, replicas=2, lifecycle=lifecycle(partition=2))
    old = world.update_revision
    world.roll("img:2")
    world.run(10)
    world.crash(world.pod(1))
    world.until(lambda: world.ready() and world.row(1).incarnation == 2)
    assert world.row(1).running_revision == old


def test_recreate_pod_within_its_budget() -> None:
    """5.2: incarnation + 1, one at a time, no restart told; each step drains first."""
    world = settled(replicas=3, lifecycle=lifecycle("RecreatePod", maxUnavailable=1))
    target = world.roll("img:2")
    fewest = 3
    while not rolled(world, target):
        world.step()
        fewest = min(fewest, sum(row.phase == "Ready" for row in world.status.rows))
    assert fewest == 2
    assert [row.incarnation for row in world.status.rows] == [2, 2, 2]
    assert world.told("RestartTriggered") == []
    assert len(world.told("RecreateUpdateCompleted")) == 3


@pytest.mark.parametrize("dark_before", [False, True])
def test_a_new_revision_reaches_a_failed_update_within_its_budget(dark_before: bool) -> None:
    """T17: a gang whose update failed holds the only slot itself, so the corrected revision starts in that very slot; also where
    an Instance waits before it that serves nothing."""
    strategy = {"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 1, "partition": 1}}
    world = World(workers=1, replicas=2, lifecycle={"updateStrategy": strategy}).settle()
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    world.roll("img:2")
    world.until(lambda: world.row(1).phase == "Failed")
    assert world.row(1).operation is not None
    world.on_create = lambda pod: None
    if dark_before:
        world.edit_lifecycle(updateStrategy={"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 1}})
        for pod in world.instance(0):
            pod.probe_fails = True
            world.tick()
    world.roll("img:3")
    world.until(lambda: world.row(1).phase == "Ready" and world.row(1).running_revision == world.update_revision)


def test_a_gang_surges_as_a_whole() -> None:
    """5.2: a replacement at the lowest free index, at incarnation 1; the source drains and its row goes."""
    world = settled(workers=3)
    target = world.roll("img:2")
    fewest = 4
    while not rolled(world, target):
        world.step()
        fewest = min(fewest, sum(pod.serves for pod in world.pods.values()))
    world.run(20)
    assert fewest >= 4
    assert [row.index for row in world.status.rows] == [1]
    assert {pod.labels["ome.io/instance-index"] for pod in world.pods.values()} == {"1"}
    assert len(world.pods) == 4
    assert world.told("RestartTriggered") == []


def test_a_gang_surge_that_fails_is_abandoned() -> None:
    """5.4: the replacement goes, the source is Ready at the old revision, told once; the ladder tries again."""
    world = settled(workers=1, settings=with_retries())
    old = world.update_revision
    broken = block(world, "ImagePullBackOff")
    world.roll("img:2")
    world.until(lambda: bool(world.told("GangSurgeAbandoned")))
    prefix = "OMENative component=engine instance=0"
    assert world.told("GangSurgeAbandoned") == [f"{prefix} stays on {old}: replacement 1 failed (ImagePullBackOff)"]
    world.run(15)
    assert [row.index for row in world.status.rows] == [0]
    row = world.row()
    assert (row.phase, row.running_revision) == ("Ready", old)
    assert all(pod.serves for pod in world.instance())
    blocks = world.status.retry_blocks
    assert [(one.state, one.attempts_started, one.reason) for one in blocks] == [("Backoff", 1, "ImagePullBackOff")]
    broken.clear()
    world.until(lambda: rolled(world, world.update_revision))
    assert world.status.retry_blocks == ()


def block(world: World, reason: str) -> list[str]:
    """Pods of a later image than img:1 do not start while the list has an entry."""
    active = [reason]

    def refuse(pod: SimPod) -> None:
        if active and pod.container().image != "img:1":
            pod.blocked = active[0]

    world.on_create = refuse
    return active


def test_a_failed_surge_waits_for_its_ladder() -> None:
    """5.4: Failed with the operation cleared, the old pod serves on; after three attempts the revision is held."""
    world = settled(settings=with_retries())
    block(world, "ErrImagePull")
    world.roll("img:2")
    world.until(lambda: world.row().phase == "Failed")
    row = world.row()
    assert row.operation is None
    assert world.pod().serves
    assert world.status.retry_blocks[0].state == "Backoff"
    world.until(lambda: world.status.retry_blocks[0].state == "Held", limit=900)
    assert world.status.retry_blocks[0].attempts_started == 3
    target = world.update_revision
    held = f"update to revision {target} held after 3 failed attempt(s) (last failure: ErrImagePull); "
    advice = "publish a corrected revision or raise lifecycle.updateRetry limits"
    assert world.told("RetryHeld") == [f"InferenceReplica qwen3-native/{ENGINE} component=engine {held}{advice}"]
    hold = world.status.rollout_hold
    assert hold is not None
    assert hold.gate == "Held"
    before = len(world.writes)
    world.run(3600, step=30)
    assert len(world.writes) == before
    assert world.pod().serves


def test_a_held_revision_is_released_or_replaced() -> None:
    """5.4: by annotation with the hash, or by a new revision."""
    world = settled()
    broken = block(world, "ErrImagePull")
    world.roll("img:2")
    world.until(lambda: bool(world.status.retry_blocks))
    assert world.status.retry_blocks[0].state == "Held"
    broken.clear()
    world.run(30)
    assert world.row().phase == "Failed"
    world.annotations["ome.io/release-held-revision"] = world.revisions[-1].hash
    world.until(lambda: rolled(world, world.update_revision))
    assert "ome.io/release-held-revision" not in world.annotations
    assert world.told("RetryBlockReleased")
    broken.append("ErrImagePull")
    world.roll("img:3")
    world.until(lambda: world.row().phase == "Failed")
    broken.clear()
    world.roll("img:4")
    world.until(lambda: rolled(world, world.update_revision))


def test_a_new_revision_reaches_a_failed_restart() -> None:
    """92, T17."""
    for workers in (0, 1):
        world = settled(policy=R, workers=workers)
        runner = "leader" if workers else "default"
        world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff" if pod.container().image == "img:1" else "")
        world.crash(world.pod(0, runner))
        world.until(lambda world=world: world.row().phase == "Failed")  # type: ignore[misc] # bound now
        world.roll("img:2")
        world.until(lambda world=world: rolled(world, world.update_revision))  # type: ignore[misc] # bound now


@pytest.mark.parametrize("workers", [0, 1])
def test_an_update_in_place_is_no_crash(workers: int) -> None:
    """106, C44: UIDs and incarnation stay, no restart for the update; a crash after it is one, on the new image."""
    world = settled(policy=R, workers=workers, lifecycle=lifecycle("InPlaceIfPossible"))
    before = world.uids_of()
    target = world.roll("img:2")
    world.until(lambda: rolled(world, target))
    world.run(30)
    assert world.uids_of() == before
    assert world.row().incarnation == 1
    assert world.told("RestartTriggered") == []
    assert {pod.container().image for pod in world.instance()} == {"img:2"}
    assert world.told("InPlaceUpdateCompleted")
    world.crash(world.pod(0, "worker" if workers else "default"))
    world.until(lambda: world.ready() and world.row().incarnation == 2)
    assert {pod.container().image for pod in world.instance()} == {"img:2"}


def test_an_update_in_place_waits_for_the_new_container() -> None:
    """5.2: the kubelet is slow to act on the patch: the old, ready container is not taken for the new one."""
    world = settled(policy=R, lifecycle=lifecycle("InPlaceIfPossible"))
    target = world.roll("img:2")
    world.until(lambda: any(write.startswith("patch") for write in world.writes))
    pod = world.pod()
    pod.container().restarts -= 1
    pod.container().running_since = pod.created
    pod.container().last = None
    world.run(60)
    assert world.row().phase == "Updating"
    world.crash(pod, code=0, reason="Completed")
    world.until(lambda: rolled(world, target))
    world.run(20)
    assert world.row().incarnation == 1


def test_an_update_in_place_leaves_rotation_for_its_grace() -> None:
    """5.2: gate off, gracePeriodSeconds, patch."""
    strategy = {"type": "InPlaceIfPossible", "inPlaceUpdateStrategy": {"gracePeriodSeconds": 20}}
    world = settled(lifecycle={"updateStrategy": strategy})
    world.roll("img:2")
    world.step()
    off = world.now
    assert not world.pod().in_rotation
    world.until(lambda: any(write.startswith("patch") for write in world.writes))
    assert world.now - off >= timedelta(seconds=18)


def more_than_images(world: World) -> None:
    runners = [dict(one) for one in world.spec["runners"]]
    runners[0]["template"] = {"spec": {"containers": [{"name": "ome-container", "image": "img:1", "args": ["--more"]}]}}
    world.edit(runners=runners)


def test_in_place_if_possible_recreates_otherwise() -> None:
    """5.2: any other difference, as RecreatePod."""
    world = settled(lifecycle=lifecycle("InPlaceIfPossible"))
    more_than_images(world)
    world.until(lambda: rolled(world, world.update_revision))
    assert world.row().incarnation == 2


def test_in_place_only_refuses_otherwise() -> None:
    """5.2: the row stays Ready on the old revision, told once, and repairs do not wait for what never comes."""
    world = settled(policy=R, lifecycle=lifecycle("InPlaceOnly"))
    old = world.update_revision
    more_than_images(world)
    world.run(60)
    row = world.row()
    assert (row.phase, row.running_revision) == ("Ready", old)
    text = "OMENative component=engine instance=0 rejected update: InPlaceOnly strategy but diff exceeds container images"
    assert world.told("InPlaceUpdateNotPossible") == [text]
    world.crash(world.pod())
    world.until(lambda: world.ready() and world.row().incarnation == 2)
    assert world.row().running_revision == old


def test_a_crash_on_an_open_roll_is_left_to_the_update() -> None:
    """108."""
    world = settled(policy=R, replicas=2, lifecycle=lifecycle(maxSurge=1))
    target = world.roll("img:2")
    world.operate()
    world.crash(world.pod(1))
    world.until(lambda: rolled(world, target))
    assert world.told("RestartTriggered") == []
    assert world.row(1).incarnation == 1


def test_a_crash_on_a_paused_roll_restarts_the_running_revision() -> None:
    """109: and after the restart the row is off target still."""
    world = settled(policy=R)
    old = world.update_revision
    world.pause()
    world.roll("img:2")
    world.crash(world.pod())
    world.until(lambda: world.ready() and world.row().incarnation == 2)
    assert world.row().running_revision == old
    assert world.pod().container().image == "img:1"
    world.resume()
    world.until(lambda: rolled(world, world.update_revision))


def test_a_pause_stops_a_surge_before_the_drain() -> None:
    """5.5: the old pod stays until the resume."""
    world = settled()
    target = world.roll("img:2")
    world.operate()
    world.pause()
    world.run(60)
    assert world.pod(ordinal=0).serves
    assert world.pod(ordinal=1).serves
    world.resume()
    world.until(lambda: rolled(world, target))


def test_a_roll_back_on_the_way() -> None:
    """5.2: what runs is wanted again: the new pod goes, and the old one was never touched."""
    for workers in (0, 1):
        world = settled(workers=workers)
        before = world.uids_of()
        world.start_delay = timedelta(seconds=60)
        world.roll("img:2")
        world.run(5)
        world.roll("img:1")
        world.until(world.ready)
        world.run(30)
        assert set(world.pods) == {pod.name for pod in world.instance()}
        assert world.uids_of() == before


def test_a_newer_revision_on_the_way() -> None:
    """5.2: an attempt at what nobody wants any more is not waited for."""
    for kind, workers in (("SurgeThenDrain", 0), ("SurgeThenDrain", 1), ("RecreatePod", 0), ("InPlaceIfPossible", 0)):
        world = settled(workers=workers, lifecycle=lifecycle(kind))
        world.start_delay = timedelta(seconds=5)
        world.on_create = lambda pod: setattr(pod, "probe_fails", pod.container().image == "img:2")
        world.roll("img:2")
        world.run(20)
        target = world.roll("img:3")
        world.until(lambda world=world, target=target: rolled(world, target))  # type: ignore[misc] # bound now
        assert {pod.container().image for pod in world.pods.values() if pod.gone_at is None} == {"img:3"}


def test_a_policy_or_strategy_edit_rolls_nothing() -> None:
    """11, 5.2."""
    world = settled(policy=R)
    before = world.uids_of()
    world.edit_lifecycle(**lifecycle("RecreatePod"))
    world.run(10)
    world.edit_lifecycle(restartPolicy="None")
    world.run(10)
    assert world.uids_of() == before


def test_the_condition_of_a_roll() -> None:
    """6.2: Unknown/RolloutInProgress."""
    world = settled()
    target = world.roll("img:2")
    world.operate()
    assert world.condition() == ("Unknown", "RolloutInProgress", f"Rolling out {target} (0/1 Instances on target)")


@pytest.mark.parametrize("kind", ["SurgeThenDrain", "RecreatePod", "InPlaceIfPossible"])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_update_survives_an_operator_that_dies(kind: str, workers: int) -> None:
    """3.3: killed after the status write of every pass, and after every action, the end is the same."""
    world = settled(policy=R, replicas=2, workers=workers, lifecycle=lifecycle(kind))
    target = world.roll("img:2")
    number = 0
    while not rolled(world, target):
        world.operate(die="status")
        world.operate(die=f"actions:{number % 3 + 1}")
        world.tick()
        number += 1
        assert number < 300
    world.run(30)
    assert len(world.pods) == 2 * (workers + 1)
    assert {pod.container().image for pod in world.pods.values()} == {"img:2"}
    assert {row.incarnation for row in world.status.rows} == ({2} if kind == "RecreatePod" else {1})
    assert world.told("RestartTriggered") == []


def test_an_update_in_place_mends_a_wedge() -> None:
    """3.6: what hangs before the patch is what the update is to mend; the grace counts from the patch."""
    world = settled(lifecycle=lifecycle("InPlaceIfPossible"))
    world.run(120, step=10)
    world.wedge(world.pod())
    before = world.uids_of()
    target = world.roll("img:2")
    world.until(lambda: rolled(world, target), limit=60)
    assert world.uids_of() == before
    assert world.told("InstanceFailed") == []
    assert world.told("RestartTriggered") == []
    world.roll("img:3")
    world.until(lambda: world.pod().container().image == "img:3")
    patched = world.now
    world.wedge(world.pod())
    world.until(lambda: world.row().phase == "Failed", limit=90)
    assert world.now - patched >= timedelta(seconds=58)


def test_a_replacement_gets_an_index_of_its_own() -> None:
    """2.8: not one that is freed in the same pass, nor one that a scale-up is to get."""
    world = settled(replicas=2, workers=1, lifecycle=lifecycle(maxSurge=1))
    world.roll("img:2")
    world.edit(replicas=3)
    world.until(lambda: rolled(world, world.update_revision))
    assert len(world.status.rows) == 3
    assert len({row.index for row in world.status.rows}) == 3
    world.run(30)
    assert len(world.pods) == 6


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failed_update_whose_pods_come_up_after_all(workers: int) -> None:
    """5.4, 4.11: a gang keeps its operation, a single pod does not; both are Ready at the new revision when their pods are."""
    world = settled(workers=workers, lifecycle=lifecycle("RecreatePod"))
    block(world, "ErrImagePull")
    target = world.roll("img:2")
    world.until(lambda: world.row().phase == "Failed", limit=120)
    row = world.row()
    assert (row.operation is not None) == bool(workers)
    kept = world.uids_of()
    world.run(600, step=5)
    assert world.uids_of() == kept
    for pod in world.instance():
        pod.blocked = ""
    world.until(lambda: rolled(world, target), limit=60)
    assert world.row().incarnation == row.incarnation
    assert world.status.retry_blocks == ()


def test_a_pod_that_is_lost_during_an_update_in_place() -> None:
    """5.2: it cannot be patched any more: the rest of the way is a rebuild, one incarnation higher."""
    world = settled(workers=1, lifecycle={"updateStrategy": {"type": "InPlaceIfPossible"}})
    target = world.roll("img:2")
    world.operate()
    world.vanish(world.pod(0, "worker"))
    world.until(lambda: rolled(world, target), limit=60)
    assert world.row().incarnation == 2
    assert {pod.container().image for pod in world.instance()} == {"img:2"}


@pytest.mark.parametrize("lost", ["gone", "Failed"])
def test_an_instance_whose_update_is_held_loses_its_old_pod(lost: str) -> None:
    """T16: the wanted revision may not be tried, so what ran well comes back."""
    world = settled()
    old = world.update_revision
    block(world, "ErrImagePull")
    world.roll("img:2")
    world.until(lambda: bool(world.told("RetryHeld")))
    world.run(30)
    if lost == "gone":
        world.vanish(world.pod())
    else:
        world.fail(world.pod(), reason="Evicted")
    world.until(lambda: world.row().phase == "Ready", limit=60)
    assert world.row().running_revision == old
    assert world.pod().serves
    assert world.status.retry_blocks[0].state == "Held"


def test_an_extra_pod_holds_a_surge_slot() -> None:
    """5.3: live leftovers of a failed attempt count until the next start on that Instance, which takes their slot over."""
    world = settled(replicas=2, settings=with_retries(), lifecycle=lifecycle(maxSurge=1))
    block(world, "ErrImagePull")
    world.roll("img:2")
    world.until(lambda: world.row(0).phase == "Failed")
    world.edit_lifecycle(**lifecycle(maxSurge=1, partition=1))
    world.on_create = lambda _: None
    target = world.roll("img:3")
    world.run(5)
    hold = world.status.rollout_hold
    assert hold is not None
    text = f"extra pod {ENGINE}-0-default-1 holds a surge slot until a start on its Instance replaces it"
    assert hold.reason == f"per-Component surge budget 1 exhausted (would become 2); {text}"
    world.edit_lifecycle(**lifecycle(maxSurge=1, partition=0))
    world.until(lambda: rolled(world, target))
    assert world.told("FailedSurgeTargetRecycled")
    world.run(30)
    assert len(world.pods) == 2


def test_a_terminating_pod_holds_a_surge_slot() -> None:
    """5.3: until its deletion grace elapses."""
    world = settled(replicas=2, lifecycle=lifecycle(maxSurge=1))
    world.grace = timedelta(seconds=60)
    world.roll("img:2")
    world.until(lambda: world.row(0).running_revision == world.update_revision)
    world.operate()
    hold = world.status.rollout_hold
    assert hold is not None
    assert hold.reason.endswith(
        f"; Terminating pod {ENGINE}-0-default-0 still counts against the surge budget until its deletion grace elapses"
    )
    assert world.row(1).phase == "Ready"
    world.until(lambda: rolled(world, world.update_revision))


def test_no_update_starts_while_a_restart_is_in_flight() -> None:
    """3.3: and one that is in flight goes on."""
    world = settled(policy=R, replicas=3, lifecycle=lifecycle(maxSurge=1))
    world.start_delay = timedelta(seconds=20)
    world.crash(world.pod(0))
    world.operate()
    target = world.roll("img:2")
    world.run(10)
    assert world.phases() == ["Restarting", "Ready", "Ready"]
    assert "waits for restarts" in world.why(1)
    world.until(lambda: "Updating" in world.phases())
    world.until(lambda: rolled(world, target), limit=600)


@pytest.mark.parametrize(("partition", "image"), [(1, "img:1"), (0, "img:2")])
def test_an_instance_that_lost_all_pods_during_a_roll(partition: int, image: str) -> None:
    """4.8: made anew at the wanted revision where the roll takes the Instance, else at the one that it ran."""
    world = settled(policy="None", lifecycle=lifecycle(maxSurge=1, partition=partition))
    world.roll("img:2")
    world.vanish(world.pod())
    world.until(lambda: world.ready() and bool(world.instance()))
    assert {pod.container().image for pod in world.instance()} == {image}


def test_a_crash_while_the_revision_backs_off_restarts_what_runs() -> None:
    """4.3 and the seed: nothing rebuilds the Instance while the ladder waits, so its failure is repaired at once, at the running
    revision; the update is tried again when its time has come."""
    world = World(workers=2, lifecycle={"updateStrategy": {"type": "SurgeThenDrain"}})
    retry = UpdateRetry(max_attempts=3, initial_delay=600.0, max_delay=1800.0)
    world.settings = replace(CHART, live=replace(CHART.live, update_retry=retry))
    world.settle()
    before = world.row().running_revision
    world.on_create = lambda pod: setattr(pod, "blocked", "ErrImagePull" if pod.container().image == "img:2" else "")
    world.roll("img:2")
    world.until(lambda: [(block.state) for block in world.status.retry_blocks] == ["Backoff"] and world.phases() == ["Ready"])
    world.crash(world.pod(runner="leader"), code=7)
    world.until(lambda: world.row().phase == "Restarting", limit=10)
    world.until(lambda: world.row().phase == "Ready" and world.row().incarnation == 2, limit=120)
    assert world.row().running_revision == before
    assert len(world.told("RestartTriggered")) == len(world.told("RestartCompleted")) == 1
    world.on_create = lambda pod: None
    world.until(lambda: all(row.running_revision == world.update_revision for row in world.status.rows), limit=1200)
    assert len(world.told("RestartTriggered")) == 1


def test_pods_that_are_gone_while_the_revision_backs_off_come_back_as_they_were() -> None:
    """4.8, 5.4: a ladder that waits is no reason to make an Instance at the revision that it holds back."""
    world = World(replicas=2, policy="None", lifecycle=lifecycle(maxSurge=1))
    retry = UpdateRetry(max_attempts=3, initial_delay=600.0, max_delay=1800.0)
    world.settings = replace(CHART, live=replace(CHART.live, update_retry=retry))
    world.settle()
    before = world.row(1).running_revision
    world.on_create = lambda pod: setattr(pod, "blocked", "ErrImagePull" if pod.container().image == "img:2" else "")
    world.roll("img:2")
    world.until(lambda: [block.state for block in world.status.retry_blocks] == ["Backoff"])
    world.vanish(world.pod(1))
    world.until(lambda: world.row(1).phase == "Ready" and len(world.instance(1)) == 1, limit=120)
    assert (world.row(1).running_revision, world.row(1).incarnation) == (before, 1)
    assert [(block.state, block.attempts_started) for block in world.status.retry_blocks] == [("Backoff", 1)]
