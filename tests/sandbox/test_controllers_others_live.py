"""EndpointSlice, namespace, pod collector, ReplicaSet, Deployment, budgets and the volume binder against the API server."""

from typing import Any

import pytest
from tests.sandbox.controllers_plane import Plane, control_plane

from regroup.kube.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    SERVICES,
    STATEFULSETS,
)
from regroup.sandbox.controllers import (
    deployment,
    disruption,
    endpointslice,
    ephemeral,
    garbage,
    namespace,
    podgc,
    replicaset,
    statefulset,
    volumebinder,
)
from regroup.sandbox.controllers.resources import PERSISTENT_VOLUME_CLAIMS

pytestmark = pytest.mark.looptime

TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "one"}]}}


def pod(name: str, *, node: str = "", **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {**TEMPLATE["spec"], **spec}}
    if node:
        body["spec"]["nodeName"] = node
    return body


async def test_a_headless_service_follows_its_pods() -> None:
    """Appearing, becoming ready, going: one slice, always up to date; nothing is written when nothing changes."""
    async with control_plane(endpointslice.setup) as plane:
        await plane.create(
            SERVICES,
            {
                "metadata": {"name": "web"},
                "spec": {"clusterIP": "None", "selector": {"app": "web"}, "publishNotReadyAddresses": True},
            },
        )
        await plane.settle()
        assert [entry["endpoints"] or [] for entry in await plane.list(ENDPOINT_SLICES)] == [[]]
        await plane.create(PODS, pod("a", hostname="a", subdomain="web"))
        await plane.pod_status("a", ready=False)
        await plane.settle()
        (found,) = await plane.list(ENDPOINT_SLICES)
        assert found["endpoints"][0]["addresses"] == ["10.0.0.1"]
        assert found["endpoints"][0]["hostname"] == "a"
        assert found["endpoints"][0]["conditions"] == {"ready": True, "serving": False, "terminating": False}
        plane.writes()
        await plane.client.merge_patch(PODS, "a", {"metadata": {"annotations": {"x": "y"}}}, namespace="default")
        await plane.settle(60)
        assert plane.writes() == []
        await plane.finish("a")
        await plane.settle()
        (found,) = await plane.list(ENDPOINT_SLICES)
        assert not found["endpoints"]


async def test_many_pods_at_once_never_get_a_second_slice() -> None:
    """Own writes that have not come back yet must not be made again."""
    async with control_plane(endpointslice.setup) as plane:
        spec = {"clusterIP": "None", "selector": {"app": "web"}, "publishNotReadyAddresses": True}  # the pods are on no node
        await plane.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec})
        for number in range(20):
            await plane.create(PODS, pod(f"p{number}"))
            await plane.pod_status(f"p{number}", ip=f"10.0.0.{number}")
        await plane.settle()
        (found,) = await plane.list(ENDPOINT_SLICES)
        assert len(found["endpoints"]) == 20


async def test_a_deleted_namespace_is_emptied_and_goes() -> None:
    """Everything in it goes; a held object keeps it, and its conditions say so."""
    async with control_plane(namespace.setup) as plane:
        await plane.create(NAMESPACES, {"metadata": {"name": "team"}}, namespace=None)
        await plane.create(CONFIGMAPS, {"metadata": {"name": "a"}}, namespace="team")
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await plane.create(CONFIGMAPS, held, namespace="team")
        await plane.client.delete(NAMESPACES, "team")
        await plane.settle(10)
        body = await plane.get(NAMESPACES, "team", namespace=None)
        assert body["status"]["phase"] == "Terminating"
        conditions = {entry["type"]: entry for entry in body["status"]["conditions"]}
        assert conditions["NamespaceContentRemaining"]["status"] == "True"
        assert "example.com/hold in 1" in conditions["NamespaceFinalizersRemaining"]["message"]
        assert await plane.find(CONFIGMAPS, "a", namespace="team") is None
        await plane.client.merge_patch(CONFIGMAPS, "held", {"metadata": {"finalizers": None}}, namespace="team")
        await plane.settle(30)
        assert await plane.find(NAMESPACES, "team", namespace=None) is None
        assert await plane.find(NAMESPACES, "default", namespace=None) is not None


async def test_a_deleted_namespace_without_held_objects_goes() -> None:
    """Emptied at once, then finalized; the other namespaces keep what they have."""
    async with control_plane(namespace.setup) as plane:
        await plane.create(NAMESPACES, {"metadata": {"name": "team"}}, namespace=None)
        for name in ("a", "b"):
            await plane.create(CONFIGMAPS, {"metadata": {"name": name}}, namespace="team")
            await plane.create(CONFIGMAPS, {"metadata": {"name": name}})
        await plane.client.delete(NAMESPACES, "team")
        await plane.settle(30)
        assert await plane.find(NAMESPACES, "team", namespace=None) is None
        assert await plane.names(CONFIGMAPS, namespace="team") == []
        assert await plane.names(CONFIGMAPS) == ["a", "b"]


SCRATCH: dict[str, Any] = {
    "name": "scratch",
    "ephemeral": {
        "volumeClaimTemplate": {
            "metadata": {"labels": {"team": "blue"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    },
}


async def test_an_ephemeral_volume_has_a_claim_for_the_pods_life() -> None:
    """The claim is named after pod and volume, owned by the pod, bound, and goes with it; a new pod gets a new one."""
    async with control_plane(ephemeral.setup, volumebinder.setup, garbage.setup) as plane:
        uids = set()
        for _ in range(2):
            made = await plane.create(PODS, pod("a", volumes=[SCRATCH]))
            await plane.create(PODS, pod("plain"))
            await plane.settle()
            assert await plane.names(PERSISTENT_VOLUME_CLAIMS) == ["a-scratch"]
            claim = await plane.get(PERSISTENT_VOLUME_CLAIMS, "a-scratch")
            assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
            assert (claim["metadata"]["labels"], claim["status"]["phase"]) == ({"team": "blue"}, "Bound")
            uids.add(claim["metadata"]["uid"])
            for name in ("a", "plain"):
                await plane.finish(name)
            await plane.settle()
            assert await plane.names(PERSISTENT_VOLUME_CLAIMS) == []
        assert len(uids) == 2


async def test_a_claim_of_somebody_else_is_not_taken_for_an_ephemeral_volume() -> None:
    """A claim that has the name already is left alone and told in an event; when it goes, the pod gets its own."""
    async with control_plane(ephemeral.setup) as plane:
        body = {"metadata": {"name": "a-scratch"}, "spec": SCRATCH["ephemeral"]["volumeClaimTemplate"]["spec"]}
        other = await plane.create(PERSISTENT_VOLUME_CLAIMS, body)
        made = await plane.create(PODS, pod("a", volumes=[SCRATCH]))
        await plane.settle(30)
        found = await plane.get(PERSISTENT_VOLUME_CLAIMS, "a-scratch")
        assert found["metadata"]["uid"] == other["metadata"]["uid"]
        assert "ownerReferences" not in found["metadata"]
        (event,) = [event for event in await plane.list(EVENTS) if event["reason"] == "FailedBinding"]
        assert "a-scratch was not created for pod default/a (pod is not owner)" in event["note"]
        await plane.client.delete(PERSISTENT_VOLUME_CLAIMS, "a-scratch", namespace="default")
        await plane.settle(2)
        found = await plane.get(PERSISTENT_VOLUME_CLAIMS, "a-scratch")
        assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]


async def test_events_go_with_their_namespace() -> None:
    """A namespace of the same name begins without the events of the earlier one; those of other namespaces stay."""
    async with control_plane(namespace.setup) as plane:
        await plane.create(NAMESPACES, {"metadata": {"name": "team"}}, namespace=None)
        for name in ("team", "default"):
            body = {
                "metadata": {"name": "web.1"},
                "eventTime": "2026-03-01T12:00:00.000000Z",
                "reportingController": "test",
                "reportingInstance": "test",
                "action": "Test",
                "reason": "Test",
                "type": "Normal",
                "regarding": {"kind": "Pod", "namespace": name, "name": "web"},
            }
            await plane.create(EVENTS, body, namespace=name)
        await plane.client.delete(NAMESPACES, "team")
        await plane.settle(30)
        assert await plane.find(NAMESPACES, "team", namespace=None) is None
        assert await plane.names(EVENTS, namespace="team") == []
        assert await plane.names(EVENTS) == ["web.1"]


async def test_pods_of_a_lost_node_are_collected_after_the_quarantine() -> None:
    """Not at once: the node may be on its way in another watch. The pod fails first, then goes."""
    async with control_plane(podgc.setup) as plane:
        await plane.create(NODES, {"metadata": {"name": "n1"}}, namespace=None)
        await plane.create(PODS, pod("stays", node="n1"))
        await plane.create(PODS, pod("goes", node="lost"))
        await plane.settle(45)
        assert await plane.names(PODS) == ["goes", "stays"]
        await plane.settle(60)
        assert await plane.names(PODS) == ["stays"]
        assert plane.writes() == ["PATCH pods/goes/status", "DELETE pods/goes"]


async def test_a_replica_set_keeps_its_number() -> None:
    """Lost and failed pods are replaced, surplus ones go; never more than were asked for."""
    async with control_plane(replicaset.setup) as plane:
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        await plane.create(REPLICASETS, {"metadata": {"name": "web"}, "spec": spec})
        await plane.settle()
        names = await plane.names(PODS)
        assert len(names) == 3
        assert plane.writes().count("POST pods") == 3
        await plane.pod_status(names[0], phase="Failed", ready=False)
        await plane.finish(names[1])
        await plane.settle()
        assert len(await plane.names(PODS)) == 4, "a failed pod stays, and counts for nothing"
        assert (await plane.get(REPLICASETS, "web"))["status"]["replicas"] == 3
        await plane.client.merge_patch(REPLICASETS, "web", {"spec": {"replicas": 1}}, namespace="default")
        await plane.pod_status(names[2])
        await plane.settle()
        assert await plane.names(PODS) == sorted([names[0], names[2]]), "the ready one stays"


async def test_a_deployment_rolls_over_and_keeps_its_history() -> None:
    """Two sets; the new one grows as the old one shrinks; revision annotations and status tell."""
    async with control_plane(deployment.setup, replicaset.setup, garbage.setup) as plane:
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE, "revisionHistoryLimit": 1}
        await plane.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
        await until_available(plane)
        for image in ("two", "three"):
            template = {"metadata": TEMPLATE["metadata"], "spec": {"containers": [{"name": "c", "image": image}]}}
            await plane.client.merge_patch(DEPLOYMENTS, "web", {"spec": {"template": template}}, namespace="default")
            await until_available(plane)
        body = await plane.get(DEPLOYMENTS, "web")
        assert body["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        conditions = {entry["type"]: entry["reason"] for entry in body["status"]["conditions"]}
        assert conditions == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
        sets = await plane.list(REPLICASETS)
        sizes = {
            entry["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: entry["spec"]["replicas"] for entry in sets
        }
        assert sizes == {"2": 0, "3": 3}
        pods = await plane.list(PODS)
        assert {entry["spec"]["containers"][0]["image"] for entry in pods} == {"three"}


async def until_available(plane: Plane) -> None:
    """Play the kubelets until the Deployment has all its pods."""
    for _ in range(20):
        await plane.settle()
        for entry in await plane.list(PODS):
            if entry["status"]["phase"] == "Pending":
                await plane.pod_status(entry["metadata"]["name"])
        await plane.settle()
        status = (await plane.get(DEPLOYMENTS, "web"))["status"]
        if status.get("updatedReplicas") == status.get("availableReplicas") == status.get("replicas") == 3:
            return
    raise AssertionError(f"not available: {status}")


async def test_a_budget_counts_the_pods_of_a_set() -> None:
    """maxUnavailable is relative to what the StatefulSet wants."""
    async with control_plane(statefulset.setup, disruption.setup) as plane:
        spec = {"replicas": 3, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        await plane.create(STATEFULSETS, {"metadata": {"name": "web"}, "spec": {**spec, "podManagementPolicy": "Parallel"}})
        budget = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
        await plane.create(POD_DISRUPTION_BUDGETS, budget)
        await plane.settle()
        for ordinal in range(3):
            await plane.pod_status(f"web-{ordinal}")
        await plane.settle()
        status = (await plane.get(POD_DISRUPTION_BUDGETS, "web"))["status"]
        assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (3, 2, 1)


async def test_a_budget_without_pods_says_so() -> None:
    """As Kubernetes tells it, in an event about the budget."""
    async with control_plane(disruption.setup) as plane:
        budget = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
        await plane.create(POD_DISRUPTION_BUDGETS, budget)
        await plane.settle()
        (told,) = await plane.list(EVENTS)
        assert (told["type"], told["reason"], told["note"]) == ("Normal", "NoPods", "No matching pods found")
        assert told["regarding"]["kind"] == "PodDisruptionBudget"


async def test_claims_of_a_set_are_made_and_bound_and_outlive_it() -> None:
    """volumeClaimTemplates: one claim a pod, kept by default when the pod goes, and used again."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    async with control_plane(statefulset.setup, volumebinder.setup, garbage.setup) as plane:
        spec = {"replicas": 1, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        await plane.create(STATEFULSETS, {"metadata": {"name": "web"}, "spec": {**spec, "volumeClaimTemplates": [claim]}})
        await plane.settle()
        first = await plane.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0")
        assert first["status"]["phase"] == "Bound"
        volumes = (await plane.get(PODS, "web-0"))["spec"]["volumes"]
        assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}} in volumes
        await plane.finish("web-0")
        await plane.settle()
        assert (await plane.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0"))["metadata"]["uid"] == first["metadata"]["uid"]
        assert await plane.names(PODS) == ["web-0"]
        policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
        patch = {"spec": {"persistentVolumeClaimRetentionPolicy": policy}}
        await plane.client.merge_patch(STATEFULSETS, "web", patch, namespace="default")
        await plane.pod_status("web-0")
        await plane.settle()
        await plane.client.delete(STATEFULSETS, "web", namespace="default", propagation="Background")
        await plane.settle()
        assert await plane.names(PERSISTENT_VOLUME_CLAIMS) == []
