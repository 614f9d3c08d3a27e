"""RecreateGroupOnPodRestart: spec/leaderworkerset.md 5.1, 5.2, behaviours 32-46; case C45."""

import asyncio
from contextlib import suppress

import pytest
from tests.planes.plane import NAMESPACE, Plane, Recorded, group_names, lws_manifest, pod_template

from regroup.kube.resources import PODS
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.wire.errors import NotFound


def leader_deletions(plane: Plane, *, since: int, leader: str = "demo-0") -> list[Recorded]:
    return [entry for entry in plane.deletions(since=since) if entry.request.path.endswith(f"/pods/{leader}")]


@pytest.mark.parametrize("failing", ["demo-0-2", "demo-0"])
async def test_a_container_restart_recreates_the_group(plane: Plane, failing: str) -> None:
    """Behaviours 32, 33, 37, 42: all pods of the group and no other, deleted once, in the foreground, by the leader's UID."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=4))
        old = await plane.wait_available()
        mark = len(plane.requests)
        await plane.faults.crash(NAMESPACE, failing, exit_code=3)
        new = await plane.wait_recreated(old, group_names(0, size=4))
        await plane.wait_available()
        await plane.sleep(30)
        assert await plane.uids() == new, "exactly once"
        assert {name: new[name] for name in group_names(1, size=4)} == {name: old[name] for name in group_names(1, size=4)}
        (deletion,) = leader_deletions(plane, since=mark)
        assert deletion.body["propagationPolicy"] == "Foreground"
        assert deletion.body["preconditions"]["uid"] == old["demo-0"]
        (event,) = await plane.events("RecreateGroup")
        assert (event.type, event.regarding, event.related) == ("Normal", "LeaderWorkerSet/demo", "Pod/demo-0")
        assert failing in event.note
        assert "exit code 3" in event.note


async def test_an_init_container_that_restarts_while_pending(plane: Plane) -> None:
    """Behaviour 34."""
    worker = pod_template(
        annotations={"sandbox.regroup.dev/exit-after": "init=1s,main=1000h", "sandbox.regroup.dev/exit-code": "init=1"},
        initContainers=[{"name": "init", "image": "init:1"}],
    )
    async with plane:
        await plane.apply(lws_manifest(size=2, leader=pod_template(), worker=worker))

        async def told() -> bool:
            return any("container init of worker pod demo-0-1" in event.note for event in await plane.events("RecreateGroup"))

        await plane.wait_for(told)


async def test_a_deleted_worker_recreates_the_group(plane: Plane) -> None:
    """Behaviour 35."""
    async with plane:
        await plane.apply(lws_manifest())
        old = await plane.wait_available()
        mark = len(plane.requests)
        await plane.delete_pod("demo-0-2")
        await plane.wait_recreated(old, group_names())
        await plane.sleep(20)
        assert len(leader_deletions(plane, since=mark)) == 1


async def test_two_workers_failing_together_are_one_recreation(plane: Plane) -> None:
    """Behaviour 38; anchor-figures: as many leader deletions as groups."""
    async with plane:
        await plane.apply(lws_manifest(size=4))
        old = await plane.wait_available()
        mark = len(plane.requests)
        for index in (1, 2, 3):
            await plane.faults.crash(NAMESPACE, f"demo-0-{index}")
        await plane.delete_pod("demo-0-1", grace=0)
        new = await plane.wait_recreated(old, group_names(0, size=4))
        await plane.sleep(30)
        assert await plane.uids() == new
        assert len(leader_deletions(plane, since=mark)) == 1
        assert len(await plane.events("RecreateGroup")) == 1


async def test_a_leader_deleted_in_the_background_is_replaced_once(plane: Plane) -> None:
    """Behaviours 39, 41, 138, B3: the old workers' deletions do not hit the new leader, which waits behind its gate for them;
    the operator deletes nothing."""
    async with plane:
        await plane.apply(lws_manifest(worker=pod_template(annotations={"sandbox.regroup.dev/stop-delay": "5s"})))
        old = await plane.wait_available()
        mark = len(plane.requests)
        await plane.delete_pod("demo-0", grace=0)
        new = await plane.wait_recreated(old, group_names())
        await plane.sleep(30)
        assert await plane.uids() == new
        assert leader_deletions(plane, since=mark) == []
        assert await plane.events("RecreateGroup") == []
        told = [event.reason for event in await plane.events() if event.reason.startswith("GroupReplacement")]
        assert sorted(told) == ["GroupReplacementAdmitted", "GroupReplacementDeferred"]


async def test_a_rolling_update_replaces_each_pod_once(plane: Plane) -> None:
    """Behaviour 40, case C03: one group at a time, four pods made, no recreation told."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2))
        old = await plane.wait_available()
        seen: dict[str, set[str]] = {name: set() for name in old}
        await plane.apply(lws_manifest(replicas=2, size=2, worker=pod_template(container={"env": [{"name": "X", "value": "1"}]})))

        async def rolled() -> bool:
            pods = await plane.pods()
            for name, pod in pods.items():
                seen[name].add(pod.metadata.uid)
            ready = sum(1 for pod in pods.values() if pod.running_and_ready and not pod.deleting)
            assert ready >= 2, "one group at a time"
            return all(seen[name] - {old[name]} for name in old) and ready == 4

        await plane.wait_for(rolled, timeout=120)
        await plane.wait_available()
        await plane.sleep(20)
        for name, uid in (await plane.uids()).items():
            seen[name].add(uid)
        assert {name: len(uids - {old[name]}) for name, uids in seen.items()} == dict.fromkeys(old, 1)
        assert await plane.events("RecreateGroup") == []
        notes = [event.note for event in await plane.events("GroupsUpdating")]
        assert len([note for note in notes if note.startswith("Updating groups")]) == 2, "a move of the partition each"
        assert len([note for note in notes if "ready groups of 2 total groups" in note]) == 1, "the condition (7.6)"


async def test_readiness_alone_is_no_failure(plane: Plane) -> None:
    """Behaviour 44: told in the status, nothing is deleted."""
    async with plane:
        await plane.apply(lws_manifest())
        old = await plane.wait_available()
        await plane.faults.unready(NAMESPACE, "demo-0-1", seconds=20)

        async def unready() -> bool:
            return (await plane.lws()).status.ready_replicas == 0

        await plane.wait_for(unready)
        assert await plane.wait_available() == old
        assert plane.deletions() == []


@pytest.mark.parametrize("failing", ["demo-0", "demo-0-1"])
async def test_a_failed_pod_is_replaced_with_its_group(plane: Plane, failing: str) -> None:
    """Case C14, Q21: phase Failed, reason Evicted, restart policy Always; one recreation."""
    async with plane:
        await plane.apply(lws_manifest(size=2))
        old = await plane.wait_available()
        await plane.faults.fail_pod(NAMESPACE, failing, reason="Evicted")
        new = await plane.wait_recreated(old, group_names(size=2), timeout=15)
        await plane.sleep(30)
        assert await plane.uids() == new
        assert len(await plane.events("RecreateGroup")) == (1 if failing == "demo-0-1" else 0), "a failed leader is its set's"


@pytest.mark.parametrize("failing", ["demo-0", "demo-0-1"])
async def test_a_failed_pod_that_says_nothing_of_its_containers(plane: Plane, failing: str) -> None:
    """Case C14 as reported: phase Failed and Evicted without any container status."""
    async with plane:
        await plane.apply(lws_manifest(size=2))
        old = await plane.wait_available()
        gone = {"phase": "Failed", "reason": "Evicted", "message": "", "containerStatuses": None, "conditions": None}
        await plane.client.merge_patch(PODS, failing, {"status": gone}, namespace=NAMESPACE, subresource="status")
        new = await plane.wait_recreated(old, group_names(size=2), timeout=15)
        await plane.sleep(30)
        assert await plane.uids() == new


async def test_an_old_group_keeps_its_policy_until_its_turn(plane: Plane) -> None:
    """Behaviour 46, Q31: a group that was made under None is not recreated before it is rolled."""
    async with plane:
        slow = {"sandbox.regroup.dev/ready-delay": "30s"}
        await plane.apply(lws_manifest(replicas=2, size=2, policy="None"))
        old = await plane.wait_available()
        await plane.apply(lws_manifest(replicas=2, size=2, worker=pod_template(annotations=slow)))

        async def first_rolls() -> bool:
            return (await plane.uids()).get("demo-1", old["demo-1"]) != old["demo-1"]

        await plane.wait_for(first_rolls)
        mark = len(plane.requests)
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.sleep(10)
        assert (await plane.uids())["demo-0"] == old["demo-0"]
        assert leader_deletions(plane, since=mark) == []


SHM = pod_template(
    container={"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]},
    volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}],
)


async def _poison(plane: Plane, pod: str, uid: str) -> None:
    """From now on every start of a container in this very pod ends after a moment: what it left in its volume is still there."""
    crashed = 0
    while True:
        found = (await plane.pods()).get(pod)
        if found is None or found.metadata.uid != uid:
            return
        if not found.deleting and found.phase == "Running" and found.restarts == crashed:
            with suppress(NotFound):
                await plane.faults.crash(NAMESPACE, pod, exit_code=139)
            crashed += 1
        await plane.sleep(0.5)


async def test_a_poisoned_volume_goes_with_the_pod(plane: Plane) -> None:
    """Case C19: new pods, so new emptyDir volumes; Ready again within 20 s, and no second recreation."""
    async with plane:
        await plane.apply(lws_manifest(size=2, worker=SHM))
        old = await plane.wait_available()
        poison = asyncio.create_task(_poison(plane, "demo-0-1", old["demo-0-1"]))
        new = await plane.wait_recreated(old, group_names(size=2), timeout=20)
        await poison
        await plane.sleep(30)
        assert await plane.uids() == new
        assert len(await plane.events("RecreateGroup")) == 1


async def test_a_poisoned_volume_under_none(plane: Plane) -> None:
    """Case C19, second policy: the container fails again and again in its pod; the operator writes nothing to any pod."""
    async with plane:
        await plane.apply(lws_manifest(size=2, policy="None", worker=SHM))
        old = await plane.wait_available()
        mark = len(plane.requests)
        poison = asyncio.create_task(_poison(plane, "demo-0-1", old["demo-0-1"]))

        async def crashed_often() -> bool:
            return (await plane.pods())["demo-0-1"].restarts >= 3

        await plane.wait_for(crashed_often, timeout=120)
        poison.cancel()
        assert await plane.uids() == old
        assert [str(entry) for entry in plane.writes(since=mark) if "/pods" in entry.request.path] == []


async def test_the_status_tells_the_loss(plane: Plane) -> None:
    """Spec 7.5, anchor-figures: Available is not True while a group is going, and its reason does not contradict it."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-1-1")

        async def lost() -> bool:
            return (await plane.lws()).status.ready_replicas == 1

        await plane.wait_for(lost)
        available = await plane.condition("Available")
        assert available is not None
        assert (available.status, available.reason) == ("False", "GroupsProgressing")
        await plane.wait_recreated(old, group_names(1))
        await plane.wait_available()
        degraded = await plane.condition("Degraded")
        assert degraded is not None
        assert (degraded.status, degraded.reason) == ("False", "AsExpected")


@pytest.mark.parametrize("how", ["a container restarts", "a worker is replaced"])
async def test_what_happened_while_the_operator_was_away(plane: Plane, how: str) -> None:
    """Case C45: killed; then a container of a worker restarts and is well again, or the worker is replaced by its StatefulSet. At
    the start it is noticed; a second start right afterwards finds nothing more."""
    async with plane:
        await plane.apply(lws_manifest(size=2, worker=pod_template(grace=1)))
        old = await plane.wait_available()
        await plane.sleep(5)
        await plane.stop_operator()
        if how == "a container restarts":
            await plane.faults.crash(NAMESPACE, "demo-0-1", exit_code=1)

            async def well() -> bool:
                pod = (await plane.pods())["demo-0-1"]
                return pod.restarts == 1 and pod.running_and_ready

            await plane.wait_for(well, what="the worker is ready again")
        else:
            await plane.delete_pod("demo-0-1", grace=0)
            await plane.wait_recreated(old, ["demo-0-1"])
        await plane.start_operator()
        new = await plane.wait_recreated(old, group_names(size=2))
        await plane.wait_available()
        await plane.stop_operator()
        await plane.start_operator()
        await plane.sleep(20)
        assert await plane.uids() == new


async def test_nothing_to_do_costs_nothing(plane: Plane) -> None:
    """Design 8, behaviour 150: a settled group makes no request at all, whatever its pods report."""
    async with plane:
        await plane.apply(lws_manifest(replicas=3))
        await plane.wait_available()
        mark = await plane.at_rest()
        for name in group_names(1):
            patch = {"metadata": {"annotations": {"note": "nothing"}}}
            await plane.client.merge_patch(PODS, name, patch, namespace=NAMESPACE)
        await plane.sleep(600)
        assert [str(entry) for entry in plane.requests[mark:]] == []
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", {"metadata": {"labels": {"team": "x"}}}, namespace=NAMESPACE)
        await plane.sleep(5)
        assert {entry.request.method for entry in plane.writes(since=mark)} <= {"PATCH"}, "the label is copied down, no more"
