"""Names and labels that others have, or change: nothing is taken over, and what is in the way is told (design 9; omenative 2.1,
2.2, 2.5)."""

import pytest
from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.kube.resources import PODS, SERVICES
from regroup.omenative.api.row import READY, RESTARTING
from regroup.omenative.controller.explain_query import explain
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, COMPONENT, INSTANCE_INDEX, MANAGED_BY, OMENATIVE, SERVICE

MARKS = {MANAGED_BY: OMENATIVE, SERVICE: "svc", COMPONENT: "engine"}


@pytest.mark.parametrize("labels", [{}, MARKS], ids=["plain", "with our labels"])
async def test_services_of_others_are_left_alone(plane: Plane, labels: dict[str, str]) -> None:
    """A headless Service of somebody else keeps its selector and gets no owner; it is told, and no pod is made without a Service
    of ours. Once it is gone all goes on."""
    async with plane:
        ome = Ome(plane)
        await ome.runtime()
        spec = {"clusterIP": "None", "selector": {"app": "mine"}, "ports": [{"port": 80}]}
        for name in ("svc-engine", "svc-engine-headless"):
            body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels}, "spec": spec}
            await plane.client.create(SERVICES, body, namespace=NAMESPACE)
        await ome.apply(service_manifest())

        async def told() -> bool:
            return len(await ome.events("FailedCreate")) == 2

        await plane.wait_for(told, timeout=30, what="both names are told")
        for event in await ome.events("FailedCreate"):
            assert event.regarding == "InferenceService/svc"
            assert event.note.endswith("exists and is not ours: it is left as it is")
        said = await explain(plane.client, NAMESPACE, "svc", clock=plane.clock, config_namespaces=[NAMESPACE])
        assert "Service svc-engine-headless exists and is not ours: nothing is done for engine until it is gone" in said.notes
        for name in ("svc-engine", "svc-engine-headless"):
            found = await plane.client.get(SERVICES, name, namespace=NAMESPACE, type=dict)
            assert found["spec"]["selector"] == {"app": "mine"}
            assert "ownerReferences" not in found["metadata"]
        assert await ome.pods() == {}
        for name in ("svc-engine", "svc-engine-headless"):
            await plane.client.delete(SERVICES, name, namespace=NAMESPACE)
        await ome.wait_ready()

        async def exposed() -> bool:
            return await plane.exists(SERVICES, "svc-engine") and await plane.exists(SERVICES, "svc-engine-headless")

        await plane.wait_for(exposed, timeout=30, what="the Services are made")


async def test_a_port_that_changes_leaves_no_old_one(plane: Plane) -> None:
    """2.5: the stable Service has the ports of what runs, and no others."""

    def runner(port: int) -> dict[str, object]:
        return {"runner": {"name": "ome-container", "image": "server:1", "ports": [{"containerPort": port}]}}

    async with plane:
        ome = Ome(plane)
        await ome.runtime()
        await ome.apply(service_manifest(engine=runner(9000)))
        await ome.wait_ready()
        await ome.patch({"engine": runner(9100)})

        async def moved() -> bool:
            found = await plane.client.get(SERVICES, "svc-engine", namespace=NAMESPACE, type=dict)
            return [port["port"] for port in found["spec"]["ports"]] == [9100]

        await plane.wait_for(moved, timeout=30, what="the Service has the new port alone")


@pytest.mark.parametrize("given_back", [True, False])
async def test_a_pod_whose_labels_were_changed_is_told(plane: Plane, given_back: bool) -> None:
    """4.6: a pod of ours that we cannot know any more holds the name that the restart needs: which one, and what is missing."""
    async with plane:
        ome = Ome(plane)
        body = gang_runtime(workers=1)
        await plane.client.apply(CLUSTER_SERVING_RUNTIMES, body["metadata"]["name"], body, field_manager="kubectl")
        await ome.apply(service_manifest(runtime="gang", instances=2, policy=RECREATE))
        await ome.wait_ready(2)
        other = await ome.uids()
        lost, moved = ome.pod_name(0, "worker"), ome.pod_name(1, "worker")
        for pod, labels in ((lost, {MANAGED_BY: None}), (moved, {INSTANCE_INDEX: "0"})):
            await plane.client.merge_patch(PODS, pod, {"metadata": {"labels": labels}}, namespace=NAMESPACE)
        await ome.wait_row(0, phase=RESTARTING, incarnation=2)
        await ome.wait_row(1, phase=RESTARTING, incarnation=2)

        async def told() -> bool:
            return len(await ome.events("InstanceRejected")) == 2

        await plane.wait_for(told, timeout=60, what="both pods are told")
        notes = sorted(event.note for event in await ome.events("InstanceRejected"))
        assert f"pod {lost} exists without its labels {MANAGED_BY}={OMENATIVE}: give them back, or delete it" in notes[0]
        assert f"pod {moved} exists without its labels {INSTANCE_INDEX}=1: give them back, or delete it" in notes[1]
        assert {name: uid for name, uid in (await ome.uids()).items() if name == moved} == {moved: other[moved]}
        if given_back:
            for pod, labels in ((lost, {MANAGED_BY: OMENATIVE}), (moved, {INSTANCE_INDEX: "1"})):
                await plane.client.merge_patch(PODS, pod, {"metadata": {"labels": labels}}, namespace=NAMESPACE)
        else:
            await plane.delete_pod(lost)
            await plane.delete_pod(moved)
        await ome.wait_row(0, phase=READY, incarnation=2)
        await ome.wait_row(1, phase=READY, incarnation=2)
        assert len(await ome.events("RestartTriggered")) == 2
