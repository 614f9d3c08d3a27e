"""maxGroupRestarts, exhaustion, recovery and backoff of Hash groups: spec/leaderworkerset.md 4.5, 5.5-5.7, behaviours 68-116,
119, 136, cases C22, C24, C26, C39, C76."""

from functools import partial
from typing import Any

import pytest
from tests.planes.hash_groups import (
    Group,
    counts,
    degraded,
    exhaust,
    gated,
    groups,
    hashed,
    recover,
    settled,
    wait_ready,
)
from tests.planes.plane import NAMESPACE, Plane, pod_template

from regroup.kube.resources import PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS

POLICIES = pytest.mark.parametrize("replacement", ["PostTermination", "Immediate"])


async def fail(plane: Plane, group: Group, *, count: int = 1) -> Group:
    """Crash a worker and wait for the whole new group."""
    others = [key for key in await groups(plane) if key != group.key]
    await plane.faults.crash(NAMESPACE, group.last)
    (new,) = await wait_ready(plane, without=[group.key, *others])
    await settled(plane, count=count)
    return new


@POLICIES
async def test_the_count_moves_and_the_group_exhausts(plane: Plane, replacement: str) -> None:
    """Behaviours 107-110, 86, 87, 89, 106, case C76: the replacement has count 1 under its own key and the old key is gone; the
    next failure exhausts; the gated replacement is held without workers for as long as it takes; recovered, it starts at 0 with a
    full budget."""
    async with plane:
        await plane.apply(hashed(limit=1, groupReplacementPolicy=replacement))
        (first,) = await settled(plane)
        second = await fail(plane, first)
        assert await counts(plane) == {second.key: 1}
        retained = await exhaust(plane, second)
        await plane.sleep(30)
        found = await groups(plane)
        assert found[second.key].retained
        assert found[second.key].uids == retained.uids
        assert {pod.phase for pod in found[second.key].pods} <= {"Failed", "Succeeded"}
        (held,) = await gated(plane)
        assert held.workers == ()
        assert len(found) == 2
        assert await degraded(plane) == "True ReplicaRestartBudgetExceeded"
        assert await counts(plane) == {second.key: 1}
        assert (await plane.lws()).status.ready_replicas == 0
        await recover(plane, second)
        (new,) = await settled(plane)
        assert new.key == held.key
        assert await counts(plane) == {}
        assert await degraded(plane) == "False AsExpected"
        third = await fail(plane, new)
        assert await counts(plane) == {third.key: 1}


async def test_the_count_moves_before_the_gate_is_lifted(plane: Plane) -> None:
    """Behaviour 107: the write of the counters stands before that of the gate, so a crash between them loses nothing."""
    async with plane:
        await plane.apply(hashed(limit=3))
        (first,) = await settled(plane)
        mark = len(plane.requests)
        second = await fail(plane, first)
        writes = [entry for entry in plane.writes(since=mark) if entry.status < 300]
        lifted = next(
            number
            for number, entry in enumerate(writes)
            if entry.request.method == "PATCH" and entry.request.path.endswith(f"/pods/{second.name}")
        )
        moved = [
            number for number, entry in enumerate(writes) if second.key in str(entry.body) and "annotations" in str(entry.body)
        ]
        assert moved
        assert moved[0] < lifted


async def test_zero(plane: Plane) -> None:
    """Behaviours 69, 90, 105, cases C22, C39: nothing is recreated or counted, nobody else is touched; deleting what is retained
    again and again changes nothing."""
    async with plane:
        await plane.apply(hashed(limit=0, replicas=2))
        first, other = await settled(plane, count=2)
        await exhaust(plane, first)
        mark = await plane.at_rest()
        for _ in range(5):
            await plane.sleep(2)
            for pod in (await groups(plane))[first.key].pods:
                await plane.delete_pod(pod.metadata.name)
        assert [(str(entry), entry.body) for entry in plane.writes(since=mark)] == []
        found = await groups(plane)
        assert found[first.key].uids == first.uids
        assert found[other.key].uids == other.uids
        assert await counts(plane) == {}
        assert (await plane.lws()).status.ready_replicas == 1
        for kind in ("Available", "Progressing", "UpdateInProgress"):
            condition = await plane.condition(kind)
            assert condition is not None
            assert (condition.status, condition.reason) == ("False", "ReplicaRestartBudgetExceeded")


@POLICIES
async def test_only_the_right_request_recovers_and_only_that_group(plane: Plane, replacement: str) -> None:
    """Behaviours 92, 93, 95, 97, case C24: two exhausted groups hold two leaders; one recovery lets one in."""
    async with plane:
        await plane.apply(hashed(limit=0, replicas=2, groupReplacementPolicy=replacement))
        first, other = await settled(plane, count=2)
        await exhaust(plane, first)
        await exhaust(plane, other)
        await recover(plane, first, "yes")
        body = {"metadata": {"annotations": {keys.RECOVER: "true"}}}
        await plane.client.merge_patch(PODS, first.last, body, namespace=NAMESPACE)
        await plane.sleep(20)
        assert len(await gated(plane)) == 2
        await recover(plane, first)
        (new,) = await wait_ready(plane)
        await plane.sleep(20)
        found = await groups(plane)
        assert first.key not in found
        assert found[other.key].retained
        assert len(await gated(plane)) == 1
        assert await degraded(plane) == "True ReplicaRestartBudgetExceeded"
        await recover(plane, other)
        after = await settled(plane, count=2)
        assert new.uids in {group.uids for group in after}
        assert not [pod for group in after for pod in group.pods if pod.metadata.finalizers]


async def test_a_request_from_before_and_an_edited_limit_do_not_recover(plane: Plane) -> None:
    """Behaviours 94, 96."""
    async with plane:
        await plane.apply(hashed(limit=0))
        (first,) = await settled(plane)
        await recover(plane, first)
        retained = await exhaust(plane, first)
        assert keys.RECOVER not in retained.lead.metadata.annotations
        for limit in (5, None):
            await plane.patch_lws("demo", {"leaderWorkerTemplate": {"maxGroupRestarts": limit}})
            await plane.sleep(15)
            assert (await groups(plane))[first.key].retained
        assert len(await gated(plane)) == 1


@pytest.mark.parametrize("down", [False, True], ids=["up", "down meanwhile"])
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_deleting_it_lets_go(plane: Plane, propagation: Any, down: bool) -> None:
    """Behaviours 98, 99, B10, cases C26 a, C80: nothing hangs, nothing comes back."""
    async with plane:
        await plane.apply(hashed(limit=0, replicas=2))
        first, _ = await settled(plane, count=2)
        await exhaust(plane, first)
        if down:
            await plane.stop_operator()
        await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE, propagation=propagation)
        if down:
            await plane.sleep(20)
            await plane.start_operator()

        async def gone() -> bool:
            return not await plane.pods() and not await plane.exists(LEADERWORKERSETS, "demo")

        await plane.wait_for(gone, timeout=30)


async def test_scaling_down_lets_the_retained_group_go(plane: Plane) -> None:
    """Behaviour 100, spec 5.6.5: living groups keep their places; the retained one goes with its counter."""
    async with plane:
        await plane.apply(hashed(limit=1, replicas=2))
        first, other = await settled(plane, count=2)
        second = await fail(plane, first, count=2)
        await exhaust(plane, second)
        assert await counts(plane) == {second.key: 1}
        await plane.patch_lws("demo", {"replicas": 1})
        (left,) = await settled(plane)
        assert left.uids == other.uids
        await plane.sleep(20)
        assert await counts(plane) == {}
        assert await degraded(plane) == "False AsExpected"


async def test_scaling_down_while_the_survivor_is_held_back(plane: Plane) -> None:
    """Behaviour 116, spec 5.6.5: one group is retained and the other is being replaced, so both replacements are gated: the
    retained one goes, the group that is left starts."""
    async with plane:
        slow = pod_template(annotations={"sandbox.regroup.dev/stop-delay": "6s"}, grace=30)
        await plane.apply(hashed(limit=0, replicas=2, worker=slow))
        first, other = await settled(plane, count=2)
        await exhaust(plane, first)
        await plane.delete_pod(other.name)

        async def both_held() -> bool:
            return len(await gated(plane)) == 2

        await plane.wait_for(both_held)
        await plane.patch_lws("demo", {"replicas": 1})
        (left,) = await settled(plane)
        assert left.key not in (first.key, other.key)
        assert await degraded(plane) == "False AsExpected"


async def test_scaling_to_nothing_and_back(plane: Plane) -> None:
    """Behaviours 100, 155: a retained group does not outlive the last replica, and comes back as nothing."""
    async with plane:
        await plane.apply(hashed(limit=0))
        (first,) = await settled(plane)
        await exhaust(plane, first)
        await plane.patch_lws("demo", {"replicas": 0})
        await settled(plane, count=0)
        await plane.patch_lws("demo", {"replicas": 3})
        await settled(plane, count=3)


async def test_a_rollout_lets_go_and_starts_anew(plane: Plane) -> None:
    """Behaviours 72, 82, 102, 114, case C26 c: released when the Deployment carries another revision, with an unused budget."""
    async with plane:
        await plane.apply(hashed(limit=1, replicas=2))
        first, _ = await settled(plane, count=2)
        second = await fail(plane, first, count=2)
        await exhaust(plane, second)
        await plane.apply(hashed(limit=1, replicas=2, worker=pod_template(image="worker:2")))
        new = await settled(plane, count=2)
        assert {group.revision for group in new}.isdisjoint({second.revision})
        await plane.sleep(5)
        assert await counts(plane) == {}
        assert await degraded(plane) == "False AsExpected"
        again = await fail(plane, new[0], count=2)
        assert await counts(plane) == {again.key: 1}


async def test_scaling_up_starts_at_nothing(plane: Plane) -> None:
    """Behaviour 119: a living group's count is its own."""
    async with plane:
        await plane.apply(hashed(limit=3))
        (first,) = await settled(plane)
        second = await fail(plane, first)
        await plane.patch_lws("demo", {"replicas": 3})
        await settled(plane, count=3)
        assert await counts(plane) == {second.key: 1}


async def test_a_leader_deleted_by_a_user_costs_nothing_and_keeps_the_count(plane: Plane) -> None:
    """Behaviours 73, 74: neither is the budget used, nor is it given back."""
    async with plane:
        await plane.apply(hashed(limit=3))
        (first,) = await settled(plane)
        second = await fail(plane, first)
        await plane.delete_pod(second.name)
        (third,) = await wait_ready(plane, without=[second.key])
        await settled(plane)
        assert await counts(plane) == {third.key: 1}
        await plane.delete_pod(third.last)
        (fourth,) = await wait_ready(plane, without=[third.key])
        await settled(plane)
        assert await counts(plane) == {fourth.key: 2}


async def test_counters_that_cannot_be_read_hold_admission(plane: Plane) -> None:
    """Behaviour 76, Q27: nothing is deleted, and no leader is let in with a count that nobody knows."""
    async with plane:
        await plane.apply(hashed(limit=1))
        (first,) = await settled(plane)
        patch = {"metadata": {"annotations": {keys.RESTART_COUNTS: "null"}}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", patch, namespace=NAMESPACE)
        await plane.faults.crash(NAMESPACE, first.last)
        await plane.sleep(20)
        assert (await groups(plane))[first.key].uids == first.uids
        await plane.delete_pod(first.name)
        await plane.sleep(20)
        assert len(await gated(plane)) == 1
        assert await plane.events("FailedRestartCount")
        mended = {"metadata": {"annotations": {keys.RESTART_COUNTS: None}}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", mended, namespace=NAMESPACE)
        await settled(plane)


async def test_backoff_alone_hands_the_count_over(plane: Plane) -> None:
    """Behaviours 120-122, 136, Q26: the second failure waits twice as long, from the creation of the new leader."""
    async with plane:
        await plane.apply(hashed(template={"restartBackoff": {"baseSeconds": 20, "capSeconds": 300}}))
        (first,) = await settled(plane)
        for count, group_delay in ((1, 20), (2, 40)):
            (group,) = await settled(plane)
            created = group.lead.metadata.creation_timestamp
            assert created is not None
            await plane.faults.crash(NAMESPACE, group.last)
            await plane.wait_for(partial(_leaves, plane, group), timeout=group_delay + 10)
            waited = plane.clock.now() - created
            assert group_delay <= waited.total_seconds() <= group_delay + 3
            (new,) = await wait_ready(plane, without=[group.key])
            await settled(plane)
            assert await counts(plane) == {new.key: count}
        assert await plane.events("GroupRestartBackoff")
        assert first.key not in await groups(plane)


async def _leaves(plane: Plane, group: Group) -> bool:
    """The leader is on its way out or gone."""
    now = (await groups(plane)).get(group.key)
    return now is None or now.leader is None or now.lead.deleting
