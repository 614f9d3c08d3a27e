"""Members with sidecars, other people's finalizers, and requests that are nearly right: spec/leaderworkerset.md 5.1, 5.6.4, 5.10,
behaviours 93, 95-97, 158."""

from functools import partial

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.resources import PODS
from regroup.leaderworkerset import keys
from regroup.wire.errors import NotFound

SIDECAR = pod_template(initContainers=[{"name": "side", "image": "side:1", "restartPolicy": "Always"}])


async def annotate(plane: Plane, pod: str, key: str, value: str) -> None:
    await plane.client.merge_patch(PODS, pod, {"metadata": {"annotations": {key: value}}}, namespace=NAMESPACE)


async def retained(plane: Plane, group: int) -> bool:
    pods = await plane.pods()
    return all(
        name in pods and pods[name].deleting and keys.CLEANUP_FINALIZER in pods[name].metadata.finalizers
        for name in group_names(group, size=2)
    )


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"])
@pytest.mark.parametrize("who", ["demo-0", "demo-0-1"])
async def test_a_sidecar_that_restarts(plane: Plane, policy: str, who: str) -> None:
    """5.1: a restartable init container counts like any other; under None it is the kubelet's business."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, policy=policy, worker=SIDECAR))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, who, container="side")
        if policy == "None":

            async def restarted() -> bool:
                return (await plane.pods())[who].restarts == 1

            await plane.wait_for(restarted)
            await plane.wait_available()
            await plane.sleep(10)
            assert await plane.uids() == old
            return
        new = await plane.wait_recreated(old, group_names(0, size=2))
        await plane.wait_available()
        assert {name: new[name] for name in group_names(1, size=2)} == {name: old[name] for name in group_names(1, size=2)}
        (event,) = await plane.events("RecreateGroup")
        assert f"container side of {'leader' if who == 'demo-0' else 'worker'} pod {who} restarted" in event.note


async def test_only_the_exact_request_recovers(plane: Plane) -> None:
    """93, 95-97: three of five groups are retained; wrong values, the wrong pods, edited limits and deletions recover none of
    them, and the right request, made twice and for two at once, only those two."""
    async with plane:
        await plane.apply(lws_manifest(replicas=5, size=2, template={"maxGroupRestarts": 0}))
        old = await plane.wait_available()
        for group in (0, 2, 4):
            await plane.faults.crash(NAMESPACE, f"demo-{group}-1")
        for group in (0, 2, 4):
            await plane.wait_for(partial(retained, plane, group))
        for value in ("True", "TRUE", "1", " true", "true ", "yes", ""):
            await annotate(plane, "demo-0", keys.RECOVER, value)
            await plane.sleep(1)
        for pod in ("demo-0-1", "demo-1", "demo-1-1"):
            await annotate(plane, pod, keys.RECOVER, "true")
        for limit in (5, None, 1, 0):
            await plane.patch_lws("demo", {"leaderWorkerTemplate": {"maxGroupRestarts": limit}})
        await plane.delete_pod("demo-2", grace=0)
        await plane.delete_pod("demo-4-1", grace=0)
        await plane.sleep(15)
        assert await plane.uids() == old
        assert (await plane.lws()).status.ready_replicas == 2
        told = [event for event in await plane.events("ReplicaRestartBudgetExceeded") if event.type == "Warning"]
        assert [event.count for event in told] == [1, 1, 1]

        for _ in range(2):
            for group in (0, 4):
                try:
                    await annotate(plane, f"demo-{group}", keys.RECOVER, "true")
                except NotFound:
                    continue  # the first request was carried out
        await plane.wait_recreated(old, [*group_names(0, size=2), *group_names(4, size=2)])
        await plane.sleep(10)
        assert await retained(plane, 2)
        assert (await plane.uids())["demo-1"] == old["demo-1"]


async def test_a_finalizer_of_somebody_else(plane: Plane) -> None:
    """158, 5.10: a recreated group waits for the pod, which Progressing names with what it waits for; counted once, and whole as
    soon as it is let go; the other group never knew."""
    worker = pod_template()
    worker["metadata"] = {"finalizers": ["example.com/hold"]}
    async with plane:
        await plane.apply(
            lws_manifest(replicas=2, size=2, worker=worker, leader=pod_template(), template={"maxGroupRestarts": 3})
        )
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")

        async def told() -> str:
            found = await plane.condition("Progressing")
            return found.message if found is not None and "example.com/hold" in found.message else ""

        message = await plane.wait_for(told, timeout=120)
        assert "group 0: pod demo-0-1 on node" in message
        assert "its containers have stopped; it waits for finalizers example.com/hold" in message
        await plane.client.merge_patch(PODS, "demo-0-1", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        new = await plane.wait_recreated(old, group_names(0, size=2))
        await plane.wait_available()
        assert {name: new[name] for name in group_names(1, size=2)} == {name: old[name] for name in group_names(1, size=2)}
        assert list((await plane.lws()).metadata.annotations[keys.RESTART_COUNTS].split(":")[1:]) == ["1}"]
        for name in await plane.pods():
            await plane.client.merge_patch(PODS, name, {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
