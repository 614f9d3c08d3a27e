"""Rollouts and scaling of Hash groups, Parallel, live policies: spec/leaderworkerset.md 4.6, 5.9, 6.3, 6.5, 7.4, behaviours 13,
14, 114-117, 137-155, cases C74, C78, C82, C84, C89."""

from typing import Any

import pytest
from tests.planes.hash_groups import degraded, exhaust, gated, groups, hashed, settled, wait_group, wait_ready
from tests.planes.plane import NAMESPACE, Plane, pod_template

from regroup.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, REPLICASETS
from regroup.kube.workloads import ReplicaSet
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects.standstill import DESIRED
from regroup.wire.errors import Invalid, WireError


def rolling(**config: Any) -> dict[str, Any]:
    return {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": config}}


@pytest.mark.parametrize(
    ("replicas", "config", "least", "most"),
    [
        (3, {"maxSurge": 0, "maxUnavailable": 1}, 2, 3),
        (1, {"maxSurge": 1, "maxUnavailable": 0}, 1, 2),
        (4, {"maxSurge": 1, "maxUnavailable": 1}, 3, 5),
    ],
)
async def test_a_rollout(plane: Plane, replicas: int, config: dict[str, Any], least: int, most: int) -> None:
    """Spec 6.3, case C89 runs 1 and 2: the Deployment's limits hold for groups; each group is replaced once; nothing counts as a
    failure; old revisions go at the end; UpdateInProgress while it lasts, and never at the first creation (149)."""
    async with plane:
        await plane.apply(hashed(replicas=replicas, **rolling(**config)))
        updating = await plane.condition("UpdateInProgress")
        assert updating is None or updating.status == "False"
        old = {group.key for group in await settled(plane, count=replicas)}
        await plane.apply(hashed(replicas=replicas, worker=pod_template(image="worker:2"), **rolling(**config)))
        seen: set[str] = set()
        updated = False

        async def done() -> bool:
            nonlocal updated
            found = await groups(plane)
            seen.update(found)
            ready = [group for group in found.values() if group.ready(2)]
            living = [
                group for group in found.values() if group.leader is not None and not group.lead.deleting and not group.gated
            ]
            assert len(ready) >= least
            assert len(living) <= most
            condition = await plane.condition("UpdateInProgress")
            updated |= condition is not None and condition.status == "True"
            return not old & set(found) and len(ready) == replicas == len(found)

        await plane.wait_for(done, timeout=300)
        new = await settled(plane, count=replicas)
        assert updated
        assert len(seen - old) == replicas, "one replacement a group"
        assert {pod.metadata.labels[keys.REVISION] for group in new for pod in group.pods} == {new[0].revision}
        assert await plane.events("RecreateGroup") == []
        await plane.sleep(5)
        assert len(await plane.revisions()) == 1
        condition = await plane.condition("UpdateInProgress")
        assert condition is not None
        assert condition.status == "False"


async def test_limits_that_come_to_nothing(plane: Plane) -> None:
    """Case C108: a percentage that is one of three groups and none of one still rolls; nothing and nothing, which is fine for no
    replicas, is a Deployment all the same."""
    async with plane:
        config = rolling(maxSurge=0, maxUnavailable="34%")
        await plane.apply(hashed(replicas=3, **config))
        old = {group.key for group in await settled(plane, count=3)}
        await plane.apply(hashed(replicas=3, worker=pod_template(image="worker:2"), **config))
        scale = {"spec": {"replicas": 1}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", scale, namespace=NAMESPACE, subresource="scale")
        await wait_ready(plane, count=1, without=old, timeout=120)
        await plane.apply(hashed(name="other", replicas=0, **rolling(maxSurge=0, maxUnavailable=0)))
        await plane.wait_for(lambda: plane.exists(DEPLOYMENTS, "other"))


@pytest.mark.parametrize("how", ["scaled", "noted"])
async def test_scaled_to_what_the_rollout_has_come_to(plane: Plane, how: str) -> None:
    """6.3, 6.5: scaled in mid-rollout to the very size of the old ReplicaSet, Kubernetes' own Deployment controller stands still
    for ever, because its note of an earlier size stays on that: the rollout goes on all the same, and so do later ones."""
    async with plane:
        await plane.apply(hashed(replicas=3))
        old = {group.key for group in await settled(plane, count=3)}
        if how == "noted":
            (made,) = (await plane.client.list_all(REPLICASETS, namespace=NAMESPACE, type=ReplicaSet)).items
            note = {"metadata": {"annotations": {DESIRED: "4"}}}
            await plane.client.merge_patch(REPLICASETS, made.metadata.name, note, namespace=NAMESPACE)
        count = 3 if how == "noted" else 2
        await plane.apply(hashed(replicas=3, worker=pod_template(image="worker:2")))
        scale = {"spec": {"replicas": count}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", scale, namespace=NAMESPACE, subresource="scale")
        second = {group.key for group in await wait_ready(plane, count=count, without=old, timeout=120)}
        await settled(plane, count=count)
        await plane.apply(hashed(replicas=3, worker=pod_template(image="worker:3")))
        await wait_ready(plane, count=3, without=old | second, timeout=120)
        await settled(plane, count=3)
        await plane.sleep(20)
        mark = len(plane.requests)
        await plane.sleep(30)
        assert plane.writes(since=mark) == []


async def test_not_available_on_old_figures(plane: Plane) -> None:
    """Behaviour 153, B13: until the Deployment has observed the new template, nothing is Available and no revision is deleted."""
    async with plane:
        await plane.apply(hashed(replicas=2))
        await settled(plane, count=2)
        (before,) = await plane.revisions()
        await plane.apply(hashed(replicas=2, worker=pod_template(image="worker:2", grace=20)))

        async def half_way() -> bool:
            assert before.metadata.name in {one.metadata.name for one in await plane.revisions()} or not await old_groups()
            condition = await plane.condition("Available")
            assert condition is not None
            lws = await plane.lws()
            if condition.observed_generation == lws.metadata.generation and await old_groups():
                assert condition.status == "False"
            return not await old_groups()

        async def old_groups() -> list[str]:
            found = (await groups(plane)).values()
            return [group.key for group in found if before.metadata.labels[keys.REVISION] == group.revision]

        await plane.wait_for(half_way, timeout=200)
        await settled(plane, count=2)


async def test_resizing(plane: Plane) -> None:
    """Behaviour 151: 2 -> 1 -> 3 is a rollout; readiness gate and worker sets come and go with it."""
    async with plane:
        await plane.apply(hashed(replicas=2))
        await settled(plane, count=2)
        for size in (1, 3):
            await plane.apply(hashed(replicas=2, size=size))
            made = await settled(plane, count=2, size=size)
            assert {pod.metadata.annotations[keys.SIZE] for group in made for pod in group.pods} == {str(size)}
            assert len(await plane.sets()) == (0 if size == 1 else 2)


async def test_the_broken_one_goes_first(plane: Plane) -> None:
    """Behaviour 117: scaled from 4 to 3 with one group not ready, which is not the youngest."""
    async with plane:
        await plane.apply(hashed(replicas=4))
        made = await settled(plane, count=4)
        broken = made[0]
        await plane.faults.unready(NAMESPACE, broken.last, seconds=600)

        async def known() -> bool:
            return (await plane.lws()).status.ready_replicas == 3

        await plane.wait_for(known)
        await plane.patch_lws("demo", {"replicas": 3})
        left = await settled(plane, count=3)
        assert {group.key for group in left} == {group.key for group in made[1:]}


async def test_an_old_group_that_fails_in_mid_rollout(plane: Plane) -> None:
    """Behaviours 46, 114, case C84: its replacement is of the old revision and is never scheduled; the rollout goes on."""
    async with plane:
        slow = pod_template(image="worker:2", annotations={"sandbox.regroup.dev/ready-delay": "8s"})
        await plane.apply(hashed(replicas=3))
        await settled(plane, count=3)
        await plane.apply(hashed(replicas=3, worker=slow))

        async def begun() -> bool:
            return len({group.revision for group in (await groups(plane)).values() if group.leader is not None}) == 2

        await plane.wait_for(begun)
        found = (await groups(plane)).values()
        victim = next(group for group in found if group.ready(2))
        await plane.faults.crash(NAMESPACE, victim.last)
        outdated: set[str] = set()

        async def done() -> bool:
            for group in (await groups(plane)).values():
                if group.leader is not None and group.revision == victim.revision and group.gated:
                    outdated.add(group.key)
                assert not (group.key in outdated and group.workers)
            condition = await plane.condition("Available")
            lws = await plane.lws()
            return (
                condition is not None
                and condition.status == "True"
                and condition.observed_generation == lws.metadata.generation
                and not [group for group in (await groups(plane)).values() if group.revision == victim.revision]
            )

        await plane.wait_for(done, timeout=300)
        await settled(plane, count=3)


async def test_going_back_while_it_rolls(plane: Plane) -> None:
    """Spec 3.5, 4.5: the earlier revision is current again, and its leaders are let in."""
    async with plane:
        await plane.apply(hashed(replicas=2))
        before = await settled(plane, count=2)
        never = pod_template(image="worker:2", annotations={"sandbox.regroup.dev/ready-delay": "600s"})
        await plane.apply(hashed(replicas=2, worker=never))
        await plane.wait_for(lambda: _has_two_revisions(plane))
        await plane.sleep(5)
        await plane.apply(hashed(replicas=2))
        after = await settled(plane, count=2, timeout=200)
        assert {group.revision for group in after} == {before[0].revision}


async def _has_two_revisions(plane: Plane) -> bool:
    return len({group.revision for group in (await groups(plane)).values() if group.leader is not None}) == 2


async def test_a_lost_revision_object(plane: Plane) -> None:
    """Case C93: made again under its key; nothing rolls."""
    async with plane:
        await plane.apply(hashed(replicas=2))
        old = await settled(plane, count=2)
        for found in await plane.revisions():
            await plane.client.delete(CONTROLLER_REVISIONS, found.metadata.name, namespace=NAMESPACE)
        await plane.sleep(20)
        assert {group.uids for group in (await groups(plane)).values()} == {group.uids for group in old}
        assert len(await plane.revisions()) == 1


async def test_scaling_back_and_forth(plane: Plane) -> None:
    """Case C82: 3 -> 0 -> 3 quickly; nothing is left over."""
    async with plane:
        await plane.apply(hashed(replicas=3, worker=pod_template(grace=6)))
        await settled(plane, count=3)
        for gap in (0.5, 3.0, 1.3):
            await plane.patch_lws("demo", {"replicas": 0})
            await plane.sleep(1)
            await plane.patch_lws("demo", {"replicas": 3})
            await plane.sleep(gap)
        await settled(plane, count=3)
        await plane.sleep(20)
        assert not [pod for pod in (await plane.pods()).values() if pod.deleting]
        assert (await plane.lws()).status.replicas == 3


@pytest.mark.parametrize("how", ["leader", "scale", "delete"])
async def test_parallel_termination(plane: Plane, how: str) -> None:
    """Behaviours 139-142, case C78: workers get their deletionTimestamp within seconds of their leader's."""
    async with plane:
        slow = pod_template(grace=20, annotations={"sandbox.regroup.dev/stop-delay": "15s"})
        await plane.apply(hashed(replicas=1, size=3, worker=slow, podTerminationPolicy="Parallel"))
        (group,) = await settled(plane, size=3)
        if how == "leader":
            await plane.delete_pod(group.name)
        elif how == "scale":
            await plane.patch_lws("demo", {"replicas": 0})
        else:
            await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        await wait_group(
            plane, group.key, lambda found: len(found.pods) == 3 and all(pod.deleting for pod in found.pods), timeout=5
        )
        if how == "leader":
            (new,) = await settled(plane, size=3)
            assert new.key != group.key


async def test_the_replacement_policy_is_live(plane: Plane) -> None:
    """Spec 4.6: switched while a leader waits, it takes effect at once and rolls nothing."""
    async with plane:
        slow = pod_template(grace=60, annotations={"sandbox.regroup.dev/stop-delay": "40s"})
        await plane.apply(hashed(replicas=2, worker=slow))
        first, other = await settled(plane, count=2)
        revisions = len(await plane.events("CreatingRevision"))
        await plane.faults.crash(NAMESPACE, first.last)
        await plane.wait_for(lambda: gated(plane))
        await plane.sleep(3)
        assert len(await gated(plane)) == 1
        await plane.patch_lws("demo", {"groupReplacementPolicy": "Immediate"})
        await wait_ready(plane, count=1, without=[first.key, other.key], timeout=15)
        assert (await groups(plane))[other.key].uids == other.uids
        assert len(await plane.events("CreatingRevision")) == revisions


async def test_the_identity_is_not_live(plane: Plane) -> None:
    """Behaviours 13, 14: neither is the identity changed, nor is Immediate taken without Hash."""
    async with plane:
        await plane.apply(hashed())
        await settled(plane)
        with pytest.raises(Invalid, match="groupIdentity"):
            await plane.patch_lws("demo", {"groupIdentity": "Ordinal"})
        await plane.apply(hashed(name="other", groupIdentity="Ordinal"))
        for change in ({"groupIdentity": "Hash"}, {"groupReplacementPolicy": "Immediate"}):
            with pytest.raises(WireError, match=next(iter(change))):
                await plane.patch_lws("other", change)


async def test_a_taken_name(plane: Plane) -> None:
    """Cases C98, C112: a Deployment of somebody else is neither changed nor adopted, and the conflict is told."""
    async with plane:
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "demo"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod_template()["spec"]},
            },
        }
        theirs: dict[str, Any] = await plane.client.create(DEPLOYMENTS, body, namespace=NAMESPACE)
        await plane.apply(hashed())
        await plane.wait_for(lambda: plane.events("FailedCreate"))
        await plane.sleep(10)
        found: dict[str, Any] = await plane.client.get(DEPLOYMENTS, "demo", namespace=NAMESPACE)
        assert (found["metadata"]["uid"], found["spec"]["selector"]) == (theirs["metadata"]["uid"], theirs["spec"]["selector"])
        assert await plane.pods() == {}
        await plane.client.delete(DEPLOYMENTS, "demo", namespace=NAMESPACE)
        await settled(plane)


async def test_a_stuck_rollout_says_so(plane: Plane) -> None:
    """Spec 7.4: exhausted at the new revision, the rollout cannot go on: UpdateInProgress and Degraded are True, Progressing is
    not; recovery lets it finish."""
    async with plane:
        await plane.apply(hashed(replicas=2, limit=0))
        await settled(plane, count=2)
        slow = pod_template(image="worker:2", annotations={"sandbox.regroup.dev/ready-delay": "30s"})
        await plane.apply(hashed(replicas=2, limit=0, worker=slow))
        await plane.wait_for(lambda: _has_two_revisions(plane))

        async def new_runs() -> Any:
            found = [group for group in (await groups(plane)).values() if group.leader is not None and group.workers]
            found.sort(key=lambda group: str(group.lead.metadata.creation_timestamp))
            newest = found[-1]
            runs = newest.workers[0].phase == "Running" and newest.workers[0].metadata.annotations.get(keys.SIZE)
            return newest if runs and len({group.revision for group in found}) == 2 else None

        newest = await plane.wait_for(new_runs)
        await exhaust(plane, newest)
        await plane.sleep(30)
        conditions = {kind: await plane.condition(kind) for kind in ("Available", "Progressing", "UpdateInProgress")}
        assert {kind: one.status for kind, one in conditions.items() if one is not None} == {
            "Available": "False",
            "Progressing": "False",
            "UpdateInProgress": "True",
        }
        assert await degraded(plane) == "True ReplicaRestartBudgetExceeded"
        assert len([group for group in (await groups(plane)).values() if group.ready(2)]) == 1
