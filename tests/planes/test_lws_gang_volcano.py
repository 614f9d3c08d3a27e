"""Gangs that Volcano places: spec/leaderworkerset.md 3.6, 4.3, 6.7; B21, case C94."""

from typing import Any

import pytest
from tests.planes.gang_apis import VOLCANO, volcano_crd
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template
from tests.planes.real_plane import RealPlane
from tests.planes.sandbox_plane import SandboxPlane

from regroup.kube.resources import CRDS, PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects.gang import GROUP_NAME, QUEUE, Provider
from regroup.wire.errors import Invalid, NotFound

SETTINGS = Settings(scheduler_provider=Provider.VOLCANO)
REQUESTS = {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}}


@pytest.fixture(params=[pytest.param("sandbox", marks=pytest.mark.looptime), pytest.param("real", marks=pytest.mark.real)])
def volcano(request: pytest.FixtureRequest) -> Plane:
    """A plane whose operator is told to have gangs placed by Volcano. The API is not there yet."""
    if request.param == "sandbox":
        return SandboxPlane(settings=SETTINGS)
    return RealPlane(nodes=6, settings=SETTINGS, shared=request.getfixturevalue("shared_control"))


async def pod_groups(plane: Plane) -> dict[str, dict[str, Any]]:
    try:
        found = await plane.client.list_all(VOLCANO, namespace=NAMESPACE, type=dict[str, Any])
    except NotFound:
        return {}
    return {one["metadata"]["name"]: one for one in found.items}


async def test_a_pod_group_for_each_group(volcano: Plane) -> None:
    """3.6: named by group and revision, owned by the leader, as many members and resources as the group has, queue and
    volcano.sh/ annotations of the LeaderWorkerSet; every pod names it; it exists before the gate is lifted."""
    annotations = {QUEUE: "inference", "volcano.sh/preemptable": "true", "other": "x"}
    async with volcano as plane:
        await plane.client.create(CRDS, volcano_crd())
        body = lws_manifest(replicas=2, size=3, worker=pod_template(container=REQUESTS), annotations=annotations)
        await plane.apply(body)
        uids = await plane.wait_available()
        (revision,) = await plane.revisions()
        key = revision.metadata.labels["leaderworkerset.sigs.k8s.io/template-revision-hash"]
        found = await pod_groups(plane)
        assert sorted(found) == [f"demo-0-{key}", f"demo-1-{key}"]
        group = found[f"demo-1-{key}"]
        (owner,) = group["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", uids["demo-1"], True)
        assert group["spec"] == {
            "minMember": 3,
            "queue": "inference",
            "minResources": {"cpu": "1500m", "memory": str(3 * 2**30)},
        }
        assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
        for name in group_names(1):
            assert (await plane.pods())[name].metadata.annotations[GROUP_NAME] == f"demo-1-{key}"
        writes = [(entry.request.method, entry.request.path.rsplit("/", 2)[1:]) for entry in plane.writes()]
        made = [place for place, (method, path) in enumerate(writes) if method == "POST" and path[1] == "podgroups"]
        lifted = [place for place, (method, path) in enumerate(writes) if method == "PATCH" and path[0] == "pods"]
        assert min(made) < min(lifted)


async def test_it_is_made_anew_with_its_group(volcano: Plane) -> None:
    """C94, B21: the PodGroup of the old leader is never taken over: each incarnation has one that its leader owns, five times in
    a row, and still a while later."""
    async with volcano as plane:
        await plane.client.create(CRDS, volcano_crd())
        await plane.apply(lws_manifest())
        uids = await plane.wait_available()
        (before,) = (await pod_groups(plane)).values()
        for _ in range(5):
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            uids = await plane.wait_recreated(uids, group_names(0))
            await plane.wait_available()
            (now,) = (await pod_groups(plane)).values()
            assert now["metadata"]["uid"] != before["metadata"]["uid"]
            assert now["metadata"]["ownerReferences"][0]["uid"] == uids["demo-0"]
            before = now
        await plane.sleep(20)
        (now,) = (await pod_groups(plane)).values()
        assert now["metadata"]["uid"] == before["metadata"]["uid"]
        assert await plane.uids() == uids


async def test_the_leader_alone_with_leader_ready(volcano: Plane) -> None:
    """3.6: with startupPolicy LeaderReady the workers come after the leader, so one member is enough; resources for all."""
    async with volcano as plane:
        await plane.client.create(CRDS, volcano_crd())
        await plane.apply(lws_manifest(worker=pod_template(container=REQUESTS), startupPolicy="LeaderReady"))
        await plane.wait_available()
        (group,) = (await pod_groups(plane)).values()
        assert group["spec"]["minMember"] == 1
        assert group["spec"]["minResources"]["cpu"] == "1500m"


async def test_a_cluster_without_volcano(volcano: Plane) -> None:
    """3.6, 4.3, ours: without the API the leaders wait behind their gates and the cause is told once; scaling down goes on; as
    soon as the API is there the groups start. No crash, no loop."""
    async with volcano as plane:
        await plane.apply(lws_manifest(replicas=2))
        event = (await plane.wait_for(lambda: plane.events("FailedCreate")))[0]
        assert "does not serve podgroups" in event.note
        await plane.sleep(30)
        pods = await plane.pods()
        assert sorted(pods) == ["demo-0", "demo-1"]
        assert all(pod.spec.scheduling_gates for pod in pods.values())
        assert sum(one.count for one in await plane.events("FailedCreate")) <= 2, "once a group"
        await plane.patch_lws("demo", {"replicas": 1})
        await plane.wait_for(lambda: _only(plane, ["demo-0"]))
        await plane.client.create(CRDS, volcano_crd())
        await plane.wait_available()
        assert len(await pod_groups(plane)) == 1


async def _only(plane: Plane, names: list[str]) -> bool:
    return sorted(await plane.pods()) == names


async def test_a_strangers_pod_group(volcano: Plane) -> None:
    """3.6: one of that name that somebody else owns is never taken over; UnexpectedPodGroupOwner is told on the leader pod, the
    group waits, and starts when it is gone."""
    async with volcano as plane:
        await plane.client.create(CRDS, volcano_crd())
        await plane.apply(lws_manifest("other"))
        await plane.wait_available("other")
        (known,) = await plane.revisions("other")
        key = known.metadata.labels["leaderworkerset.sigs.k8s.io/template-revision-hash"]
        body = {
            "apiVersion": VOLCANO.api_version,
            "kind": "PodGroup",
            "metadata": {"name": f"demo-0-{key}", "namespace": NAMESPACE},
            "spec": {"minMember": 9},
        }
        await plane.client.create(VOLCANO, body, namespace=NAMESPACE)
        await plane.apply(lws_manifest())  # the same template has the same revision key
        event = (await plane.wait_for(lambda: plane.events("UnexpectedPodGroupOwner")))[0]
        assert (event.type, event.regarding) == ("Warning", "Pod/demo-0")
        await plane.sleep(20)
        assert sorted(await plane.pods()) == ["demo-0"]
        assert (await pod_groups(plane))[f"demo-0-{key}"]["spec"] == {"minMember": 9}
        await plane.client.delete(VOLCANO, f"demo-0-{key}", namespace=NAMESPACE)
        await plane.wait_available()


async def test_a_pod_group_deleted_by_hand_comes_back(volcano: Plane) -> None:
    """3.6, level-triggered: pods of a running gang that are replaced later would find none."""
    async with volcano as plane:
        await plane.client.create(CRDS, volcano_crd())
        await plane.apply(lws_manifest())
        uids = await plane.wait_available()
        ((name, _),) = (await pod_groups(plane)).items()
        await plane.client.delete(VOLCANO, name, namespace=NAMESPACE)
        await plane.wait_for(lambda: pod_groups(plane))
        await plane.sleep(10)
        assert await plane.uids() == uids


async def test_one_that_the_go_controller_made(volcano: Plane) -> None:
    """Adoption: the Go controller's PodGroups carry no labels. The leader's own is taken as it is, and labelled so that it is
    watched; no pod and no PodGroup is replaced."""
    async with volcano as plane:
        await plane.client.create(CRDS, volcano_crd())
        await plane.apply(lws_manifest())
        uids = await plane.wait_available()
        ((name, made),) = (await pod_groups(plane)).items()
        await plane.client.merge_patch(VOLCANO, name, {"metadata": {"labels": None}}, namespace=NAMESPACE)

        async def labelled() -> bool:
            return bool((await pod_groups(plane))[name]["metadata"].get("labels") == made["metadata"]["labels"])

        await plane.wait_for(labelled)
        mark = len(plane.writes())
        await plane.sleep(30)
        assert plane.writes()[mark:] == []
        assert (await pod_groups(plane))[name]["metadata"]["uid"] == made["metadata"]["uid"]
        assert await plane.uids() == uids


async def test_what_volcano_cannot_do(volcano: Plane) -> None:
    """2.6: only each replica as one gang; and refused in words that name the field."""
    async with volcano as plane:
        await plane.client.create(CRDS, volcano_crd())
        refused: list[dict[str, Any]] = [{"replica": {"leader": {}}}, {"replica": {"schedulingPolicy": {"basic": {}}}}]
        for scheduling in refused:
            with pytest.raises(Invalid, match=r"spec\.scheduling: Forbidden: .*volcano"):
                await plane.client.create(LEADERWORKERSETS, lws_manifest(scheduling=scheduling), namespace=NAMESPACE)
        await plane.apply(lws_manifest(scheduling={"replica": {}}))
        await plane.wait_available()
        raw: dict[str, Any] = await plane.client.get(PODS, "demo-0-1", namespace=NAMESPACE)
        assert "schedulingGroup" not in raw["spec"]


async def test_groups_that_are_named_by_a_key(volcano: Plane) -> None:
    """4.3, 3.6 with groupIdentity Hash: the PodGroup has the group's drawn key in its name; a
    recreated group has another one, and the old goes with its leader."""
    async with volcano as plane:
        await plane.client.create(CRDS, volcano_crd())
        await plane.apply(lws_manifest(replicas=2, size=2, groupIdentity="Hash"))
        old = await plane.wait_available()
        found = await pod_groups(plane)
        pods = await plane.pods()
        assert {pod.metadata.annotations[GROUP_NAME] for pod in pods.values()} == set(found)
        assert len(found) == 2
        owners = {one["metadata"]["ownerReferences"][0]["uid"] for one in found.values()}
        assert owners == {pod.metadata.uid for pod in pods.values() if pod.metadata.labels[keys.WORKER_INDEX] == "0"}
        broken = next(pod for pod in pods.values() if pod.metadata.labels[keys.WORKER_INDEX] == "1")
        await plane.faults.crash(NAMESPACE, broken.metadata.name)

        async def renewed() -> bool:
            now = await plane.pods()
            fresh = [pod for pod in now.values() if pod.running_and_ready and not pod.deleting and pod.metadata.name not in old]
            return len(now) == 4 and len(fresh) == 2

        await plane.wait_for(renewed)
        await plane.wait_available()

        async def only_those_in_use() -> bool:
            named = {pod.metadata.annotations[GROUP_NAME] for pod in (await plane.pods()).values()}
            return named == set(await pod_groups(plane))

        # A real garbage collector learns of new kinds every half a minute.
        await plane.wait_for(only_those_in_use, timeout=90)
