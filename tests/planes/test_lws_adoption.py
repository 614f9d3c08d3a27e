"""Taking over from the Go controller and going back to it, with groups that run: issue 5 point 3, behaviour 22, spec 2-3, Q30."""

from typing import Any

import pytest
from tests.planes import go_objects
from tests.planes.hash_groups import Group, counts, exhaust, gated, groups, recover, settled
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, PODS, REPLICASETS, SERVICES, STATEFULSETS
from regroup.kube.workloads import ReplicaSet
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS

WORKER = pod_template(container={"resources": {"limits": {"cpu": "1000m"}}}, labels={"app": "llm"})


async def made_by_go(plane: Plane, *, replicas: int = 2, size: int = 3, **more: Any) -> dict[str, str]:
    """A LeaderWorkerSet with running groups that our operator has never seen. Gives the UIDs of its pods."""
    await plane.stop_operator()
    await plane.apply(lws_manifest(replicas=replicas, size=size, worker=WORKER, annotations={"team": "a"}, **more))
    lws: dict[str, Any] = await plane.client.get(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
    client = plane.client
    await client.create(CONTROLLER_REVISIONS, go_objects.revision(lws), namespace=NAMESPACE)
    await client.create(SERVICES, go_objects.service(lws), namespace=NAMESPACE)
    await client.apply(STATEFULSETS, "demo", go_objects.leader_set(lws), namespace=NAMESPACE, force=True, field_manager="lws")

    async def leaders() -> bool:
        return len(await plane.pods()) == replicas

    await plane.wait_for(leaders)
    for group in range(replicas):
        leader: dict[str, Any] = await client.get(PODS, f"demo-{group}", namespace=NAMESPACE)
        # Admitted by the Go controller: of its gate nothing is left.
        patch = {"spec": {"schedulingGates": None}}
        await client.merge_patch(PODS, f"demo-{group}", patch, namespace=NAMESPACE)
        body = go_objects.worker_set(lws, group=group, leader_uid=leader["metadata"]["uid"])
        await client.create(STATEFULSETS, body, namespace=NAMESPACE)

    async def running() -> bool:
        pods = await plane.pods()
        return len(pods) == replicas * size and all(pod.running_and_ready for pod in pods.values())

    await plane.wait_for(running)
    return await plane.uids()


async def test_nothing_is_replaced(plane: Plane) -> None:
    """Behaviour 22: the status appears, no pod, no set and no revision is touched, and then nothing more is written."""
    async with plane:
        uids = await made_by_go(plane)
        sets = {name: found.metadata.generation for name, found in (await plane.sets()).items()}
        mark = len(plane.requests)
        await plane.start_operator()
        assert await plane.wait_available() == uids
        await plane.sleep(30)
        assert await plane.uids() == uids
        assert {name: found.metadata.generation for name, found in (await plane.sets()).items()} == sets
        assert [found.metadata.labels[keys.REVISION] for found in await plane.revisions()] == [go_objects.REVISION]
        writes = plane.writes(since=mark)
        assert {entry.request.path.rsplit("/", 1)[1] for entry in writes} <= {"status", "demo"}, "\n".join(map(str, writes))
        mark = len(plane.requests)
        await plane.sleep(60)
        assert plane.writes(since=mark) == []


async def test_scaling_what_go_made(plane: Plane) -> None:
    """6.5, 3.1: the leader set is written with the template that it has: what only the Go controller says in it stays, because
    taking it out would replace every leader."""
    async with plane:
        uids = await made_by_go(plane)
        await plane.start_operator()
        await plane.wait_available()
        await plane.patch_lws("demo", {"replicas": 3})
        now = await plane.wait_available()
        assert {name: now[name] for name in uids} == uids
        assert set(now) == {*uids, *group_names(2)}
        await plane.sleep(30)
        assert await plane.uids() == now
        await plane.patch_lws("demo", {"replicas": 1})

        async def one_left() -> bool:
            return len(await plane.pods()) == 3

        await plane.wait_for(one_left)
        await plane.wait_available()
        assert {name: uid for name, uid in (await plane.uids()).items() if uid != uids[name]} == {}


@pytest.mark.parametrize("hit", ["crash", "delete"])
async def test_a_failure_after_taking_over(plane: Plane, hit: str) -> None:
    """5.2: groups of the Go controller are recreated as ours are: once, as a whole, counted; the others stay."""
    async with plane:
        uids = await made_by_go(plane, template={"maxGroupRestarts": 3})
        await plane.start_operator()
        await plane.wait_available()
        if hit == "crash":
            await plane.faults.crash(NAMESPACE, "demo-0-2")
        else:
            await plane.delete_pod("demo-0-2")
        now = await plane.wait_recreated(uids, group_names(0))
        await plane.wait_available()
        await plane.sleep(20)
        assert await plane.uids() == now
        assert {name: now[name] for name in group_names(1)} == {name: uids[name] for name in group_names(1)}
        counts = (await plane.lws()).metadata.annotations[keys.RESTART_COUNTS]
        assert counts == f'{{"{go_objects.REVISION}/0":1}}'


async def test_a_rollout_after_taking_over(plane: Plane) -> None:
    """6.1: only a change of the template rolls, each group once, and the Go controller's revision goes when it is done."""
    async with plane:
        uids = await made_by_go(plane)
        await plane.start_operator()
        await plane.wait_available()
        changed = pod_template(image="worker:2", container={"resources": {"limits": {"cpu": "1000m"}}}, labels={"app": "llm"})
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"workerTemplate": changed}})
        await plane.wait_recreated(uids, [*group_names(0), *group_names(1)], timeout=180)
        await plane.wait_available()

        async def one_revision() -> bool:
            return len(await plane.revisions()) == 1

        await plane.wait_for(one_revision)
        (left,) = await plane.revisions()
        assert (left.revision, left.metadata.labels[keys.REVISION] != go_objects.REVISION) == (2, True)


async def test_hash_groups(plane: Plane) -> None:
    """4.2, behaviour 22: the same for groups that are named by a key: neither status nor scaling replaces a pod, and a failed
    group is replaced as a whole."""
    async with plane:
        await plane.stop_operator()
        await plane.apply(lws_manifest(replicas=2, size=2, worker=WORKER, groupIdentity="Hash"))
        lws: dict[str, Any] = await plane.client.get(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        await plane.client.create(CONTROLLER_REVISIONS, go_objects.revision(lws), namespace=NAMESPACE)
        await plane.client.create(SERVICES, go_objects.service(lws), namespace=NAMESPACE)
        body = go_objects.leader_deployment(lws)
        await plane.client.apply(DEPLOYMENTS, "demo", body, namespace=NAMESPACE, force=True, field_manager="lws")

        async def leaders() -> bool:
            return len(await plane.pods()) == 2

        await plane.wait_for(leaders)
        for name in await plane.pods():
            ready = {"type": keys.GROUP_READY, "status": "True", "reason": "WorkerStatefulSetReady"}
            await plane.client.merge_patch(PODS, name, {"spec": {"schedulingGates": None}}, namespace=NAMESPACE)
            leader: dict[str, Any] = await plane.client.get(PODS, name, namespace=NAMESPACE)
            await plane.client.create(STATEFULSETS, go_objects.hash_worker_set(lws, leader=leader), namespace=NAMESPACE)
            await plane.client.strategic_patch(
                PODS, name, {"status": {"conditions": [ready]}}, namespace=NAMESPACE, subresource="status"
            )

        async def running() -> bool:
            pods = await plane.pods()
            return len(pods) == 4 and all(pod.running_and_ready for pod in pods.values())

        await plane.wait_for(running)
        uids = await plane.uids()
        await plane.start_operator()
        assert await plane.wait_available() == uids
        await plane.sleep(30)
        assert await plane.uids() == uids
        await plane.patch_lws("demo", {"replicas": 3})
        now = await plane.wait_available()
        assert {name: now[name] for name in uids} == uids
        broken = next(name for name, pod in (await plane.pods()).items() if pod.metadata.labels[keys.WORKER_INDEX] == "1")
        group = (await plane.pods())[broken].metadata.labels[keys.GROUP_INDEX]
        before = {name for name, pod in (await plane.pods()).items() if pod.metadata.labels[keys.GROUP_INDEX] == group}
        await plane.faults.crash(NAMESPACE, broken)

        async def replaced() -> bool:
            pods = await plane.pods()
            return len(pods) == 6 and not before & set(pods)

        await plane.wait_for(replaced)
        after = await plane.wait_available()
        assert {name: after[name] for name in now if name not in before} == {
            name: now[name] for name in now if name not in before
        }


async def test_going_back(plane: Plane) -> None:
    """What we made, the Go controller takes over: it finds the revision with data that restore the template, applies its leader
    set under the same manager and name, and no pod is replaced; our own keys are in nobody's way."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, worker=WORKER, annotations={"team": "a"}))
        uids = await plane.wait_available()
        await plane.sleep(10)
        await plane.stop_operator()
        lws: dict[str, Any] = await plane.client.get(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        (known,) = await plane.revisions()
        key = known.metadata.labels[keys.REVISION]
        stored = known.data["spec"]["leaderWorkerTemplate"]
        wanted = go_objects.revision(lws)["data"]["spec"]["leaderWorkerTemplate"]
        assert (stored["$patch"], stored["size"], stored["restartPolicy"]) == ("replace", wanted["size"], wanted["restartPolicy"])
        # The annotation that only newer versions write would roll the leaders of any older one as well: not asked of us.
        body = go_objects.leader_set(lws, key=key)
        body["spec"]["template"]["metadata"]["annotations"].pop(f"{keys.PREFIX}pod-termination-policy")
        before = (await plane.sets())["demo"]
        await plane.client.apply(STATEFULSETS, "demo", body, namespace=NAMESPACE, force=True, field_manager="lws")
        await plane.sleep(15)
        after = (await plane.sets())["demo"]
        assert after.status.update_revision == before.status.update_revision
        assert await plane.uids() == uids
        for group in (0, 1):
            found = (await plane.sets())[f"demo-{group}"]
            go = go_objects.worker_set(lws, group=group, leader_uid=uids[f"demo-{group}"], key=key)
            assert found.metadata.labels.items() >= go["metadata"]["labels"].items()
            owner = found.metadata.controller
            assert owner is not None
            assert (owner.kind, owner.uid) == ("Pod", uids[f"demo-{group}"])
        await plane.start_operator()
        await plane.sleep(20)
        assert await plane.uids() == uids


async def test_going_back_with_hash_groups(plane: Plane) -> None:
    """4.2, 5.5, 5.6: the same for groups that are named by a key, one of which is retained: the Go controller applies its
    Deployment and no leader is replaced; it finds worker sets, counters, marks, finalizers and the held replacement as it makes
    them; and then we have them back, recover the group and go on counting."""
    async with plane:
        more: dict[str, Any] = {"groupIdentity": "Hash", "template": {"maxGroupRestarts": 1}}
        await plane.apply(lws_manifest(replicas=2, size=2, worker=WORKER, annotations={"team": "a"}, **more))
        first, second = await settled(plane, count=2)
        await plane.faults.crash(NAMESPACE, first.last)
        again = next(group for group in await _without(plane, first.key) if group.key != second.key)
        lost = await exhaust(plane, again)
        (held,) = await plane.wait_for(lambda: gated(plane))
        await plane.sleep(10)
        await plane.stop_operator()
        uids = await plane.uids()
        lws: dict[str, Any] = await plane.client.get(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        (known,) = await plane.revisions()
        key = known.metadata.labels[keys.REVISION]
        body = go_objects.leader_deployment(lws, key=key)
        body["spec"]["template"]["metadata"]["annotations"].pop(f"{keys.PREFIX}pod-termination-policy")
        await plane.client.apply(DEPLOYMENTS, "demo", body, namespace=NAMESPACE, force=True, field_manager="lws")
        await plane.sleep(15)
        replica_sets = await plane.client.list_all(REPLICASETS, namespace=NAMESPACE, type=ReplicaSet)
        assert [one.replicas for one in replica_sets.items] == [2], "no rollout"
        assert await plane.uids() == uids
        for group in (second, lost):
            leader: dict[str, Any] = await plane.client.get(PODS, group.name, namespace=NAMESPACE)
            go = go_objects.hash_worker_set(lws, leader=leader, key=key)
            found = (await plane.sets())[go["metadata"]["name"]]
            assert found.metadata.labels.items() >= go["metadata"]["labels"].items()
            owner = found.metadata.controller
            assert owner is not None
            assert (owner.kind, owner.uid) == ("Pod", leader["metadata"]["uid"])
            # How much may fail yet, and what is retained, stands where the Go controller looks for it.
            assert leader["metadata"]["labels"][f"{keys.PREFIX}group-key"] == group.key
        assert await counts(plane) == {lost.key: 1}
        retained: dict[str, Any] = await plane.client.get(PODS, lost.name, namespace=NAMESPACE)
        assert retained["metadata"]["annotations"][f"{keys.PREFIX}group-restart-budget-exhausted"] == "true"
        assert f"{keys.PREFIX}group-restart-budget-cleanup" in retained["metadata"]["finalizers"]
        waits: dict[str, Any] = await plane.client.get(PODS, held.name, namespace=NAMESPACE)
        assert waits["spec"]["schedulingGates"] == [{"name": f"{keys.PREFIX}group-replacement"}]
        assert waits["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] == "-100"

        await plane.start_operator()
        await plane.sleep(20)
        assert await plane.uids() == uids
        await recover(plane, lost)
        whole = {group.key for group in await settled(plane, count=2)}
        assert whole == {second.key, held.key}
        assert await counts(plane) == {}
        await plane.faults.crash(NAMESPACE, second.last)
        new = next(group for group in await _without(plane, second.key) if group.key != held.key)
        assert await counts(plane) == {new.key: 1}


async def _without(plane: Plane, key: str) -> list[Group]:
    """The two groups that are whole once that one is gone."""

    async def gone() -> bool:
        return key not in await groups(plane)

    await plane.wait_for(gone)
    return await settled(plane, count=2)
