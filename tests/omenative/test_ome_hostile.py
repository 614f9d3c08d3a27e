"""Whatever stands in a status, in pods and in annotations, a pass comes to an end and stays within its Instances (bad input)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.omenative.ome_simulator import NOW, Container, SimPod, World

from regroup.omenative.api.replica import InferenceReplicaStatus, RetryBlock
from regroup.omenative.api.row import LastFailure, Operation, Row
from regroup.omenative.engine import passes, reset
from regroup.omenative.outcome import CreatePod, DeletePod, Refusal
from regroup.omenative.pods import evidence, gate
from regroup.omenative.view import InstancePod, NodeFacts

R = "RecreateInstanceOnPodRestart"
PHASES = ["", "Pending", "Creating", "Ready", "Updating", "Restarting", "Migrating", "Failed", "Deleting", "Dreaming"]
TYPES = ["", "Create", "Update", "Restart", "Migrate", "Delete", "Dance"]
STEPS = ["", "CreatePods", "Drain", "InPlace", "Surge", "SurgeDrain", "GangSurgeTarget", "GangSurgeTargetCleanup", "Nap"]
WAITING = ["", "Paused", "QuotaExceeded", "Unschedulable", "NodeUnknown", "PodGroupTerminating", "SourceUnrouted", "Godot"]
REVISIONS = ["", "qwen3-0-6b-engine-00000001", "qwen3-0-6b-engine-00000002", "gone-abc"]

times = st.none() | st.integers(-7200, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))
operations = st.none() | st.builds(
    Operation,
    id=st.sampled_from(["", "x-0-1"]),
    type=st.sampled_from(TYPES),
    step=st.sampled_from(STEPS),
    started_at=times,
    last_progress_at=times,
    deadline=times,
    retry_count=st.integers(-1, 10**6),
    target_revision=st.sampled_from(REVISIONS),
    strategy=st.sampled_from(["", "SurgeThenDrain", "RecreatePod", "InPlaceIfPossible", "None"]),
    waiting=st.sampled_from(WAITING),
    surge_index=st.none() | st.integers(0, 4),
    capacity_refused_at=times,
)
rows = st.builds(
    Row,
    index=st.integers(0, 4),
    incarnation=st.integers(0, 5),
    phase=st.sampled_from(PHASES),
    running_revision=st.sampled_from(REVISIONS),
    target_revision=st.sampled_from(REVISIONS),
    pod_count=st.integers(0, 5),
    ready_since=times,
    operation=operations,
    active_ordinal=st.integers(0, 3),
    last_failure=st.none() | st.builds(LastFailure, reason=st.text(max_size=5), time=times),
)
blocks = st.builds(
    RetryBlock,
    target_revision=st.sampled_from(REVISIONS),
    state=st.sampled_from(["", "Backoff", "Held", "RetryInProgress", "Odd"]),
    attempts_started=st.integers(-1, 9),
    next_retry_at=times,
    last_failure_at=times,
)


@st.composite
def pods(draw: st.DrawFn) -> SimPod:
    runner = draw(st.sampled_from(["default", "leader", "worker", "odd", ""]))
    index, ordinal = draw(st.sampled_from(["0", "1", "4", "-1", "x", ""])), draw(st.sampled_from(["0", "1", "7", ""]))
    labels = {
        "ome.io/instance-index": index,
        "ome.io/runner": runner,
        "ome.io/pod-ordinal": ordinal,
        "ome.io/instance-incarnation": draw(st.sampled_from(["1", "2", "5", "", "two", "9" * 30])),
        "ome.io/revision-hash": draw(st.sampled_from(["00000001", "00000002", "ffffffff", ""])),
    }
    container = Container(waiting=draw(st.sampled_from(["CrashLoopBackOff", "ErrImagePull", "ContainerCreating"])))
    if draw(st.booleans()):
        container.running_since = NOW - timedelta(seconds=draw(st.integers(0, 600)))
    return SimPod(
        name=f"qwen3-0-6b-engine-{index}-{runner}-{ordinal}",
        uid=f"uid-{draw(st.integers(0, 10**6))}",
        labels=labels,
        created=NOW - timedelta(seconds=draw(st.integers(0, 7200))),
        phase=draw(st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown", ""])),
        containers=[container],
        gone_at=draw(st.none() | st.just(NOW + timedelta(seconds=3))),
        holders=draw(st.none() | st.just([]) | st.just([{"userAgent": "RestartDrain", "key": "0-2"}])),
        listed_ready=draw(st.booleans()),
    )


@given(
    found=st.lists(rows, max_size=5, unique_by=lambda row: row.index),
    known=st.lists(blocks, max_size=3, unique_by=lambda block: block.target_revision),
    some=st.lists(pods(), max_size=8),
    workers=st.integers(0, 2),
    replicas=st.integers(1, 4),
    paused=st.sampled_from([None, "", "Freeze"]),
    kind=st.sampled_from(["SurgeThenDrain", "RecreatePod", "InPlaceIfPossible", "InPlaceOnly", "Odd"]),
    deleted=st.booleans(),
    silent=st.booleans(),
    order=st.none() | st.sampled_from(["all", "0", "0,1", "x"]),
)
def test_any_status_and_any_pods(  # noqa: PLR0917 - Hypothesis gives them by name
    found: list[Row],
    known: list[RetryBlock],
    some: list[SimPod],
    workers: int,
    replicas: int,
    paused: str | None,
    kind: str,
    deleted: bool,
    silent: bool,
    order: str | None,
) -> None:
    """No exception; rows unique and in order; only pods that it was shown are deleted; strangers are never touched; nothing is
    made of a revision that is not stored, and nothing beside a pod of another incarnation."""
    world = World(workers=workers, replicas=replicas, lifecycle={"updateStrategy": {"type": kind}})
    world.roll("img:2")
    if paused is not None:
        world.pause(paused)
    world.pods = {pod.name: pod for pod in some}
    world.nodes = {"n1": NodeFacts(known=not silent)}
    world.deleted_at = NOW if deleted else None
    if order is not None:
        world.annotations["ome.io/reset-instances"] = order
    world.stored = InferenceReplicaStatus(raw_rows=tuple(found) or None, raw_retry_blocks=tuple(known) or None)
    view = world.view()
    outcome = passes.run(view)
    indices = [row.index for row in outcome.status.rows]
    assert indices == sorted(set(indices))
    uids = {pod.uid for pod in view.pods}
    stored = {revision.name for revision in view.revisions}
    names = {pod.name for pod in view.pods}
    for action in outcome.actions:
        if isinstance(action, DeletePod):
            assert action.uid in uids
            assert next(pod for pod in view.pods if pod.name == action.name).incarnation is not None
        if isinstance(action, CreatePod):
            assert action.revision in stored
            assert action.name not in names
            assert not deleted
    assert outcome.wake is None or outcome.wake >= 0
    again = passes.refused(view, outcome.status, [Refusal(index=0, pod="p", kind="Quota", message="m")])
    assert [row.index for row in again.status.rows] == indices


@given(
    message=st.text(max_size=80)
    | st.sampled_from(['[{"userAgent":"a"}]', "[[]]", "{}", "3", "[null]", '[{"userAgent":1,"key":2}]'])
)
def test_any_message_of_the_serving_condition(message: str) -> None:
    """3.5: written by whoever."""
    conditions = [{"type": "ome.io/serving", "status": "False", "message": message}]
    pod = msgspec.convert({"metadata": {"name": "p"}, "status": {"conditions": conditions}}, InstancePod)
    assert gate.holders(pod)
    assert not gate.serves(pod)


@given(value=st.text(alphabet="0123456789,all -x", max_size=30))
def test_any_order_of_a_reset(value: str) -> None:
    """4.12: all, indices, or a refusal of the whole."""
    try:
        wanted = reset.parse(value)
    except ValueError:
        return
    assert wanted is None or all(index >= 0 for index in wanted)
    assert wanted is not None or value.strip() == "all"


@given(
    restarts=st.lists(st.sampled_from(["metrics", "proxy", "ome-container-2", "OME-CONTAINER"]), max_size=6), order=st.randoms()
)
def test_no_other_container_ever_triggers(restarts: list[str], order: Any) -> None:
    """18, 19, 32, for any of them in any order."""
    world = World(policy="RecreateInstanceOnPodRestart").settle()
    pod = world.pod()
    pod.containers += [Container(name=name, running_since=world.now) for name in sorted(set(restarts))]
    world.tick(5)
    for name in restarts:
        world.crash(pod, container=name)
    order.shuffle(pod.containers)
    row = world.row()
    assert evidence.trigger([pod.view()], desired=1, ready_since=row.ready_since, now=world.now) == ""


def test_a_revision_that_cannot_be_read_is_as_good_as_gone() -> None:
    """C64: what runs goes on; nothing is made of it, and the rest of the pass goes on."""
    world = World(policy="RecreateInstanceOnPodRestart", replicas=2).settle()
    good = world.revisions[0]
    world.revisions[0] = replace(good, data={"runners": [{"name": 7}]})
    world.run(10)
    assert world.phases() == ["Ready", "Ready"]
    world.crash(world.pod(1))
    world.run(30)
    assert len(world.told("RepairRevisionGone")) == 1
    world.revisions[0] = good
    world.until(world.ready)


@pytest.mark.parametrize(
    ("changes", "incarnation", "made_anew"),
    [
        ({"phase": "Dreaming"}, 1, False),
        ({"phase": "", "incarnation": 0}, 1, False),
        ({"phase": "Updating", "operation": None}, 1, False),
        ({"phase": "Creating", "operation": None}, 1, False),
        ({"phase": "Ready", "running_revision": "", "target_revision": ""}, 1, False),
        ({"phase": "Failed", "running_revision": "", "target_revision": ""}, 1, False),
        ({"phase": "Restarting", "incarnation": 7, "running_revision": "", "target_revision": ""}, 7, True),
    ],
)
def test_a_row_that_lacks_something_goes_on(changes: dict[str, Any], incarnation: int, made_anew: bool) -> None:
    """3.1: whatever an edit of the status has left of a row, its Instance comes to Ready at the revision of its pods, and follows
    the next one."""
    world = World(policy=R, workers=1).settle()
    status = world.stored
    assert status is not None
    before = world.uids_of()
    revision = world.row().running_revision
    world.stored = msgspec.structs.replace(status, raw_rows=(msgspec.structs.replace(status.rows[0], **changes),))
    world.until(lambda: world.ready() and world.row().running_revision == revision)
    assert world.row().incarnation == incarnation
    assert (world.uids_of() != before) is made_anew
    target = world.roll("img:2")
    world.until(lambda: world.ready() and all(row.running_revision == target for row in world.status.rows))
