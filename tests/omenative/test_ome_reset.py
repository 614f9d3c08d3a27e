"""The reset mailbox (spec/omenative.md 4.12; behaviours 93-95; C51, C52)."""

from datetime import timedelta

import pytest
from tests.omenative.ome_simulator import World

from regroup.omenative.engine import reset

R = "RecreateInstanceOnPodRestart"
KEY = "ome.io/reset-instances"
PREFIX = "InferenceReplica qwen3-native/qwen3-0-6b-engine component=engine: "
DONE = (
    "reset instance(s) {} at operator request (ome.io/reset-instances annotation): pods deleted and preserved operation cleared; "
    "the lifecycle passes rebuild them"
)


def failed(*, replicas: int = 1, indices: tuple[int, ...] = (0,)) -> World:
    """Gangs of which ``indices`` are Failed after a restart."""
    world = World(policy=R, replicas=replicas, workers=1).settle()
    world.run(5)
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    for index in indices:
        world.crash(world.pod(index, "leader"))
    world.until(lambda: all(world.row(index).phase == "Failed" for index in indices), limit=120)
    world.on_create = lambda _: None
    return world


def test_a_failed_instance_is_started_over() -> None:
    """93: pods deleted, operation cleared, told, annotation gone; Creating, Ready, at the same incarnation."""
    world = failed()
    before = world.uids_of()
    world.annotations[KEY] = "0"
    world.operate()
    row = world.row()
    assert (row.phase, row.operation) == ("Failed", None)
    assert all(pod.gone_at is not None for pod in world.instance())
    assert KEY not in world.annotations
    assert world.told("InstancesReset") == [PREFIX + DONE.format("0")]
    assert row.last_failure is not None
    world.until(world.ready)
    assert world.row().incarnation == 2
    assert not before & world.uids_of()
    phases = [phase for _, _, phase, _ in world.history]
    assert phases[-3:] == ["Failed", "Creating", "Ready"]


@pytest.mark.parametrize("die", ["status", "actions:0", "actions:1", "actions:2"])
def test_an_order_is_not_lost_with_the_operator(die: str) -> None:
    """3.3: the annotation goes last."""
    world = failed()
    before = world.uids_of()
    world.annotations[KEY] = "0"
    world.operate(die=die)
    assert KEY in world.annotations
    world.until(world.ready)
    assert not before & world.uids_of()
    assert KEY not in world.annotations


@pytest.mark.parametrize(
    ("value", "done", "skipped"),
    [
        ("all", "0, 2", ""),
        ("0,1", "0", "reset skipped for instance(s) 1 (Phase=Ready)"),
        (" 2 , 0 ", "0, 2", ""),
        ("7", "", "reset skipped for instance(s) 7 (no such instance)"),
    ],
)
def test_what_is_reset(value: str, done: str, skipped: str) -> None:
    """94, C52."""
    world = failed(replicas=3, indices=(0, 2))
    kept = world.uids_of(1)
    world.annotations[KEY] = value
    world.operate()
    assert KEY not in world.annotations
    assert world.told("InstancesReset") == ([PREFIX + DONE.format(done)] if done else [])
    assert world.told("InstancesResetSkipped") == ([PREFIX + skipped] if skipped else [])
    for index in (0, 2):
        going = all(pod.gone_at is not None for pod in world.instance(index))
        assert going == (str(index) in done)
    assert world.uids_of(1) == kept
    assert world.row(1).phase == "Ready"


@pytest.mark.parametrize(("value", "bad"), [("All", "All"), ("ALL", "ALL"), ("0,x", "x"), ("-1", "-1"), ("", ""), ("0,,2", "")])
def test_what_is_rejected(value: str, bad: str) -> None:
    """95, C52: one bad entry rejects the whole request; nothing changes but the annotation."""
    world = failed(replicas=3, indices=(0, 2))
    kept = {pod.uid for pod in world.pods.values()}
    world.annotations[KEY] = value
    world.operate()
    world.run(60)
    assert KEY not in world.annotations
    text = f'ome.io/reset-instances="{value}" rejected: "{bad}" is not a non-negative instance index; nothing reset'
    assert world.told("InstancesResetRejected") == [PREFIX + text]
    assert {pod.uid for pod in world.pods.values()} == kept
    assert world.told("InstancesReset") == []


def test_all_where_none_is_failed() -> None:
    """4.12."""
    world = World().settle()
    world.annotations[KEY] = "all"
    world.operate()
    text = "reset requested for all instances but none is Failed; nothing to reset"
    assert world.told("InstancesResetSkipped") == [PREFIX + text]


def test_who_is_not_reset() -> None:
    """4.12: still serving; owned by an update; nothing to reset."""
    world = World(policy=R).settle()
    world.on_create = lambda pod: setattr(pod, "blocked", "ErrImagePull" if pod.container().image == "img:2" else "")
    world.roll("img:2")
    world.until(lambda: world.row().phase == "Failed")
    world.annotations[KEY] = "0"
    world.operate()
    assert world.told("InstancesResetSkipped") == [f"{PREFIX}reset skipped for instance(s) 0 (still serving)"]

    gang = World(policy=R, workers=1, lifecycle={"updateStrategy": {"type": "RecreatePod"}}).settle()
    gang.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    gang.roll("img:2")
    gang.until(lambda: gang.row().phase == "Failed")
    gang.annotations[KEY] = "all"
    gang.operate()
    assert gang.told("InstancesResetSkipped") == [f"{PREFIX}reset skipped for instance(s) 0 (owned by Update)"]

    bare = World()
    bare.on_create = lambda pod: setattr(pod, "blocked", "ErrImagePull")
    bare.until(lambda: bool(bare.told("RetryHeld")))
    for pod in bare.instance():
        bare.vanish(pod)
    bare.annotations[KEY] = "0"
    bare.operate()
    assert bare.told("InstancesResetSkipped") == [f"{PREFIX}reset skipped for instance(s) 0 (nothing to reset)"]


def test_a_reset_waits_for_a_pause() -> None:
    """4.12: pods go at once; they are made anew after the resume."""
    world = failed()
    world.pause()
    world.annotations[KEY] = "0"
    world.run(60)
    assert not world.pods
    assert world.row().phase == "Failed"
    world.resume()
    world.until(world.ready)


def test_a_reset_takes_the_wanted_revision() -> None:
    """4.12: the create path makes them anew at the target."""
    rolling = {"updateStrategy": {"rollingUpdate": {"partition": 1}}}
    world = World(policy=R, lifecycle=rolling).settle()
    world.on_create = lambda pod: setattr(pod, "blocked", "CrashLoopBackOff")
    world.crash(world.pod())
    world.until(lambda: world.row().phase == "Failed", limit=120)
    world.on_create = lambda _: None
    target = world.roll("img:2")
    world.run(10)
    assert world.row().phase == "Failed"
    world.annotations[KEY] = "all"
    world.until(world.ready)
    assert world.row().running_revision == target


def test_indices_are_bounded() -> None:
    """Bad input: a number without end, or a list without end."""
    assert reset.parse("3,1,3") == [1, 3]
    assert reset.parse("all") is None
    for bad in ("9" * 40, ",".join("1" * 1 for _ in range(300)), "1 2", "٣"):
        with pytest.raises(ValueError, match=r"non-negative|more than"):
            reset.parse(bad)


def test_times_of_a_reset_instance() -> None:
    """117: its Ready is a new entry."""
    world = failed()
    world.annotations[KEY] = "0"
    world.until(world.ready)
    since = world.row().ready_since
    assert since is not None
    assert world.now - since < timedelta(seconds=5)
