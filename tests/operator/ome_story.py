"""The life of two InferenceServices, for tests of what an operator asks of a cluster."""

import asyncio
from typing import Any

from regroup.kube.resources import PODS, SERVICES
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES, MANAGED_BY
from regroup.sandbox.cluster import Cluster
from regroup.wire.client import Client

Object = dict[str, Any]

_NS = "default"
_RUNNER = {"runner": {"name": "ome-container", "image": "server:1"}}


async def ome_story(client: Client, cluster: Cluster) -> None:
    """Build, fail, rebuild, pause, scale, update, lose a component, delete: one pod and four pods an Instance."""
    gang = {"leader": _RUNNER, "worker": {**_RUNNER, "size": 3}}
    await client.create(CLUSTER_SERVING_RUNTIMES, _runtime("single", {"engineConfig": _RUNNER, "routerConfig": _RUNNER}))
    await client.create(CLUSTER_SERVING_RUNTIMES, _runtime("gang", {"engineConfig": gang}))
    policy = {"lifecycle": {"restartPolicy": "RecreateInstanceOnPodRestart"}}
    await client.create(INFERENCE_SERVICES, _service("one", runtime="single", engine=policy, router={}), namespace=_NS)
    await client.create(INFERENCE_SERVICES, _service("many", runtime="gang", engine={}), namespace=_NS)
    await asyncio.sleep(90)
    assert await _serving(client) == {"one-engine": 1, "one-router": 1, "many-engine": 1}
    await cluster.faults().crash(_NS, "one-engine-0-default-0", container="ome-container", exit_code=1)
    await client.delete(PODS, "many-engine-0-worker-1", namespace=_NS)
    await client.delete(PODS, "one-router-0-default-0", namespace=_NS)
    await client.delete(SERVICES, "one-engine", namespace=_NS)
    await asyncio.sleep(120)
    assert await _serving(client) == {"one-engine": 1, "one-router": 1, "many-engine": 1}
    assert (await _row(client, "one-engine"))["incarnation"] == 2, "the Instance was rebuilt"
    for name, spec in (("one", {"engine": {"minReplicas": 2}}), ("many", {"engine": {"minReplicas": 2}})):
        await client.merge_patch(INFERENCE_SERVICES, name, {"spec": spec}, namespace=_NS)
    await asyncio.sleep(90)
    newer = {"runner": {"name": "ome-container", "image": "server:2"}}
    for runtime, config in (("single", newer), ("gang", {"leader": newer, "worker": newer})):
        await client.merge_patch(CLUSTER_SERVING_RUNTIMES, runtime, {"spec": {"engineConfig": config}})
    await asyncio.sleep(300)
    one: Object = {"spec": {"engine": {"minReplicas": 1}, "router": None}}
    await client.merge_patch(INFERENCE_SERVICES, "one", one, namespace=_NS)
    await client.merge_patch(INFERENCE_SERVICES, "many", {"spec": {"engine": {"minReplicas": 1}}}, namespace=_NS)
    await asyncio.sleep(120)
    assert await _serving(client) == {"one-engine": 1, "many-engine": 1}
    reset = {"metadata": {"annotations": {"ome.io/reset-instances": "all"}}}
    await client.merge_patch(INFERENCE_REPLICAS, "one-engine", reset, namespace=_NS)
    for name in ("one", "many"):
        await client.delete(INFERENCE_SERVICES, name, namespace=_NS)
    await asyncio.sleep(120)
    left = await client.list_all(PODS, namespace=_NS, label_selector=MANAGED_BY, type=dict)
    assert left.items == []
    assert await _serving(client) == {}


async def _serving(client: Client) -> dict[str, int]:
    page = await client.list_all(INFERENCE_REPLICAS, namespace=_NS, type=dict)
    return {one["metadata"]["name"]: one.get("status", {}).get("servingReplicas", 0) for one in page.items}


async def _row(client: Client, name: str) -> Object:
    found: Object = await client.get(INFERENCE_REPLICAS, name, namespace=_NS)
    [row] = found["status"]["instanceStatuses"]
    return dict(row)


def _runtime(name: str, spec: Object) -> Object:
    head = {"apiVersion": "ome.io/v1beta1", "kind": "ClusterServingRuntime", "metadata": {"name": name}}
    return {**head, "spec": spec}


def _service(name: str, *, runtime: str, **components: Any) -> Object:
    head = {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name}}
    return {**head, "spec": {"deploymentMode": "OMENative", "runtime": {"name": runtime}, **components}}
