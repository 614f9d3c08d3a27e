"""Gangs of all replicas, and Workloads that another operator made: spec/leaderworkerset.md 2.6, 3.6 (KEP-666), 6.5.

On the sandbox, whose scheduler places pod by pod: what is proved is what the operator does.
"""

from functools import partial
from typing import Any

import pytest
from tests.planes import go_objects
from tests.planes.gang_apis import POD_GROUPS, WORKLOADS, native_crds
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest
from tests.planes.sandbox_plane import SandboxPlane

from regroup.kube.resources import CONTROLLER_REVISIONS, CRDS, PODS, SERVICES, STATEFULSETS, VALIDATING_WEBHOOKS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects.gang import Provider, native
from regroup.wire.resource import Resource

pytestmark = pytest.mark.looptime
SETTINGS = Settings(scheduler_provider=Provider.KUBERNETES)
GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}


@pytest.fixture
def native_plane() -> Plane:
    return SandboxPlane(settings=SETTINGS)


async def serve(plane: Plane, version: str = "v1beta1") -> None:
    for crd in native_crds(version):
        await plane.client.create(CRDS, crd)


async def listed(plane: Plane, resource: Resource = POD_GROUPS) -> dict[str, dict[str, Any]]:
    found = await plane.client.list_all(resource, namespace=NAMESPACE, type=dict[str, Any])
    return {one["metadata"]["name"]: one for one in found.items}


async def counts(plane: Plane) -> tuple[int, list[int]]:
    """Members of the gang in the Workload's template, and in each PodGroup."""
    (workload,) = (await listed(plane, WORKLOADS)).values()
    (template,) = workload["spec"]["podGroupTemplates"]
    groups = [one["spec"]["schedulingPolicy"]["gang"]["minCount"] for one in (await listed(plane)).values()]
    return template["schedulingPolicy"]["gang"]["minCount"], groups


async def joined(plane: Plane) -> set[str]:
    """The PodGroups that pods name."""
    page = await plane.client.list_all(PODS, namespace=NAMESPACE, type=dict[str, Any])
    return {str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")) for pod in page.items}


async def condition(plane: Plane, reason: str) -> str:
    async def told() -> str | None:
        found = await plane.condition("WorkloadSchedulingCreated")
        return found.message or reason if found is not None and found.reason == reason else None

    return str(await plane.wait_for(told))


@pytest.mark.parametrize("identity", ["Ordinal", "Hash"])
async def test_one_gang_for_all_replicas(native_plane: Plane, identity: str) -> None:
    """2.6, 3.6: one PodGroup of all pods, owned by the LeaderWorkerSet, there before any gate is lifted; it is the same through
    recreations, and its members follow replicas and size, never beyond what there can be; none while there are no replicas."""
    async with native_plane as plane:
        await serve(plane)
        await plane.apply(lws_manifest(replicas=2, size=2, scheduling=GANG, groupIdentity=identity))
        old = await plane.wait_available()
        lws = await plane.lws()
        ((workload_name, workload),) = (await listed(plane, WORKLOADS)).items()
        assert workload["spec"]["podGroupTemplates"] == [{"name": "lws", "schedulingPolicy": {"gang": {"minCount": 4}}}]
        ((name, group),) = (await listed(plane)).items()
        assert name == f"{workload_name}-lws"
        assert await joined(plane) == {name}
        assert group["spec"]["workloadRef"] == {"workloadName": workload_name, "templateName": "lws"}
        owners = [(owner["kind"], owner["uid"], owner["controller"]) for owner in group["metadata"]["ownerReferences"]]
        assert owners == [
            ("LeaderWorkerSet", lws.metadata.uid, True),
            ("Workload", workload["metadata"]["uid"], False),
        ]
        made = [entry.request.path.rsplit("/", 1)[1] for entry in plane.writes() if entry.request.method in {"POST", "PATCH"}]
        assert made.index("workloads") < made.index("podgroups") < made.index(next(one for one in made if one in old))

        await plane.faults.crash(NAMESPACE, next(one for one in old if one.endswith("-1")))
        await plane.wait_for(lambda: plane.events("RecreateGroup"))
        await plane.wait_available()
        for replicas in (3, 1):
            await plane.patch_lws("demo", {"replicas": replicas})
            await plane.wait_for(partial(_is, plane, (2 * replicas, [2 * replicas])))
            await plane.wait_available()
            assert list(await listed(plane)) == [name]
        await plane.patch_lws("demo", {"replicas": 0})
        await plane.wait_for(lambda: _is(plane, (1, [])), timeout=90)
        await plane.patch_lws("demo", {"replicas": 2})
        await plane.wait_available()
        await plane.wait_for(lambda: _is(plane, (4, [4])))
        assert await joined(plane) == {name}
        await plane.sleep(20)
        mark = len(plane.requests)
        await plane.sleep(30)
        assert plane.writes(since=mark) == []


async def _is(plane: Plane, expected: tuple[int, list[int]]) -> bool:
    return await counts(plane) == expected


async def test_a_rollout_to_another_size(native_plane: Plane) -> None:
    """6.6: while groups of both sizes run, the gang is no larger than the smaller ones make it, so that no new group waits for
    pods that do not exist yet."""
    async with native_plane as plane:
        await serve(plane)
        await plane.apply(lws_manifest(replicas=2, size=2, scheduling=GANG))
        old = await plane.wait_available()
        await plane.apply(lws_manifest(replicas=2, size=4, scheduling=GANG))
        seen: set[int] = set()

        async def over() -> bool:
            pods = await plane.pods()
            (count,) = (await counts(plane))[1]
            seen.add(count)
            assert count <= 4 or not any(old.get(name) == pod.metadata.uid for name, pod in pods.items())
            return count == 8 and len(pods) == 8 and all(pod.running_and_ready for pod in pods.values())

        await plane.wait_for(over, timeout=120)
        assert seen == {4, 8}


async def test_a_retained_group_is_not_waited_for(native_plane: Plane) -> None:
    """5.6, 3.6: its pods are gone for good, so the gang of the others is without them; recovered, it counts again."""
    async with native_plane as plane:
        await serve(plane)
        await plane.apply(lws_manifest(replicas=3, size=2, scheduling=GANG, template={"maxGroupRestarts": 0}))
        await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-1-1")
        await plane.wait_for(lambda: _is(plane, (4, [4])))
        patch = {"metadata": {"annotations": {keys.RECOVER: "true"}}}
        await plane.client.merge_patch(PODS, "demo-1", patch, namespace=NAMESPACE)
        await plane.wait_for(lambda: _is(plane, (6, [6])))
        await plane.wait_available()


async def test_an_api_whose_gangs_cannot_change(native_plane: Plane) -> None:
    """2.6, ours: with v1alpha2 a gang of all replicas is refused by condition and event, with path and reason, and its leaders
    wait; placed together without being a gang, it runs."""
    async with native_plane as plane:
        await serve(plane, "v1alpha2")
        await plane.apply(lws_manifest(replicas=2, scheduling=GANG))
        why = await condition(plane, "UnsupportedProviderCapability")
        assert why.startswith("spec.scheduling.schedulingPolicy.gang: ")
        assert "v1alpha2" in why
        (event,) = await plane.events("FailedCreate")
        assert event.note == why
        await plane.sleep(20)
        assert all(pod.spec.scheduling_gates for pod in (await plane.pods()).values())
        await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        await plane.wait_for(lambda: _gone(plane))
        await plane.apply(lws_manifest(replicas=2, size=2, scheduling={"disruptionMode": {"all": {}}}))
        await plane.wait_available()
        (group,) = (await listed(plane, native("podgroups", "PodGroup", "v1alpha2"))).values()
        assert (group["spec"]["schedulingPolicy"], group["spec"]["disruptionMode"]) == ({"basic": {}}, "PodGroup")


async def _gone(plane: Plane) -> bool:
    return not await plane.pods() and not await plane.exists(LEADERWORKERSETS, "demo")


async def test_a_parents_workload(native_plane: Plane) -> None:
    """2.6, ours: where a parent has the groups placed by its own Workload, which only another operator lets in, nothing is made,
    condition and event name the annotation, and the leaders wait instead of starting pod by pod."""
    async with native_plane as plane:
        await serve(plane)
        for body in (await plane.client.list_all(VALIDATING_WEBHOOKS, type=dict[str, Any])).items:
            await plane.client.delete(VALIDATING_WEBHOOKS, body["metadata"]["name"])
        parent = {"scheduling.k8s.io/group-template-name": "decode"}
        await plane.apply(lws_manifest(size=2, scheduling={}, annotations=parent))
        why = await condition(plane, "UnsupportedProviderCapability")
        assert "metadata.annotations[scheduling.k8s.io/group-template-name]" in why
        await plane.sleep(20)
        assert (await listed(plane, WORKLOADS), await listed(plane)) == ({}, {})
        assert all(pod.spec.scheduling_gates for pod in (await plane.pods()).values())
        assert len(await plane.events("FailedCreate")) == 1


@pytest.mark.parametrize(("level", "scheduling"), [("replica", {}), ("lws", GANG)])
async def test_what_the_go_controller_made(native_plane: Plane, level: str, scheduling: dict[str, Any]) -> None:
    """3.6, issue 5 point 3: its Workload has another name than ours and no label: it is found by its owner, and pods go on to be
    named after it. No pod is replaced, no second Workload is made, and what it says beyond us stays."""
    async with native_plane as plane:
        await serve(plane)
        await plane.stop_operator()
        await plane.apply(lws_manifest(replicas=2, size=2, scheduling=scheduling))
        uids = await _made_by_go(plane, WORKLOAD, level=level)
        groups = set(await listed(plane))
        await plane.start_operator()
        assert await plane.wait_available() == uids
        await plane.sleep(30)
        assert await plane.uids() == uids
        assert (set(await listed(plane, WORKLOADS)), set(await listed(plane))) == ({WORKLOAD}, groups)
        await plane.patch_lws("demo", {"replicas": 3})
        now = await plane.wait_available()
        assert {name: now[name] for name in uids} == uids
        assert all(name.startswith(WORKLOAD) for name in await joined(plane))
        assert await joined(plane) == set(await listed(plane))
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(now, group_names(0, size=2))
        await plane.wait_available()
        assert await joined(plane) == set(await listed(plane))
        ((name, workload),) = (await listed(plane, WORKLOADS)).items()
        assert (name, workload["spec"]["podGroupTemplates"][0]["priorityClassName"]) == (WORKLOAD, "theirs")
        assert {one["spec"]["workloadRef"]["workloadName"] for one in (await listed(plane)).values()} == {WORKLOAD}
        expected = (6, [6]) if level == "lws" else (2, [2, 2, 2])
        assert await counts(plane) == expected


WORKLOAD = "demo-b7c8d2f1"


async def _made_by_go(plane: Plane, name: str, *, level: str) -> dict[str, str]:
    """Everything that the Go controller makes for two groups of two, under its own name for the Workload. Gives the pods."""
    client = plane.client
    lws: dict[str, Any] = await client.get(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
    owner = go_objects.owner("LeaderWorkerSet", "demo", lws["metadata"]["uid"])
    placed = {keys.WORKLOAD_SCHEDULING: level, keys.WORKLOAD_NAME: name}
    count = 4 if level == "lws" else 2
    template = {"name": level, "schedulingPolicy": {"gang": {"minCount": count}}, "priorityClassName": "theirs"}
    ref = {"apiGroup": "leaderworkerset.x-k8s.io", "kind": "LeaderWorkerSet", "name": "demo"}
    workload = {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
        "spec": {"controllerRef": ref, "podGroupTemplates": [template]},
    }
    await client.create(WORKLOADS, workload, namespace=NAMESPACE)
    for index in (0, 1) if level == "replica" else (None,):
        labels = {keys.NAME: "demo", keys.SCHEDULING_LEVEL: level}
        if index is not None:
            labels |= {keys.GROUP_INDEX: str(index), keys.REVISION: go_objects.REVISION}
        group: dict[str, Any] = {
            "apiVersion": POD_GROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {
                "name": f"{name}-lws" if index is None else f"{name}-{index}-{go_objects.REVISION}",
                "namespace": NAMESPACE,
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": {"workloadRef": {"workloadName": name, "templateName": level}, **template},
        }
        group["spec"].pop("name")
        await client.create(POD_GROUPS, group, namespace=NAMESPACE)
    await client.create(CONTROLLER_REVISIONS, go_objects.revision(lws), namespace=NAMESPACE)
    await client.create(SERVICES, go_objects.service(lws), namespace=NAMESPACE)
    leaders = go_objects.leader_set(lws)
    leaders["spec"]["template"]["metadata"]["annotations"] |= placed
    await client.apply(STATEFULSETS, "demo", leaders, namespace=NAMESPACE, force=True, field_manager="lws")

    async def made(pods: int) -> bool:
        return len(await plane.pods()) == pods

    await plane.wait_for(lambda: made(2))
    for index in (0, 1):
        leader: dict[str, Any] = await client.get(PODS, f"demo-{index}", namespace=NAMESPACE)
        await client.merge_patch(PODS, f"demo-{index}", {"spec": {"schedulingGates": None}}, namespace=NAMESPACE)
        body = go_objects.worker_set(lws, group=index, leader_uid=leader["metadata"]["uid"])
        body["spec"]["template"]["metadata"]["annotations"] |= placed
        await client.create(STATEFULSETS, body, namespace=NAMESPACE)
    await plane.wait_for(lambda: made(4))
    return await plane.uids()
