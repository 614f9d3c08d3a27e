"""RecreateGroupAfterStart: spec/leaderworkerset.md 5.4, behaviours 53-67, cases C06, C100."""

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.resources import PODS

POLICY = "RecreateGroupAfterStart"


async def restarts(plane: Plane, pod: str) -> int:
    found = (await plane.pods()).get(pod)
    return found.restarts if found is not None else 0


async def test_a_started_group_is_recreated(plane: Plane) -> None:
    """Behaviours 53, 64: by a restart, and by a force-deleted worker whose replacement is Pending."""
    async with plane:
        await plane.apply(lws_manifest(policy=POLICY))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        new = await plane.wait_recreated(old, group_names())
        await plane.wait_available()
        await plane.delete_pod("demo-0-2", grace=0)
        again = await plane.wait_recreated(new, group_names())
        await plane.sleep(30)
        assert await plane.uids() == again


async def test_a_slow_start_is_left_alone_and_forgiven(plane: Plane) -> None:
    """Behaviours 54, 63, case C06: restarts while a sibling starts are skipped for good, without a GroupUnschedulable event."""
    async with plane:
        slow = pod_template(annotations={"sandbox.regroup.dev/start-delay": plane.slow_start})
        await plane.apply(lws_manifest(policy=POLICY, worker=slow, leader=pod_template()))

        async def leader_runs() -> bool:
            pods = await plane.pods()
            return len(pods) == 3 and pods["demo-0"].phase == "Running"

        await plane.wait_for(leader_runs)
        old = await plane.uids()
        for wanted in (1, 2):
            await plane.faults.crash(NAMESPACE, "demo-0")

            async def restarted(wanted: int = wanted) -> bool:
                return await restarts(plane, "demo-0") >= wanted

            await plane.wait_for(restarted, timeout=40)
        await plane.wait_available(timeout=180)
        await plane.sleep(60)
        assert await plane.uids() == old
        assert plane.deletions() == []
        assert await plane.events("GroupUnschedulable") == []
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(old, group_names(), timeout=300)


async def test_the_other_policy_does_recreate(plane: Plane) -> None:
    """Case C06 step 2."""
    async with plane:
        slow = pod_template(annotations={"sandbox.regroup.dev/start-delay": plane.slow_start})
        await plane.apply(lws_manifest(worker=slow, leader=pod_template()))

        async def leader_runs() -> bool:
            pods = await plane.pods()
            return len(pods) == 3 and pods["demo-0"].phase == "Running"

        await plane.wait_for(leader_runs)
        old = await plane.uids()
        await plane.faults.crash(NAMESPACE, "demo-0")
        await plane.wait_recreated(old, group_names(), timeout=180)


async def test_a_worker_without_a_place(plane: Plane) -> None:
    """Behaviour 57, cases C100, C106: skipped, told once naming the pod, never recreated."""
    async with plane:
        await plane.faults.make_unschedulable(NAMESPACE, "demo-0-2")
        await plane.apply(lws_manifest(policy=POLICY))

        async def two_run() -> bool:
            pods = await plane.pods()
            return len(pods) == 3 and pods["demo-0"].phase == pods["demo-0-1"].phase == "Running"

        await plane.wait_for(two_run)
        old = await plane.uids()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: plane.events("GroupUnschedulable"))
        await plane.sleep(60)
        assert await plane.uids() == old
        (event,) = await plane.events("GroupUnschedulable")
        assert (event.type, event.regarding, event.related) == ("Warning", "LeaderWorkerSet/demo", "Pod/demo-0-1")
        assert "demo-0-2" in event.note


async def test_a_scheduling_gate_is_no_lack_of_room(plane: Plane) -> None:
    """Behaviour 56: workers behind somebody's gate are starting: restarts are skipped, nobody is told that the group cannot be
    placed, and nothing is made up for when the gate is lifted; the group is guarded again from then on."""
    async with plane:
        gated = pod_template(schedulingGates=[{"name": "example.com/quota"}])
        await plane.apply(lws_manifest(policy=POLICY, worker=gated, leader=pod_template()))

        async def leader_runs() -> bool:
            pods = await plane.pods()
            return len(pods) == 3 and pods["demo-0"].phase == "Running"

        await plane.wait_for(leader_runs)
        old = await plane.uids()
        for name in group_names()[1:]:
            condition = (await plane.pods())[name].scheduled
            assert condition is not None
            assert (condition.status, condition.reason) == ("False", "SchedulingGated")
        await plane.faults.crash(NAMESPACE, "demo-0")

        async def restarted() -> bool:
            return await restarts(plane, "demo-0") >= 1

        await plane.wait_for(restarted, timeout=40)
        await plane.sleep(60)
        for name in group_names()[1:]:
            await plane.client.merge_patch(PODS, name, {"spec": {"schedulingGates": None}}, namespace=NAMESPACE)
        await plane.wait_available()
        await plane.sleep(60)
        assert await plane.uids() == old
        assert plane.deletions() == []
        assert await plane.events("GroupUnschedulable") == []
        await plane.faults.crash(NAMESPACE, "demo-0-1")

        async def going() -> bool:
            return (await plane.uids()).get("demo-0") != old["demo-0"]

        await plane.wait_for(going)


@pytest.mark.parametrize("policy", [POLICY, "RecreateGroupOnPodRestart", "None"])
async def test_leaders_without_a_place_are_reported(plane: Plane, policy: str) -> None:
    """Behaviours 61, 62: whatever the policy; the number of replicas; gone when they are placed."""
    async with plane:
        for group in (0, 1):
            await plane.faults.make_unschedulable(NAMESPACE, f"demo-{group}")
        await plane.apply(lws_manifest(replicas=3, size=2, policy=policy))

        async def reported() -> bool:
            condition = await plane.condition("Progressing")
            return condition is not None and (condition.status, condition.reason) == ("True", "GroupUnschedulable")

        await plane.wait_for(reported)
        await plane.sleep(10)
        condition = await plane.condition("Progressing")
        assert condition is not None
        assert "2 replicas" in condition.message
        for group in (0, 1):
            await plane.faults.make_schedulable(NAMESPACE, f"demo-{group}")
        await plane.wait_available(timeout=400)
        condition = await plane.condition("Progressing")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "GroupsProgressing")


async def test_the_deprecated_annotation(plane: Plane) -> None:
    """Behaviour 66: its presence guards RecreateGroupOnPodRestart."""
    async with plane:
        slow = pod_template(annotations={"sandbox.regroup.dev/start-delay": plane.slow_start})
        note = {"leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start": ""}
        await plane.apply(lws_manifest(worker=slow, leader=pod_template(), annotations=note))

        async def leader_runs() -> bool:
            pods = await plane.pods()
            return len(pods) == 3 and pods["demo-0"].phase == "Running"

        await plane.wait_for(leader_runs)
        old = await plane.uids()
        await plane.faults.crash(NAMESPACE, "demo-0")
        await plane.wait_available(timeout=180)
        await plane.sleep(30)
        assert await plane.uids() == old
