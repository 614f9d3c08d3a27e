"""Cases from public reports, on a cluster: C41 (where the policy comes from), C45 (failures while the operator was away),
C61 (what each pause holds)."""

from typing import Any

import pytest
from tests.planes.ome_hands import RECREATE, Ome, runtime_manifest, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.omenative.api.row import PENDING, READY, RESTARTING, Row
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, MAIN_CONTAINER, ROLLOUT_PAUSED

SETTLED = 3
"""Seconds after which a crash is surely later than the second in which the Instance became Ready (9.34)."""
RUNNER = {"name": MAIN_CONTAINER, "image": "server:1"}
SOON = {"operation": "1s", "gate": "1s"}


async def start(
    plane: Plane,
    lifecycle: dict[str, Any] | None,
    *,
    workers: int = 1,
    runtimes: dict[str, Any] | None = None,
    router: dict[str, Any] | None = None,
) -> Ome:
    """An engine of a leader and workers."""
    ome = Ome(plane)
    config: dict[str, Any] = {"leader": {"runner": RUNNER}, "worker": {"size": workers, "runner": RUNNER}}
    if runtimes is not None:
        config["lifecycle"] = runtimes
    spec: dict[str, Any] = {"engineConfig": config, "routerConfig": None}
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "case", runtime_manifest("case", **spec), field_manager="kubectl")
    parts: dict[str, Any] = {"router": router} if router else {}
    await ome.apply(service_manifest(runtime="case", lifecycle=lifecycle, **parts))
    await ome.wait_ready()
    if router:
        await ome.wait_ready(component="router")
    await plane.sleep(SETTLED)
    return ome


@pytest.mark.parametrize(
    ("own", "restarts"),
    [({}, False), ({"restartPolicy": RECREATE}, True), ({"minReadySeconds": 3}, False)],
    ids=["nothing", "the policy", "another field"],
)
async def test_a_partly_filled_block_hides_nothing(plane: Plane, own: dict[str, Any], restarts: bool) -> None:
    """C41, steps 1 and 2: what the service leaves out is the runtime's, field by field; a router of which nobody says a word
    has None."""
    async with plane:
        router = {"minReplicas": 1, "lifecycle": {}, "runner": RUNNER}
        ome = await start(plane, own, runtimes={"restartPolicy": "None", "instanceReadyTimeout": "2m"}, router=router)
        replica = await ome.replica()
        assert replica.spec.restart_policy == (RECREATE if restarts else "None")
        conditions = {one.type: one.message for one in replica.status.conditions}
        assert conditions["InstanceReadyTimeoutUnconfigured"] == "Instance readiness deadline is 2m0s"
        engine, routers = await ome.uids(), await ome.uids("router")
        await ome.crash(ome.pod_name(component="router"))
        await plane.faults.crash(NAMESPACE, ome.pod_name(0, "worker"), container=MAIN_CONTAINER, exit_code=1)
        if restarts:
            await ome.wait_restarted()
            assert not set((await ome.uids()).values()) & set(engine.values())
        else:
            await plane.sleep(30)
            await ome.wait_ready()
            assert await ome.uids() == engine
        assert await ome.uids("router") == routers
        assert len(await ome.events("RestartTriggered")) == int(restarts)


async def test_a_flip_writes_nothing_and_counts_from_then_on(plane: Plane) -> None:
    """C41, steps 3 and 4; behaviour 12: no pod is written, no revision is made; the next failure follows the new value; a
    restart under way is finished when the policy is taken back."""
    async with plane:
        ome = await start(plane, {"restartPolicy": "None"})
        before, revisions = await ome.uids(), await ome.revisions()
        mark = len(plane.requests)
        await ome.patch({"engine": {"lifecycle": {"restartPolicy": RECREATE}}})

        async def flipped() -> bool:
            return (await ome.replica()).spec.restart_policy == RECREATE

        await plane.wait_for(flipped, what="the replica has the new policy")
        await plane.sleep(20)
        assert [entry for entry in plane.writes(since=mark) if "/pods" in entry.request.path] == []
        assert (await ome.uids(), await ome.revisions()) == (before, revisions)
        await plane.faults.fail_pod(NAMESPACE, ome.pod_name(0, "worker"))
        await ome.wait_row(phase=RESTARTING, incarnation=2)
        await ome.patch({"engine": {"lifecycle": {"restartPolicy": "None"}}})
        await ome.wait_restarted()
        assert not set((await ome.uids()).values()) & set(before.values())
        assert len(await plane.wait_for(lambda: ome.events("RestartCompleted"), timeout=10)) == 1


@pytest.mark.parametrize("how", ["a container", "a worker"])
async def test_what_happened_while_the_operator_was_away(plane: Plane, how: str) -> None:
    """C45: killed; then a container restarts and is well again, or a pod is gone. At the start it is noticed, within 15 s; a
    second start right afterwards finds nothing more."""
    async with plane:
        ome = await start(plane, None, workers=2)
        before = await ome.uids()
        assert len(before) == 3
        await plane.stop_operator()
        victim = ome.pod_name(0, "worker", 1)
        if how == "a container":
            await ome.crash(victim)

            async def well() -> bool:
                return (await ome.pods())[victim].containers_ready

            await plane.wait_for(well, timeout=30, what="the pod is ready again")
        else:
            await plane.delete_pod(victim)

            async def gone() -> bool:
                return victim not in await ome.pods()

            await plane.wait_for(gone, timeout=60, what="the pod is gone")
        await plane.sleep(20)
        assert (await ome.rows())[0].incarnation == 1
        await plane.start_operator()
        await ome.wait_row(incarnation=2, timeout=15)
        await ome.wait_restarted()
        after = await ome.uids()
        assert after.keys() == before.keys()
        assert not set(after.values()) & set(before.values())
        await plane.stop_operator()
        await plane.start_operator()
        await plane.sleep(20)
        assert await ome.uids() == after
        assert (await ome.rows())[0].incarnation == 2
        assert len(await ome.events("RestartTriggered")) == 1


@pytest.mark.parametrize("value", ["true", "freeze", "True", "yes"])
async def test_what_a_pause_holds(plane: Plane, value: str) -> None:
    """C61, steps 1 and 3: a crash of the engine under the policy that recreates, a deleted router pod under None, a new image:
    held or not by each value, and all of it goes on within 10 s of the end."""
    paused, frozen = value in {"true", "freeze"}, value == "freeze"
    async with plane:
        ome = await start(plane, {"restartPolicy": RECREATE}, router={"minReplicas": 1, "runner": RUNNER})
        await _pause(plane, ome, value)
        router = await ome.uids("router")
        await plane.faults.crash(NAMESPACE, ome.pod_name(0, "worker"), container=MAIN_CONTAINER, exit_code=1)
        await plane.delete_pod(ome.pod_name(component="router"), grace=0)
        if frozen:
            await plane.sleep(20)
            row = await ome.row()
            assert row is not None
            assert (row.phase, row.incarnation) == (READY, 1)
        else:
            await ome.wait_restarted()
        if paused:
            await ome.wait_row(phase=PENDING, component="router")
            assert await ome.pods("router") == {}
        else:
            await ome.wait_ready(component="router")
            assert not set((await ome.uids("router")).values()) & set(router.values())
        runner = {**RUNNER, "image": "server:2"}
        await ome.patch({"engine": {"leader": {"runner": runner}, "worker": {"runner": runner}}})
        if paused:
            await plane.sleep(20)
            assert await _images(ome) == {"server:1"}
            await ome.annotate({ROLLOUT_PAUSED: None})

            async def all_begun() -> bool:
                """The router's pod is made, and the engine moves: it rolls, or a gang comes beside it."""
                return bool(await ome.pods("router")) and "server:2" in await _images(ome)

            await plane.wait_for(all_begun, timeout=10, what="all that was held goes on")
        await plane.wait_for(lambda: _rolled(ome), timeout=120, what="the engine runs the new image")
        await ome.wait_ready(component="router")
        assert len(await ome.events("RestartTriggered")) == int(not frozen)


@pytest.mark.parametrize("value", ["true", "freeze", "yes"])
async def test_what_a_pause_does_to_a_wedge(plane: Plane, value: str) -> None:
    """C61, step 1, the separate run: the router's pod is wedged under None: repaired, but at freeze; then within 10 s of the
    end."""
    async with plane:
        await Ome(plane).settings(stuckPodGracePeriod="5s", requeue=SOON)
        ome = await start(plane, {"restartPolicy": RECREATE}, router={"minReplicas": 1, "runner": RUNNER})
        await plane.sleep(6, exact=True)
        await _pause(plane, ome, value)
        await ome.wedge(ome.pod_name(component="router"))
        if value == "freeze":
            await plane.sleep(20)
            row = await ome.row(component="router")
            assert row is not None
            assert (row.phase, row.incarnation) == (READY, 1)
            await ome.annotate({ROLLOUT_PAUSED: None})
            await ome.wait_row(incarnation=2, component="router", timeout=10)
        await ome.wait_restarted(component="router")
        (told,) = await ome.events("RestartTriggered")
        assert "component=router" in told.note
        assert "wedged in" in told.note


@pytest.mark.parametrize("value", ["true", "freeze"])
async def test_a_restart_that_a_pause_meets_between_delete_and_create(plane: Plane, value: str) -> None:
    """C61, step 2: its old pods are gone and none is made yet: it finishes under both values."""
    async with plane:
        ome = await start(plane, {"restartPolicy": RECREATE})
        before = await ome.uids()
        last = ome.pod_name(0, "leader")
        await ome.finalize(last, ["tests.example/keep"])
        await plane.faults.crash(NAMESPACE, ome.pod_name(0, "worker"), container=MAIN_CONTAINER, exit_code=1)

        async def one_left() -> bool:
            pods = await ome.pods()
            return list(pods) == [last] and pods[last].deleting

        await plane.wait_for(one_left, timeout=60, what="one old pod is left, and the operator waits for it")
        await plane.stop_operator()
        await ome.finalize(last, None)

        async def none_left() -> bool:
            return not await ome.pods()

        await plane.wait_for(none_left, what="the old pods are gone and the operator is away")
        await ome.annotate({ROLLOUT_PAUSED: value})
        await plane.start_operator()
        await ome.wait_restarted()
        assert (await ome.replica()).spec.paused
        assert not set((await ome.uids()).values()) & set(before.values())


async def _pause(plane: Plane, ome: Ome, value: str) -> None:
    await ome.annotate({ROLLOUT_PAUSED: value})
    paused = value in {"true", "freeze"}

    async def seen() -> bool:
        replicas = [(await ome.replica(component)).spec for component in ("engine", "router")]
        return all(spec.paused == paused and spec.frozen_pause == (value == "freeze") for spec in replicas)

    await plane.sleep(1)
    await plane.wait_for(seen, timeout=30, what=f"the replicas know of {value}")


async def _images(ome: Ome) -> set[str]:
    return {container.image for pod in (await ome.pods()).values() for container in pod.spec.containers}


async def _rolled(ome: Ome) -> bool:
    rows: list[Row] = list((await ome.rows()).values())
    return await _images(ome) == {"server:2"} and [row.phase for row in rows] == [READY]
