"""What a recreation costs, and that a crash at any point of it changes nothing: design 8, contract of writes, case C127."""

import asyncio

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest


@pytest.mark.parametrize("size", [1, 2, 8, 32, 128])
async def test_a_recreation_costs_at_most_six_writes(plane: Plane, size: int) -> None:
    """Design 8: whatever the size, none that changes nothing, at most two events."""
    async with plane:
        await plane.apply(lws_manifest(size=size))
        old = await plane.wait_available()
        mark = await plane.at_rest()
        await plane.faults.crash(NAMESPACE, group_names(size=size)[-1])
        await plane.wait_recreated(old, group_names(size=size))
        await plane.wait_available()
        await plane.sleep(30)
        writes = plane.writes(since=mark)
        assert len(writes) <= 6, "\n".join(map(str, writes))
        assert all(entry.status < 300 for entry in writes), "\n".join(map(str, writes))
        events = [entry for entry in plane.requests[mark:] if "/events" in entry.request.path and entry.request.method != "GET"]
        assert len(events) <= 2, "\n".join(map(str, events))


async def test_the_first_start_costs_a_few_writes_a_group(plane: Plane) -> None:
    """anchor-figures: ten groups of eight until Ready with at most 35 writes and no conflict."""
    async with plane:
        await plane.apply(lws_manifest(replicas=10, size=8))
        await plane.wait_available()
        await plane.sleep(10)
        writes = plane.writes()
        assert len(writes) <= 35, "\n".join(map(str, writes))
        assert all(entry.status < 300 for entry in writes), "\n".join(map(str, writes))


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
@pytest.mark.parametrize("step", range(1, 9))
@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
async def test_killed_at_every_write(plane: Plane, policy: str, step: int, answered: bool) -> None:
    """Case C127, issue 3: killed before or after its n-th write of a recreation and started again, the end is the same: every
    pod new exactly once (under None only the lost one), status Available, one RecreateGroup at most told twice."""
    async with plane:
        await plane.apply(lws_manifest(policy=policy))
        old = await plane.wait_available()
        await plane.sleep(5)
        killed = plane.kill_at(step, answered=answered)
        await plane.delete_pod("demo-0-1")
        names = group_names() if policy != "None" else ["demo-0-1"]
        waiting = asyncio.create_task(killed.wait())
        recreated = asyncio.create_task(plane.wait_recreated(old, names))
        await asyncio.wait({waiting, recreated}, return_when=asyncio.FIRST_COMPLETED)
        if killed.is_set():
            await plane.stop_operator()
            await plane.sleep(2)
            await plane.start_operator()
        plane.kill_at(0)
        waiting.cancel()
        await recreated
        new = await plane.wait_available()
        await plane.sleep(30)
        assert await plane.uids() == new, "no second recreation"
        assert {name for name in old if new[name] != old[name]} == set(names)
