"""Which changes cause a look at a group: whatever a rule reads does, anything else does not (spec/leaderworkerset.md 8.2)."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from regroup.kube.pod import Pod
from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.memory import Pace
from regroup.leaderworkerset.controller.relevance import (
    recounted,
    same_annotations,
    same_leader_set,
    same_pod,
    same_worker_set,
    unless,
)
from regroup.leaderworkerset.groups.budget import COUNTED
from regroup.leaderworkerset.keys import GROUP_READY, RESTART_COUNTS
from regroup.runtime.clock import LoopClock
from regroup.runtime.store import Change
from regroup.wire.codec import decode, encode

START = datetime(2026, 8, 1, tzinfo=UTC)


def pod(change: Callable[[dict[str, Any]], None] = lambda body: None) -> Pod:
    """A worker pod that runs, changed as the test says."""
    body: dict[str, Any] = {
        "metadata": {
            "name": "demo-0-1",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"a": "1"},
            "annotations": {"b": "2"},
            "finalizers": ["keep"],
            "ownerReferences": [{"kind": "StatefulSet", "name": "demo-0", "uid": "s", "controller": True}],
        },
        "spec": {"nodeName": "node-1", "schedulingGates": [{"name": "g"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True", "message": "m"} for kind in ("Ready", "PodScheduled", GROUP_READY)],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {}}}],
            "initContainerStatuses": [{"name": "first", "restartCount": 0}],
        },
    }
    change(body)
    return decode(encode(body), Pod)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["metadata"].update(labels={"a": "2"}),
        lambda body: body["metadata"].update(annotations={}),
        lambda body: body["metadata"].update(finalizers=[]),
        lambda body: body["metadata"].update(ownerReferences=[]),
        lambda body: body["metadata"].update(deletionTimestamp="2026-08-01T00:00:00Z"),
        lambda body: body["metadata"].update(deletionGracePeriodSeconds=0),
        lambda body: body["metadata"].update(uid="other"),
        lambda body: body["spec"].update(nodeName="node-2"),
        lambda body: body["spec"].update(schedulingGates=[]),
        lambda body: body["status"].update(phase="Failed"),
        lambda body: body["status"].update(reason="Evicted"),
        lambda body: body["status"]["conditions"][0].update(status="False"),
        lambda body: body["status"]["conditions"][1].update(reason="Unschedulable"),
        lambda body: body["status"]["conditions"][2].update(status="False"),
        lambda body: body["status"]["conditions"].append({"type": "ContainersReady", "status": "True"}),
        lambda body: body["status"]["containerStatuses"][0].update(restartCount=1),
        lambda body: body["status"]["containerStatuses"][0].update(state={"terminated": {"exitCode": 1}}),
        lambda body: body["status"]["initContainerStatuses"][0].update(restartCount=1),
        lambda body: body.pop("status"),
    ],
)
def test_whatever_a_rule_reads_of_a_pod_causes_a_look(change: Callable[[dict[str, Any]], None]) -> None:
    """5.1, 5.4, 5.6, Q29: each of these facts can change a decision."""
    assert not same_pod(pod(), pod(change))
    assert not same_pod(pod(change), pod())


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["metadata"].update(resourceVersion="8"),
        lambda body: body["status"]["conditions"][0].update(message="other", lastTransitionTime="2026-08-01T00:00:00Z"),
        lambda body: body["status"]["conditions"].append({"type": "example.com/Warm", "status": "True"}),
        lambda body: body["status"].update(podIP="10.0.0.1", startTime="2026-08-01T00:00:00Z", message="m"),
        lambda body: body["status"]["conditions"].reverse(),
    ],
)
def test_what_no_rule_reads_causes_none(change: Callable[[dict[str, Any]], None]) -> None:
    """anchor-figures: updates that change nothing for us cost next to nothing."""
    assert same_pod(pod(), pod(change))


def test_counts_of_a_worker_set_cause_no_look_and_its_generations_do() -> None:
    """The pods say what runs; of the set its shape and its revision are read (5.5, Q30)."""

    def found(**status: Any) -> StatefulSet:
        meta = {"name": "demo-0", "uid": "s", "generation": status.pop("generation", 1)}
        return decode(
            encode({"metadata": meta, "status": {"observedGeneration": 1, "updateRevision": "r", **status}}), StatefulSet
        )

    assert same_worker_set(found(), found(replicas=7, readyReplicas=7, currentRevision="r"))
    for changed in (found(generation=2), found(observedGeneration=2), found(updateRevision="q")):
        assert not same_worker_set(found(), changed)


def test_how_many_leaders_are_ready_is_said_by_their_pods() -> None:
    """7.3: of a leader set's status a pass reads how many leaders there are; the rest of it moves at every leader's step."""

    def found(*, generation: int = 1, size: int = 3, label: str = "1", **status: Any) -> StatefulSet:
        meta = {"name": "demo", "uid": "s", "generation": generation, "labels": {"a": label}}
        return decode(encode({"metadata": meta, "spec": {"replicas": size}, "status": {"replicas": 3, **status}}), StatefulSet)

    assert same_leader_set(found(), found(readyReplicas=2, availableReplicas=2, currentReplicas=1, updateRevision="q"))
    for changed in (found(generation=2), found(size=4), found(label="2"), found(replicas=2)):
        assert not same_leader_set(found(), changed)


def lws(**annotations: str) -> LeaderWorkerSet:
    return decode(encode({"metadata": {"name": "demo", "namespace": "t", "annotations": annotations}}), LeaderWorkerSet)


def test_a_counter_concerns_its_own_group() -> None:
    """5.5: a recreation that is counted is no reason to look at a thousand other groups; a map that cannot be read is one."""
    none, first = lws(), lws(**{RESTART_COUNTS: '{"r/0":1,"r/7":2}', COUNTED: '{"r/7":"aa"}'})

    assert same_annotations(none, first)
    assert not same_annotations(none, lws(other="1"))
    assert set(recounted(none, first) or ()) == {"0", "7"}
    assert set(recounted(first, lws(**{RESTART_COUNTS: '{"r/0":1,"r/7":3}', COUNTED: '{"r/7":"aa"}'})) or ()) == {"7"}
    assert set(recounted(first, lws(**{RESTART_COUNTS: '{"r/0":1,"r/7":2}', COUNTED: '{"r/7":"bb"}'})) or ()) == {"7"}
    assert set(recounted(first, first) or ()) == set()
    assert recounted(first, lws(**{RESTART_COUNTS: "nonsense"})) is None


def test_coming_and_going_is_never_filtered() -> None:
    """8.3: a deletion is seen however the object looked."""
    ask = unless(same_pod, lambda change: [change.object.metadata.name])

    assert list(ask(Change(None, pod()))) == list(ask(Change(pod(), None))) == ["demo-0-1"]
    assert list(ask(Change(pod(), pod()))) == []


@pytest.mark.looptime
async def test_a_pace_lets_the_first_through_and_spaces_the_others() -> None:
    """Calls until the next time share it; another key has its own."""
    pace: Pace[str] = Pace(clock=LoopClock(start=START))

    assert pace.wait("a", interval=1.0) == 0.0
    await asyncio.sleep(0.25)
    assert [pace.wait("a", interval=1.0), pace.wait("a", interval=1.0), pace.wait("b", interval=1.0)] == pytest.approx(
        [0.75, 0.75, 0.0]
    )
    await asyncio.sleep(1)
    assert pace.wait("a", interval=1.0) == pytest.approx(0.75)
    await asyncio.sleep(5)
    assert pace.wait("a", interval=1.0) == 0.0
