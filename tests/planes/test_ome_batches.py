"""How many crash-loop repairs a pass opens, on a cluster: spec/omenative.md 4.4.1; behaviours 40, 48-56, 58.

The operator is away while pods are wedged, so that its first pass sees all of them; what it opens is read from what it writes.
"""

import re
from typing import Any

import pytest
from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, runtime_manifest, service_manifest
from tests.planes.plane import Plane

from regroup.omenative.api.row import CREATING, READY, RESTARTING
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, ROLLOUT_PAUSED

GRACE = 5
SLOW = {"sandbox.regroup.dev/ready-delay": "10s"}
"""New pods take longer than the passes that a test looks at."""
SOON = {"operation": "1s", "gate": "1s"}


async def start(
    plane: Plane,
    *,
    batch: int | None,
    instances: int,
    policy: str | None = "None",
    workers: int = 0,
    annotations: dict[str, str] | None = None,
    **service: Any,
) -> Ome:
    """A service whose pods are older than the grace, and no operator."""
    ome = Ome(plane)
    await plane.stop_operator()
    await ome.settings(stuckPodGracePeriod=f"{GRACE}s", repairBatchSize=batch, requeue=SOON)
    await plane.start_operator()
    body = gang_runtime("slow", workers=workers) if workers else runtime_manifest("slow")
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "slow", body, field_manager="kubectl")
    await ome.apply(
        service_manifest(
            runtime="slow",
            instances=instances,
            policy=policy,
            engine={"annotations": SLOW if annotations is None else annotations},
            **service,
        )
    )
    await ome.wait_ready(instances)
    await plane.sleep(GRACE + 1, exact=True)
    await plane.stop_operator()
    return ome


async def opened(plane: Plane, ome: Ome, number: int, *, component: str = "engine") -> list[list[int]]:
    """Start the operator and wait until it has opened ``number`` restarts; what each write of it had open."""
    mark = len(plane.requests)
    await plane.start_operator()

    async def all_open() -> bool:
        return max((len(one) for one in ome.restarting(mark, component)), default=0) >= number

    await plane.wait_for(all_open, timeout=30, what=f"{number} restarts are open")
    return ome.restarting(mark, component)


async def test_a_batch_staggers_repairs(plane: Plane) -> None:
    """Behaviours 40, 49, 50: three, three, one; none waits for another to finish; no wait is told, and each event has the reason
    for which its pod waited."""
    async with plane:
        ome = await start(plane, batch=3, instances=7)
        await ome.wedge(*(ome.pod_name(index) for index in range(7)))
        assert await opened(plane, ome, 7) == [[0, 1, 2], [0, 1, 2, 3, 4, 5], list(range(7))]
        await ome.wait_ready(7)
        assert [row.incarnation for row in (await ome.rows()).values()] == [2] * 7
        told = [event.note for event in await ome.events("RestartTriggered")]
        assert len(told) == 7
        assert all(re.search(r"wedged in (ErrImagePull|ImagePullBackOff) past the stuck-pod grace", note) for note in told)
        assert await ome.events("RepairHeld") == []


async def test_a_batch_counts_gangs(plane: Plane) -> None:
    """Behaviour 51: a leader and its workers are one."""
    async with plane:
        ome = await start(plane, batch=2, instances=3, workers=2)
        pods = list(await ome.pods())
        assert len(pods) == 9
        await ome.wedge(*pods)
        assert (await opened(plane, ome, 3))[0] == [0, 1]


async def test_without_a_batch_all_open_at_once(plane: Plane) -> None:
    """Behaviour 52."""
    async with plane:
        ome = await start(plane, batch=None, instances=12)
        await ome.wedge(*(ome.pod_name(index) for index in range(12)))
        assert (await opened(plane, ome, 12))[0] == list(range(12))


async def test_policy_restarts_do_not_count(plane: Plane) -> None:
    """Behaviour 53: batch 1, one wedge and three policy restarts in one pass: all four open."""
    async with plane:
        ome = await start(plane, batch=1, instances=4, policy=RECREATE)
        await ome.wedge(ome.pod_name(2))
        await ome.crash(*(ome.pod_name(index) for index in (0, 1, 3)))
        assert (await opened(plane, ome, 4))[0] == [0, 1, 2, 3]


async def test_a_running_repair_does_not_count(plane: Plane) -> None:
    """Behaviour 54: batch 1: while one runs, a fresh one opens."""
    async with plane:
        ome = await start(plane, batch=1, instances=2)
        await ome.wedge(ome.pod_name(0))
        await opened(plane, ome, 1)
        await ome.wedge(ome.pod_name(1))

        async def both() -> bool:
            return [row.phase for row in (await ome.rows()).values()] == [RESTARTING, RESTARTING]

        await plane.wait_for(both, timeout=15, what="both run at the same time")
        await ome.wait_ready(2)


async def test_replacing_pods_does_not_count(plane: Plane) -> None:
    """Behaviour 55: batch 1, None: the wedge opens, and the pods that are gone elsewhere come back meanwhile."""
    async with plane:
        ome = await start(plane, batch=1, instances=3)
        await ome.wedge(ome.pod_name(0))
        for index in (1, 2):
            await plane.delete_pod(ome.pod_name(index), grace=0)

        async def gone() -> bool:
            return list(await ome.pods()) == [ome.pod_name(0)]

        await plane.wait_for(gone, what="two pods are gone")
        await plane.start_operator()

        async def at_once() -> bool:
            return [row.phase for row in (await ome.rows()).values()] == [RESTARTING, CREATING, CREATING]

        await plane.wait_for(at_once, timeout=15, what="one restarts while two are created")
        rows = await ome.wait_ready(3)
        assert [row.incarnation for row in rows.values()] == [2, 1, 1]


async def test_each_component_has_its_own_batch(plane: Plane) -> None:
    """Behaviour 56: batch 1, engine and decoder wedged: each opens one in its first pass."""
    async with plane:
        part = {"minReplicas": 2, "maxReplicas": 2, "lifecycle": {"restartPolicy": "None"}, "annotations": SLOW}
        ome = await start(plane, batch=1, instances=2, decoder=part)
        await plane.start_operator()
        await ome.wait_ready(2, component="decoder")
        await plane.sleep(GRACE + 1, exact=True)
        await plane.stop_operator()
        names = [ome.pod_name(index, component=component) for component in ("engine", "decoder") for index in (0, 1)]
        await ome.wedge(*names)
        mark = len(plane.requests)
        await opened(plane, ome, 2)

        async def other() -> bool:
            return [0, 1] in ome.restarting(mark, "decoder")

        await plane.wait_for(other, timeout=15, what="both of the decoder restart")
        for component in ("engine", "decoder"):
            assert ome.restarting(mark, component)[0] == [0]


async def test_the_batch_is_read_at_the_start(plane: Plane) -> None:
    """Behaviours 58, 104: an edit of the ConfigMap counts from the operator's next start, not before. A freeze gathers what is
    wedged."""
    async with plane:
        ome = await start(plane, batch=2, instances=4)
        await plane.start_operator()
        await ome.settings(stuckPodGracePeriod=f"{GRACE}s", repairBatchSize=1, requeue=SOON)
        for life, size in ((2, 2), (3, 1)):
            await ome.annotate({ROLLOUT_PAUSED: "freeze"})

            async def frozen() -> bool:
                return (await ome.replica()).spec.frozen_pause

            await plane.wait_for(frozen, what="the freeze reaches the replica")
            await ome.wedge(*(ome.pod_name(index) for index in range(4)))
            await plane.sleep(GRACE + 1, exact=True)
            assert {row.incarnation for row in (await ome.rows()).values()} == {life - 1}
            mark = len(plane.requests)
            await ome.annotate({ROLLOUT_PAUSED: None})

            async def all_new(life: int = life) -> bool:
                rows = await ome.rows()
                return all(row.phase == READY and row.incarnation == life for row in rows.values())

            await plane.wait_for(all_new, timeout=90, what=f"all are at incarnation {life}")
            assert ome.restarting(mark)[0] == list(range(size))
            await plane.stop_operator()
            await plane.start_operator()


async def test_the_grace_is_read_while_it_runs(plane: Plane) -> None:
    """Behaviour 48: 10 minutes become 5 seconds; the repair opens without a restart of the operator."""
    async with plane:
        ome = await start(plane, batch=10, instances=1, annotations={})
        await ome.settings(stuckPodGracePeriod="10m")
        await plane.start_operator()
        await ome.wedge(ome.pod_name())
        await plane.sleep(90)
        row = await ome.row()
        assert row is not None
        assert (row.phase, row.incarnation) == (READY, 1)
        await ome.settings(stuckPodGracePeriod=f"{GRACE}s")
        await ome.wait_restarted(timeout=60)


@pytest.mark.parametrize("waits", [False, True])
async def test_a_policy_restart_and_a_wedge(plane: Plane, waits: bool) -> None:
    """9.14: under the policy that recreates, a pod past its grace that waits is a repair, whatever else it shows; one that runs
    again is a restart of the policy."""
    async with plane:
        ome = await start(plane, batch=10, instances=1, policy=RECREATE, annotations={})
        await ome.crash(ome.pod_name())
        if waits:
            await ome.wedge(ome.pod_name())
        await plane.start_operator()
        await ome.wait_restarted()
        (told,) = await ome.events("RestartTriggered")
        assert ("wedged in" in told.note) == waits
