"""Nodes that fall silent in the whole cluster, under virtual time."""

import asyncio
from typing import Any

import pytest
from tests.sandbox.cluster_fixtures import Pods, condition, container, eventually, items, node, running, taints

from regroup.kube.resources import LEASES, NODES

pytestmark = pytest.mark.looptime

UNREACHABLE = "node.kubernetes.io/unreachable"
BOTH = {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}


async def test_nodes_are_registered_and_heard_of() -> None:
    """Ready nodes with capacity and labels, and a Lease that is renewed."""
    async with running(nodes=3) as cluster:
        client = cluster.client("test")
        nodes = await items(client, NODES)
        assert [entry["metadata"]["name"] for entry in nodes] == ["node-0", "node-1", "node-2"]
        assert all(condition(entry, "Ready") == ("True", "KubeletReady") for entry in nodes)
        assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert nodes[0]["metadata"]["labels"]["kubernetes.io/hostname"] == "node-0"
        before = await client.get(LEASES, "node-0", namespace="kube-node-lease", type=dict[str, Any])
        await asyncio.sleep(25)
        after = await client.get(LEASES, "node-0", namespace="kube-node-lease", type=dict[str, Any])
        assert after["spec"]["renewTime"] > before["spec"]["renewTime"]


async def test_a_silent_node_is_marked_and_comes_back() -> None:
    """Grace over: Ready Unknown, both taints, its pods not Ready though their containers run on. Back in time: all as before,
    nothing restarted."""
    async with running() as cluster:
        client = cluster.client("test")
        pods, faults = Pods(client), cluster.faults()
        await pods.create("a")
        before = await pods.until_ready("a")
        name = before["spec"]["nodeName"]
        await faults.node_down(name)
        await asyncio.sleep(35)
        assert condition(await node(client, name), "Ready")[0] == "True"
        await pods.until("a", lambda pod: condition(pod, "Ready")[0] == "False", within=60)
        silent = await node(client, name)
        assert condition(silent, "Ready") == ("Unknown", "NodeStatusUnknown")
        assert taints(silent) == BOTH
        assert "running" in container(await pods.get("a"))["state"]
        await asyncio.sleep(120)
        await faults.node_up(name)
        pod = await pods.until_ready("a")

        async def clean() -> bool:
            return not taints(await node(client, name))

        await eventually(clean)
        assert pod["metadata"]["uid"] == before["metadata"]["uid"]
        assert container(pod)["restartCount"] == 0


async def test_pods_of_a_silent_node_are_evicted_after_their_toleration() -> None:
    """300 s by default, as the DefaultTolerationSeconds plugin gives; then Terminating, for ever while the kubelet is away;
    new pods go elsewhere."""
    async with running() as cluster:
        client = cluster.client("test")
        pods, faults = Pods(client), cluster.faults()
        await pods.create("a")
        pod = await pods.until_ready("a")
        name = pod["spec"]["nodeName"]
        seconds = {entry["key"]: entry.get("tolerationSeconds") for entry in pod["spec"]["tolerations"]}
        assert seconds == {UNREACHABLE: 300, "node.kubernetes.io/not-ready": 300}
        await faults.node_down(name)
        await asyncio.sleep(330)
        assert "deletionTimestamp" not in (await pods.get("a"))["metadata"]
        await asyncio.sleep(60)
        pod = await pods.get("a")
        assert "deletionTimestamp" in pod["metadata"]
        assert condition(pod, "DisruptionTarget") == ("True", "DeletionByTaintManager")
        await pods.create("b")
        assert (await pods.until_ready("b"))["spec"]["nodeName"] != name
        await asyncio.sleep(3600)
        assert "running" in container(await pods.get("a"))["state"]
        await faults.node_up(name)
        await pods.until_gone("a")


async def test_a_short_toleration_is_a_short_wait() -> None:
    """tolerationSeconds of the pod's own, and no toleration at all (a taint set by hand)."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        timed = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
        for_ever = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
        await client.merge_patch(NODES, "node-1", {"spec": {"unschedulable": True}})
        await pods.create("none")
        await pods.create("timed", tolerations=[timed])
        await pods.create("stays", tolerations=[for_ever])
        for name in ("none", "timed", "stays"):
            await pods.until_ready(name)
        await client.merge_patch(NODES, "node-0", {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
        await pods.until_gone("none", within=5)
        assert condition(await pods.get("timed"), "Ready")[0] == "True"
        await pods.until_gone("timed", within=15)
        await asyncio.sleep(60)
        assert condition(await pods.get("stays"), "Ready")[0] == "True"


async def test_nobody_is_evicted_when_every_node_is_silent() -> None:
    """All nodes gone at once looks like our own fault: no NoExecute taint, no eviction."""
    async with running() as cluster:
        client = cluster.client("test")
        pods, faults = Pods(client), cluster.faults()
        await pods.create("a")
        await pods.until_ready("a")
        for name in ("node-0", "node-1"):
            await faults.node_down(name)
        await asyncio.sleep(900)
        assert "deletionTimestamp" not in (await pods.get("a"))["metadata"]
        assert taints(await node(client, "node-0")) == {(UNREACHABLE, "NoSchedule")}


async def test_pods_of_a_deleted_node_are_removed() -> None:
    """A Node object that is deleted takes its pods with it after the quarantine."""
    async with running() as cluster:
        client = cluster.client("test")
        pods, faults = Pods(client), cluster.faults()
        await pods.create("a")
        name = (await pods.until_ready("a"))["spec"]["nodeName"]
        await faults.node_down(name)
        await client.delete(NODES, name)
        await pods.until_gone("a", within=120)


async def test_out_of_service_frees_a_terminating_pod() -> None:
    """The out-of-service taint on a silent node: pods go at once and by force."""
    async with running() as cluster:
        client = cluster.client("test")
        pods, faults = Pods(client), cluster.faults()
        await pods.create("a")
        name = (await pods.until_ready("a"))["spec"]["nodeName"]
        await faults.node_down(name)
        await pods.until("a", lambda pod: condition(pod, "Ready")[0] == "False", within=90)
        silent = await node(client, name)
        gone = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await client.merge_patch(NODES, name, {"spec": {"taints": [*silent["spec"]["taints"], gone]}})
        await pods.until_gone("a", within=60)
