"""Failures of Hash groups under each policy, lost nodes, strangers: spec/leaderworkerset.md 5, behaviours 35-66, 156, cases C01,
C10-C12, C16, C64, C104."""

from typing import Any

import pytest
from tests.planes.hash_groups import gated, groups, hashed, only, settled, wait_group, wait_ready
from tests.planes.plane import NAMESPACE, Plane, pod_template
from tests.planes.test_lws_dead_nodes import DETECTED, template

from regroup.kube.resources import PODS
from regroup.leaderworkerset import keys

AFTER_START = "RecreateGroupAfterStart"


@pytest.mark.parametrize("how", ["deleted", "forced", "failed", "leader restarted"])
async def test_however_a_member_is_lost(plane: Plane, how: str) -> None:
    """Behaviours 33, 35, 36, 42, 64: one recreation, by UID and in the foreground."""
    async with plane:
        await plane.apply(hashed(size=3))
        (old,) = await settled(plane, size=3)
        mark = len(plane.requests)
        if how == "failed":
            await plane.faults.fail_pod(NAMESPACE, old.last)
        elif how == "leader restarted":
            await plane.faults.crash(NAMESPACE, old.name)
        else:
            await plane.delete_pod(old.last, grace=0 if how == "forced" else None)
        (new,) = await wait_ready(plane, size=3, without=[old.key])
        await settled(plane, size=3)
        await plane.sleep(20)
        assert (await only(plane)).uids == new.uids
        (deletion,) = plane.deletions(since=mark)
        assert deletion.request.path.endswith(f"/pods/{old.name}")
        assert deletion.body["preconditions"]["uid"] == old.lead.metadata.uid
        assert deletion.body["propagationPolicy"] == "Foreground"


async def test_all_members_fail_at_once(plane: Plane) -> None:
    """Behaviours 38, 41: one deletion and one event."""
    async with plane:
        await plane.apply(hashed(size=4, limit=5))
        (old,) = await settled(plane, size=4)
        for pod in old.pods:
            await plane.faults.crash(NAMESPACE, pod.metadata.name)
        await wait_ready(plane, size=4, without={old.key})
        (new,) = await settled(plane, size=4)
        assert new.key != old.key
        assert len(plane.deletions()) == 1
        assert len(await plane.events("RecreateGroup")) == 1


async def test_a_worker_lost_while_the_operator_is_down(plane: Plane) -> None:
    """Case C01 last step, B27: what the status remembers finds it."""
    async with plane:
        await plane.apply(hashed(size=3))
        (old,) = await settled(plane, size=3)
        await plane.sleep(15)
        await plane.stop_operator()
        await plane.delete_pod(old.last, grace=0)
        await wait_group(plane, old.key, lambda group: group.ready(3) and group.uids != old.uids)
        await plane.start_operator()
        (new,) = await wait_ready(plane, size=3, without=[old.key])
        await plane.sleep(20)
        assert (await only(plane)).uids == new.uids


async def test_none_replaces_only_the_worker(plane: Plane) -> None:
    """Behaviours 47, 48, case C11: the group is not ready meanwhile, and nothing is deleted."""
    async with plane:
        await plane.apply(hashed(policy="None", size=3))
        (old,) = await settled(plane, size=3)
        await plane.faults.crash(NAMESPACE, old.workers[0].metadata.name)
        await plane.sleep(20)
        assert (await only(plane)).uids == old.uids
        await plane.delete_pod(old.last)
        new = await wait_group(plane, old.key, lambda group: group.ready(3) and group.uids != old.uids)
        assert len(new.uids - old.uids) == 1
        await settled(plane, size=3)
        assert plane.deletions() == []


@pytest.mark.parametrize("how", ["deleted", "failed"])
async def test_none_replaces_the_group_with_its_leader(plane: Plane, how: str) -> None:
    """Spec 5.3, Q3: in Hash mode the group's identity is its leader, so it goes with it; a Failed leader, which its ReplicaSet
    leaves where it is, does not block its successor for ever."""
    async with plane:
        await plane.apply(hashed(policy="None", replicas=2))
        first, other = await settled(plane, count=2)
        if how == "deleted":
            await plane.delete_pod(first.name)
        else:
            await plane.faults.fail_pod(NAMESPACE, first.name)
        after = await settled(plane, count=2, without={first.key})
        assert other.uids in {group.uids for group in after}


async def test_a_slow_start_is_forgiven(plane: Plane) -> None:
    """Behaviours 54, 63, case C06: a restart while a sibling starts is skipped for good; once started it counts again."""
    async with plane:
        slow = pod_template(annotations={"sandbox.regroup.dev/start-delay": plane.slow_start})
        await plane.apply(hashed(policy=AFTER_START, worker=slow, leader=pod_template(), size=3))

        async def leader_runs() -> bool:
            found = list((await groups(plane)).values())
            return len(found) == 1 and len(found[0].pods) == 3 and found[0].lead.phase == "Running"

        await plane.wait_for(leader_runs)
        old = await only(plane)
        await plane.faults.crash(NAMESPACE, old.name)
        await plane.wait_available(timeout=200)
        await plane.sleep(30)
        assert (await only(plane)).uids == old.uids
        await plane.faults.crash(NAMESPACE, old.last)
        await wait_ready(plane, size=3, without=[old.key], timeout=300)


async def test_a_leader_that_fails_while_the_group_starts(plane: Plane) -> None:
    """Spec 5.1, 5.4: the failure is skipped and not counted; the leader, which nobody else takes away, is still replaced."""
    async with plane:
        slow = pod_template(annotations={"sandbox.regroup.dev/start-delay": plane.slow_start})
        await plane.apply(hashed(policy=AFTER_START, worker=slow, leader=pod_template(), limit=0))

        async def leader_runs() -> bool:
            found = list((await groups(plane)).values())
            return len(found) == 1 and len(found[0].pods) == 2 and found[0].lead.phase == "Running"

        await plane.wait_for(leader_runs)
        old = await only(plane)
        await plane.faults.fail_pod(NAMESPACE, old.name)
        (new,) = await settled(plane, timeout=300)
        assert new.key != old.key
        assert keys.RESTART_COUNTS not in (await plane.lws()).metadata.annotations


async def test_a_leader_without_a_place_is_reported(plane: Plane) -> None:
    """Behaviours 61, 62: with the number; a gated one is none."""
    async with plane:
        nowhere = pod_template(nodeSelector={"nowhere": "here"})
        await plane.apply(hashed(leader=nowhere, worker=pod_template(), replicas=2))

        async def reported() -> bool:
            condition = await plane.condition("Progressing")
            told = condition is not None and (condition.status, condition.reason) == ("True", "GroupUnschedulable")
            return told and condition is not None and "2 replicas" in condition.message

        await plane.wait_for(reported)
        await plane.apply(hashed(leader=pod_template(), worker=pod_template(), replicas=2))
        await settled(plane, count=2)
        condition = await plane.condition("Progressing")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "GroupsProgressing")


@pytest.mark.parametrize("member", [0, 1], ids=["leader", "worker"])
@pytest.mark.parametrize("replacement", ["PostTermination", "Immediate"])
async def test_a_dead_node(plane: Plane, member: int, replacement: str) -> None:
    """Behaviours 43, 156, case C12: the whole group runs on healthy nodes, recreated once at most."""
    async with plane:
        await plane.apply(hashed(worker=template(), groupReplacementPolicy=replacement))
        (old,) = await settled(plane)
        dead = old.pods[member].spec.node_name
        await plane.faults.node_down(dead)
        (new,) = await wait_ready(plane, without=[old.key], timeout=DETECTED + 60)
        await settled(plane, timeout=DETECTED)
        await plane.sleep(60)
        group = await only(plane)
        assert group.uids == new.uids
        assert dead not in {pod.spec.node_name for pod in group.pods}
        assert len(await plane.events("RecreateGroup")) <= 1


async def test_strangers(plane: Plane) -> None:
    """Case C104: pods with a group's labels that no owner chain leads to us are never counted, deleted or waited for."""
    async with plane:
        await plane.apply(hashed(replicas=2))
        first, other = await settled(plane, count=2)
        strangers = {}
        for name, index in (("p1", "0"), ("p2", "1")):
            labels = {**first.lead.metadata.labels, keys.WORKER_INDEX: index}
            labels.pop("pod-template-hash")
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{name}-{index}", "labels": labels, "annotations": {keys.SIZE: "2"}},
                "spec": pod_template()["spec"],
            }
            made: dict[str, Any] = await plane.client.create(PODS, body, namespace=NAMESPACE)
            strangers[f"{name}-{index}"] = made["metadata"]["uid"]
        await plane.sleep(5)
        for name in strangers:
            await plane.faults.fail_pod(NAMESPACE, name)
        await plane.sleep(20)
        found = await groups(plane)
        assert found[other.key].uids == other.uids
        assert first.uids <= found[first.key].uids
        await plane.faults.crash(NAMESPACE, first.last)
        new = await wait_ready(plane, without=[first.key, other.key])
        assert len(new) == 1
        await plane.sleep(15)
        assert (await plane.lws()).status.ready_replicas == 2
        uids = await plane.uids()
        assert {name: uids[name] for name in strangers} == strangers
        assert await gated(plane) == []
