"""How a restart goes on its way, and what stands in it, on a cluster: spec/omenative.md 3.6, 4.3, 4.6, 4.9; behaviours 74-77, 79,
80, 90, 97, 107-110, 117; T18."""

from typing import Any

import pytest
from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.kube.resources import ENDPOINT_SLICES, POD_DISRUPTION_BUDGETS, PODS
from regroup.omenative.api.row import MIGRATING, PENDING, READY, RESTARTING, UPDATING
from regroup.omenative.keys import (
    CLUSTER_SERVING_RUNTIMES,
    INFERENCE_REPLICAS,
    MAIN_CONTAINER,
    REVISION_HASH,
    ROLLOUT_PAUSED,
)
from regroup.wire.errors import ApiError

SETTLED = 3
"""Seconds after which a crash is surely later than the second in which the Instance became Ready (9.34)."""
FINALIZER = "tests.example/keep"


async def start(plane: Plane, *, instances: int = 1, gang: bool = False, engine: Any = None, **lifecycle: Any) -> Ome:
    ome = Ome(plane)
    await ome.runtime()
    body = gang_runtime(workers=1)
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, body["metadata"]["name"], body, field_manager="kubectl")
    await ome.apply(
        service_manifest(
            runtime="gang" if gang else "stub", policy=RECREATE, instances=instances, lifecycle=lifecycle, engine=engine
        )
    )
    await ome.wait_ready(instances)
    await plane.sleep(SETTLED)
    return ome


async def crash(plane: Plane, ome: Ome, index: int = 0, *, runner: str = "default") -> None:
    await plane.faults.crash(NAMESPACE, ome.pod_name(index, runner), container=MAIN_CONTAINER, exit_code=1)


async def test_nothing_is_deleted_while_it_is_routed_to(plane: Plane) -> None:
    """Behaviours 74, 75: a slice of the revision's Service lists the leader as ready: no pod of its gang goes, worker included,
    until it does not."""
    async with plane:
        ome = await start(plane, gang=True)
        before = await ome.pods()
        leader = before[ome.pod_name(0, "leader")]
        service = f"svc-engine-rev-{leader.metadata.labels[REVISION_HASH]}"
        lagging = {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": {
                "name": "lagging",
                "labels": {
                    "kubernetes.io/service-name": service,
                    "endpointslice.kubernetes.io/managed-by": "tests.example",
                    "ome.io/inferenceservice": "svc",
                    "component": "engine",
                },
            },
            "addressType": "IPv4",
            "ports": [],
            "endpoints": [
                {
                    "addresses": ["10.9.9.9"],
                    "conditions": {"ready": True},
                    "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": leader.name, "uid": leader.uid},
                }
            ],
        }
        await plane.client.create(ENDPOINT_SLICES, lagging, namespace=NAMESPACE)
        await plane.sleep(1)
        await crash(plane, ome, runner="worker")
        await ome.wait_row(phase=RESTARTING, incarnation=2)
        mark = len(plane.requests)
        await plane.sleep(60)
        pods = await ome.pods()
        assert {name: pod.uid for name, pod in pods.items()} == {name: pod.uid for name, pod in before.items()}
        assert not any(pod.deleting for pod in pods.values())
        assert plane.deletions(since=mark) == []
        await plane.client.delete(ENDPOINT_SLICES, "lagging", namespace=NAMESPACE)
        await ome.wait_restarted()
        assert not set((await ome.uids()).values()) & {pod.uid for pod in before.values()}


async def test_nothing_is_made_beside_an_old_pod(plane: Plane) -> None:
    """Behaviours 76, 77: all old pods are deleted; one that cannot go yet keeps every new one away."""
    async with plane:
        ome = await start(plane, gang=True)
        before = await ome.uids()
        kept = ome.pod_name(0, "worker")
        await ome.finalize(kept, [FINALIZER])
        await crash(plane, ome, runner="leader")

        async def alone() -> bool:
            pods = await ome.pods()
            return list(pods) == [kept] and pods[kept].deleting

        await plane.wait_for(alone, timeout=60, what="only the pod with a finalizer is left, on its way out")
        await plane.sleep(30)
        assert await alone()
        await ome.finalize(kept, None)
        await ome.wait_restarted()
        assert not set((await ome.uids()).values()) & set(before.values())


async def test_new_pods_must_stay_ready(plane: Plane) -> None:
    """Behaviours 79, 80, 117: 10 s of Ready without a break; a probe that fails between starts the window anew."""
    async with plane:
        ome = await start(plane, minReadySeconds=10)
        first = await ome.row()
        await crash(plane, ome)
        await ome.wait_row(phase=RESTARTING, incarnation=2)

        async def serves() -> bool:
            row = await ome.row()
            return row is not None and row.phase == RESTARTING and row.serving_pod_count == 1

        await plane.wait_for(serves, timeout=60, what="the new pod serves")
        await plane.sleep(4, exact=True)
        await plane.faults.unready(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, seconds=2)
        await plane.wait_for(lambda: _unready(ome), timeout=15, what="the probe fails")
        await plane.wait_for(serves, timeout=30, what="the new pod serves again")
        row = await ome.wait_restarted()
        (pod,) = (await ome.pods()).values()
        since = next(one.last_transition_time for one in pod.status.conditions if one.type == "Ready")
        assert since is not None
        assert row.ready_since is not None
        assert (row.ready_since - since).total_seconds() >= 10
        assert first is not None
        assert first.ready_since is not None
        assert row.ready_since > first.ready_since
        assert len(await plane.wait_for(lambda: ome.events("RestartCompleted"), timeout=10)) == 1


async def test_a_deadline_fails_nothing_that_serves(plane: Plane) -> None:
    """Behaviour 90, C53: it falls into the window of minReadySeconds; the Instance promotes."""
    async with plane:
        ome = await start(plane, minReadySeconds=12, instanceReadyTimeout="8s")
        await crash(plane, ome)
        await ome.wait_restarted()
        assert await ome.events("InstanceFailed") == []


async def test_a_new_pod_that_ends_is_replaced(plane: Plane) -> None:
    """Behaviour 97, C50: evicted while it starts: deleted, made again at the same incarnation, told; one RestartCompleted."""
    async with plane:
        ome = await start(plane, engine={"annotations": {"sandbox.regroup.dev/ready-delay": "4s"}})
        before = await ome.uids()
        await crash(plane, ome)
        victim = await plane.wait_for(lambda: _running(ome, before), timeout=60, what="a new pod runs")
        await plane.faults.fail_pod(NAMESPACE, ome.pod_name(), reason="Evicted")
        row = await ome.wait_restarted()
        assert set((await ome.uids()).values()).isdisjoint({victim, *before.values()})
        assert row.last_failure is not None
        assert row.last_failure.reason == "Evicted"
        (told,) = await ome.events("TerminalPodRecycled")
        assert ome.pod_name() in told.note
        await plane.wait_for(lambda: ome.events("RestartCompleted"), timeout=10)
        assert len(await ome.events("RestartTriggered")) == len(await ome.events("RestartCompleted")) == 1


@pytest.mark.parametrize("paused", [False, True])
async def test_a_crash_before_its_turn_to_be_updated(plane: Plane, paused: bool) -> None:
    """Behaviours 108, 109: while the roll is open, the update pass rebuilds it on the target, in its turn; paused, the restart
    rebuilds what runs."""
    async with plane:
        slow = {"sandbox.regroup.dev/ready-delay": "6s"}
        strategy = {"type": "SurgeThenDrain", "rollingUpdate": {"maxSurge": 1}}
        ome = await start(plane, instances=2, updateStrategy=strategy, engine={"annotations": slow})
        if paused:
            await ome.annotate({ROLLOUT_PAUSED: "true"})
            await plane.wait_for(lambda: _paused(ome), timeout=30, what="the pause reaches the replica")
        await ome.patch({"engine": {"runner": {"name": MAIN_CONTAINER, "image": "server:2"}}})
        if paused:
            await plane.wait_for(lambda: _revisions(ome, 2), timeout=30, what="the new revision is known")
        else:
            await ome.wait_row(0, phase=UPDATING)
        await crash(plane, ome, 1)
        if paused:
            row = await ome.wait_restarted(1)
            assert await _images(ome) == {"server:1"}
            await ome.annotate({ROLLOUT_PAUSED: None})
        await plane.wait_for(lambda: _all_run(ome, "server:2"), timeout=120, what="both run the new image")
        row = (await ome.wait_ready(2))[1]
        assert row.incarnation == (2 if paused else 1)
        assert len(await ome.events("RestartTriggered")) == int(paused)


async def test_an_eviction_that_a_budget_refuses_restarts_nothing(plane: Plane) -> None:
    """Behaviour 110: no pod left, so none is missing. A pod that is deleted past the budget is gone."""
    async with plane:
        ome = await start(plane, gang=True)
        before = await ome.uids()
        name = ome.pod_name(0, "worker")

        async def counted() -> bool:
            budget = await plane.client.get(POD_DISRUPTION_BUDGETS, "svc-engine", namespace=NAMESPACE, type=dict)
            status = budget.get("status", {})
            seen = status.get("observedGeneration") == budget["metadata"]["generation"]
            return bool(seen and budget["spec"]["minAvailable"] == 2 and status.get("currentHealthy") == 2)

        await ome.patch({"engine": {"minAvailable": 1}})
        await plane.wait_for(counted, timeout=60, what="the budget has counted the pods")
        with pytest.raises(ApiError, match="disruption budget"):
            await _evict(plane, name)
        await plane.sleep(20)
        assert await ome.uids() == before
        row = await ome.row()
        assert row is not None
        assert row.incarnation == 1
        await plane.delete_pod(name)
        await ome.wait_restarted()


async def test_a_migration_of_another_operator_is_left_alone(plane: Plane) -> None:
    """Behaviours 28, 107: an Instance that is being migrated is the migration's, whatever its pods do."""
    async with plane:
        ome = await start(plane)
        await plane.stop_operator()
        status = (await plane.client.get(INFERENCE_REPLICAS, "svc-engine", namespace=NAMESPACE, type=dict))["status"]
        (row,) = status["instanceStatuses"]
        row |= {
            "phase": MIGRATING,
            "operation": {"id": "m", "type": "Migrate", "step": "CreateSurge", "startedAt": row["readySince"]},
        }
        body = {"status": {"instanceStatuses": [row]}}
        await plane.client.merge_patch(INFERENCE_REPLICAS, "svc-engine", body, namespace=NAMESPACE, subresource="status")
        await plane.start_operator()
        before = await ome.uids()
        await ome.crash(ome.pod_name())
        await plane.sleep(20)
        found = await ome.row()
        assert found is not None
        assert (found.phase, found.incarnation) == (MIGRATING, 1)
        assert await ome.uids() == before
        assert await ome.events("RestartTriggered") == []


async def test_a_frozen_instance_without_pods_is_pending(plane: Plane) -> None:
    """T18, 9.8: and the restart that the policy asks for comes with the resume."""
    async with plane:
        ome = await start(plane)
        await ome.annotate({ROLLOUT_PAUSED: "freeze"})
        await plane.wait_for(lambda: _paused(ome), timeout=30, what="the freeze reaches the replica")
        await plane.delete_pod(ome.pod_name())
        await ome.wait_row(phase=PENDING, incarnation=1)
        assert await ome.pods() == {}
        await ome.annotate({ROLLOUT_PAUSED: None})
        await ome.wait_restarted()
        (told,) = await ome.events("RestartTriggered")
        assert "pod count 0 below desired 1" in told.note


async def _evict(plane: Plane, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    await plane.client.create(PODS, body, namespace=NAMESPACE, name=pod, subresource="eviction")


async def _unready(ome: Ome) -> bool:
    return not any(pod.ready for pod in (await ome.pods()).values())


async def _running(ome: Ome, before: dict[str, str]) -> str:
    """UID of a pod that is not in ``before`` and runs."""
    for name, pod in (await ome.pods()).items():
        if pod.uid != before[name] and pod.phase == "Running":
            return pod.uid
    return ""


async def _paused(ome: Ome) -> bool:
    return (await ome.replica()).spec.paused


async def _revisions(ome: Ome, count: int) -> bool:
    return len(await ome.revisions()) == count


async def _images(ome: Ome) -> set[str]:
    return {container.image for pod in (await ome.pods()).values() for container in pod.spec.containers}


async def _all_run(ome: Ome, image: str) -> bool:
    rows = await ome.rows()
    return await _images(ome) == {image} and all(row.phase == READY for row in rows.values())
