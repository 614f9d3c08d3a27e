"""What users of OMENative see of their objects on a cluster: spec/omenative.md 1, 2, 6.2; behaviours 2, 11-14, 100-122."""

import pytest
from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.kube.meta import ObjectView
from regroup.kube.resources import ENDPOINT_SLICES, POD_DISRUPTION_BUDGETS, PODS, SERVICES
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES, MAIN_CONTAINER
from regroup.wire.errors import ApiError, NotFound
from regroup.wire.resource import Resource

SETTLED = 3
"""Seconds after which a crash is surely later than the second in which the Instance became Ready (9.34)."""


async def _start(plane: Plane, **manifest: object) -> Ome:
    ome = Ome(plane)
    await ome.runtime()
    await ome.apply(service_manifest(**manifest))  # type: ignore[arg-type]  # passed on
    return ome


async def test_the_pods_of_a_gang_know_their_place(plane: Plane) -> None:
    """Behaviours 2, 14, 121, 122: names, environment, host names, Always; and the stable Service lists ready pods only."""
    async with plane:
        ome = Ome(plane)
        body = gang_runtime()
        await plane.client.apply(CLUSTER_SERVING_RUNTIMES, body["metadata"]["name"], body, field_manager="kubectl")
        await ome.apply(service_manifest(runtime="gang", engine={"leader": {}, "worker": {}}))
        await ome.wait_ready()
        assert sorted(await ome.pods()) == ["svc-engine-0-leader-0", *(f"svc-engine-0-worker-{index}" for index in range(3))]
        pod = await plane.client.get(PODS, "svc-engine-0-worker-1", namespace=NAMESPACE, type=dict)
        env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        assert (env["OME_INSTANCE_POD_RANK"], env["OME_RUNNER_INDEX"], env["OME_INSTANCE_POD_COUNT"]) == ("2", "1", "4")
        assert env["OME_LEADER_ADDRESS"] == "svc-engine-0-leader-0.svc-engine-headless"
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("svc-engine-0-worker-1", "svc-engine-headless")
        assert pod["spec"]["restartPolicy"] == "Always"
        assert (await ome.replica()).spec.restart_policy == RECREATE

        async def routed() -> bool:
            selector = "kubernetes.io/service-name=svc-engine"
            page = await plane.client.list_all(ENDPOINT_SLICES, namespace=NAMESPACE, label_selector=selector, type=dict)
            named = {
                endpoint["targetRef"]["name"]
                for one in page.items
                for endpoint in one.get("endpoints") or ()
                if endpoint["conditions"].get("ready")
            }
            return named == {"svc-engine-0-leader-0"}

        await plane.wait_for(routed, what="the stable Service routes to the leader and to nobody else")


async def test_a_policy_edit_changes_nothing_that_runs(plane: Plane) -> None:
    """Behaviour 11: R to None to R: no new revision, no pod goes, incarnation stays 1."""
    async with plane:
        ome = await _start(plane, policy=RECREATE)
        await ome.wait_ready()
        before, revisions = await ome.uids(), await ome.revisions()
        for policy in ("None", RECREATE):
            await ome.patch({"engine": {"lifecycle": {"restartPolicy": policy}}})

            async def followed(policy: str = policy) -> bool:
                return (await ome.replica()).spec.restart_policy == policy

            await plane.wait_for(followed, what=f"the replica says {policy}")
            await plane.sleep(5)
        assert await ome.uids() == before
        assert await ome.revisions() == revisions
        row = await ome.row()
        assert row is not None
        assert row.incarnation == 1


async def test_a_policy_that_comes_late_counts_from_then_on(plane: Plane) -> None:
    """Behaviour 13: "uses the new value from then on": a container that restarted under None is noticed under R."""
    async with plane:
        ome = await _start(plane)
        await ome.wait_ready()
        await plane.sleep(SETTLED)
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        await plane.sleep(20)
        row = await ome.row()
        assert row is not None
        assert row.incarnation == 1
        await ome.patch({"engine": {"lifecycle": {"restartPolicy": RECREATE}}})
        await ome.wait_restarted()


async def test_the_conditions_follow_a_restart(plane: Plane) -> None:
    """Behaviours 112, 113: 0/1 without a budget, 1/2 (min 1) with maxUnavailable 1."""
    async with plane:
        rolling = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxUnavailable": 1}}}
        ome = await _start(plane, policy=RECREATE)
        two = Ome(plane, "two")
        await two.apply(service_manifest("two", policy=RECREATE, instances=2, lifecycle=rolling))
        await ome.wait_ready()
        await two.wait_ready(2)

        async def says(of: Ome, kind: str, reason: str, message: str) -> None:
            async def so() -> bool:
                found = await of.condition(kind)
                return found is not None and (found.reason, found.message) == (reason, message)

            await plane.wait_for(so, what=f"{of.name}: {kind} is {reason}: {message}")

        await says(ome, "EngineReady", "Ready", "All Instances are Ready")
        await says(two, "EngineReady", "Ready", "All Instances are Ready")
        await plane.sleep(SETTLED)
        for of in (ome, two):
            await plane.faults.crash(NAMESPACE, of.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        await says(ome, "EngineReady", "InsufficientAvailable", "0/1 Instances serving, need 1")
        await says(two, "EngineReady", "MinimumAvailable", "1/2 Instances serving (min 1)")
        ready = await two.condition("Ready")
        assert ready is not None
        assert ready.status == "True"
        await ome.wait_restarted()
        await says(ome, "EngineReady", "Ready", "All Instances are Ready")
        await says(ome, "Ready", "Ready", "All components are ready")


async def test_only_exact_values_pause(plane: Plane) -> None:
    """Behaviours 100, 101, 103: ``True`` is no pause; ``freeze`` holds a restart until it is lifted."""
    async with plane:
        ome = await _start(plane, policy=RECREATE, annotations={"ome.io/rollout-paused": "True"})
        await ome.wait_ready()
        assert not (await ome.replica()).spec.paused
        await ome.annotate({"ome.io/rollout-paused": "freeze"})

        async def frozen() -> bool:
            return (await ome.replica()).spec.frozen_pause

        await plane.wait_for(frozen, what="the replica is frozen")
        await plane.sleep(SETTLED)
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        await plane.sleep(20)
        row = await ome.row()
        assert row is not None
        assert row.incarnation == 1
        await ome.annotate({"ome.io/rollout-paused": None})
        await ome.wait_restarted()


async def test_what_belongs_to_a_service_goes_with_it(plane: Plane) -> None:
    """5.7: replicas, pods, Services and budgets; a component that is taken out goes alone."""
    async with plane:
        ome = await _start(plane, router={"minReplicas": 1})
        await ome.wait_ready()
        await ome.wait_ready(component="router")
        engine = await ome.uids()
        await ome.patch({"router": None})

        async def alone() -> bool:
            return not await ome.pods("router") and await _gone(plane, INFERENCE_REPLICAS, "svc-router")

        await plane.wait_for(alone, what="the router is gone", timeout=120)
        assert await ome.uids() == engine
        await plane.client.delete(INFERENCE_SERVICES, "svc", namespace=NAMESPACE)

        async def empty() -> bool:
            kinds = ((INFERENCE_REPLICAS, "svc-engine"), (SERVICES, "svc-engine"), (SERVICES, "svc-engine-headless"))
            gone = [await _gone(plane, kind, name) for kind, name in (*kinds, (POD_DISRUPTION_BUDGETS, "svc-engine"))]
            return all(gone) and not await ome.pods() and not await ome.revisions()

        await plane.wait_for(empty, what="nothing of it is left", timeout=120)


async def test_a_direct_edit_of_a_replica_is_refused_or_put_right(plane: Plane) -> None:
    """1.2: the webhook refuses spec edits; what goes around it, as the scale subresource does, is stamped anew."""
    async with plane:
        ome = await _start(plane)
        await ome.wait_ready()
        with pytest.raises(ApiError, match="edit the InferenceService instead"):
            await plane.client.merge_patch(INFERENCE_REPLICAS, "svc-engine", {"spec": {"replicas": 3}}, namespace=NAMESPACE)
        scale = {"spec": {"replicas": 3}}
        await plane.client.merge_patch(INFERENCE_REPLICAS, "svc-engine", scale, namespace=NAMESPACE, subresource="scale")

        async def right() -> bool:
            replica = await ome.replica()
            return replica.spec.replicas == 1 and len(replica.status.rows) == 1

        await plane.wait_for(right, what="the replica is at one Instance again")


async def test_a_runtime_that_comes_late(plane: Plane) -> None:
    """1.3: RuntimeNotFound is told, and the service starts once the runtime is there."""
    async with plane:
        ome = Ome(plane)
        await ome.apply(service_manifest(runtime="late"))

        async def told() -> bool:
            found = await ome.condition("RuntimeReady")
            return found is not None and found.reason == "RuntimeNotFound"

        await plane.wait_for(told, what="RuntimeReady is False")
        (event,) = await ome.events("RuntimeNotFound")
        assert (event.type, event.regarding) == ("Warning", "InferenceService/svc")
        await ome.runtime("late")
        await ome.wait_ready()
        assert await ome.condition("RuntimeReady") is None


async def _gone(plane: Plane, kind: Resource, name: str) -> bool:
    try:
        await plane.client.get(kind, name, namespace=NAMESPACE, type=ObjectView)
    except NotFound:
        return True
    return False
