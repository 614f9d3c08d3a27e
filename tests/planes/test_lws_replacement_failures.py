"""Edges of failure handling, budget and recovery: spec/leaderworkerset.md 5.2-5.6, behaviours 55-67, 75, 77, 91, 104, cases
C16, C29, C64, C121, C136."""

import asyncio
import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template, status_response

from regroup.kube.resources import PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.wire.errors import WireError
from regroup.wire.transport import Request, Response

AFTER_START = "RecreateGroupAfterStart"
GROUP = group_names(size=2)


def rolling(**config: Any) -> dict[str, Any]:
    return {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": config}}


def delayed(seconds: int, *, image: str = "worker:1") -> dict[str, Any]:
    return pod_template(image=image, annotations={"sandbox.regroup.dev/start-delay": f"{seconds}s"})


async def restarted(plane: Plane, pod: str, times: int = 1) -> None:
    async def so() -> bool:
        found = (await plane.pods()).get(pod)
        return found is not None and found.restarts >= times

    await plane.wait_for(so, what=f"{pod} restarted {times} time(s)")


async def counts(plane: Plane, name: str = "demo") -> dict[str, int]:
    text = (await plane.lws(name)).metadata.annotations.get(keys.RESTART_COUNTS, "{}")
    value: dict[str, int] = json.loads(text)
    return {key.split("/")[1]: count for key, count in value.items()}


async def retained(plane: Plane, group: int = 0, *, size: int = 2) -> bool:
    pods = await plane.pods()
    names = group_names(group, size=size)
    kept = all(
        name in pods and pods[name].deleting and keys.CLEANUP_FINALIZER in pods[name].metadata.finalizers for name in names
    )
    return kept and pods[names[0]].metadata.annotations.get(keys.EXHAUSTED) == "true"


async def test_a_scheduler_that_says_nothing_and_one_that_fails(plane: Plane) -> None:
    """Behaviours 55, 58: no PodScheduled condition is starting; SchedulerError is unschedulable, like any but the gate's."""
    async with plane:
        nobody = pod_template(schedulerName="nobody")
        await plane.apply(lws_manifest(policy=AFTER_START, size=2, worker=nobody, leader=pod_template()))

        async def leader_runs() -> bool:
            pods = await plane.pods()
            return len(pods) == 2 and pods["demo-0"].phase == "Running"

        await plane.wait_for(leader_runs)
        old = await plane.uids()
        await plane.faults.crash(NAMESPACE, "demo-0")
        await restarted(plane, "demo-0")
        await plane.sleep(10)
        assert await plane.uids() == old
        assert await plane.events("GroupUnschedulable") == []
        condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "made up"}
        patch = {"status": {"conditions": [condition]}}
        await plane.client.merge_patch(PODS, "demo-0-1", patch, namespace=NAMESPACE, subresource="status")
        await plane.faults.crash(NAMESPACE, "demo-0")
        await plane.wait_for(lambda: plane.events("GroupUnschedulable"))
        await plane.sleep(10)
        assert await plane.uids() == old
        (event,) = await plane.events("GroupUnschedulable")
        assert "demo-0-1" in event.note


async def test_the_old_groups_last_pods_are_no_failure_of_the_new_leader(plane: Plane) -> None:
    """Behaviours 39, 59, B3: a leader deleted in the background waits gated and alone until the last old worker is gone; that
    worker's end recreates nothing."""
    async with plane:
        await plane.apply(lws_manifest(policy=AFTER_START))
        old = await plane.wait_available()
        for held in ("demo-0-1", "demo-0-2"):
            await plane.client.merge_patch(PODS, held, {"metadata": {"finalizers": ["x.io/a"]}}, namespace=NAMESPACE)
        await plane.delete_pod("demo-0")

        async def new_leader() -> bool:
            found = (await plane.pods()).get("demo-0")
            return found is not None and found.metadata.uid != old["demo-0"]

        await plane.wait_for(new_leader)
        leader = (await plane.uids())["demo-0"]
        await plane.sleep(5)
        assert (await plane.pods())["demo-0"].gated_by(keys.GATE)
        for held in ("demo-0-1", "demo-0-2"):
            await plane.client.merge_patch(PODS, held, {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
            await plane.sleep(3)
        new = await plane.wait_recreated(old, group_names())
        await plane.sleep(15)
        assert await plane.uids() == new
        assert new["demo-0"] == leader
        assert await plane.events("RecreateGroup") == []


async def test_unschedulable_wins_over_missing(plane: Plane) -> None:
    """Behaviours 57, 60: one worker cannot be made, because a stranger has its name; another has no place."""
    async with plane:
        stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo-0-2"}, "spec": pod_template()["spec"]}
        await plane.client.create(PODS, stranger, namespace=NAMESPACE)
        nowhere = pod_template(nodeSelector={"nowhere": "here"})
        await plane.apply(lws_manifest(policy=AFTER_START, worker=nowhere, leader=pod_template()))

        async def leader_runs() -> bool:
            pods = await plane.pods()
            return sorted(pods) == ["demo-0", "demo-0-1"] and pods["demo-0"].phase == "Running"

        await plane.wait_for(leader_runs)
        await plane.sleep(3)
        old = await plane.uids()
        await plane.faults.crash(NAMESPACE, "demo-0")
        await plane.wait_for(lambda: plane.events("GroupUnschedulable"))
        (event,) = await plane.events("GroupUnschedulable")
        assert "demo-0-1" in event.note
        assert await plane.uids() == old


async def test_a_pending_member_does_not_stop_an_exhaustion_that_began(plane: Plane) -> None:
    """Behaviour 65: marked, the operator died, a worker was replaced and starts: the exhaustion is finished, nothing is
    reported."""
    async with plane:
        await plane.apply(lws_manifest(policy=AFTER_START, template={"maxGroupRestarts": 0}, worker=delayed(15)))
        await plane.wait_available()
        await plane.sleep(3)
        refuse = status_response(500, "InternalError")
        plane.line.answer = lambda request: refuse if request.method == "PATCH" and "/pods/demo-0-" in request.path else None
        await plane.faults.crash(NAMESPACE, "demo-0-2")
        await plane.wait_for(lambda: _is_marked(plane))
        await plane.stop_operator()
        plane.line.clear()
        before = (await plane.uids())["demo-0-1"]
        await plane.delete_pod("demo-0-1", grace=0)

        async def pending() -> bool:
            found = (await plane.pods()).get("demo-0-1")
            return found is not None and found.metadata.uid != before and found.phase == "Pending"

        await plane.wait_for(pending)
        await plane.start_operator()
        await plane.wait_for(lambda: retained(plane, size=3))
        assert await plane.events("GroupUnschedulable") == []
        assert await counts(plane) == {}


async def _is_marked(plane: Plane) -> bool:
    return keys.EXHAUSTED in (await plane.pods())["demo-0"].metadata.annotations


async def test_a_group_of_the_old_size_has_started(plane: Plane) -> None:
    """Behaviour 67: below the partition of a resize its own size annotation says when it is complete."""
    async with plane:
        await plane.apply(lws_manifest(policy=AFTER_START, size=2))
        old = await plane.wait_available()
        await plane.apply(lws_manifest(policy=AFTER_START, size=3, **rolling(partition=1)))
        await plane.sleep(5)
        assert await plane.uids() == old
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        new = await plane.wait_recreated(old, GROUP)
        assert sorted(new) == GROUP


async def test_many_groups_count_at_once_under_conflicts(plane: Plane) -> None:
    """Behaviour 75, case C29: every other write of the LeaderWorkerSet is refused while somebody labels it all the time. Each
    group is recreated once, then each is exhausted, and no label is lost."""
    refused = 0
    replicas = 6

    def conflict(request: Request) -> Response | None:
        nonlocal refused
        if request.method != "PATCH" or not request.path.endswith("/leaderworkersets/demo"):
            return None
        refused += 1
        return status_response(409, "Conflict") if refused % 2 else None

    async with plane:
        await plane.apply(lws_manifest(replicas=replicas, size=2, template={"maxGroupRestarts": 1}))
        old = await plane.wait_available()
        labelling = asyncio.create_task(_label(plane))
        plane.line.answer = conflict
        for group in range(replicas):
            await plane.faults.crash(NAMESPACE, f"demo-{group}-1")
        names = [name for group in range(replicas) for name in group_names(group, size=2)]
        new = await plane.wait_recreated(old, names, timeout=180)
        await plane.sleep(10)
        assert await plane.uids() == new
        assert await counts(plane) == {str(group): 1 for group in range(replicas)}
        for group in range(replicas):
            await plane.faults.crash(NAMESPACE, f"demo-{group}-1")
        for group in range(replicas):
            await plane.wait_for(partial(retained, plane, group), timeout=180)
        plane.line.clear()
        labelling.cancel()
        assert await counts(plane) == {str(group): 1 for group in range(replicas)}
        assert int((await plane.lws()).metadata.labels["x.io/n"]) > 10
        assert refused > replicas


async def _label(plane: Plane) -> None:
    number = 0
    while True:
        number += 1
        body = {"metadata": {"labels": {"x.io/n": str(number)}}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", body, namespace=NAMESPACE)
        await plane.sleep(0.2)


async def test_a_stale_cache_does_not_extend_the_budget(plane: Plane) -> None:
    """Behaviour 77, B8: the cached LeaderWorkerSet has no count while 1 of 1 is stored: exhausted."""
    async with plane:
        await plane.apply(lws_manifest(size=2, template={"maxGroupRestarts": 1}))
        old = await plane.wait_available()
        plane.line.hold("/leaderworkersets")
        revision = (await plane.pods())["demo-0"].metadata.labels[keys.REVISION]
        stored = {"metadata": {"annotations": {keys.RESTART_COUNTS: json.dumps({f"{revision}/0": 1})}}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", stored, namespace=NAMESPACE)
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: retained(plane))
        plane.line.clear()
        await plane.sleep(10)
        assert await plane.uids() == old
        assert await counts(plane) == {"0": 1}


async def test_one_exhausted_while_another_comes_up(plane: Plane) -> None:
    """Behaviour 91: Degraded and Progressing are both True."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, template={"maxGroupRestarts": 0}, worker=delayed(8)))
        await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: retained(plane))
        await plane.delete_pod("demo-1")

        async def both() -> bool:
            found = {kind: await plane.condition(kind) for kind in ("Degraded", "Progressing", "Available", "UpdateInProgress")}
            states = {kind: one.status for kind, one in found.items() if one is not None}
            return states == {"Degraded": "True", "Progressing": "True", "Available": "False", "UpdateInProgress": "False"}

        await plane.wait_for(both, timeout=20)


async def test_late_events_of_a_recovered_group(plane: Plane) -> None:
    """Behaviour 104, B9: the deletions arrive together with the creations of the next group, which is left alone."""
    async with plane:
        await plane.apply(lws_manifest(size=2, template={"maxGroupRestarts": 0}))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: retained(plane))
        await plane.sleep(2)
        recover = {"metadata": {"annotations": {keys.RECOVER: "true"}}}
        await plane.client.merge_patch(PODS, "demo-0", recover, namespace=NAMESPACE)

        async def let_go() -> bool:
            found = (await plane.pods()).get("demo-0")
            return found is None or keys.CLEANUP_FINALIZER not in found.metadata.finalizers

        await plane.wait_for(let_go)
        plane.line.hold("/pods")
        await plane.wait_for(lambda: _new_leader(plane, old))
        await plane.sleep(5)
        plane.line.clear()
        new = await plane.wait_recreated(old, GROUP)
        await plane.sleep(15)
        assert await plane.uids() == new
        assert await counts(plane) == {}
        assert not [pod for pod in (await plane.pods()).values() if pod.metadata.finalizers]


async def _new_leader(plane: Plane, old: dict[str, str]) -> bool:
    found = (await plane.pods()).get("demo-0")
    return found is not None and found.metadata.uid != old["demo-0"]


async def test_a_graceful_node_shutdown_leaves_odd_statuses(plane: Plane) -> None:
    """Case C16: Failed with a stale Ready and Failed without any container status both recreate once; what is only disrupted does
    not, and is not counted as ready."""
    async with plane:
        await plane.apply(lws_manifest())
        uids = await plane.wait_available()
        ready = [
            {"type": "Ready", "status": "True"},
            {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"},
        ]
        await _report(
            plane, {"phase": "Running", "reason": "Terminated", "conditions": [{**ready[0], "status": "False"}, ready[1]]}
        )
        await plane.sleep(1)
        assert await plane.uids() == uids
        for status in (
            {"phase": "Failed", "reason": "Terminated", "conditions": ready},
            {"phase": "Failed", "containerStatuses": []},
        ):
            await _report(plane, status)
            seen: set[int] = set()

            async def down(seen: set[int] = seen) -> bool:
                seen.add((await plane.lws()).status.ready_replicas)
                return 0 in seen

            await plane.wait_for(down, timeout=15)
            uids = await plane.wait_recreated(uids, group_names())
            await plane.wait_available()
        await plane.sleep(10)
        assert await plane.uids() == uids
        assert len(await plane.events("RecreateGroup")) >= 1


async def _report(plane: Plane, status: dict[str, Any]) -> None:
    await plane.client.merge_patch(PODS, "demo-0-2", {"status": status}, namespace=NAMESPACE, subresource="status")


async def test_one_group_that_cannot_be_deleted(plane: Plane) -> None:
    """Case C64: its DELETE answers 500, another's 404; all others are done at once, and it is once the fault is over."""
    async with plane:
        await plane.apply(lws_manifest(replicas=5, size=2))
        old = await plane.wait_available()
        broken = True

        def answer(request: Request) -> Response | None:
            if request.method == "DELETE" and request.path.endswith("/pods/demo-1") and broken:
                return status_response(500, "InternalError")
            return None

        plane.line.answer = answer
        for group in range(5):
            await plane.faults.crash(NAMESPACE, f"demo-{group}-1")
        others = [name for group in (0, 2, 3, 4) for name in group_names(group, size=2)]
        await plane.wait_recreated(old, others, timeout=30)
        assert (await plane.uids())["demo-1"] == old["demo-1"]
        tries = [entry for entry in plane.requests if entry.request.method == "DELETE" and entry.status == 500]
        broken = False
        await plane.wait_recreated(old, group_names(1, size=2), timeout=30)
        assert 1 < len(tries) < 30


@pytest.mark.parametrize("how", ["recovered", "deleted"])
async def test_foreign_finalizers_next_to_ours(plane: Plane, how: str) -> None:
    """Case C121: removed by their owner while we remove ours, they never come back, and everything goes."""
    async with plane:
        await plane.apply(lws_manifest(size=2, template={"maxGroupRestarts": 0}))
        old = await plane.wait_available()
        for name in GROUP:
            await plane.client.merge_patch(PODS, name, {"metadata": {"finalizers": ["x.io/a"]}}, namespace=NAMESPACE)
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: retained(plane))
        if how == "recovered":
            body = {"metadata": {"annotations": {keys.RECOVER: "true"}}}
            await plane.client.merge_patch(PODS, "demo-0", body, namespace=NAMESPACE)
        else:
            await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        for name in GROUP:
            found: dict[str, Any] = await plane.client.get(PODS, name, namespace=NAMESPACE)
            place = found["metadata"]["finalizers"].index("x.io/a")
            path = f"/metadata/finalizers/{place}"
            ops = [{"op": "test", "path": path, "value": "x.io/a"}, {"op": "remove", "path": path}]
            try:
                await plane.client.json_patch(PODS, name, ops, namespace=NAMESPACE)
            except WireError:  # ours was taken off in between: once more, as an owner would
                await plane.client.merge_patch(PODS, name, {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        if how == "recovered":
            new = await plane.wait_recreated(old, GROUP, timeout=30)
            assert not [pod for pod in (await plane.pods()).values() if pod.metadata.finalizers]
            await plane.sleep(5)
            assert await plane.uids() == new
        else:

            async def gone() -> bool:
                return not await plane.pods()

            await plane.wait_for(gone, timeout=30)


async def test_pods_that_fail_at_once(plane: Plane) -> None:
    """Case C136 in Hash mode (Ordinal: test_lws_pacing): refused as soon as they are there, for a minute: at most one creation a
    second, and another LeaderWorkerSet's failure is handled within seconds."""
    async with plane:
        await plane.apply(lws_manifest(size=2, groupIdentity="Hash"), lws_manifest("other", size=2))
        await plane.wait_available()
        other = await plane.wait_available("other")
        leaders: set[str] = set()
        refusing = asyncio.create_task(_refuse(plane, leaders))
        await plane.sleep(30)
        await plane.faults.crash(NAMESPACE, "other-0-1")
        await plane.wait_recreated(other, group_names(size=2, name="other"), name="other", timeout=10)
        await plane.sleep(25)
        refusing.cancel()
        assert 1 < len(leaders) <= 60


async def _refuse(plane: Plane, leaders: set[str]) -> None:
    while True:
        for name, pod in (await plane.pods()).items():
            if pod.metadata.labels[keys.WORKER_INDEX] == keys.LEADER_INDEX:
                leaders.add(pod.metadata.uid)
            if pod.phase == "Failed" or pod.deleting or pod.gated_by(keys.GATE):
                continue
            status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "containerStatuses": []}
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
            with suppress(WireError):  # it went in between
                await plane.client.merge_patch(PODS, name, patch, namespace=NAMESPACE, subresource="status")
        await plane.sleep(0.1)
