"""Nodes that die: spec/leaderworkerset.md 5.1, Q29, behaviours 43, 50, 156-158, case C12."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.pod import Pod
from regroup.kube.resources import NODES, PODS

IMPATIENT = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
]
SPREAD = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"leaderworkerset.sigs.k8s.io/name": "demo"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
DETECTED = 180.0
"""Seconds within which a silent node is certainly marked, its pods are evicted, and the loss grace is over."""


GRACE = 2
"""Seconds of grace of these pods: on a lost node nobody uses them, and the operator waits until they are over."""


def template(**more: Any) -> dict[str, Any]:
    return pod_template(tolerations=IMPATIENT, affinity=SPREAD, grace=GRACE, **more)


async def node_of(plane: Plane, pod: str) -> str:
    return (await plane.pods())[pod].spec.node_name


async def test_a_dead_node_takes_its_group_to_healthy_nodes(plane: Plane) -> None:
    """Behaviours 43, 156: evicted, stuck, forced by UID after the loss grace; the whole group runs elsewhere, recreated once."""
    async with plane:
        await plane.apply(lws_manifest(size=2, worker=template()))
        old = await plane.wait_available()
        dead = await node_of(plane, "demo-0-1")
        await plane.faults.node_down(dead)
        new = await plane.wait_recreated(old, group_names(size=2), timeout=DETECTED)
        await plane.wait_available()
        await plane.sleep(60)
        assert await plane.uids() == new
        assert dead not in {pod.spec.node_name for pod in (await plane.pods()).values()}
        assert len(await plane.events("RecreateGroup")) == 1
        forced = [entry for entry in plane.deletions() if (entry.body or {}).get("gracePeriodSeconds") == 0]
        assert [entry.body["preconditions"]["uid"] for entry in forced] == [old["demo-0-1"]]


async def test_a_leader_on_a_dead_node_takes_its_workers_along(plane: Plane) -> None:
    """Case C12: the workers end within seconds of the leader's deletionTimestamp, nobody runs beside a half-dead group, and
    then all of it comes back elsewhere."""
    async with plane:
        await plane.apply(lws_manifest(size=3, worker=template()))
        old = await plane.wait_available()
        dead = await node_of(plane, "demo-0")
        await plane.faults.node_down(dead)

        async def leader_goes() -> Any:
            found = (await plane.pods()).get("demo-0")
            return found is not None and found.deleting

        await plane.wait_for(leader_goes, timeout=DETECTED)

        async def workers_go() -> bool:
            pods = await plane.pods()
            return all(name not in pods or pods[name].deleting for name in ("demo-0-1", "demo-0-2"))

        await plane.wait_for(workers_go, timeout=10)
        new = await plane.wait_recreated(old, group_names(), timeout=DETECTED)
        assert len(set(new.values()) & set(old.values())) == 0
        assert dead not in {pod.spec.node_name for pod in (await plane.pods()).values()}


async def test_nobody_runs_beside_the_rest_of_a_lost_group(plane: Plane) -> None:
    """Case C12: never two live pods of one name, never a new pod of the group Running while an old one is not terminating; when
    a person forces the lost leader, the whole group is back within 15 s, elsewhere."""
    never = {"leaderworkerset.regroup.dev/node-loss-grace": "0"}
    async with plane:
        await plane.apply(lws_manifest(size=4, worker=template(), annotations=never))
        names = group_names(size=4)
        old = await plane.wait_available()
        dead = await node_of(plane, "demo-0")
        await plane.faults.node_down(dead)

        async def look() -> dict[str, Pod]:
            pods = await plane.pods()
            remaining = [name for name, pod in pods.items() if pod.metadata.uid == old.get(name) and not pod.deleting]
            begun = [name for name, pod in pods.items() if pod.metadata.uid != old.get(name) and pod.phase == "Running"]
            assert not (remaining and begun), f"{begun} run beside {remaining}"
            return pods

        async def leader_goes() -> bool:
            return (await look())["demo-0"].deleting

        async def only_the_leader_is_left() -> bool:
            return {name: pod.metadata.uid for name, pod in (await look()).items()} == {"demo-0": old["demo-0"]}

        async def back() -> bool:
            pods = await look()
            return all((pod := pods.get(name)) and pod.metadata.uid != old[name] and pod.running_and_ready for name in names)

        await plane.wait_for(leader_goes, timeout=DETECTED)
        await plane.wait_for(only_the_leader_is_left, timeout=60, what="the names of the workers are free")
        await plane.sleep(60)
        assert await only_the_leader_is_left()
        await plane.delete_pod("demo-0", grace=0)
        await plane.wait_for(back, timeout=15, what="the whole group is back")
        assert dead not in {pod.spec.node_name for pod in (await plane.pods()).values()}


async def test_none_replaces_only_what_was_on_the_node(plane: Plane) -> None:
    """Behaviour 50."""
    async with plane:
        await plane.apply(lws_manifest(size=3, policy="None", worker=template()))
        old = await plane.wait_available()
        dead = await node_of(plane, "demo-0-2")
        await plane.faults.node_down(dead)
        new = await plane.wait_recreated(old, ["demo-0-2"], timeout=DETECTED)
        await plane.wait_available()
        assert {name: new[name] for name in ("demo-0", "demo-0-1")} == {name: old[name] for name in ("demo-0", "demo-0-1")}
        assert await node_of(plane, "demo-0-2") != dead


@pytest.mark.parametrize("proof", ["taint", "deletion"])
async def test_a_claim_waits_for_proof(plane: Plane, proof: str) -> None:
    """Behaviour 157: told once, by pod and node, in an event and in Progressing; the taint out-of-service is a proof that nothing
    runs there any more, and so is the end of the Node object."""
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "scratch"}, **CLAIM}]}
    async with plane:
        await plane.provide_volumes(2)
        await plane.apply(lws_manifest(size=2, worker=template(), template=claims))
        old = await plane.wait_available()
        dead = await node_of(plane, "demo-0-1")
        await plane.faults.node_down(dead)
        await plane.wait_for(lambda: plane.events("GroupBlockedByNode"), timeout=DETECTED)
        await plane.sleep(300)
        (event,) = await plane.events("GroupBlockedByNode")
        assert (event.type, event.count) == ("Warning", 1)
        assert "demo-0-1" in event.note
        assert dead in event.note

        async def named() -> bool:
            progressing = await plane.condition("Progressing")
            return progressing is not None and "demo-0-1" in progressing.message and dead in progressing.message

        await plane.wait_for(named, what="Progressing names the pod and its node")
        assert (await plane.uids())["demo-0-1"] == old["demo-0-1"], "not forced without proof"
        if proof == "deletion":
            await plane.client.delete(NODES, dead)
        else:
            taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
            await plane.client.merge_patch(NODES, dead, {"spec": {"taints": [taint]}})
        await plane.wait_recreated(old, group_names(size=2), timeout=DETECTED)


CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}


async def test_a_slow_shutdown_on_a_healthy_node_is_never_forced(plane: Plane) -> None:
    """Behaviour 158: named in Progressing after a while, not forced after an hour either, and gone when it is let go."""
    async with plane:
        await plane.apply(lws_manifest(size=2, worker=pod_template(grace=GRACE)))
        old = await plane.wait_available()
        held = {"metadata": {"finalizers": ["x.io/a"]}}
        await plane.client.merge_patch(PODS, "demo-0-1", held, namespace=NAMESPACE)
        await plane.faults.crash(NAMESPACE, "demo-0")

        async def named() -> bool:
            condition = await plane.condition("Progressing")
            return condition is not None and "x.io/a" in condition.message

        await plane.wait_for(named, timeout=180)
        await plane.age(3600)
        await plane.touch()
        await plane.sleep(10)
        stuck: Pod = (await plane.pods())["demo-0-1"]
        assert (stuck.metadata.uid, stuck.deleting) == (old["demo-0-1"], True)
        assert not [entry for entry in plane.deletions() if (entry.body or {}).get("gracePeriodSeconds") == 0]
        progressing = await plane.condition("Progressing")
        assert progressing is not None
        assert "demo-0-1" in progressing.message
        assert "x.io/a" in progressing.message
        assert await plane.events("GroupBlockedByNode") == []
        await plane.client.merge_patch(PODS, "demo-0-1", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        await plane.wait_recreated(old, group_names(size=2))
