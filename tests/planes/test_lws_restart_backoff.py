"""restartBackoff: spec/leaderworkerset.md 5.7, behaviours 120-137, cases C20, C34, C36."""

import asyncio
from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.leaderworkerset import keys

GROUP = group_names(0, size=2)
QUICK = {"sandbox.regroup.dev/start-delay": "100ms", "sandbox.regroup.dev/ready-delay": "100ms"}


def backoff(base: int, cap: int, *, limit: int | None = None, **more: Any) -> dict[str, Any]:
    template: dict[str, Any] = {"restartBackoff": {"baseSeconds": base, "capSeconds": cap}}
    if limit is not None:
        template["maxGroupRestarts"] = limit
    return lws_manifest(**{"size": 2, "template": template, "worker": pod_template(annotations=QUICK), **more})


async def leader_age(plane: Plane) -> float:
    created = (await plane.pods())["demo-0"].metadata.creation_timestamp
    assert created is not None
    return (plane.clock.now() - created).total_seconds()


async def test_a_young_group_waits_for_the_rest(plane: Plane) -> None:
    """Behaviours 120, 126, 128: measured from the leader's creation; told once with delay and count; nothing is counted yet."""
    async with plane:
        await plane.apply(backoff(30, 300))
        old = await plane.wait_available()
        await plane.delete_pod("demo-0-1")
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        (event,) = await plane.events("GroupRestartBackoff")
        assert (event.type, event.count) == ("Warning", 1)
        assert "restart count 0" in event.note
        await plane.sleep(20 - await leader_age(plane), exact=True)
        pods = await plane.pods()
        assert pods["demo-0"].metadata.uid == old["demo-0"], "the leader stays"
        assert not pods["demo-0"].deleting
        assert pods["demo-0-1"].metadata.uid != old["demo-0-1"], "the set made a replacement meanwhile"
        assert keys.RESTART_COUNTS not in (await plane.lws()).metadata.annotations
        await plane.sleep(29 - await leader_age(plane), exact=True)
        assert not (await plane.pods())["demo-0"].deleting
        await plane.sleep(2.5)
        new = await plane.wait_recreated(old, GROUP)
        assert new["demo-0-1"] != pods["demo-0-1"].metadata.uid
        assert (await plane.lws()).metadata.annotations[keys.RESTART_COUNTS].endswith('/0":1}')


async def test_an_old_group_does_not_wait(plane: Plane) -> None:
    """Behaviours 121, 125, case C34: a stable run skips the wait and resets nothing."""
    async with plane:
        await plane.apply(backoff(2, 8, limit=2))
        uids = await plane.wait_available()
        for _ in range(2):
            await plane.sleep(10, exact=True)
            began = plane.clock.monotonic()
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            uids = await plane.wait_recreated(uids, GROUP)
            assert plane.clock.monotonic() - began < 15
            await plane.wait_available()
        assert await plane.events("GroupRestartBackoff") == []
        await plane.faults.crash(NAMESPACE, "demo-0-1")

        async def exhausted() -> bool:
            condition = await plane.condition("Degraded")
            return condition is not None and condition.status == "True"

        await plane.wait_for(exhausted, timeout=10, what="exhausted at once, however young (behaviour 129)")


async def test_an_operator_restart_during_the_wait(plane: Plane) -> None:
    """Behaviour 133, case C134 e: the decision is on the leader; it is due when it was due."""
    async with plane:
        await plane.apply(backoff(20, 300))
        old = await plane.wait_available()
        await plane.delete_pod("demo-0-1")
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        await plane.stop_operator()
        await plane.sleep(10)
        await plane.start_operator()
        await plane.sleep(18 - await leader_age(plane), exact=True)
        assert not (await plane.pods())["demo-0"].deleting
        await plane.sleep(4)
        await plane.wait_recreated(old, GROUP)
        assert (await plane.lws()).metadata.annotations[keys.RESTART_COUNTS].endswith('/0":1}')


async def test_removed_during_the_wait(plane: Plane) -> None:
    """Behaviours 134, 137: recreated at the next look; the edit itself rolls nothing."""
    async with plane:
        await plane.apply(backoff(300, 300))
        old = await plane.wait_available()
        await plane.delete_pod("demo-0-1")
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"restartBackoff": None}})
        await plane.wait_recreated(old, GROUP, timeout=20)
        assert len(await plane.events("CreatingRevision")) == 1


async def test_a_user_replaces_the_group_during_the_wait(plane: Plane) -> None:
    """Case C36: the timer of the old leader does not hit the new one, and nothing was counted."""
    async with plane:
        await plane.apply(backoff(20, 20))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        await plane.delete_pod("demo-0", grace=0)
        new = await plane.wait_recreated(old, GROUP)
        await plane.sleep(40, exact=True)
        assert await plane.uids() == new
        assert keys.RESTART_COUNTS not in (await plane.lws()).metadata.annotations
        for entry in plane.deletions():
            if "/pods/" in entry.request.path:
                assert entry.body["preconditions"]["uid"] in old.values()


async def test_a_failing_init_container_is_paced(plane: Plane) -> None:
    """Case C20, B23: at leader age 10, 20, 40: three recreations in 90 s."""
    worker = pod_template(
        annotations={"sandbox.regroup.dev/exit-after": "init=1s,main=1000h", "sandbox.regroup.dev/exit-code": "init=1"},
        initContainers=[{"name": "init", "image": "init:1"}],
    )
    async with plane:
        seen: set[str] = set()
        await plane.apply(backoff(10, 300, worker=worker, leader=pod_template()))
        end = plane.clock.monotonic() + 90
        while plane.clock.monotonic() < end:
            seen |= {pod.metadata.uid for name, pod in (await plane.pods()).items() if name == "demo-0"}
            await asyncio.sleep(0.5)
        assert len(seen) == 4, "the first and three more"


@pytest.mark.parametrize("skew", [-2.0, 2.0])
async def test_whole_seconds_and_an_early_timer(plane: Plane, skew: float) -> None:
    """Case C38 in its kind: creation times have whole seconds; the wake-up comes back until it is due, without spinning."""
    async with plane:
        await plane.sleep(0.7 + abs(skew) / 10)
        await plane.apply(backoff(20, 20))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))

        async def going() -> bool:
            return (await plane.pods())["demo-0"].deleting

        await plane.wait_for(going, timeout=30)
        assert 20 <= await leader_age(plane) < 21.5
        await plane.wait_recreated(old, GROUP)
