"""Gangs that Kubernetes itself places (``scheduling.k8s.io``): spec/leaderworkerset.md 2.6, 3.6, 4.3; case C94.

On the sandbox, whose scheduler places pod by pod: what is proved is what the operator does.
"""

from typing import Any

import pytest
from tests.planes.gang_apis import POD_GROUPS, WORKLOADS, native_crds
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template
from tests.planes.sandbox_plane import SandboxPlane

from regroup.kube.resources import CRDS, PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects.gang import Provider, native
from regroup.wire.errors import Invalid, NotFound
from regroup.wire.resource import Resource

pytestmark = pytest.mark.looptime
SETTINGS = Settings(scheduler_provider=Provider.KUBERNETES)


@pytest.fixture
def native_plane() -> Plane:
    return SandboxPlane(settings=SETTINGS)


async def serve(plane: Plane, version: str = "v1beta1") -> None:
    for crd in native_crds(version):
        await plane.client.create(CRDS, crd)


async def listed(plane: Plane, resource: Resource) -> dict[str, dict[str, Any]]:
    try:
        found = await plane.client.list_all(resource, namespace=NAMESPACE, type=dict[str, Any])
    except NotFound:
        return {}
    return {one["metadata"]["name"]: one for one in found.items}


async def joined(plane: Plane, pod: str) -> str:
    """The PodGroup that a pod names."""
    raw: dict[str, Any] = await plane.client.get(PODS, pod, namespace=NAMESPACE)
    return str((raw["spec"].get("schedulingGroup") or {}).get("podGroupName", ""))


async def test_one_gang_for_each_replica(native_plane: Plane) -> None:
    """2.6, 3.6: ``{}`` means one gang PodGroup a replica with minCount = size; a Workload that the LeaderWorkerSet owns comes
    first; PodGroups point to it; every pod names its PodGroup; the condition says that all is there."""
    async with native_plane as plane:
        await serve(plane)
        await plane.apply(lws_manifest(replicas=2, size=3, scheduling={}))
        await plane.wait_available()
        ((name, workload),) = (await listed(plane, WORKLOADS)).items()
        lws = await plane.lws()
        assert [owner["uid"] for owner in workload["metadata"]["ownerReferences"]] == [lws.metadata.uid]
        assert workload["spec"]["controllerRef"] == {
            "apiGroup": "leaderworkerset.x-k8s.io",
            "kind": "LeaderWorkerSet",
            "name": "demo",
        }
        assert workload["spec"]["podGroupTemplates"] == [{"name": "replica", "schedulingPolicy": {"gang": {"minCount": 3}}}]
        groups = await listed(plane, POD_GROUPS)
        assert len(groups) == 2
        for group in (0, 1):
            names = {await joined(plane, pod) for pod in group_names(group)}
            (own,) = names
            spec, meta = groups[own]["spec"], groups[own]["metadata"]
            assert spec["schedulingPolicy"] == {"gang": {"minCount": 3}}
            assert spec["workloadRef"] == {"workloadName": name, "templateName": "replica"}
            owners = [(owner["kind"], owner["uid"], owner["controller"]) for owner in meta["ownerReferences"]]
            assert owners == [
                ("LeaderWorkerSet", lws.metadata.uid, True),
                ("Workload", workload["metadata"]["uid"], False),
            ]
            assert (meta["labels"][keys.NAME], meta["labels"][keys.GROUP_INDEX]) == ("demo", str(group))
        condition = await plane.condition("WorkloadSchedulingCreated")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "SchedulingPrerequisitesCreated")
        made = [entry.request.path.rsplit("/", 1)[1] for entry in plane.writes() if entry.request.method == "POST"]
        assert made.index("workloads") < made.index("podgroups") < made.index("statefulsets")


async def test_older_version_of_the_api(native_plane: Plane) -> None:
    """3.6: with Kubernetes 1.36 the same in the words of v1alpha2."""
    async with native_plane as plane:
        await serve(plane, "v1alpha2")
        scheduling: dict[str, Any] = {"replica": {"disruptionMode": {"all": {}}}}
        await plane.apply(lws_manifest(scheduling=scheduling))
        await plane.wait_available()
        (group,) = (await listed(plane, native("podgroups", "PodGroup", "v1alpha2"))).values()
        assert group["spec"]["podGroupTemplateRef"]["workload"]["podGroupTemplateName"] == "replica"
        assert group["spec"]["disruptionMode"] == "PodGroup"


async def test_roles_apart(native_plane: Plane) -> None:
    """2.6: with levels leader and worker each role has a PodGroup; a gang of the workers has size - 1 members, the leader's
    policy is basic unless it says otherwise."""
    async with native_plane as plane:
        await serve(plane)
        scheduling: dict[str, Any] = {"replica": {"worker": {"schedulingPolicy": {"gang": {}}}}}
        await plane.apply(lws_manifest(size=3, scheduling=scheduling, startupPolicy="LeaderReady"))
        await plane.wait_available()
        groups = await listed(plane, POD_GROUPS)
        policies = {one["metadata"]["labels"][keys.ROLE]: one["spec"]["schedulingPolicy"] for one in groups.values()}
        assert policies == {"leader": {"basic": {}}, "worker": {"gang": {"minCount": 2}}}
        names = [await joined(plane, pod) for pod in group_names(0)]
        assert names[1] == names[2] != names[0]
        assert set(names) == set(groups)


async def test_recreation_keeps_it_and_a_rollout_clears_up(native_plane: Plane) -> None:
    """C94, 3.6: a recreated group is placed by a PodGroup that exists and has a living owner; a new revision has new ones and
    the old are deleted when no pod is left; scaling down deletes those of the groups that are gone; the Workload's gang follows
    the size."""
    async with native_plane as plane:
        await serve(plane)
        await plane.apply(lws_manifest(replicas=2, size=3, scheduling={}))
        old = await plane.wait_available()
        before = await listed(plane, POD_GROUPS)
        await plane.faults.crash(NAMESPACE, "demo-1-2")
        await plane.wait_recreated(old, group_names(1))
        await plane.wait_available()
        assert set(await listed(plane, POD_GROUPS)) == set(before)
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"size": 4}})
        await plane.wait_for(lambda: _complete(plane, 8), timeout=180)

        async def renewed() -> bool:
            now = await listed(plane, POD_GROUPS)
            return len(now) == 2 and not set(now) & set(before)

        await plane.wait_for(renewed, timeout=60)
        (workload,) = (await listed(plane, WORKLOADS)).values()
        assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 4}}
        assert {one["spec"]["schedulingPolicy"]["gang"]["minCount"] for one in (await listed(plane, POD_GROUPS)).values()} == {4}
        await plane.patch_lws("demo", {"replicas": 1})

        async def one_left() -> bool:
            return len(await listed(plane, POD_GROUPS)) == 1

        await plane.wait_for(one_left, timeout=60)
        assert await joined(plane, "demo-0") in await listed(plane, POD_GROUPS)
        await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)

        async def nothing_left() -> bool:
            return not await listed(plane, POD_GROUPS) and not await listed(plane, WORKLOADS)

        await plane.wait_for(nothing_left)


async def _complete(plane: Plane, count: int) -> bool:
    pods = await plane.pods()
    return len(pods) == count and all(pod.running_and_ready and not pod.deleting for pod in pods.values())


async def test_a_cluster_that_does_not_serve_it(native_plane: Plane) -> None:
    """2.6, 6.5, 7.1: leaders wait behind their gates, condition and one event name what is missing, scaling down goes on, a
    LeaderWorkerSet that asks for no gang is not held up, and everything starts once the API is there."""
    async with native_plane as plane:
        await plane.apply(lws_manifest(replicas=2, scheduling={}), lws_manifest("plain"))
        await plane.wait_available("plain")
        await plane.wait_for(lambda: plane.events("FailedCreate"))
        condition = await plane.wait_for(lambda: plane.condition("WorkloadSchedulingCreated"))
        assert (condition.status, condition.reason) == ("False", "APINotAvailable")
        assert "does not serve" in condition.message
        await plane.patch_lws("demo", {"replicas": 1})
        await plane.sleep(20)
        assert [pod.metadata.name for pod in (await plane.pods()).values() if pod.spec.scheduling_gates] == ["demo-0"]
        assert sorted(await plane.pods()) == ["demo-0"]
        mark = len(plane.writes())
        await plane.sleep(60)
        assert plane.writes()[mark:] == [], "no loop"
        await serve(plane)
        await plane.wait_available()
        condition = await plane.condition("WorkloadSchedulingCreated")
        assert condition is not None
        assert condition.status == "True"


async def test_a_strangers_workload(native_plane: Plane) -> None:
    """3.6: a Workload of our name that somebody else made is not taken over; the condition says so."""
    async with native_plane as plane:
        await plane.apply(lws_manifest(scheduling={}))
        await plane.wait_for(lambda: plane.condition("WorkloadSchedulingCreated"))
        await serve(plane)
        await plane.wait_available()
        ((name, made),) = (await listed(plane, WORKLOADS)).items()
        await plane.stop_operator()
        await plane.client.delete(WORKLOADS, name, namespace=NAMESPACE)
        body = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"podGroupTemplates": [{"name": "x", "schedulingPolicy": {"basic": {}}}]},
        }
        await plane.client.create(WORKLOADS, body, namespace=NAMESPACE)
        await plane.start_operator()

        async def told() -> bool:
            condition = await plane.condition("WorkloadSchedulingCreated")
            return condition is not None and condition.reason == "WorkloadCreateFailed"

        await plane.wait_for(told)
        now = (await listed(plane, WORKLOADS))[name]
        assert now["metadata"]["uid"] != made["metadata"]["uid"]
        assert "ownerReferences" not in now["metadata"]


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        ({"scheduling": {}, "startupPolicy": "LeaderReady"}, "spec.scheduling", "LeaderReady"),
        ({"scheduling": {"schedulingPolicy": {"basic": {}}, "replica": {}}}, "spec.scheduling", "exactly one level"),
        (
            {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 3}}}},
            "spec.scheduling.schedulingPolicy.gang.minCount",
            "follows replicas and size",
        ),
        ({"scheduling": {"schedulingPolicy": {"gang": {}}}, "startupPolicy": "LeaderReady"}, "spec.scheduling", "LeaderReady"),
        (
            {"scheduling": {}, "annotations": {"scheduling.k8s.io/group-template-name": "decode"}},
            "metadata.annotations[scheduling.k8s.io/group-template-name]",
            "Workload of a parent",
        ),
        (
            {"scheduling": {"replica": {"schedulingPolicy": {"gang": {"minCount": 2}}}}},
            "spec.scheduling.replica.schedulingPolicy.gang.minCount",
            "all 3 pods",
        ),
    ],
)
async def test_refused(native_plane: Plane, spec: dict[str, Any], path: str, words: str) -> None:
    """2.6: through the API, with path and reason; later the level is fixed."""
    async with native_plane as plane:
        with pytest.raises(Invalid) as refused:
            await plane.client.create(LEADERWORKERSETS, lws_manifest(**spec), namespace=NAMESPACE)
        assert [cause["field"] for cause in refused.value.causes] == [path]
        assert words in refused.value.message


async def test_the_level_is_fixed(native_plane: Plane) -> None:
    """2.6: cannot be added, removed or reshaped."""
    async with native_plane as plane:
        await serve(plane)
        await plane.apply(lws_manifest(scheduling={"replica": {}}), lws_manifest("plain"))
        await plane.wait_available()
        changes: list[tuple[str, Any]] = [
            ("demo", None),
            ("demo", {"replica": {"leader": {}, "worker": {}}}),
            ("plain", {"replica": {}}),
        ]
        for name, change in changes:
            with pytest.raises(Invalid, match=r"spec\.scheduling"):
                await plane.patch_lws(name, {"scheduling": change})


async def test_templates_that_do_not_go_with_gangs(native_plane: Plane) -> None:
    """2.6: schedulingGroup of a template, another priority for leaders, exclusive topology."""
    async with native_plane as plane:
        group = pod_template(schedulingGroup={"podGroupName": "x"})
        rows: list[dict[str, Any]] = [
            {"worker": group},
            {"leader": pod_template(priorityClassName="high")},
            {"annotations": {keys.EXCLUSIVE_TOPOLOGY: "topology.kubernetes.io/zone"}},
        ]
        for row in rows:
            with pytest.raises(Invalid, match=r"spec\.scheduling"):
                await plane.client.create(LEADERWORKERSETS, lws_manifest(scheduling={}, **row), namespace=NAMESPACE)


async def test_groups_that_are_named_by_a_key(native_plane: Plane) -> None:
    """3.6 with groupIdentity Hash: PodGroups by drawn key; those of groups that are gone are deleted, those in use stay."""
    async with native_plane as plane:
        await serve(plane)
        await plane.apply(lws_manifest(replicas=2, size=2, groupIdentity="Hash", scheduling={}))
        old = await plane.wait_available()

        async def as_many_as_groups(count: int) -> bool:
            page = await plane.client.list_all(PODS, namespace=NAMESPACE, type=dict[str, Any])
            names = {str(pod["spec"]["schedulingGroup"]["podGroupName"]) for pod in page.items}
            return len(names) == count and names == set(await listed(plane, POD_GROUPS))

        assert await as_many_as_groups(2)
        await plane.faults.crash(NAMESPACE, next(name for name in old if name.endswith("-1")))
        await plane.wait_for(lambda: _others(plane, old))
        await plane.wait_available()
        await plane.wait_for(lambda: as_many_as_groups(2), timeout=60)
        await plane.patch_lws("demo", {"replicas": 1})
        await plane.wait_for(lambda: as_many_as_groups(1), timeout=90)


async def _others(plane: Plane, old: dict[str, str]) -> bool:
    now = await plane.pods()
    return len(now) == 4 and sum(1 for name in now if name not in old) == 2


async def test_an_operator_without_a_provider() -> None:
    """2.6, ours: an object that another operator let in runs, pod by pod, and condition and one event say so;
    nothing is replaced when the provider comes back."""
    plane = SandboxPlane(settings=SETTINGS)
    async with plane:
        await serve(plane)
        await plane.apply(lws_manifest(scheduling={}))
        uids = await plane.wait_available()
        await plane.stop_operator()
        plane.set_settings(Settings())
        await plane.start_operator()

        async def told() -> bool:
            condition = await plane.condition("WorkloadSchedulingCreated")
            return condition is not None and condition.reason == "UnsupportedProviderCapability"

        await plane.wait_for(told)
        assert len(await plane.events("FailedCreate")) == 1
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        uids = await plane.wait_recreated(uids, group_names(0))
        await plane.wait_available()
        await plane.stop_operator()
        plane.set_settings(SETTINGS)
        await plane.start_operator()
        await plane.wait_for(lambda: _created(plane))
        await plane.sleep(20)
        assert await plane.uids() == uids


async def _created(plane: Plane) -> bool:
    condition = await plane.condition("WorkloadSchedulingCreated")
    return condition is not None and condition.status == "True"
