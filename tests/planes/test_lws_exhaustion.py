"""What is counted and what is kept when a budget is used up: spec/leaderworkerset.md 5.5, 5.6, behaviours 84, 88."""

import json

from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.leaderworkerset import keys

HOUR = 3600.0


async def counts(plane: Plane) -> dict[str, int]:
    text = (await plane.lws()).metadata.annotations.get(keys.RESTART_COUNTS, "{}")
    return {key.split("/")[1]: count for key, count in json.loads(text).items()}


async def test_a_worker_that_goes_already_may_go(plane: Plane) -> None:
    """Behaviour 88: a worker that is being deleted when the budget is used up gets no finalizer (an API server takes none any
    more) and vanishes; leader and other workers are retained with theirs, and nothing is made in its place."""
    async with plane:
        slow = pod_template(annotations={"sandbox.regroup.dev/stop-delay": "3s"}, grace=30)
        await plane.apply(lws_manifest(template={"maxGroupRestarts": 0}, worker=slow, leader=pod_template()))
        old = await plane.wait_available()
        await plane.delete_pod("demo-0-1")

        async def kept() -> bool:
            pods = await plane.pods()
            for pod in pods.values():
                assert pod.metadata.name != "demo-0-1" or keys.CLEANUP_FINALIZER not in pod.metadata.finalizers
            return all(
                pods[name].deleting and keys.CLEANUP_FINALIZER in pods[name].metadata.finalizers
                for name in ("demo-0", "demo-0-2")
            )

        await plane.wait_for(kept, what="leader and second worker are retained")

        async def vanished() -> bool:
            return "demo-0-1" not in await plane.pods()

        await plane.wait_for(vanished, what="the deleted worker is gone")
        await plane.sleep(60)
        pods = await plane.pods()
        assert {name: pod.metadata.uid for name, pod in pods.items()} == {name: old[name] for name in ("demo-0", "demo-0-2")}
        assert all(pod.deleting and keys.CLEANUP_FINALIZER in pod.metadata.finalizers for pod in pods.values())
        assert {pod.phase for pod in pods.values()} <= {"Failed", "Succeeded"}
        assert pods["demo-0"].metadata.annotations[keys.EXHAUSTED] == "true"
        assert await counts(plane) == {}


async def test_an_hour_of_health_gives_nothing_back(plane: Plane) -> None:
    """Behaviour 84, Q12, case C34: the count of a group that has been Ready for an hour stays, and the next failures go on from
    it. The sandbox lets the hour pass; where time is real, everything is an hour old by the operator's clock."""
    group = group_names(0, size=2)
    async with plane:
        await plane.apply(lws_manifest(size=2, template={"maxGroupRestarts": 2}))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        once = await plane.wait_recreated(old, group)
        await plane.wait_available()
        await plane.age(HOUR)
        await plane.touch()
        await plane.sleep(10)
        assert await plane.uids() == once
        assert await counts(plane) == {"0": 1}
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        twice = await plane.wait_recreated(once, group)
        await plane.wait_available()
        assert await counts(plane) == {"0": 2}
        await plane.faults.crash(NAMESPACE, "demo-0")

        async def exhausted() -> bool:
            condition = await plane.condition("Degraded")
            return condition is not None and condition.reason == "ReplicaRestartBudgetExceeded"

        await plane.wait_for(exhausted)
        assert await plane.uids() == twice
