"""Scheduler, kubelets and node lifecycle when answers get lost, writes fail, and watches are cut, silent or late."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.sandbox.cluster_fixtures import Pods, condition, container, eventually, items, running

from regroup.kube.resources import NODES, PODS
from regroup.sandbox.apifaults import Match, Recorded
from regroup.sandbox.cluster import Cluster

pytestmark = pytest.mark.looptime

COUNT = 12


async def all_ready(cluster: Cluster) -> list[dict[str, Any]]:
    """Wait until all ``COUNT`` pods are Ready; gives them."""
    client = cluster.client("test")

    async def ready() -> list[dict[str, Any]] | None:
        found = await items(client, PODS)
        return found if len(found) == COUNT and all(condition(pod, "Ready")[0] == "True" for pod in found) else None

    return await eventually(ready, within=400, every=0.5)


async def create_all(cluster: Cluster, **fields: Any) -> None:
    pods = Pods(cluster.client("test"))
    for index in range(COUNT):
        await pods.create(f"p{index}", **fields)


def lost_bindings(cluster: Cluster) -> None:
    cluster.server.faults.lose(match=Match(resource="pods", subresource="binding"), times=5)


def refused_bindings(cluster: Cluster) -> None:
    cluster.server.faults.lose(match=Match(resource="pods", subresource="binding"), times=5, done=False)


def failing_bindings(cluster: Cluster) -> None:
    cluster.server.faults.fail(409, match=Match(resource="pods", subresource="binding"), times=3)
    cluster.server.faults.fail(500, match=Match(resource="pods", subresource="binding"), times=3)


def failing_reports(cluster: Cluster) -> None:
    for code in (500, 409, 503):
        cluster.server.faults.fail(code, match=Match(resource="pods", subresource="status"), times=6)
    cluster.server.faults.fail(429, match=Match(resource="pods", subresource="status"), times=3, retry_after=1)


def lost_reports(cluster: Cluster) -> None:
    cluster.server.faults.lose(match=Match(resource="pods", subresource="status"), times=10)


@pytest.mark.parametrize("disturb", [lost_bindings, refused_bindings, failing_bindings, failing_reports, lost_reports])
async def test_failing_writes_only_delay(disturb: Callable[[Cluster], None]) -> None:
    """Whatever becomes of single writes: every pod ends Ready, never restarted, and the nodes are evenly used."""
    async with running() as cluster:
        disturb(cluster)
        await create_all(cluster)
        found = await all_ready(cluster)
        assert all(container(pod)["restartCount"] == 0 for pod in found)
        assert Counter(pod["spec"]["nodeName"] for pod in found) == {"node-0": 6, "node-1": 6}


async def test_room_is_not_lost_by_a_binding_that_failed() -> None:
    """A binding that was not done gives its place back: as many pods fit as before."""
    async with running(nodes=1) as cluster:
        cluster.server.faults.fail(500, match=Match(resource="pods", subresource="binding"), times=4)
        await create_all(cluster, containers=[{"name": "main", "image": "i", "resources": {"requests": {"cpu": "5"}}}])
        found = await all_ready(cluster)
        assert len(found) * 5 == 60  # Of 64 CPUs.


@pytest.mark.parametrize("silent", [False, True])
async def test_broken_watches_only_delay(silent: bool) -> None:
    """Watches are cut in mid-line, or fall silent for good, again and again: pods created meanwhile are run all the same."""
    async with running() as cluster:
        faults = cluster.server.faults
        pods = Pods(cluster.client("test"))
        for index in range(COUNT):
            await pods.create(f"p{index}")
            if silent:
                faults.silence_watches()
            else:
                faults.cut_watches(within_line=index % 2 == 0)
            await asyncio.sleep(0.11)
        found = await all_ready(cluster)
        assert all(container(pod)["restartCount"] == 0 for pod in found)


async def test_late_watches_lead_to_no_second_write() -> None:
    """Events come three seconds late: what was written from a newer state is not written again from an older one."""
    async with running() as cluster:
        record = cluster.server.faults.record()
        cluster.server.faults.hold(seconds=3.0)
        await create_all(cluster)
        await all_ready(cluster)
        await asyncio.sleep(30)
        writes = Counter(entry.name for entry in record if entry.subresource == "status" and entry.resource == "pods")
        assert max(writes.values()) <= 3
        bindings = Counter(entry.name for entry in record if entry.subresource == "binding")
        assert set(bindings.values()) == {1}


async def test_no_status_write_changes_nothing() -> None:
    """Through start, crash, node loss and return: each write of the kubelets, the scheduler and the node lifecycle moves the
    object's version."""
    async with running() as cluster:
        client = cluster.client("test")
        pods, faults = Pods(client), cluster.faults()
        record = cluster.server.faults.record()
        began = cluster.server.storage.version
        await create_all(cluster)
        await all_ready(cluster)
        await faults.crash("default", "p0", exit_code=3)
        await pods.until("p0", lambda pod: container(pod)["restartCount"] == 1)
        await all_ready(cluster)
        await faults.node_down("node-0")
        await asyncio.sleep(120)
        await faults.node_up("node-0")
        await all_ready(cluster)
        await asyncio.sleep(5)
        done = [entry for entry in record if entry.writes and 200 <= entry.code < 300]
        assert cluster.server.storage.version - began == len(done), _tally(done)


def _tally(done: list[Recorded]) -> Counter[str]:
    return Counter(f"{entry.user_agent} {entry.verb} {entry.resource} {entry.subresource}" for entry in done)


async def test_an_eviction_never_hits_a_replacement() -> None:
    """The node lifecycle sees a pod late: the one that has taken its name since keeps running."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        await client.merge_patch(NODES, "node-1", {"spec": {"unschedulable": True}})
        await pods.create("a")
        await pods.until_ready("a")
        hold = cluster.server.faults.hold(match=Match(resource="pods", user_agent="kube-controller-manager"))
        await client.merge_patch(NODES, "node-1", {"spec": {"unschedulable": False}})
        await client.merge_patch(NODES, "node-0", {"spec": {"unschedulable": True}})
        await pods.delete("a", grace=0)
        await pods.create("a")
        await pods.until_ready("a")
        await client.merge_patch(NODES, "node-0", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
        await asyncio.sleep(10)
        hold.release()
        await asyncio.sleep(10)
        pod = await pods.get("a")
        assert "deletionTimestamp" not in pod["metadata"]
        assert condition(pod, "DisruptionTarget") == ("", "")
        assert condition(pod, "Ready")[0] == "True"
