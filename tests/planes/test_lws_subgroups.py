"""Subgroups of a group: spec/leaderworkerset.md 2.3, 2.7, 2.10, 3.8, 6.9; behaviour 18."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.pod import Pod
from regroup.kube.resources import NODES, PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects.identity import subgroup_key
from regroup.wire.errors import Invalid

ZONE = "topology.kubernetes.io/zone"
T = "spec.leaderWorkerTemplate"
TPUS = {"resources": {"limits": {"google.com/tpu": "4"}}}


def subgroups(size: int, **more: Any) -> dict[str, Any]:
    """``leaderWorkerTemplate`` with subgroups of ``size``."""
    return {"subGroupPolicy": {"subGroupSize": size, **more}}


def place(pod: Pod) -> tuple[str | None, str | None]:
    return pod.metadata.labels.get(keys.SUBGROUP_INDEX), pod.metadata.labels.get(keys.SUBGROUP_KEY)


@pytest.mark.parametrize(
    ("size", "policy", "expected"),
    [
        (4, {"subGroupSize": 2}, ["0", "0", "1", "1"]),
        (5, {"subGroupSize": 2}, ["0", "0", "0", "1", "1"]),
        (5, {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}, [None, "0", "0", "1", "1"]),
        (3, {"subGroupSize": 3}, ["0", "0", "0"]),
    ],
)
async def test_who_is_in_which(plane: Plane, size: int, policy: dict[str, Any], expected: list[str | None]) -> None:
    """3.8 steps 2 d and 3: index and key on every pod; the leader is in the first subgroup, or in none with LeaderExcluded; the
    policy and the size are told to admission in annotations, and no affinity is added where none was asked for."""
    async with plane:
        await plane.apply(lws_manifest(size=size, template={"subGroupPolicy": policy}))
        await plane.wait_available()
        pods = await plane.pods()
        for name, index in zip(group_names(size=size), expected, strict=True):
            key = None if index is None else subgroup_key("demo-0", int(index))
            assert place(pods[name]) == (index, key), name
            annotations = pods[name].metadata.annotations
            kind = policy.get("subGroupPolicyType", "LeaderWorker")
            assert (annotations[keys.SUBGROUP_SIZE], annotations[keys.SUBGROUP_POLICY_TYPE]) == ("2" if size > 3 else "3", kind)
        raw: dict[str, Any] = await plane.client.get(PODS, "demo-0-1", namespace=NAMESPACE)
        assert "affinity" not in raw["spec"]


async def test_a_zone_for_each_subgroup(plane: Plane) -> None:
    """6.9: with subgroup-exclusive-topology the pods of a subgroup share a domain that no other subgroup is in, and a recreated
    group keeps to that."""
    annotations = {keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: ZONE}
    async with plane:
        await plane.apply(lws_manifest(size=4, template=subgroups(2), annotations=annotations))
        old = await plane.wait_available()
        await _zones_are_apart(plane)
        await plane.faults.crash(NAMESPACE, "demo-0-3")
        await plane.wait_recreated(old, group_names(size=4))
        await plane.wait_available()
        await _zones_are_apart(plane)


async def _zones_are_apart(plane: Plane) -> None:
    pods, nodes = await plane.pods(), await plane.nodes()
    zones: dict[str | None, set[str]] = {}
    for pod in pods.values():
        zones.setdefault(place(pod)[0], set()).add(nodes[pod.spec.node_name].metadata.labels[ZONE])
    assert set(zones) == {"0", "1"}
    assert all(len(found) == 1 for found in zones.values()), zones
    assert zones["0"] != zones["1"]


async def test_a_third_subgroup_finds_no_zone(plane: Plane) -> None:
    """6.9, 5.4: where a domain is missing the pods of that subgroup are Unschedulable, and the others run."""
    annotations = {keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: ZONE}
    async with plane:
        await plane.apply(lws_manifest(size=6, template=subgroups(2), annotations=annotations))

        async def settled() -> bool:
            pods = await plane.pods()
            return len(pods) == 6 and sum(1 for pod in pods.values() if pod.running_and_ready) == 4

        await plane.wait_for(settled)
        await plane.sleep(20)
        waiting = [pod for pod in (await plane.pods()).values() if pod.phase == "Pending"]
        assert len({place(pod) for pod in waiting}) == 1
        assert len(waiting) == 2


async def test_tpu_variables_name_the_own_subgroup(plane: Plane) -> None:
    """2.10: only the pods of the same subgroup are TPU workers of each other; ids start anew in each."""
    async with plane:
        for name in await plane.nodes():
            await _give_tpus(plane, name)
        await plane.apply(lws_manifest(size=4, template=subgroups(2), worker=pod_template(container=TPUS)))
        await plane.wait_available()
        for name, hosts, number in (
            ("demo-0", "demo-0.demo,demo-0-1.demo", "0"),
            ("demo-0-1", "demo-0.demo,demo-0-1.demo", "1"),
            ("demo-0-2", "demo-0-2.demo,demo-0-3.demo", "0"),
            ("demo-0-3", "demo-0-2.demo,demo-0-3.demo", "1"),
        ):
            raw: dict[str, Any] = await plane.client.get(PODS, name, namespace=NAMESPACE)
            env = {entry["name"]: entry.get("value") for entry in raw["spec"]["containers"][0]["env"]}
            assert (env["TPU_WORKER_HOSTNAMES"], env["TPU_WORKER_ID"]) == (hosts, number), name
            assert env["LWS_GROUP_SIZE"] == "4"


async def _give_tpus(plane: Plane, node: str) -> None:
    amount = {"google.com/tpu": "8"}
    patch = {"status": {"capacity": amount, "allocatable": amount}}
    await plane.client.merge_patch(NODES, node, patch, subresource="status")


async def test_subgroups_are_fixed(plane: Plane) -> None:
    """Behaviour 18, 2.7: the size of subgroups cannot be changed, nor subgroups added or removed; a size of the group that they
    do not divide is refused with the path of subGroupSize; the group's size may change otherwise (6.6)."""
    async with plane:
        await plane.apply(lws_manifest(size=4, template=subgroups(4)), lws_manifest("plain", size=4))
        await plane.wait_available()
        refusals: list[tuple[str, dict[str, Any], str]] = [
            ("demo", {"subGroupPolicy": {"subGroupSize": 2}}, f"{T}.subGroupPolicy.subGroupSize"),
            ("demo", {"subGroupPolicy": None}, f"{T}.subGroupPolicy"),
            ("demo", {"subGroupPolicy": {"subGroupSize": None}}, f"{T}.subGroupPolicy.subGroupSize"),
            ("plain", subgroups(2), f"{T}.subGroupPolicy"),
            ("demo", {"size": 6}, f"{T}.subGroupPolicy.subGroupSize"),
            ("demo", {"size": 3}, f"{T}.subGroupPolicy.subGroupSize"),
        ]
        for name, change, path in refusals:
            with pytest.raises(Invalid) as refused:
                await plane.patch_lws(name, {"leaderWorkerTemplate": change})
            assert path in [cause["field"] for cause in refused.value.causes], (change, refused.value.message)
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"size": 8}})
        await plane.wait_for(lambda: _complete(plane, 8), timeout=120)
        indexes = sorted(str(place(pod)[0]) for pod in (await plane.pods()).values())
        assert indexes == ["0"] * 4 + ["1"] * 4


async def _complete(plane: Plane, size: int) -> bool:
    pods = await plane.pods()
    return len(pods) == size and all(pod.running_and_ready and not pod.deleting for pod in pods.values())


@pytest.mark.parametrize(
    ("template", "annotations", "path"),
    [
        ({"subGroupPolicy": {}}, {}, f"{T}.subGroupPolicy.subGroupSize"),
        (subgroups(0), {}, f"{T}.subGroupPolicy.subGroupSize"),
        (subgroups(5), {}, f"{T}.subGroupPolicy.subGroupSize"),
        ({"size": 6, **subgroups(4)}, {}, f"{T}.subGroupPolicy.subGroupSize"),
        (subgroups(2, subGroupPolicyType="LeaderExcluded"), {}, f"{T}.subGroupPolicy.subGroupSize"),
        (subgroups(2, subGroupPolicyType="LeaderOnly"), {}, f"{T}.subGroupPolicy.subGroupPolicyType"),
        ({}, {keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: ZONE}, f"metadata.annotations[{keys.SUBGROUP_EXCLUSIVE_TOPOLOGY}]"),
    ],
)
async def test_refused(plane: Plane, template: dict[str, Any], annotations: dict[str, str], path: str) -> None:
    """2.3, 2.7, Q16: refused through the API with upstream's field paths."""
    async with plane:
        body = lws_manifest(size=4, template=template, annotations=annotations)
        with pytest.raises(Invalid) as refused:
            await plane.client.create(LEADERWORKERSETS, body, namespace=NAMESPACE)
        assert path in [cause["field"] for cause in refused.value.causes], refused.value.message
