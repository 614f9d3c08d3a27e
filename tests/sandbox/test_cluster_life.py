"""The cluster as a whole: its namespaces, its rest, its logs, its stop and its return from a data directory."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.cluster_fixtures import START, Pods, condition, container, eventually, items, running

from regroup.kube.resources import EVENTS, NAMESPACES, PODS, STATEFULSETS
from regroup.sandbox.kubelet.options import KubeletOptions

pytestmark = pytest.mark.looptime


async def test_the_built_in_namespaces_are_there() -> None:
    """default, kube-system, kube-node-lease and kube-public."""
    async with running() as cluster:
        found = [entry["metadata"]["name"] for entry in await items(cluster.client("test"), NAMESPACES)]
        assert found == ["default", "kube-node-lease", "kube-public", "kube-system"]


async def test_a_settled_cluster_writes_nothing_but_heartbeats() -> None:
    """Ten minutes without a change: no version of a pod moves."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        for name in ("a", "b"):
            await pods.create(name)
            await pods.until_ready(name)
        await pods.create("never", containers=[{"name": "m", "image": "i", "resources": {"requests": {"cpu": "1k"}}}])
        await asyncio.sleep(20)
        before = [entry["metadata"]["resourceVersion"] for entry in await items(client, PODS)]
        await asyncio.sleep(600)
        after = [entry["metadata"]["resourceVersion"] for entry in await items(client, PODS)]
        assert after == before


async def test_events_go_after_an_hour() -> None:
    """As kube-apiserver keeps them: an hour after the last write; one that repeats stays."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        await pods.create("a")
        await pods.until_ready("a")
        await pods.create("crashes", annotations={"exit-after": "1s"})
        await asyncio.sleep(1800)
        assert {event["regarding"]["name"] for event in await items(client, EVENTS)} >= {"a", "crashes"}
        await asyncio.sleep(3600)
        left = await items(client, EVENTS)
        assert {event["regarding"]["name"] for event in left} == {"crashes"}
        assert "BackOff" in {event["reason"] for event in left}


async def test_few_writes_make_a_pod_ready() -> None:
    """From the binding to Ready a kubelet writes a status at most three times: creating, running, ready."""
    async with running() as cluster:
        client = cluster.client("test")
        async with client.watch(PODS, type=dict[str, Any], timeout_seconds=30) as events:
            await Pods(client).create("a")
            versions = []
            async for event in events:
                if event.object is not None and event.type in {"ADDED", "MODIFIED"}:
                    versions.append(event.object)
                    if condition(event.object, "Ready")[0] == "True":
                        break
        assert len(versions) <= 5  # Created, bound, and the three.


async def test_logs_of_a_container() -> None:
    """The log subresource shows the present run, and with ``previous`` the one before the crash."""
    async with running() as cluster:
        client = cluster.client("test")
        pods, faults = Pods(client), cluster.faults()
        await pods.create("a")
        path = "/api/v1/namespaces/default/pods/a/log"
        assert await client.get_text(path) == ""  # not on a node yet
        await pods.until_ready("a")
        assert await client.get_text(path) == "container main started from image example.com/main:1\n"
        await faults.crash("default", "a", exit_code=3)
        await pods.until("a", lambda pod: container(pod)["restartCount"] == 1)
        assert "exited with code 3" in await client.get_text(path, query=[("previous", "true")])
        assert await client.get_text(path) == "container main started from image example.com/main:1, restart 1\n"


async def test_events_tell_what_happened() -> None:
    """Scheduled, Pulling, Pulled and Started about the pod, by the component that did it."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        await pods.create("a")
        await pods.until_ready("a")

        async def told() -> dict[str, str] | None:
            events = await items(client, EVENTS, namespace="default")
            found = {entry["reason"]: entry["reportingController"] for entry in events if entry["regarding"]["name"] == "a"}
            return found if len(found) == 4 else None

        assert await eventually(told) == {
            "Scheduled": "default-scheduler",
            "Pulling": "kubelet",
            "Pulled": "kubelet",
            "Started": "kubelet",
        }


async def test_a_statefulset_comes_up_and_heals() -> None:
    """Built-in controllers, scheduler and kubelets together: three replicas, and one that is deleted comes back."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        labels = {"app": "x"}
        body = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "x"},
            "spec": {
                "replicas": 3,
                "serviceName": "x",
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "i"}]}},
            },
        }
        await client.create(STATEFULSETS, body, namespace="default")

        async def ready() -> bool:
            found: dict[str, Any] = await client.get(STATEFULSETS, "x", namespace="default")
            return bool(found.get("status", {}).get("readyReplicas") == 3)

        await eventually(ready)
        old = await pods.get("x-1")
        await pods.delete("x-1")

        async def replaced() -> bool:
            found = await items(client, PODS, namespace="default")
            uids = {entry["metadata"]["name"]: entry["metadata"]["uid"] for entry in found}
            return bool(uids.get("x-1", old["metadata"]["uid"]) != old["metadata"]["uid"])

        await eventually(replaced, within=60)
        await eventually(ready)


async def test_a_cluster_goes_on_from_its_data_directory(tmp_path: Path) -> None:
    """Stopped and started again an hour later: the same pods, still running, not restarted, no fault carried out twice; a pod
    that was being stopped ends."""
    kubelet = KubeletOptions(stop_delay=20)
    async with running(data_dir=tmp_path, kubelet=kubelet) as cluster:
        pods, faults = Pods(cluster.client("test")), cluster.faults()
        for name in ("a", "b"):
            await pods.create(name)
            await pods.until_ready(name)
        await faults.crash("default", "a", exit_code=3)
        await pods.until("a", lambda pod: container(pod)["restartCount"] == 1)
        before = await pods.until_ready("a")
        await pods.delete("b")
    async with running(data_dir=tmp_path, kubelet=kubelet, start=START + timedelta(hours=1)) as cluster:
        pods = Pods(cluster.client("test"))
        await asyncio.sleep(60)
        after = await pods.get("a")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert container(after) == container(before)
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        await pods.until_gone("b")
        await pods.create("c")
        pod = await pods.until_ready("c")
        assert pod["status"]["podIP"] != after["status"]["podIP"]


async def test_a_stop_is_clean() -> None:
    """Cancelling ``run`` ends every task of the cluster: nothing is left on the loop."""
    before = asyncio.all_tasks()
    async with running() as cluster:
        await Pods(cluster.client("test")).create("a")
        await asyncio.sleep(0.1)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
