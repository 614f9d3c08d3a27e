"""The metrics page of a life with failures: spec/leaderworkerset.md 7.7."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.planes.plane import NAMESPACE, group_names, lws_manifest, pod_template
from tests.planes.sandbox_plane import SandboxPlane

from regroup.kube.resources import PODS
from regroup.leaderworkerset.keys import LEADERWORKERSETS, RECOVER, RESTART_COUNTS

pytestmark = pytest.mark.looptime


def samples(plane: SandboxPlane, *, prefix: str = "lws_") -> dict[tuple[str, ...], float]:
    """Values by name and label values, without the times of creation."""
    plane.metrics.refresh()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(plane.metrics.render().decode())
        for sample in family.samples
        if sample.name.startswith(prefix) and not sample.name.endswith("_created")
    }


async def test_recreations_and_budgets() -> None:
    """Recreations are counted, groups that are retained now are a gauge that falls when they are recovered, and the series of a
    LeaderWorkerSet that is gone go with it."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(replicas=2, size=2, template={"maxGroupRestarts": 1}))
        uids = await plane.wait_available()
        assert samples(plane) == {}
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(uids, group_names(0, size=2))
        await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: plane.events("ReplicaRestartBudgetExceeded"))
        await plane.sleep(10)
        now = samples(plane)
        assert now["lws_group_recreations_total", "demo", NAMESPACE] == 1
        assert now["lws_group_budget_exhaustions_total", "demo", NAMESPACE] == 1
        assert now["lws_group_budget_exhausted", "demo", NAMESPACE] == 1
        assert not any("demo-0" in part for key in now for part in key), "no series for a pod"
        await plane.client.merge_patch(PODS, "demo-0", {"metadata": {"annotations": {RECOVER: "true"}}}, namespace=NAMESPACE)
        await plane.wait_available()
        assert ("lws_group_budget_exhausted", "demo", NAMESPACE) not in samples(plane)
        await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        await plane.wait_for(lambda: samples(plane) == {})


async def test_waits_and_skips() -> None:
    """Recreations put off, with the length of the wait; failures forgiven, with the reason (KEP-820)."""
    async with SandboxPlane() as plane:
        nowhere = pod_template(nodeSelector={"gpu": "yes"})
        await plane.apply(
            lws_manifest(size=2, template={"restartBackoff": {"baseSeconds": 60}}),
            lws_manifest("after", size=2, policy="RecreateGroupAfterStart", leader=pod_template(), worker=nowhere),
        )
        await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        await plane.faults.crash(NAMESPACE, "after-0")
        await plane.wait_for(lambda: plane.events("GroupUnschedulable"))
        await plane.sleep(5)
        now = samples(plane)
        assert now["lws_group_recreations_deferred_total", "demo", NAMESPACE] == 1
        assert now["lws_group_restart_backoff_seconds_count", "demo", NAMESPACE] == 1
        assert 0 < now["lws_group_restart_backoff_seconds_sum", "demo", NAMESPACE] <= 60
        assert now["lws_group_recreations_skipped_total", "after", NAMESPACE, "unschedulable"] == 1
        assert ("lws_group_recreations_total", "after", NAMESPACE) not in now


async def test_counters_of_groups_that_cannot_exist() -> None:
    """Q27: keys that name no group are told once and are nobody's pass, which would fail again and again."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(size=2, template={"maxGroupRestarts": 1}))
        old = await plane.wait_available()
        await plane.sleep(5)
        before = samples(plane, prefix="controller_runtime_reconcile_errors")
        for text in ('{"x":1}', '{"a/b":1}', '{"a/-1":1}', '{"a/12345678901234567890":1}'):
            patch = {"metadata": {"annotations": {RESTART_COUNTS: text}}}
            await plane.client.merge_patch(LEADERWORKERSETS, "demo", patch, namespace=NAMESPACE)
            await plane.sleep(5)
        assert samples(plane, prefix="controller_runtime_reconcile_errors") == before
        assert await plane.uids() == old
        assert {event.count for event in await plane.events("FailedRestartCount")} == {1}
