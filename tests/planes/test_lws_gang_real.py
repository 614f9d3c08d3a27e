"""Gangs that the real kube-scheduler places, by ``scheduling.k8s.io/v1alpha2`` of Kubernetes 1.36: spec 2.6, 3.6."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template
from tests.planes.real_plane import RealPlane
from tests.planes.realplane.controlplane import Options

from regroup.kube.resources import NODES, PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.objects.gang import Provider, native
from regroup.wire.codec import format_quantity, parse_quantity

pytestmark = pytest.mark.real
SETTINGS = Settings(scheduler_provider=Provider.KUBERNETES)
OPTIONS = Options(
    feature_gates="GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true",
    runtime_config="scheduling.k8s.io/v1alpha2=true",
)
POD_GROUPS = native("podgroups", "PodGroup", "v1alpha2")
WORKLOADS = native("workloads", "Workload", "v1alpha2")


async def listed(plane: Plane, resource: Any) -> dict[str, dict[str, Any]]:
    found = await plane.client.list_all(resource, namespace=NAMESPACE, type=dict[str, Any])
    return {one["metadata"]["name"]: one for one in found.items}


async def test_all_or_nothing() -> None:
    """2.6, 3.6: a group that fits is placed and recreated as a gang; of one that does not fit as a whole no pod is placed, the
    operator reports it and waits; with room for it, it starts. The API server takes everything that we write."""
    async with RealPlane(nodes=3, settings=SETTINGS, options=OPTIONS) as plane:
        await plane.apply(lws_manifest(size=3, scheduling={"replica": {"disruptionMode": {"all": {}}}}))
        old = await plane.wait_available()
        (workload,) = (await listed(plane, WORKLOADS)).values()
        assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        ((name, group),) = (await listed(plane, POD_GROUPS)).items()
        assert group["spec"]["podGroupTemplateRef"]["workload"]["workloadName"] == workload["metadata"]["name"]
        assert group["spec"]["disruptionMode"] == "PodGroup"
        for pod in old:
            raw: dict[str, Any] = await plane.client.get(PODS, pod, namespace=NAMESPACE)
            assert raw["spec"]["schedulingGroup"] == {"podGroupName": name}
        await plane.faults.crash(NAMESPACE, "demo-0-2")
        await plane.wait_recreated(old, group_names(0))
        await plane.wait_available()
        assert list(await listed(plane, POD_GROUPS)) == [name]

        # Each asks for more than half of a node: three fit, the fourth does not.
        node: dict[str, Any] = await plane.client.get(NODES, next(iter(await plane.nodes())))
        half = parse_quantity(node["status"]["allocatable"]["cpu"]) / 2 + 1
        big = pod_template(container={"resources": {"requests": {"cpu": format_quantity(half)}}})
        await plane.apply(lws_manifest("big", size=4, worker=big, scheduling={}))

        async def all_made() -> bool:
            return len(await plane.pods("big")) == 4

        await plane.wait_for(all_made)
        await plane.sleep(8)
        assert [pod.spec.node_name for pod in (await plane.pods("big")).values()] == [""] * 4
        condition = await plane.condition("Progressing", "big")
        assert condition is not None
        assert condition.status == "True"
        smaller = pod_template(container={"resources": {"requests": {"cpu": "1"}}})
        await plane.patch_lws("big", {"leaderWorkerTemplate": {"workerTemplate": smaller}})
        await plane.wait_available("big", timeout=120)
        assert {pod.metadata.labels[keys.NAME] for pod in (await plane.pods("big")).values()} == {"big"}
