"""The built-in controllers with late watches, lost answers, refusals and restarts: nothing is done twice, the end is the same."""

import asyncio
from typing import Any

import pytest
from tests.sandbox.controllers_plane import Plane, control_plane

from regroup.kube.resources import CONFIGMAPS, EVENTS, PODS, REPLICASETS, STATEFULSETS
from regroup.sandbox.apifaults import Match
from regroup.sandbox.controllers import garbage, replicaset, statefulset

pytestmark = pytest.mark.looptime

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "one"}]}}
CONTROLLERS = "kube-controller-manager"
POD_WATCH = Match(verb="watch", resource="pods", user_agent=CONTROLLERS)
POD_CREATION = Match(verb="create", resource="pods", user_agent=CONTROLLERS)


def workload(replicas: int, **spec: Any) -> dict[str, Any]:
    common = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    return {"metadata": {"name": "web"}, "spec": {**common, **spec}}


async def test_a_late_pod_cache_makes_no_pod_twice() -> None:
    """Every event comes two seconds late; names are generated, so the server would not stop a second creation."""
    async with control_plane(replicaset.setup, statefulset.setup) as plane:
        plane.server.faults.hold(match=POD_WATCH, seconds=2.0)
        await plane.create(REPLICASETS, workload(5))
        await plane.settle(30)
        assert plane.writes().count("POST pods") == 5
        assert len(await plane.names(PODS)) == 5
        await plane.client.merge_patch(REPLICASETS, "web", {"spec": {"replicas": 2}}, namespace="default")
        await plane.settle(30)
        assert len(await plane.names(PODS)) == 2, "no second victim for one that goes already"


async def test_a_late_set_cache_makes_no_pod_twice() -> None:
    """An ordered and a parallel set: each name is asked for once, with no conflict."""
    async with control_plane(statefulset.setup) as plane:
        plane.server.faults.hold(match=POD_WATCH, seconds=2.0)
        record = plane.server.faults.record()
        await plane.create(STATEFULSETS, workload(4, podManagementPolicy="Parallel", serviceName="web"))
        await plane.settle(30)
        made = [entry.code for entry in record if POD_CREATION.matches(entry)]
        assert made == [201] * 4


async def test_a_stale_cache_never_deletes_a_replacement() -> None:
    """The pod that was judged is gone and another has its name: the deletion carries the UID, so it misses."""
    async with control_plane(statefulset.setup) as plane:
        await plane.create(STATEFULSETS, workload(1, serviceName="web"))
        await plane.settle()
        hold = plane.server.faults.hold(match=POD_WATCH)
        await plane.finish("web-0")
        foreign = await plane.create(PODS, {"metadata": {"name": "web-0"}, "spec": TEMPLATE["spec"]})
        await plane.client.merge_patch(STATEFULSETS, "web", {"spec": {"replicas": 0}}, namespace="default")
        await plane.settle(10)
        assert (await plane.get(PODS, "web-0"))["metadata"]["uid"] == foreign["metadata"]["uid"]
        hold.release()
        await plane.settle(10)
        assert (await plane.get(PODS, "web-0"))["metadata"]["uid"] == foreign["metadata"]["uid"]


async def test_an_answer_that_was_lost_does_not_lose_a_pod() -> None:
    """The pod was made, the answer never came: the set ends with its number all the same."""
    async with control_plane(statefulset.setup, replicaset.setup) as plane:
        plane.server.faults.lose(match=POD_CREATION, times=2)
        await plane.create(STATEFULSETS, workload(3, podManagementPolicy="Parallel", serviceName="web"))
        await plane.settle(60)
        assert await plane.names(PODS) == ["web-0", "web-1", "web-2"]


async def test_a_server_that_refuses_pods_is_not_flooded_and_is_told_of() -> None:
    """Slow start: one request a pass, with a growing pause; a Warning says why; in the end all are made."""
    async with control_plane(replicaset.setup) as plane:
        fault = plane.server.faults.fail(403, match=POD_CREATION, message="exceeded quota")
        await plane.create(REPLICASETS, workload(50))
        await plane.settle(5)
        assert fault.hits < 15
        status = (await plane.get(REPLICASETS, "web"))["status"]
        (condition,) = status["conditions"]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        notes = {(entry["type"], entry["reason"], entry["note"]) for entry in await plane.list(EVENTS)}
        assert notes == {("Warning", "FailedCreate", "Error creating: exceeded quota")}
        fault.end()
        await plane.settle(60)
        assert len(await plane.names(PODS)) == 50
        assert not (await plane.get(REPLICASETS, "web"))["status"].get("conditions")


async def test_watches_that_are_cut_lose_nothing() -> None:
    """Cut in the middle of a line while pods go and come."""
    async with control_plane(statefulset.setup, garbage.setup) as plane:
        await plane.create(STATEFULSETS, workload(3, podManagementPolicy="Parallel", serviceName="web"))
        for number in range(5):
            await plane.settle(150)
            assert plane.server.faults.cut_watches(match=Match(user_agent=CONTROLLERS), within_line=number % 2 == 0)
            if await plane.find(PODS, "web-1") is not None:
                await plane.finish("web-1")
        await plane.settle(120)
        assert await plane.names(PODS) == ["web-0", "web-1", "web-2"]
        await plane.client.delete(STATEFULSETS, "web", namespace="default", propagation="Foreground")
        plane.server.faults.cut_watches(match=Match(user_agent=CONTROLLERS))
        await plane.settle(120)
        assert await plane.names(PODS) == []
        assert await plane.find(STATEFULSETS, "web") is None


@pytest.mark.parametrize("stop_after", range(1, 12))
async def test_a_restart_at_any_moment_changes_nothing_in_the_end(stop_after: int) -> None:
    """The controllers are stopped before their n-th write, and new ones go on on the same server."""
    async with control_plane(statefulset.setup, garbage.setup) as plane:
        await plane.create(STATEFULSETS, workload(3, podManagementPolicy="Parallel", serviceName="web"))
        await written(plane, stop_after)
        server = plane.server
    async with control_plane(statefulset.setup, garbage.setup, server=server) as plane:
        await plane.settle(30)
        assert await plane.names(PODS) == ["web-0", "web-1", "web-2"]
        status = (await plane.get(STATEFULSETS, "web"))["status"]
        assert (status["replicas"], status["observedGeneration"]) == (3, 1)
        await plane.client.delete(STATEFULSETS, "web", namespace="default", propagation="Foreground")
        await written(plane, stop_after)
    async with control_plane(statefulset.setup, garbage.setup, server=server) as plane:
        await plane.settle(30)
        assert await plane.names(PODS) == []
        assert await plane.find(STATEFULSETS, "web") is None


async def written(plane: Plane, count: int) -> None:
    """Wait for so many writes of the controllers, but not for ever."""
    before = len(plane.recorded.writes)
    for _ in range(200):
        if len(plane.recorded.writes) - before >= count:
            return
        await asyncio.sleep(0)


async def test_the_collector_stands_failures_of_the_server() -> None:
    """Discovery, reads and deletions fail for a while: nothing is deleted by mistake, and in the end all is collected."""
    async with control_plane(garbage.setup) as plane:
        top = await plane.create(CONFIGMAPS, {"metadata": {"name": "top"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "top", "uid": top["metadata"]["uid"]}
        for number in range(3):
            await plane.create(CONFIGMAPS, {"metadata": {"name": f"c{number}", "ownerReferences": [reference]}})
        await plane.settle()
        ours = Match(user_agent=CONTROLLERS)
        fault = plane.server.faults.fail(500, match=ours)
        await plane.settle(120)
        assert await plane.names(CONFIGMAPS) == ["c0", "c1", "c2", "top"]
        await plane.client.delete(CONFIGMAPS, "top", namespace="default")
        await plane.settle(60)
        fault.end()
        plane.server.faults.lose(match=Match(verb="delete", user_agent=CONTROLLERS), times=2)
        await plane.settle(600)
        assert await plane.names(CONFIGMAPS) == []
