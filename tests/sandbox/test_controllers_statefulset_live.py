"""The StatefulSet controller against the API server: what a client sees."""

from typing import Any

import pytest
from tests.sandbox.controllers_plane import Plane, control_plane

from regroup.kube.resources import CONTROLLER_REVISIONS, EVENTS, PODS, STATEFULSETS
from regroup.sandbox.controllers import garbage, statefulset

pytestmark = pytest.mark.looptime


def web(replicas: int, *, image: str = "one", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
            **spec,
        },
    }


async def uids(plane: Plane) -> dict[str, str]:
    return {entry["metadata"]["name"]: entry["metadata"]["uid"] for entry in await plane.list(PODS)}


async def test_an_ordered_set_grows_pod_by_pod() -> None:
    """web-1 is made when web-0 is ready, and not before; the writes are those of a real controller manager."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, web(2))
        await plane.settle()
        assert await plane.names(PODS) == ["web-0"]
        revision = (await plane.names(CONTROLLER_REVISIONS))[0]
        writes = plane.writes()
        assert writes[:3] == ["POST controllerrevisions", "POST pods", "PATCH statefulsets/web/status"]
        assert len(writes) == 4, "one more status, when the pod has shown"
        pod = await plane.get(PODS, "web-0")
        assert pod["metadata"]["labels"]["controller-revision-hash"] == revision
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
        assert pod["spec"]["hostname"] == "web-0"
        assert pod["spec"]["subdomain"] == "web"
        await plane.pod_status("web-0", ready=False)
        await plane.settle()
        assert await plane.names(PODS) == ["web-0"]
        await plane.pod_status("web-0")
        await plane.settle()
        await plane.pod_status("web-1")
        await plane.settle()
        status = (await plane.get(STATEFULSETS, "web"))["status"]
        assert status["replicas"] == status["readyReplicas"] == status["availableReplicas"] == 2
        assert status["currentRevision"] == status["updateRevision"] == revision
        assert status["observedGeneration"] == 1
        plane.writes()
        await plane.settle(600)
        assert plane.writes() == [], "a settled set costs no write"


async def test_events_are_told_in_the_words_of_a_real_controller_manager() -> None:
    """SuccessfulCreate and SuccessfulDelete, with their messages."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, web(1))
        await plane.settle()
        await plane.client.merge_patch(STATEFULSETS, "web", {"spec": {"replicas": 0}}, namespace="default")
        await plane.settle()
        told = {(entry["reason"], entry["note"]) for entry in await plane.list(EVENTS)}
        assert told == {
            ("SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful"),
            ("SuccessfulDelete", "Delete Pod web-0 in StatefulSet web successful"),
        }


async def test_a_parallel_set_is_made_at_once_from_its_first_ordinal() -> None:
    """Parallel with ordinals.start."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, web(3, podManagementPolicy="Parallel", ordinals={"start": 5}))
        await plane.settle()
        assert await plane.names(PODS) == ["web-5", "web-6", "web-7"]
        assert plane.writes().count("POST pods") == 3


async def test_a_deleted_pod_comes_back_under_its_name_with_another_uid() -> None:
    """But not while the old one is still there."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, web(2, podManagementPolicy="Parallel"))
        await plane.settle()
        before = await uids(plane)
        await plane.pod_status("web-0")
        await plane.pod_status("web-1")
        await plane.client.merge_patch(PODS, "web-1", {"metadata": {"finalizers": ["example.com/hold"]}}, namespace="default")
        await plane.client.delete(PODS, "web-1", namespace="default", grace_period_seconds=0)
        await plane.settle()
        assert await uids(plane) == before, "the name is taken until the old pod is gone"
        await plane.client.merge_patch(PODS, "web-1", {"metadata": {"finalizers": None}}, namespace="default")
        await plane.settle()
        after = await uids(plane)
        assert after["web-0"] == before["web-0"]
        assert after["web-1"] != before["web-1"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_an_ended_pod_is_deleted_and_replaced(phase: str) -> None:
    """Whatever its exit code was."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, web(1))
        await plane.settle()
        before = await uids(plane)
        await plane.pod_status("web-0", phase=phase, ready=False)
        await plane.settle()
        after = await uids(plane)
        assert set(after) == {"web-0"}
        assert after != before


async def test_a_rolling_update_goes_from_the_top_down_to_the_partition() -> None:
    """And back: an old template uses its old revision again, under a new number."""
    async with control_plane(statefulset.setup) as plane:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await plane.create(STATEFULSETS, web(3, podManagementPolicy="Parallel", updateStrategy=strategy))
        await plane.settle()
        for ordinal in range(3):
            await plane.pod_status(f"web-{ordinal}")
        await plane.settle()
        first = (await plane.get(STATEFULSETS, "web"))["status"]["currentRevision"]
        before = await uids(plane)
        template = web(3, image="two")["spec"]["template"]
        await plane.client.merge_patch(STATEFULSETS, "web", {"spec": {"template": template}}, namespace="default")
        await plane.settle()
        changed = {name for name, uid in (await uids(plane)).items() if before[name] != uid}
        assert changed == {"web-2"}
        await plane.pod_status("web-2")
        await plane.settle()
        await plane.pod_status("web-1")
        await plane.settle()
        changed = {name for name, uid in (await uids(plane)).items() if before[name] != uid}
        assert changed == {"web-1", "web-2"}
        status = (await plane.get(STATEFULSETS, "web"))["status"]
        assert status["currentRevision"] == first
        assert status["updateRevision"] != first
        assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 2)
        template = web(3, image="one")["spec"]["template"]
        await plane.client.merge_patch(STATEFULSETS, "web", {"spec": {"template": template}}, namespace="default")
        await plane.settle()
        assert len(await plane.names(CONTROLLER_REVISIONS)) == 2
        assert (await plane.get(CONTROLLER_REVISIONS, first))["revision"] == 3
        assert (await plane.get(STATEFULSETS, "web"))["status"]["updateRevision"] == first


async def test_scaling_down_removes_the_highest_ordinals() -> None:
    """One after the other, while the rest is ready."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, web(3, podManagementPolicy="Parallel"))
        await plane.settle()
        for ordinal in range(3):
            await plane.pod_status(f"web-{ordinal}")
        await plane.client.merge_patch(STATEFULSETS, "web", {"spec": {"replicas": 1}}, namespace="default")
        await plane.settle()
        assert await plane.names(PODS) == ["web-0"]


async def test_a_set_whose_deletion_waits_makes_no_pods() -> None:
    """Pods of deleting sets are not made again."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, {**web(1), "metadata": {"name": "web", "finalizers": ["example.com/hold"]}})
        await plane.settle()
        await plane.client.delete(STATEFULSETS, "web", namespace="default", propagation="Background")
        await plane.finish("web-0")
        await plane.settle()
        assert await plane.names(PODS) == []


async def test_a_set_that_goes_in_the_foreground_does_not_make_its_revision_anew() -> None:
    """The collector takes the revisions while a pod is still going: making one again would never end."""
    async with control_plane(statefulset.setup, garbage.setup) as plane:
        await plane.create(STATEFULSETS, web(2, podManagementPolicy="Parallel"))
        await plane.settle()
        await plane.client.merge_patch(PODS, "web-1", {"metadata": {"finalizers": ["example.com/hold"]}}, namespace="default")
        await plane.settle()
        plane.writes()
        await plane.client.delete(STATEFULSETS, "web", namespace="default", propagation="Foreground")
        await plane.settle(60)
        assert await plane.names(PODS) == ["web-1"]
        assert await plane.names(CONTROLLER_REVISIONS) == []
        assert [entry for entry in plane.writes() if entry.startswith("POST")] == []
        await plane.client.merge_patch(PODS, "web-1", {"metadata": {"finalizers": None}}, namespace="default")
        await plane.settle()
        assert await plane.find(STATEFULSETS, "web") is None


async def test_matching_orphans_are_adopted_and_strays_released() -> None:
    """By selector and name; ownership is the controller reference."""
    async with control_plane(statefulset.setup) as plane:
        spec = {"containers": [{"name": "c", "image": "one"}]}
        await plane.create(PODS, {"metadata": {"name": "web-0", "labels": {"app": "web"}}, "spec": spec})
        await plane.create(PODS, {"metadata": {"name": "other-0", "labels": {"app": "web"}}, "spec": spec})
        made = await plane.create(STATEFULSETS, web(1))
        await plane.settle()
        pod = await plane.get(PODS, "web-0")
        assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
        assert not (await plane.get(PODS, "other-0"))["metadata"].get("ownerReferences")
        await plane.client.merge_patch(PODS, "web-0", {"metadata": {"labels": {"app": "else"}}}, namespace="default")
        await plane.settle()
        assert not (await plane.get(PODS, "web-0"))["metadata"].get("ownerReferences")


async def test_min_ready_seconds_delay_availability_without_an_event() -> None:
    """A ready pod becomes available by time alone, and the next ordinal waits for it."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, web(2, minReadySeconds=60))
        await plane.settle()
        await plane.pod_status("web-0")
        await plane.settle(50)
        status = (await plane.get(STATEFULSETS, "web"))["status"]
        assert (status["readyReplicas"], status.get("availableReplicas", 0)) == (1, 0)
        assert await plane.names(PODS) == ["web-0"]
        await plane.settle(15)
        assert (await plane.get(STATEFULSETS, "web"))["status"]["availableReplicas"] == 1
        assert await plane.names(PODS) == ["web-0", "web-1"]


async def test_the_history_is_kept_within_its_limit() -> None:
    """revisionHistoryLimit: the oldest unused revisions go."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, web(1, revisionHistoryLimit=2))
        await plane.settle()
        await plane.pod_status("web-0")
        for number in range(5):
            template = web(1, image=f"v{number}")["spec"]["template"]
            await plane.client.merge_patch(STATEFULSETS, "web", {"spec": {"template": template}}, namespace="default")
            await plane.settle()
            await plane.pod_status("web-0")
            await plane.settle()
        assert len(await plane.names(CONTROLLER_REVISIONS)) == 3
