"""Edges of rollouts, status and backoff: spec/leaderworkerset.md 5.7, 5.9, 6.2, 7.3, behaviours 81, 101, 112, 115, 129-132, 143,
145, 147-149, cases C87, C102."""

import asyncio
import json
from typing import Any

from tests.planes.hash_groups import gated, groups, hashed, settled, wait_group
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.resources import DEPLOYMENTS, PODS, STATEFULSETS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.wire.errors import NotFound

GROUP = group_names(size=2)


def rolling(**config: Any) -> dict[str, Any]:
    return {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": config}}


def image(number: int, *, ready: int = 0) -> dict[str, Any]:
    notes = {"sandbox.regroup.dev/ready-delay": f"{ready}s"} if ready else {}
    return pod_template(image=f"worker:{number}", annotations=notes)


async def counts(plane: Plane) -> dict[str, int]:
    text = (await plane.lws()).metadata.annotations.get(keys.RESTART_COUNTS, "{}")
    value: dict[str, int] = json.loads(text)
    return {key.split("/")[1]: count for key, count in value.items()}


async def statuses(plane: Plane) -> dict[str, str]:
    found = {kind: await plane.condition(kind) for kind in ("Available", "Progressing", "UpdateInProgress", "Degraded")}
    return {kind: one.status for kind, one in found.items() if one is not None}


async def runs(plane: Plane, name: str, *, image: str) -> bool:
    try:
        found: dict[str, Any] = await plane.client.get(PODS, name, namespace=NAMESPACE)
    except NotFound:
        return False
    at = found["spec"]["containers"][0]["image"]
    return at == image and found["status"].get("phase") == "Running" and "deletionTimestamp" not in found["metadata"]


async def test_a_surge_group_keeps_its_counter(plane: Plane) -> None:
    """Behaviour 81, B7, case C89 last step: counted while it is there, and gone with it; the rollout ends as 0..R-1."""
    async with plane:
        config = rolling(maxSurge=1, maxUnavailable=0)
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(1), template={"maxGroupRestarts": 3}, **config))
        await plane.wait_available()
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(2, ready=8), template={"maxGroupRestarts": 3}, **config))
        await plane.wait_for(lambda: runs(plane, "demo-2-1", image="worker:2"))
        old = await plane.uids()
        await plane.faults.crash(NAMESPACE, "demo-2-1")

        async def again() -> bool:
            uids = await plane.uids()
            return "demo-2" in uids and uids["demo-2"] != old["demo-2"]

        await plane.wait_for(again)
        await plane.sleep(4)
        assert await counts(plane) == {"2": 1}

        async def over() -> bool:
            return "demo-2" not in await plane.uids() and (await statuses(plane))["Available"] == "True"

        await plane.wait_for(over, timeout=200)
        await plane.sleep(5)
        assert sorted(await plane.uids()) == sorted([*group_names(0, size=2), *group_names(1, size=2)])
        assert await counts(plane) == {}


async def test_an_exhausted_surge_group_is_not_scaled_away(plane: Plane) -> None:
    """Behaviour 101: retained as long as its index is one of the leader set's."""
    async with plane:
        config = rolling(maxSurge=1, maxUnavailable=0)
        await plane.apply(lws_manifest(size=2, worker=image(1), template={"maxGroupRestarts": 0}, **config))
        old = await plane.wait_available()
        await plane.apply(lws_manifest(size=2, worker=image(2, ready=20), template={"maxGroupRestarts": 0}, **config))
        await plane.wait_for(lambda: runs(plane, "demo-1-1", image="worker:2"))
        await plane.faults.crash(NAMESPACE, "demo-1-1")

        async def retained() -> bool:
            pods = await plane.pods()
            return all(
                name in pods and keys.CLEANUP_FINALIZER in pods[name].metadata.finalizers for name in ("demo-1", "demo-1-1")
            )

        await plane.wait_for(retained)
        await plane.sleep(30)
        assert await retained()
        uids = await plane.uids()
        assert {name: uids[name] for name in GROUP} == {name: old[name] for name in GROUP}


async def test_not_stuck_when_nothing_is_ready(plane: Plane) -> None:
    """Behaviour 145: a template that never gets ready is rolled over by the next one."""
    async with plane:
        await plane.apply(lws_manifest(replicas=3, size=2, worker=image(1, ready=3600)))
        await plane.wait_for(lambda: runs(plane, "demo-2-1", image="worker:1"))
        await plane.apply(lws_manifest(replicas=3, size=2, worker=image(2)))
        await plane.wait_available(timeout=200)
        assert await runs(plane, "demo-0-1", image="worker:2")


async def test_scaled_in_mid_rollout(plane: Plane) -> None:
    """Behaviour 147: new ordinals come up on the new revision, and nobody is replaced twice."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(1)))
        await plane.wait_available()
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(2, ready=6)))
        await plane.wait_for(lambda: runs(plane, "demo-1", image="worker:2"))
        await plane.patch_lws("demo", {"replicas": 4})
        seen: dict[str, set[str]] = {}

        async def done() -> bool:
            for name, uid in (await plane.uids()).items():
                seen.setdefault(name, set()).add(uid)
            lws = await plane.lws()
            return lws.status.updated_replicas == lws.status.ready_replicas == 4

        await plane.wait_for(done, timeout=200)
        assert len(seen["demo-3"]) == len(seen["demo-2"]) == 1


async def test_the_update_is_over_before_the_last_one_is_ready(plane: Plane) -> None:
    """Behaviours 148, 149, B18: UpdateInProgress is never True at the first creation; it ends when everything is at the new
    revision, while Progressing still says that something comes up."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(1, ready=4)))

        async def created() -> bool:
            found = await statuses(plane)
            assert found.get("UpdateInProgress", "False") == "False"
            return found.get("Available") == "True"

        await plane.wait_for(created)
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(2, ready=10)))
        seen: list[tuple[str, str]] = []

        async def updated() -> bool:
            found = await statuses(plane)
            state = (found["UpdateInProgress"], found["Progressing"])
            if not seen or seen[-1] != state:
                seen.append(state)
            lws = await plane.lws()
            return found["Available"] == "True" and lws.status.updated_replicas == 2 == lws.status.ready_replicas

        await plane.wait_for(lambda: runs(plane, "demo-1", image="worker:2"))
        await plane.wait_for(updated, timeout=120)
        assert ("True", "True") in seen
        assert seen.index(("False", "True")) > seen.index(("True", "True"))
        assert seen[-1] == ("False", "False")


async def test_a_rollout_does_not_take_the_last_ready_group(plane: Plane) -> None:
    """Case C87: with one group unready and one allowed to be, the other keeps its pods until the first is ready again."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(1)))
        old = await plane.wait_available()
        await plane.faults.unready(NAMESPACE, "demo-0-1", seconds=20)

        async def known() -> bool:
            return (await plane.lws()).status.ready_replicas == 1

        await plane.wait_for(known)
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(2)))

        recovered = False

        async def done() -> bool:
            nonlocal recovered
            pods = await plane.pods()
            serving = {name for name, pod in pods.items() if pod.running_and_ready and not pod.deleting}
            ready = [group for group in (0, 1) if serving.issuperset(group_names(group, size=2))]
            recovered |= 0 in ready
            if not recovered:
                assert all(pods[name].metadata.uid == old[name] for name in group_names(1, size=2))
            assert ready
            return await runs(plane, "demo-0-1", image="worker:2") and await runs(plane, "demo-1-1", image="worker:2")

        await plane.wait_for(done, timeout=200)


async def test_one_writer_of_conditions(plane: Plane) -> None:
    """Case C102: during a rollout, a failure and a scale-up Degraded stays True, a foreign condition stays, no type comes twice,
    and the status is not written without end."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(1), template={"maxGroupRestarts": 0}))
        await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")

        async def degraded() -> bool:
            return (await statuses(plane)).get("Degraded") == "True"

        await plane.wait_for(degraded)
        found: dict[str, Any] = await plane.client.get(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        moment = found["status"]["conditions"][0]["lastTransitionTime"]
        foreign = {"type": "x.io/Custom", "status": "True", "reason": "Theirs", "message": "", "lastTransitionTime": moment}
        body = {"status": {"conditions": [*found["status"]["conditions"], foreign]}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", body, namespace=NAMESPACE, subresource="status")
        mark = len(plane.requests)
        sampling = asyncio.create_task(_sample(plane))
        config = rolling(partition=1, maxUnavailable=2)  # the retained group is one of them
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image(2, ready=2), template={"maxGroupRestarts": 0}, **config))
        await plane.wait_for(lambda: runs(plane, "demo-1-1", image="worker:2"))
        await plane.delete_pod("demo-1")
        await plane.sleep(5)
        await plane.patch_lws("demo", {"replicas": 3})
        await plane.wait_for(lambda: runs(plane, "demo-2-1", image="worker:2"))
        await plane.sleep(10)
        assert not sampling.done(), sampling.exception()
        sampling.cancel()
        writes = [entry for entry in plane.writes(since=mark) if entry.request.path.endswith("/demo/status")]
        assert len(writes) < 40


async def _sample(plane: Plane) -> None:
    while True:
        conditions = (await plane.lws()).status.conditions
        types = [one.type for one in conditions]
        assert len(types) == len(set(types))
        assert "x.io/Custom" in types
        assert [one.status for one in conditions if one.type == "Degraded"] == ["True"]
        await plane.sleep(0.1)


async def test_backoff_while_the_group_has_no_workers_yet(plane: Plane) -> None:
    """Behaviours 128, 130, 132, B33: the leader of a LeaderReady group restarts before it is ready; no worker set while it is
    not, then the worker set all the same, and the recreation when it is due."""
    async with plane:
        leader = pod_template(annotations={"sandbox.regroup.dev/ready-delay": "6s"})
        template = {"restartBackoff": {"baseSeconds": 25, "capSeconds": 60}}
        await plane.apply(lws_manifest(size=2, leader=leader, startupPolicy="LeaderReady", template=template))

        async def started() -> bool:
            pod = (await plane.pods()).get("demo-0")
            return pod is not None and pod.phase == "Running"

        await plane.wait_for(started)
        old = await plane.uids()
        await plane.faults.crash(NAMESPACE, "demo-0")
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        assert list(await plane.sets()) == ["demo"]

        async def worker_set() -> bool:
            return "demo-0" in await plane.sets()

        await plane.wait_for(worker_set, timeout=15)
        assert (await plane.uids())["demo-0"] == old["demo-0"]
        await plane.wait_recreated(old, GROUP, timeout=60)
        assert await counts(plane) == {"0": 1}


async def test_backoff_of_a_group_of_one(plane: Plane) -> None:
    """Behaviours 120, 131: the wake-up outlives the events of the marker's own write."""
    async with plane:
        await plane.apply(lws_manifest(size=1, template={"restartBackoff": {"baseSeconds": 12, "capSeconds": 60}}))
        old = await plane.wait_available()
        created = (await plane.pods())["demo-0"].metadata.creation_timestamp
        assert created is not None
        await plane.faults.crash(NAMESPACE, "demo-0")
        await plane.wait_recreated(old, ["demo-0"])
        again = (await plane.pods())["demo-0"].metadata.creation_timestamp
        assert again is not None
        assert 12 <= (again - created).total_seconds() <= 18


async def test_no_backoff_before_exhaustion(plane: Plane) -> None:
    """Behaviours 129, 135, Q13: one counter serves both; used up, a leader of seconds is retained at once."""
    async with plane:
        both = {"restartBackoff": {"baseSeconds": 10, "capSeconds": 600}, "maxGroupRestarts": 1}
        await plane.apply(lws_manifest(size=2, template=both))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(old, GROUP)
        assert await counts(plane) == {"0": 1}
        deferred = len(await plane.events("GroupRestartBackoff"))
        await plane.faults.crash(NAMESPACE, "demo-0-1")

        async def retained() -> bool:
            pods = await plane.pods()
            return all(keys.CLEANUP_FINALIZER in pods[name].metadata.finalizers for name in GROUP)

        await plane.wait_for(retained, timeout=8)
        assert len(await plane.events("GroupRestartBackoff")) == deferred


async def test_parallel_leaves_a_strangers_set(plane: Plane) -> None:
    """Behaviour 143: a worker set of that name which another pod controls is not deleted with our leader."""
    async with plane:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "their-leader"}, "spec": pod_template()["spec"]}
        theirs: dict[str, Any] = await plane.client.create(PODS, body, namespace=NAMESPACE)
        labels = {"app": "x"}
        meta = {
            "name": "demo-0",
            "labels": {keys.NAME: "demo", keys.GROUP_INDEX: "0"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "their-leader",
                    "uid": theirs["metadata"]["uid"],
                    "controller": True,
                }
            ],
        }
        template = {"metadata": {"labels": labels}, "spec": pod_template()["spec"]}
        spec = {"replicas": 0, "serviceName": "x", "selector": {"matchLabels": labels}, "template": template}
        stranger = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}
        made: dict[str, Any] = await plane.client.create(STATEFULSETS, stranger, namespace=NAMESPACE)
        await plane.apply(lws_manifest(size=2, podTerminationPolicy="Parallel"))
        await plane.wait_for(lambda: plane.events("FailedCreate"))
        old = await plane.uids()
        await plane.delete_pod("demo-0")

        async def replaced() -> bool:
            return (await plane.uids()).get("demo-0", old["demo-0"]) != old["demo-0"]

        await plane.wait_for(replaced)
        await plane.sleep(5)
        found: dict[str, Any] = await plane.client.get(STATEFULSETS, "demo-0", namespace=NAMESPACE)
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        assert "deletionTimestamp" not in found["metadata"]


async def test_of_two_hash_leaders_the_older_goes_first(plane: Plane) -> None:
    """Behaviour 112: one group has ended, the other has not: one leader is let in, and it is the older one."""
    async with plane:
        await plane.apply(hashed(replicas=2))
        first, other = await settled(plane, count=2)
        held = {"metadata": {"finalizers": ["x.io/a"]}}
        for group in (first, other):
            await plane.client.merge_patch(PODS, group.last, held, namespace=NAMESPACE)
        await plane.faults.crash(NAMESPACE, first.name)
        await plane.sleep(3)
        await plane.faults.crash(NAMESPACE, other.name)

        async def both_wait() -> bool:
            return len(await gated(plane)) == 2

        await plane.wait_for(both_wait)
        older, younger = await gated(plane)
        await plane.client.merge_patch(PODS, other.last, {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        await wait_group(plane, older.key, lambda group: not group.gated)
        await plane.sleep(12)
        assert (await groups(plane))[younger.key].gated
        await plane.client.merge_patch(PODS, first.last, {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        await settled(plane, count=2)


async def test_one_hash_leader_too_many(plane: Plane) -> None:
    """Behaviour 115: somebody scales the Deployment: the second leader is never let in, and the Deployment is put right."""
    async with plane:
        await plane.apply(hashed())
        (old,) = await settled(plane)
        await plane.stop_operator()
        await plane.client.merge_patch(DEPLOYMENTS, "demo", {"spec": {"replicas": 2}}, namespace=NAMESPACE)
        await plane.wait_for(lambda: gated(plane))
        await plane.start_operator()

        async def alone() -> bool:
            found = await groups(plane)
            assert all(group.gated or group.key == old.key or group.lead.deleting for group in found.values())
            return list(found) == [old.key]

        await plane.wait_for(alone)
        assert (await groups(plane))[old.key].uids == old.uids


async def test_an_edit_keeps_the_scaled_count(plane: Plane) -> None:
    """Case C67 for this API: 2 in the manifest, 4 through the scale subresource; a new image rolls all 4 and loses none."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=1, worker=image(1)))
        await plane.wait_available()
        scale = {"spec": {"replicas": 4}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", scale, namespace=NAMESPACE, subresource="scale")
        await plane.wait_available()
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"workerTemplate": image(2)}})
        names = {f"demo-{group}" for group in range(4)}

        async def rolled() -> bool:
            assert names >= set(await plane.uids())
            return all([await runs(plane, name, image="worker:2") for name in sorted(names)])

        await plane.wait_for(rolled, timeout=120)
        assert (await plane.lws()).spec.replicas == 4
