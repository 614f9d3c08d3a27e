"""Hash groups in a cluster: objects, failures, Immediate and PostTermination (spec/leaderworkerset.md 3.2, 4, behaviours 31-45,
107-119, cases C74, C76)."""

import pytest
from tests.planes.hash_groups import exhaust, gated, groups, hashed, only, settled, wait_ready
from tests.planes.plane import NAMESPACE, Plane, pod_template

from regroup.kube.meta import find_condition
from regroup.kube.resources import DEPLOYMENTS, SERVICES
from regroup.kube.workloads import Deployment
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.controller.explain_query import NoSuchGroup, explain
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.telling.explain import GroupReport


async def test_what_is_made(plane: Plane) -> None:
    """Spec 3.2, 3.3, 4.2, behaviours 31, 118: a Deployment of leaders, a worker set a group that is named after the leader's host
    name, one Service; leaders lose gate and deletion cost at admission; ready only as groups."""
    async with plane:
        await plane.apply(hashed(replicas=2, size=3))
        made = await settled(plane, count=2, size=3)
        deployment = await plane.client.get(DEPLOYMENTS, "demo", namespace=NAMESPACE, type=Deployment)
        assert deployment.metadata.labels[keys.ROLE] == "leader"
        sets = await plane.sets()
        assert set(sets) == {f"demo-{group.key[:8]}" for group in made}
        for group in made:
            leader = group.lead
            host = f"demo-{group.key[:8]}"
            assert (leader.spec.hostname, leader.spec.subdomain) == (host, "demo")
            assert leader.metadata.labels[keys.GROUP_KEY] == group.key
            assert not leader.spec.scheduling_gates
            assert keys.POD_DELETION_COST not in leader.metadata.annotations
            owner = sets[host].metadata.controller
            assert owner is not None
            assert owner.uid == leader.metadata.uid
            assert [pod.metadata.name for pod in group.workers] == [f"{host}-1", f"{host}-2"]
            condition = find_condition(leader.status.conditions, keys.GROUP_READY)
            assert condition is not None
            assert (condition.status, condition.reason) == ("True", "WorkerStatefulSetReady")
        lws = await plane.lws()
        assert (lws.status.replicas, lws.status.ready_replicas, lws.status.updated_replicas) == (2, 2, 2)


async def test_a_failure_recreates_one_group(plane: Plane) -> None:
    """Behaviours 32, 37: all pods of that group are new under a new key, the other group is untouched."""
    async with plane:
        await plane.apply(hashed(replicas=2, size=3))
        first, other = await settled(plane, count=2, size=3)
        await plane.faults.crash(NAMESPACE, first.last)
        await wait_ready(plane, count=2, size=3, without={first.key})
        after = await settled(plane, count=2, size=3)
        assert other.uids in {group.uids for group in after}
        assert first.key not in {group.key for group in after}
        assert len(await plane.events("RecreateGroup")) == 1


async def test_a_group_of_one(plane: Plane) -> None:
    """Behaviour 24, case C21: no worker set, no readiness gate."""
    async with plane:
        await plane.apply(hashed(replicas=2, size=1))
        first, other = await settled(plane, count=2, size=1)
        assert await plane.sets() == {}
        await plane.faults.crash(NAMESPACE, first.name)
        after = await settled(plane, count=2, size=1, without={first.key})
        assert other.uids in {group.uids for group in after}


@pytest.mark.parametrize("immediate", [False, True], ids=["PostTermination", "Immediate"])
async def test_when_the_replacement_starts(plane: Plane, immediate: bool) -> None:
    """Behaviours 111, 113, case C74: PostTermination waits for the last pod of the old group, Immediate does not; exactly one
    replacement either way, and no worker before admission."""
    async with plane:
        slow = pod_template(grace=20, annotations={"sandbox.regroup.dev/stop-delay": "8s"})
        policy = "Immediate" if immediate else "PostTermination"
        await plane.apply(hashed(replicas=2, worker=slow, groupReplacementPolicy=policy))
        first, other = await settled(plane, count=2)
        await plane.faults.crash(NAMESPACE, first.last)
        overlapped = False

        async def replaced() -> bool:
            nonlocal overlapped
            found = await groups(plane)
            new = [group for key, group in found.items() if key not in {first.key, other.key}]
            assert len(new) <= 1
            old_there = first.key in found
            for group in new:
                assert not (group.gated and group.workers)
                overlapped |= old_there and not group.gated
            return not old_there and bool(new) and not new[0].gated

        await plane.wait_for(replaced, timeout=60)
        assert overlapped is immediate
        after = await settled(plane, count=2)
        assert other.uids in {group.uids for group in after}
        deferred = await plane.events("GroupReplacementDeferred")
        assert bool(deferred) is not immediate
        if not immediate:
            assert len(await plane.events("GroupReplacementAdmitted")) == 1


async def test_services_of_replicas(plane: Plane) -> None:
    """Spec 3.4, 4.2, behaviour 26: UniquePerReplica names the Service and the subdomain after the host name."""
    async with plane:
        await plane.apply(hashed(replicas=2, networkConfig={"subdomainPolicy": "UniquePerReplica"}))
        for group in await settled(plane, count=2):
            host = f"demo-{group.key[:8]}"
            assert group.lead.spec.subdomain == host
            assert await plane.exists(SERVICES, host)


async def test_an_evicted_leader(plane: Plane) -> None:
    """Behaviour 45, case C14: its ReplicaSet leaves a Failed pod where it is; the operator recreates the group."""
    async with plane:
        await plane.apply(hashed())
        (old,) = await settled(plane)
        await plane.faults.fail_pod(NAMESPACE, old.name, reason="Evicted")
        (new,) = await wait_ready(plane, without=[old.key])
        await plane.sleep(20)
        assert (await only(plane)).uids == new.uids


async def test_workers_may_start_before_the_leader_is_ready(plane: Plane) -> None:
    """Behaviour 118: LeaderReady waits for the containers, not for Ready, which includes group-ready."""
    async with plane:
        await plane.apply(hashed(startupPolicy="LeaderReady"))
        await settled(plane)


async def test_what_explain_says(plane: Plane) -> None:
    """Issue 5 point 4: the held successor, the retained group and its budget, found by the digits that names show."""
    async with plane:
        await plane.apply(hashed(limit=0))
        (old,) = await settled(plane)
        await exhaust(plane, old)
        await plane.wait_for(lambda: gated(plane))
        (held,) = await gated(plane)

        async def told(group: str) -> GroupReport:
            found = await explain(plane.client, NAMESPACE, "demo", group=group, now=plane.clock.now(), settings=Settings())
            (report,) = found.groups
            return report

        retained = await told(old.key[:8])
        assert (retained.group, retained.state, retained.restarts_allowed) == (old.key, "Exhausted", 0)
        assert old.name in retained.why
        waits = await told(held.key)
        assert (waits.state, waits.rule) == ("Gated", "lws 4.5.2")
        assert "1 exhausted" in waits.why
        with pytest.raises(NoSuchGroup, match="ffff"):
            await told("ffffffff" if not old.key.startswith("ffff") else "eeee")
