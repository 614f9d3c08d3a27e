"""Where groups are placed and when their workers come: exclusive topology (spec/leaderworkerset.md 3.3, 3.8, 6.9), startup
policies (6.7), storage (6.8)."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.resources import NODES, PODS, STATEFULSETS
from regroup.leaderworkerset import keys
from regroup.wire.resource import Resource

ZONE = "topology.kubernetes.io/zone"
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "weights"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def zones(plane: Plane, group: int, *, size: int = 3) -> set[str]:
    pods, nodes = await plane.pods(), await plane.nodes()
    return {nodes[pods[name].spec.node_name].metadata.labels[ZONE] for name in group_names(group, size=size)}


async def test_a_zone_for_each_group(plane: Plane) -> None:
    """Behaviour 30, 6.9: groups are alone in their zones; workers follow their leader by the node label that it found; a third
    group finds no zone, and its workers are not made while its leader is not placed; a recreated group is placed so again."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, annotations={keys.EXCLUSIVE_TOPOLOGY: ZONE}))
        old = await plane.wait_available()
        first, second = await zones(plane, 0), await zones(plane, 1)
        assert len(first) == len(second) == 1
        assert first != second
        raw: dict[str, Any] = await plane.client.get(STATEFULSETS, "demo-1", namespace=NAMESPACE)
        assert raw["spec"]["template"]["spec"]["nodeSelector"] == {ZONE: next(iter(second))}
        worker: dict[str, Any] = await plane.client.get(PODS, "demo-1-1", namespace=NAMESPACE)
        assert "affinity" not in worker["spec"]

        await plane.patch_lws("demo", {"replicas": 3})
        await plane.wait_for(lambda: _exists(plane, "demo-2"))
        await plane.sleep(20)
        assert sorted(set(await plane.pods()) - set(old)) == ["demo-2"]
        condition = await plane.condition("Progressing")
        assert condition is not None
        assert condition.reason == "GroupUnschedulable"
        await plane.patch_lws("demo", {"replicas": 2})
        await plane.wait_available()

        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(old, group_names(0))
        await plane.wait_available()
        assert await zones(plane, 0) | await zones(plane, 1) == first | second
        assert len(await zones(plane, 0)) == 1


async def _exists(plane: Plane, name: str) -> bool:
    return name in await plane.pods()


async def test_a_node_without_the_label(plane: Plane) -> None:
    """3.3, B31: the label that is missing on the leader's node is told once with its key; the workers come when it is there."""
    async with plane:
        await plane.apply(lws_manifest(size=2, annotations={keys.EXCLUSIVE_TOPOLOGY: "rack"}))
        # The scheduler needs the label as well, so the leader is placed while it is there.
        for name in await plane.nodes():
            await plane.client.merge_patch(NODES, name, {"metadata": {"labels": {"rack": "r1"}}})
        old = await plane.wait_available()
        node = (await plane.pods())["demo-0"].spec.node_name
        for name in await plane.nodes():
            await plane.client.merge_patch(NODES, name, {"metadata": {"labels": {"rack": None}}})
        await plane.client.delete(STATEFULSETS, "demo-0", namespace=NAMESPACE, propagation="Orphan")

        async def told() -> bool:
            return any(f"{node} has no label rack" in event.note for event in await plane.events("FailedCreate"))

        await plane.wait_for(told)
        await plane.sleep(30)
        assert "demo-0" not in await plane.sets()
        for name in await plane.nodes():
            await plane.client.merge_patch(NODES, name, {"metadata": {"labels": {"rack": "r1"}}})

        async def made() -> bool:
            return "demo-0" in await plane.sets()

        await plane.wait_for(made)
        assert (await plane.uids())["demo-0"] == old["demo-0"]


async def test_leader_ready_first(plane: Plane) -> None:
    """6.7, behaviour 152: no worker set before the leader is Ready; a leader that restarts later keeps the workers that are there
    (policy None), and the policy can be changed while groups run."""
    leader = pod_template(annotations={"sandbox.regroup.dev/ready-delay": "8s"})
    async with plane:
        await plane.apply(lws_manifest(size=3, policy="None", leader=leader, startupPolicy="LeaderReady"))
        await plane.wait_for(lambda: _running(plane, "demo-0"))
        await plane.sleep(5)
        assert list(await plane.sets()) == ["demo"]
        uids = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0")
        await plane.wait_for(lambda: _restarted(plane, "demo-0"))
        await plane.sleep(5)
        assert not (await plane.pods())["demo-0"].ready
        assert await plane.uids() == uids
        await plane.patch_lws("demo", {"startupPolicy": "LeaderCreated", "replicas": 2})
        await plane.wait_for(lambda: _exists(plane, "demo-1-2"))
        assert not (await plane.pods())["demo-1"].ready
        now = await plane.wait_available()
        assert {name: now[name] for name in uids} == uids


async def _running(plane: Plane, name: str) -> bool:
    pod = (await plane.pods()).get(name)
    return pod is not None and pod.phase == "Running"


async def _restarted(plane: Plane, name: str) -> bool:
    return (await plane.pods())[name].restarts > 0


@pytest.mark.parametrize("when_deleted", ["Delete", "Retain"])
async def test_claims_of_leaders_and_workers(plane: Plane, when_deleted: str) -> None:
    """6.8: each pod has its own claim, by the rules of StatefulSets; a recreated group finds them again; what becomes of them
    later is what the retention policy says."""
    policy = {"whenDeleted": when_deleted, "whenScaled": "Delete"}
    template = {"volumeClaimTemplates": [CLAIM], "persistentVolumeClaimRetentionPolicy": policy}
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, template=template))
        await plane.wait_for(lambda: _claims(plane, 4))
        expected = {f"weights-{name}" for name in [*group_names(0, size=2), *group_names(1, size=2)]}
        assert set(await claims(plane)) == expected
        for name in ("demo", "demo-0", "demo-1"):
            raw: dict[str, Any] = await plane.client.get(STATEFULSETS, name, namespace=NAMESPACE)
            assert raw["spec"]["persistentVolumeClaimRetentionPolicy"] == policy
            assert [one["metadata"]["name"] for one in raw["spec"]["volumeClaimTemplates"]] == ["weights"]


async def claims(plane: Plane) -> dict[str, Any]:
    found = await plane.client.list_all(CLAIMS, namespace=NAMESPACE, type=dict[str, Any])
    return {one["metadata"]["name"]: one for one in found.items}


async def _claims(plane: Plane, count: int) -> bool:
    return len(await claims(plane)) == count
