"""Pauses, scales, orphans and deadlines on a cluster: omenative 2.8, 4.6, 4.9; behaviours 37, 38, 81, 86, 91, 96, 98-102; C51."""

import pytest
from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.kube.resources import PODS
from regroup.omenative.api.row import FAILED, PENDING, READY, RESTARTING
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INCARNATION, MAIN_CONTAINER, ROLLOUT_PAUSED

SETTLED = 3
"""Seconds after which a crash is surely later than the second in which the Instance became Ready (9.34)."""


async def start(plane: Plane, *, policy: str | None = RECREATE, instances: int = 1, gang: bool = False, timeout: str = "") -> Ome:
    ome = Ome(plane)
    await ome.runtime()
    body = gang_runtime(workers=1)
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, body["metadata"]["name"], body, field_manager="kubectl")
    lifecycle = {"instanceReadyTimeout": timeout} if timeout else None
    runtime = "gang" if gang else "stub"
    await ome.apply(service_manifest(runtime=runtime, policy=policy, instances=instances, lifecycle=lifecycle))
    await ome.wait_ready(instances)
    await plane.sleep(SETTLED)
    return ome


async def crash(plane: Plane, ome: Ome, index: int = 0, *, runner: str = "default") -> None:
    await plane.faults.crash(NAMESPACE, ome.pod_name(index, runner), container=MAIN_CONTAINER, exit_code=1)


async def wait_paused(plane: Plane, ome: Ome, *, paused: bool = True) -> None:
    """Until the replica has the service's word."""

    async def so() -> bool:
        return (await ome.replica()).spec.paused is paused

    await plane.wait_for(so, timeout=30, what=f"the replica is {'' if paused else 'not '}paused")


async def test_repairs_go_on_and_creates_wait(plane: Plane) -> None:
    """100, 37, 38: at true a crash restarts; under None a deleted pod waits for the resume, and the row is Pending."""
    async with plane:
        ome = await start(plane)
        await ome.annotate({ROLLOUT_PAUSED: "true"})
        await wait_paused(plane, ome)
        await crash(plane, ome)
        await ome.wait_restarted()
        await ome.patch({"engine": {"lifecycle": {"restartPolicy": "None"}}})
        await plane.sleep(SETTLED)
        await plane.delete_pod(ome.pod_name(), grace=0)
        await ome.wait_row(phase=PENDING)
        await plane.sleep(30)
        assert await ome.pods() == {}
        await ome.annotate({ROLLOUT_PAUSED: None})
        row = await ome.wait_row(phase=READY, incarnation=2)
        assert row.running_revision
        assert len(await ome.events("RestartTriggered")) == 1


async def test_a_freeze_holds_what_has_not_begun(plane: Plane) -> None:
    """101, 102: a crash waits for the resume; a restart under way finishes."""
    async with plane:
        ome = await start(plane, gang=True)
        await ome.annotate({ROLLOUT_PAUSED: "freeze"})
        await wait_paused(plane, ome)
        await crash(plane, ome, runner="leader")
        await plane.sleep(30)
        row = await ome.row()
        assert row is not None
        assert (row.phase, row.incarnation) == (READY, 1)
        await ome.annotate({ROLLOUT_PAUSED: None})
        await ome.wait_row(phase=RESTARTING, incarnation=2)
        await ome.annotate({ROLLOUT_PAUSED: "freeze"})
        await ome.wait_restarted()


async def test_scales_during_a_restart(plane: Plane) -> None:
    """98, 99, 2.8: new Instances come meanwhile; one that is scaled away is deleted, not restarted."""
    async with plane:
        ome = await start(plane, instances=2)
        await plane.faults.refuse_image("server:1")
        await crash(plane, ome, 1)
        await ome.wait_row(1, phase=RESTARTING)
        await ome.patch({"engine": {"minReplicas": 1}})

        async def alone() -> bool:
            return list(await ome.rows()) == [0] and list(await ome.pods()) == [ome.pod_name()]

        await plane.wait_for(alone, timeout=90, what="only Instance 0 is left")
        assert await ome.events("RestartCompleted") == []
        await crash(plane, ome, 0)
        await ome.wait_row(0, phase=RESTARTING)
        await ome.patch({"engine": {"minReplicas": 2}})
        await plane.faults.accept_image("server:1")
        await ome.wait_ready(2)


@pytest.mark.parametrize("given_back", [True, False])
async def test_an_orphan_holds_the_restart_up(plane: Plane, given_back: bool) -> None:
    """81: told once; nothing is deleted nor made until it is gone or has its label again."""
    async with plane:
        ome = await start(plane, gang=True)
        orphan = ome.pod_name(0, "worker")
        body = {"metadata": {"labels": {INCARNATION: None}}}
        await plane.client.merge_patch(PODS, orphan, body, namespace=NAMESPACE)
        before = await ome.uids()
        await crash(plane, ome, runner="leader")
        await ome.wait_row(phase=RESTARTING, incarnation=2)
        await plane.sleep(20)
        assert await ome.uids() == before
        assert len(await ome.events("FoundOrphan")) == 1
        if given_back:
            await plane.client.merge_patch(PODS, orphan, {"metadata": {"labels": {INCARNATION: "1"}}}, namespace=NAMESPACE)
        else:
            await plane.delete_pod(orphan)
        await ome.wait_restarted()
        assert not set((await ome.uids()).values()) & set(before.values())


async def test_a_restart_that_runs_out_of_time(plane: Plane) -> None:
    """86, 91, 96, C51: Failed with its pods and its operation; another Instance and a scale-up change nothing of it."""
    async with plane:
        ome = await start(plane, timeout="15s")
        await plane.faults.refuse_image("server:1")
        await crash(plane, ome)
        row = await ome.wait_row(phase=FAILED)
        assert row.operation is not None
        assert row.incarnation == 2
        await plane.sleep(SETTLED)
        (told,) = await ome.events("InstanceFailed")
        assert "DeadlineExceeded: Restart/Drain exceeded InstanceReadyTimeout" in told.note
        kept = await ome.uids()
        await ome.patch({"engine": {"lifecycle": {"restartPolicy": "None"}}})
        await plane.stop_operator()
        await plane.start_operator()
        await plane.sleep(20)
        again = await ome.row()
        assert again is not None
        assert (again.phase, again.last_failure) == (FAILED, row.last_failure)
        assert await ome.uids() == kept
        await plane.faults.accept_image("server:1")
        await ome.wait_row(phase=READY, incarnation=2)
        assert await ome.uids() == kept, "96: the kept pod recovers by itself"
        await plane.sleep(SETTLED)
        assert len(await ome.events("RestartCompleted")) == 1
