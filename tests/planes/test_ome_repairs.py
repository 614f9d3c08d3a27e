"""Crash-loop repairs on a cluster: age, batch, budget and what is told (spec/omenative.md 4.4; behaviours 39-42, 59-61,
66, 68, 86, 87, 91, 93; cases C57, C59)."""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, runtime_manifest, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.omenative.api.row import READY, RESTARTING
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, MAIN_CONTAINER
from regroup.omenative.view import InstancePod
from regroup.wire.errors import NotFound

WEDGED = "OMENative component=engine instance={} restart triggered: pod {} wedged in CrashLoopBackOff past the stuck-pod grace"
LOOPING = {"sandbox.regroup.dev/exit-after": f"{MAIN_CONTAINER}=10ms", "sandbox.regroup.dev/exit-code": f"{MAIN_CONTAINER}=1"}


async def lifecycle(ome: Ome, **settings: Any) -> None:
    """Write the cluster's ``lifecycle`` settings; None leaves one out."""
    grace = f"{ome.plane.stuck_grace:g}s"
    chart: dict[str, Any] = {"instanceReadyTimeout": "30m", "stuckPodGracePeriod": grace, "repairBatchSize": 10}
    wanted = {name: value for name, value in (chart | settings).items() if value is not None}
    await ome.configure(json.dumps(wanted))


async def keep_crashing(ome: Ome, pods: Sequence[str], *, until: Callable[[], Awaitable[bool]], timeout: float = 600) -> None:
    """End the main container of each pod whenever it runs, until ``until``: its kubelet backs off longer and longer."""
    first = await ome.uids()

    async def over() -> bool:
        if await until():
            return True
        for name, pod in (await ome.pods()).items():
            if name in pods and pod.metadata.uid == first.get(name) and _runs(pod) and not pod.deleting:
                with suppress(NotFound):
                    await ome.plane.faults.crash(NAMESPACE, name, container=MAIN_CONTAINER, exit_code=1)
        return False

    await ome.plane.wait_for(over, timeout=timeout, what=f"{', '.join(pods)} are done with")


def _runs(pod: InstancePod) -> bool:
    return any(status.state is not None and status.state.running is not None for status in pod.status.container_statuses)


async def test_a_wedged_pod_restarts_its_instance_under_none(plane: Plane) -> None:
    """Behaviours 39, 41: under None the kubelet's own restarts are left alone until the pod is older than the grace and waits in
    CrashLoopBackOff; then the whole Instance is rebuilt, and the event says so."""
    async with plane:
        ome = Ome(plane)
        await lifecycle(ome)
        await ome.runtime()
        await ome.apply(service_manifest())
        await ome.wait_ready()
        name = ome.pod_name()
        await plane.sleep(3)
        before = (await ome.pods())[name]

        async def opened() -> bool:
            row = await ome.row()
            return row is not None and row.incarnation == 2

        await keep_crashing(ome, [name], until=opened)
        born = before.metadata.creation_timestamp
        assert born is not None
        assert (plane.clock.now() - born).total_seconds() >= plane.stuck_grace, "not before the pod is older than the grace"
        (told,) = await ome.events("RestartTriggered")
        assert told.note == WEDGED.format(0, name) + " (incarnation=2)"
        await ome.wait_restarted(timeout=300)
        assert not set((await ome.uids()).values()) & {before.metadata.uid}


async def test_without_a_grace_nothing_is_repaired(plane: Plane) -> None:
    """Behaviour 42: no ``stuckPodGracePeriod``, no repair."""
    async with plane:
        ome = Ome(plane)
        await lifecycle(ome, stuckPodGracePeriod=None)
        await ome.runtime()
        await ome.apply(service_manifest())
        await ome.wait_ready()
        await plane.sleep(3)
        later = plane.clock.monotonic() + 3 * plane.stuck_grace

        async def long_after() -> bool:
            return plane.clock.monotonic() >= later

        await keep_crashing(ome, [ome.pod_name()], until=long_after)
        row = await ome.row()
        assert row is not None
        assert row.incarnation == 1
        assert await ome.events("RestartTriggered") == []


async def test_one_serving_gang_at_a_time(plane: Plane) -> None:
    """Behaviours 59, 60, 66, 68: workers are wedged while their leaders serve and maxUnavailable is 1: one repair at a time,
    under SurgeThenDrain as well, until all are new."""
    async with plane:
        ome = Ome(plane)
        await lifecycle(ome)
        body = gang_runtime(workers=1)
        await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "gang", body, field_manager="kubectl")
        strategy = {"type": "SurgeThenDrain", "rollingUpdate": {"maxUnavailable": 1}}
        # The service names the workers itself, so that its stable Service routes to leaders only (2.5).
        await ome.apply(
            service_manifest(
                runtime="gang",
                instances=3,
                policy="None",
                lifecycle={"updateStrategy": strategy},
                engine={"leader": {}, "worker": {"size": 1}},
            )
        )
        await ome.wait_ready(3)
        workers = [ome.pod_name(index, "worker") for index in range(3)]
        await plane.sleep(70)
        most = 0

        async def all_new() -> bool:
            nonlocal most
            rows = await ome.rows()
            most = max(most, sum(1 for row in rows.values() if row.phase == RESTARTING))
            return len(rows) == 3 and all(row.phase == READY and row.incarnation == 2 for row in rows.values())

        await keep_crashing(ome, workers, until=all_new, timeout=900)
        assert most == 1
        assert len(await ome.events("RestartTriggered")) == 3


async def test_dark_instances_do_not_wait(plane: Plane) -> None:
    """Behaviour 61: Instances whose pods serve nothing are repaired at once, whatever the budget."""
    async with plane:
        ome = Ome(plane)
        await lifecycle(ome)
        await ome.runtime()
        rolling = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}
        await ome.apply(service_manifest(instances=3, lifecycle=rolling))
        await ome.wait_ready(3)
        await plane.sleep(70)
        names = [ome.pod_name(index) for index in range(3)]

        async def all_new() -> bool:
            rows = await ome.rows()
            return len(rows) == 3 and all(row.incarnation == 2 for row in rows.values())

        await keep_crashing(ome, names, until=all_new)
        assert await ome.events("RepairHeld") == []


async def test_a_new_pod_that_stays_stuck_fails_the_instance(plane: Plane) -> None:
    """Behaviours 86, 87, 91, 93: the restart's new pod cannot have its image: the Instance is Failed with its operation and pods
    kept for as long as it takes, and a reset starts it over at the same incarnation."""
    async with plane:
        ome = Ome(plane)
        await lifecycle(ome)
        await ome.runtime()
        await ome.apply(service_manifest(policy=RECREATE))
        await ome.wait_ready()
        await plane.sleep(3)
        await plane.faults.refuse_image("server")
        await plane.delete_pod(ome.pod_name())
        row = await ome.wait_row(phase="Failed", timeout=300)
        assert row.operation is not None
        assert (row.operation.type, row.incarnation) == ("Restart", 2)
        assert row.last_failure is not None
        assert row.last_failure.reason in {"ImagePullBackOff", "ErrImagePull"}
        failed = await plane.wait_for(lambda: ome.events("InstanceFailed"), what="the failure is told")
        assert len(failed) == 1
        assert ome.pod_name() in failed[0].note
        kept = await ome.uids()
        await plane.sleep(900)
        rows = await ome.rows()
        assert (rows[0].phase, await ome.uids()) == ("Failed", kept), "kept for inspection"
        await plane.faults.accept_image("server")
        await ome.annotate_replica({"ome.io/reset-instances": "0"})
        row = await ome.wait_restarted(timeout=300)
        assert row.incarnation == 2
        assert not set((await ome.uids()).values()) & set(kept.values())
        replica = await ome.replica()
        assert "ome.io/reset-instances" not in replica.metadata.annotations
        assert len(await ome.events("InstancesReset")) == 1


async def test_an_instance_that_never_started_is_no_repair(plane: Plane) -> None:
    """Behaviours 21, 43: before Ready a crash is part of the start; the stuck-pod clock decides, and no restart is opened."""
    async with plane:
        ome = Ome(plane)
        await lifecycle(ome)
        body = runtime_manifest(
            "loop", engineConfig={"annotations": LOOPING, "runner": {"name": MAIN_CONTAINER, "image": "server:1"}}
        )
        await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "loop", body, field_manager="kubectl")
        await ome.apply(service_manifest(runtime="loop", policy=RECREATE))
        await plane.wait_for(lambda: ome.events("InstanceFailed"), timeout=300)
        await plane.sleep(20)
        assert await ome.events("RestartTriggered") == []
        failed = await ome.events("InstanceFailed")
        assert failed
        assert ome.pod_name() in failed[0].note
