"""What restarts an Instance and what does not, on a cluster: spec/omenative.md 4.2, 4.4, 4.7; behaviours 18-21, 24-27, 30-32, 35,
44, 83, 84; C43, C49."""

from typing import Any

import pytest
from tests.planes.ome_hands import RECREATE, Ome, runtime_manifest, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.kube.resources import PODS
from regroup.omenative.api.row import CREATING, READY
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, MAIN_CONTAINER
from regroup.omenative.view import InstancePod

SETTLED = 3
"""Seconds after which a crash is surely later than the second in which the Instance became Ready (9.34)."""
SIDECAR = {"name": "metrics", "image": "metrics:1"}
PROXY = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
FETCH = {"name": "fetch", "image": "fetch:1"}


async def start(
    plane: Plane,
    *,
    policy: str | None = RECREATE,
    workers: int = 0,
    main: str = MAIN_CONTAINER,
    settle: bool = True,
    annotations: dict[str, str] | None = None,
    **pod: Any,
) -> Ome:
    """One Instance; ``pod`` adds to the spec of its pods."""
    ome = Ome(plane)
    part = {"runner": {"name": main, "image": "server:1"}, **pod}
    config = {"leader": part, "worker": {**part, "size": workers}} if workers else part
    body = runtime_manifest("own", engineConfig=config)
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "own", body, field_manager="kubectl")
    await ome.apply(service_manifest(runtime="own", policy=policy, engine={"annotations": annotations or {}}))
    if settle:
        await ome.wait_ready()
        await plane.sleep(SETTLED)
    return ome


async def told(plane: Plane, ome: Ome) -> str:
    """What the only RestartTriggered says, without its prefix."""
    (event,) = await plane.wait_for(lambda: ome.events("RestartTriggered"), timeout=30, what="a restart is told")
    text: str = event.note
    return text.removeprefix("OMENative component=engine instance=0 restart triggered: ")


async def untouched(plane: Plane, ome: Ome, before: dict[str, str]) -> None:
    await plane.sleep(30)
    row = await ome.row()
    assert row is not None
    assert (row.phase, row.incarnation) == (READY, 1)
    assert await ome.uids() == before
    assert await ome.events("RestartTriggered") == []


async def test_side_cars_and_init_containers_restart_nothing(plane: Plane) -> None:
    """Behaviours 18, 19, 22, C43: a sidecar, and one of the init kind, restart as often as they like, wherever they stand in the
    lists; one restart of ome-container is one restart of the Instance."""
    async with plane:
        ome = await start(plane, workers=1, containers=[SIDECAR], initContainers=[FETCH, PROXY])
        before = await ome.uids()
        names = [ome.pod_name(0, "leader"), ome.pod_name(0, "worker")]
        for times in (1, 2):
            await ome.crash(*names, container="metrics", restarts=times)
            await ome.crash(*names, container="proxy", restarts=times)
        await untouched(plane, ome, before)
        await plane.faults.crash(NAMESPACE, names[1], container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_restarted()
        assert not set((await ome.uids()).values()) & set(before.values())
        assert (await told(plane, ome)).startswith(
            f"pod {names[1]} container ome-container restarted after Ready: Error (exit 1)"
        )


async def test_a_container_of_another_name_is_not_the_main_one(plane: Plane) -> None:
    """Behaviour 32: the kubelet restarts it, and that is all."""
    async with plane:
        ome = await start(plane, main="server")
        before = await ome.uids()
        await ome.crash(ome.pod_name(), container="server")
        await untouched(plane, ome, before)


async def test_a_boot_crash_is_part_of_the_start(plane: Plane) -> None:
    """Behaviours 20, 21: two ends before Ready: no restart, then or later."""
    async with plane:
        ome = await start(plane, settle=False, annotations={"sandbox.regroup.dev/ready-delay": "5s"})
        await plane.wait_for(lambda: _runs(ome), timeout=60, what="the container runs")
        await ome.crash(ome.pod_name(), restarts=1)
        await plane.wait_for(lambda: _runs(ome), timeout=60, what="the container runs again")
        await ome.crash(ome.pod_name(), restarts=2)
        await ome.wait_ready()
        await untouched(plane, ome, await ome.uids())


async def test_a_failed_leader_is_named(plane: Plane) -> None:
    """Behaviours 24, C49: the pod object says Failed; all of its gang is made anew, and lastFailure survives the recovery."""
    async with plane:
        ome = await start(plane, policy=None, workers=3)
        before = await ome.uids()
        await plane.faults.fail_pod(NAMESPACE, ome.pod_name(0, "leader"), reason="Evicted")
        row = await ome.wait_restarted()
        assert not set((await ome.uids()).values()) & set(before.values())
        text = await told(plane, ome)
        assert text.startswith(f"pod {ome.pod_name(0, 'leader')}")
        assert "failed (Evicted" in text
        assert row.last_failure is not None
        assert (row.last_failure.pod_name, row.last_failure.reason) == (ome.pod_name(0, "leader"), "Evicted")


async def test_a_failed_container_has_its_code(plane: Plane) -> None:
    """Behaviour 25: a pod that is not restarted by its kubelet ends as Failed; container and code are told."""
    async with plane:
        ome = await start(plane, restartPolicy="Never")
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_restarted()
        assert await told(plane, ome) == f"pod {ome.pod_name()} container ome-container failed (Error, exit 1) (incarnation=2)"


async def test_a_succeeded_pod_is_one_too_few(plane: Plane) -> None:
    """Behaviour 26."""
    async with plane:
        ome = await start(plane, restartPolicy="OnFailure")
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=0)
        await ome.wait_restarted()
        assert await told(plane, ome) == "pod count 0 below desired 1 (incarnation=2)"


async def test_an_unready_pod_is_no_failure(plane: Plane) -> None:
    """Behaviour 27: counts fall, nothing else."""
    async with plane:
        ome = await start(plane, policy=None, workers=3)
        before = await ome.uids()
        await plane.faults.unready(NAMESPACE, ome.pod_name(0, "worker", 1), container=MAIN_CONTAINER)

        async def fallen() -> bool:
            row = await ome.row()
            return row is not None and row.serving_pod_count == 3 and (await ome.replica()).status.serving_replicas == 0

        await plane.wait_for(fallen, timeout=30, what="three of four serve")
        await untouched(plane, ome, before)


@pytest.mark.parametrize("lost", [1, 4])
async def test_a_gang_that_loses_pods_before_it_is_ready(plane: Plane, lost: int) -> None:
    """Behaviours 30, 31: some of its pods: a restart to incarnation 2; all of them: it is created anew at incarnation 1."""
    async with plane:
        ome = await start(
            plane, policy=None, workers=3, settle=False, annotations={"sandbox.regroup.dev/ready-delay": plane.slow_start}
        )

        async def complete() -> bool:
            row = await ome.row()
            return row is not None and row.phase == CREATING and row.pod_count == 4

        await plane.wait_for(complete, timeout=60, what="four pods are there")
        before = await ome.uids()
        await plane.stop_operator()
        for name in sorted(before)[:lost]:
            await plane.delete_pod(name, grace=0)

        async def gone() -> bool:
            return len(await ome.pods()) == 4 - lost

        await plane.wait_for(gone, timeout=30, what="they are gone")
        await plane.start_operator()
        if lost == 4:
            rows = await ome.wait_ready(timeout=180)
            assert rows[0].incarnation == 1
            assert await ome.events("RestartTriggered") == []
        else:
            assert await told(plane, ome) == "gang member lost: 3 of 4 pods present (incarnation=2)"
            await ome.wait_restarted()
        assert not set((await ome.uids()).values()) & set(before.values())


@pytest.mark.parametrize("workers", [0, 2])
async def test_under_none_a_failed_pod_is_replaced_alone(plane: Plane, workers: int) -> None:
    """Behaviour 35, C49: the object that has the name goes, and one pod of that name comes; same incarnation, no restart."""
    async with plane:
        ome = await start(plane, policy="None", workers=workers)
        before = await ome.uids()
        victim = ome.pod_name(0, "worker", 1) if workers else ome.pod_name()
        await plane.faults.fail_pod(NAMESPACE, victim)

        async def replaced() -> bool:
            now = await ome.uids()
            row = await ome.row()
            return now.keys() == before.keys() and now[victim] != before[victim] and row is not None and row.phase == READY

        await plane.wait_for(replaced, timeout=60, what=f"{victim} is replaced")
        after = await ome.uids()
        assert {name for name in before if after[name] != before[name]} == {victim}
        row = await ome.row()
        assert row is not None
        assert row.incarnation == 1
        assert await ome.events("RestartTriggered") == []
        assert len(await ome.events("TerminalPodRecycled")) == 1


async def test_an_init_container_that_waits_is_a_wedge(plane: Plane) -> None:
    """Behaviour 44, 9.13: an init container whose image cannot be had waits in an unready pod; the Instance is repaired."""
    async with plane:
        await Ome(plane).settings(stuckPodGracePeriod="5s")
        ome = await start(plane, policy="None", initContainers=[PROXY])
        await plane.sleep(6, exact=True)
        await plane.stop_operator()
        await plane.faults.refuse_image("absent")
        change = [{"op": "replace", "path": "/spec/initContainers/0/image", "value": "absent:1"}]
        await plane.client.json_patch(PODS, ome.pod_name(), change, namespace=NAMESPACE)

        async def waits() -> bool:
            (pod,) = (await ome.pods()).values()
            return _waits(pod, "proxy")

        await plane.wait_for(waits, timeout=60, what="the proxy waits for its image")
        await plane.faults.unready(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER)
        await plane.start_operator()
        await ome.wait_restarted()
        assert "wedged in" in await told(plane, ome)


async def test_a_missing_pod_leaves_an_earlier_failure_as_it_is(plane: Plane) -> None:
    """Behaviours 83, 84: of a failed and a crashed pod the failed one is kept; a pod that is simply gone changes nothing."""
    async with plane:
        ome = await start(plane, policy=None, workers=2)
        await plane.stop_operator()
        await ome.crash(ome.pod_name(0, "leader"), exit_code=7)
        await plane.faults.fail_pod(NAMESPACE, ome.pod_name(0, "worker", 1), reason="Evicted")
        await plane.wait_for(lambda: _phase(ome, ome.pod_name(0, "worker", 1), "Failed"), timeout=30, what="a worker is Failed")
        await plane.start_operator()
        kept = (await ome.wait_restarted()).last_failure
        assert kept is not None
        assert (kept.pod_name, kept.reason) == (ome.pod_name(0, "worker", 1), "Evicted")
        await plane.sleep(SETTLED)
        await plane.delete_pod(ome.pod_name(0, "worker", 0))
        assert (await ome.wait_restarted(incarnation=3)).last_failure == kept


def _waits(pod: InstancePod, container: str) -> bool:
    return any(
        one.name == container and one.state is not None and one.state.waiting is not None for one in pod.all_container_statuses()
    )


async def _runs(ome: Ome) -> bool:
    pod = (await ome.pods()).get(ome.pod_name())
    return pod is not None and any(
        one.state is not None and one.state.running is not None for one in pod.status.container_statuses
    )


async def _phase(ome: Ome, name: str, phase: str) -> bool:
    pod = (await ome.pods()).get(name)
    return pod is not None and pod.phase == phase
