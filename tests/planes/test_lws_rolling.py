"""Rollouts in a cluster and Parallel termination: spec/leaderworkerset.md 6, 5.9, behaviours 139-151, cases C78-C93."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.resources import CONTROLLER_REVISIONS, PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS


def rolling(**config: Any) -> dict[str, Any]:
    return {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": config}}


def image(name: str, **annotations: str) -> dict[str, Any]:
    return pod_template(image=name, annotations={f"sandbox.regroup.dev/{key}": value for key, value in annotations.items()})


async def ready_groups(plane: Plane) -> int:
    """Groups of size 2 whose two pods are ready."""
    pods = await plane.pods()
    ready = {name for name, pod in pods.items() if pod.running_and_ready and not pod.deleting}
    return sum(1 for name in ready if name.count("-") == 1 and f"{name}-1" in ready)


async def roll(plane: Plane, manifest: dict[str, Any], *, least: int, most: int) -> dict[str, set[str]]:
    """Apply and watch until all is new: never fewer than ``least`` groups ready, never more than ``most`` groups. Gives UIDs."""
    await plane.apply(manifest)
    seen: dict[str, set[str]] = {}

    async def done() -> bool:
        for name, uid in (await plane.uids()).items():
            seen.setdefault(name, set()).add(uid)
        assert await ready_groups(plane) >= least
        assert len([name for name in await plane.uids() if name.count("-") == 1]) <= most
        lws = await plane.lws()
        condition = await plane.condition("Available")
        return (
            lws.status.observed_generation == lws.metadata.generation
            and condition is not None
            and condition.status == "True"
            and condition.observed_generation == lws.metadata.generation
        )

    await plane.wait_for(done, timeout=300)
    return seen


@pytest.mark.parametrize(
    ("replicas", "config", "least", "most"),
    [
        (4, {"maxSurge": 2, "maxUnavailable": 2}, 2, 6),
        (1, {"maxSurge": 1, "maxUnavailable": 0}, 1, 2),
        (4, {"maxSurge": 1, "maxUnavailable": 1}, 3, 5),
        (3, {"maxSurge": 0, "maxUnavailable": 2}, 1, 3),
    ],
)
async def test_surge_and_unavailable(plane: Plane, replicas: int, config: dict[str, Any], least: int, most: int) -> None:
    """Behaviour 144, case C89 runs 1 and 2: limits hold at every moment; indexes end as 0..R-1, each group replaced once."""
    async with plane:
        await plane.apply(lws_manifest(replicas=replicas, size=2, **rolling(**config)))
        old = await plane.wait_available()
        manifest = lws_manifest(replicas=replicas, size=2, worker=image("worker:2"), **rolling(**config))
        seen = await roll(plane, manifest, least=least, most=most)
        names = sorted(name for group in range(replicas) for name in group_names(group, size=2))

        async def surge_is_given_back() -> bool:
            return sorted(await plane.uids()) == names

        await plane.wait_for(surge_is_given_back, timeout=60)
        assert all(len(seen[name] - {old[name]}) == 1 for name in old)
        assert await plane.events("RecreateGroup") == []


async def test_plain_scaling_makes_no_surge(plane: Plane) -> None:
    """Case C89 run 3, B34."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, **rolling(maxSurge=2)))
        old = await plane.wait_available()
        seen = await roll(plane, lws_manifest(replicas=3, size=2, **rolling(maxSurge=2)), least=2, most=3)
        assert all(seen[name] == {uid} for name, uid in old.items())


async def test_partition(plane: Plane) -> None:
    """Behaviours 103, 146, case C84: groups below it stay at the old revision, size and image, also when they are recreated;
    lowering it moves them on."""
    async with plane:
        await plane.apply(lws_manifest(replicas=3, size=3))
        old = await plane.wait_available()
        changed: dict[str, Any] = {"replicas": 3, "size": 2, "worker": image("worker:2")}
        await plane.apply(lws_manifest(**changed, **rolling(partition=2)))
        new = await plane.wait_recreated(old, group_names(2, size=2), timeout=120)
        await plane.wait_available()
        updating = await plane.condition("UpdateInProgress")
        assert updating is not None
        assert updating.status == "False"
        assert {name: new[name] for name in group_names(0)} == {name: old[name] for name in group_names(0)}
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        again = await plane.wait_recreated(new, group_names(0), timeout=60)
        pods = await plane.pods()
        revisions = {pods[name].metadata.labels[keys.REVISION] for name in group_names(0)}
        sizes = {pods[name].metadata.annotations[keys.SIZE] for name in group_names(0)}
        assert (len(revisions), sizes) == (1, {"3"})
        assert revisions != {pods["demo-2"].metadata.labels[keys.REVISION]}
        await plane.apply(lws_manifest(**changed))
        await plane.wait_recreated(again, [*group_names(0, size=2), *group_names(1, size=2)], timeout=180)
        await plane.wait_available()
        assert sorted(await plane.uids()) == sorted(name for group in range(3) for name in group_names(group, size=2))
        assert len(await plane.revisions()) == 1, "old revisions go at the end"


async def test_an_operator_restart_in_mid_rollout(plane: Plane) -> None:
    """Case C85: at least R-1 groups ready throughout, eight pods made, no more."""
    async with plane:
        slow = {"ready-delay": "8s"}
        await plane.apply(lws_manifest(replicas=4, size=2, worker=image("worker:1", **slow)))
        old = await plane.wait_available()
        await plane.apply(lws_manifest(replicas=4, size=2, worker=image("worker:2", **slow)))

        async def begun() -> bool:
            return (await plane.uids()).get("demo-3", old["demo-3"]) != old["demo-3"]

        await plane.wait_for(begun)
        for _ in range(2):
            await plane.stop_operator()
            await plane.sleep(1)
            await plane.start_operator()
        seen = await roll(plane, lws_manifest(replicas=4, size=2, worker=image("worker:2", **slow)), least=3, most=4)
        assert all(len(seen[name] - {old[name]}) == 1 for name in old)


async def test_going_back_to_an_earlier_template(plane: Plane) -> None:
    """Spec 3.5: the revision of before is found again as long as it is kept."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2))
        old = await plane.wait_available()
        before = (await plane.pods())["demo-0"].metadata.labels[keys.REVISION]
        await plane.apply(lws_manifest(replicas=2, size=2, worker=image("worker:2", **{"ready-delay": "20s"})))

        async def begun() -> bool:
            return (await plane.uids()).get("demo-1", old["demo-1"]) != old["demo-1"]

        await plane.wait_for(begun)
        await plane.apply(lws_manifest(replicas=2, size=2))
        await plane.wait_available(timeout=180)
        pods = await plane.pods()
        assert {pod.metadata.labels[keys.REVISION] for pod in pods.values()} == {before}
        assert pods["demo-0"].metadata.uid == old["demo-0"]


async def test_a_lost_revision_object_is_made_again(plane: Plane) -> None:
    """Case C93: deleted under a running group; a failure is handled, nothing rolls, other objects go on."""
    async with plane:
        await plane.apply(lws_manifest(size=2))
        old = await plane.wait_available()
        for found in await plane.revisions():
            await plane.client.delete(CONTROLLER_REVISIONS, found.metadata.name, namespace=NAMESPACE)
        await plane.delete_pod("demo-0-1")
        await plane.apply(lws_manifest("other", size=1))
        await plane.wait_available("other", timeout=20)
        new = await plane.wait_recreated(old, group_names(size=2))
        await plane.wait_available()
        await plane.sleep(20)
        assert await plane.uids() == new
        assert len(await plane.revisions()) == 1


async def test_the_reference_trace(plane: Plane) -> None:
    """Behaviour 144, 6.2: what the leader set is told in turn, as partition/replicas: 4/6, 2/6, 0/6, 0/4. Groups that become
    ready one after the other may put 1/6 and 0/5 in between."""
    limits = rolling(maxSurge=2, maxUnavailable=2)
    async with plane:
        await plane.apply(lws_manifest(replicas=4, size=2, **limits))
        await plane.wait_available()
        mark = len(plane.requests)
        await roll(plane, lws_manifest(replicas=4, size=2, worker=image("worker:2"), **limits), least=2, most=6)
        told: list[tuple[int, int]] = []
        for entry in plane.writes(since=mark):
            if not entry.request.path.endswith("/statefulsets/demo") or "spec" not in (entry.body or {}):
                continue
            step = (entry.body["spec"]["updateStrategy"]["rollingUpdate"]["partition"], entry.body["spec"]["replicas"])
            if not told or told[-1] != step:
                told.append(step)
        assert [step for step in told if step not in {(1, 6), (0, 5)}] == [(4, 6), (2, 6), (0, 6), (0, 4)], told


async def test_resizing_through_one(plane: Plane) -> None:
    """Behaviour 151: 2 -> 1 -> 3: worker sets vanish and are there again, and every container is told the size of its group."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2))
        uids = await plane.wait_available()
        for size in (1, 3):
            await plane.apply(lws_manifest(replicas=2, size=size))
            names = [name for group in range(2) for name in group_names(group, size=size)]
            uids = await plane.wait_recreated(uids, names, timeout=180)
            await plane.wait_available()
            assert sorted(await plane.uids()) == sorted(names)
            expected = ["demo"] if size == 1 else ["demo", "demo-0", "demo-1"]
            assert sorted(await plane.sets()) == expected
            for name in names:
                raw: dict[str, Any] = await plane.client.get(PODS, name, namespace=NAMESPACE)
                told = {one["name"]: one["value"] for one in raw["spec"]["containers"][0]["env"]}
                assert told["LWS_GROUP_SIZE"] == str(size), name


async def test_leader_ready_first(plane: Plane) -> None:
    """Behaviour 152: no worker set before the leader is ready; workers that are there stay when it is not."""
    async with plane:
        leader = image("leader:1", **{"ready-delay": "8s"})
        await plane.apply(lws_manifest(size=2, leader=leader, startupPolicy="LeaderReady"))

        async def leader_runs() -> bool:
            found = (await plane.pods()).get("demo-0")
            return found is not None and found.phase == "Running"

        await plane.wait_for(leader_runs)
        await plane.sleep(5)
        assert list(await plane.sets()) == ["demo"]
        old = await plane.wait_available()
        await plane.faults.unready(NAMESPACE, "demo-0", seconds=10)
        await plane.sleep(20)
        assert await plane.uids() == old


async def test_scaling_back_and_forth(plane: Plane) -> None:
    """Case C82: 4 -> 0 -> 4 quickly, five times; all four are there in the end and nothing is left over."""
    async with plane:
        await plane.apply(lws_manifest(replicas=4, size=2, worker=pod_template(grace=6)))
        await plane.wait_available()
        for gap in (0.5, 3.0, 1.3, 2.2, 0.9):
            await plane.patch_lws("demo", {"replicas": 0})
            await plane.sleep(1)
            await plane.patch_lws("demo", {"replicas": 4})
            await plane.sleep(gap)
        await plane.wait_available(timeout=60)
        await plane.sleep(20)
        pods = await plane.pods()
        assert len(pods) == 8
        assert not any(pod.deleting for pod in pods.values())
        assert (await plane.lws()).status.replicas == 4


@pytest.mark.parametrize("how", ["leader", "scale", "delete"])
async def test_parallel_termination(plane: Plane, how: str) -> None:
    """Behaviours 139-142, case C78: workers get their deletionTimestamp within seconds of their leader's, whatever the reason."""
    async with plane:
        slow = pod_template(grace=20, annotations={"sandbox.regroup.dev/stop-delay": "15s"})
        await plane.apply(lws_manifest(replicas=2, worker=slow, podTerminationPolicy="Parallel"))
        await plane.wait_available()
        if how == "leader":
            await plane.delete_pod("demo-1")
        elif how == "scale":
            await plane.patch_lws("demo", {"replicas": 1})
        else:
            await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)

        async def all_going() -> bool:
            pods = await plane.pods()
            groups = [1] if how != "delete" else [0, 1]
            return all(name in pods and pods[name].deleting for group in groups for name in group_names(group))

        await plane.wait_for(all_going, timeout=5)
        if how == "leader":
            await plane.wait_available()
