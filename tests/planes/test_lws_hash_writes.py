"""What a recreation of a Hash group costs, and that a crash at any point of it changes nothing: design 8, behaviour 85, case
C127."""

import asyncio

import pytest
from tests.planes.hash_groups import counts, degraded, gated, groups, hashed, recover, settled, until, wait_group
from tests.planes.plane import NAMESPACE, Plane


@pytest.mark.parametrize("size", [1, 2, 8, 32])
@pytest.mark.parametrize("limit", [None, 5], ids=["uncounted", "counted"])
async def test_the_cost_of_a_recreation(plane: Plane, size: int, limit: int | None) -> None:
    """Design 8: at most six writes whatever the size, group-ready included; where a count is kept, it is written before the
    deletion and again when it moves to the replacement, before its gate is lifted (107). No write fails or changes nothing.

    The two cannot be one: before the deletion nobody knows the key of the replacement, whose admission draws it, and after it a
    crash would find no count. Nor can any other write carry either of them: none is about the LeaderWorkerSet's metadata.
    """
    async with plane:
        await plane.apply(hashed(size=size, limit=limit))
        (old,) = await settled(plane, size=size)
        mark = await plane.at_rest()
        await plane.faults.crash(NAMESPACE, old.last)
        (new,) = await settled(plane, size=size, without={old.key})
        await plane.sleep(30)
        assert new.key != old.key
        writes = plane.writes(since=mark)
        assert len(writes) <= 6 + (2 if limit is not None else 0), "\n".join(map(str, writes))
        assert all(entry.status < 300 for entry in writes), "\n".join(map(str, writes))
        events = [entry for entry in plane.requests[mark:] if "/events" in entry.request.path and entry.request.method != "GET"]
        assert len(events) <= 2, "\n".join(map(str, events))


async def test_the_first_start_costs_a_few_writes_a_group(plane: Plane) -> None:
    """anchor-figures: each group's gate, worker set and group-ready, a few status writes, no conflict."""
    async with plane:
        await plane.apply(hashed(replicas=10, size=4))
        await settled(plane, count=10, size=4)
        await plane.sleep(10)
        writes = plane.writes()
        assert len(writes) <= 45, "\n".join(map(str, writes))
        assert all(entry.status < 300 for entry in writes), "\n".join(map(str, writes))


async def test_settled_costs_nothing(plane: Plane) -> None:
    """Design 8: not a request in ten minutes."""
    async with plane:
        await plane.apply(hashed(replicas=4, limit=1))
        await settled(plane, count=4)
        mark = await plane.at_rest()
        await plane.sleep(120)
        assert [str(entry) for entry in plane.requests[mark:] if "watch=" not in str(entry)] == []


STEPS = pytest.mark.parametrize("step", range(1, 10))
ANSWERED = pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])


async def _restart_if(plane: Plane, killed: asyncio.Event) -> None:
    if killed.is_set():
        await plane.stop_operator()
        await plane.sleep(2)
        await plane.start_operator()
    plane.kill_at(0)


@STEPS
@ANSWERED
async def test_killed_at_every_write_of_a_recreation(plane: Plane, step: int, answered: bool) -> None:
    """Behaviour 85, case C127: the count is one, under the new key; one new group; no finalizer is left."""
    async with plane:
        await plane.apply(hashed(limit=2))
        (old,) = await settled(plane)
        await plane.sleep(5)
        killed = plane.kill_at(step, answered=answered)
        await plane.faults.crash(NAMESPACE, old.last)
        task = asyncio.create_task(wait_group_gone(plane, old.key))
        await until(task, killed)
        await _restart_if(plane, killed)
        await task
        (new,) = await settled(plane)
        await plane.sleep(30)
        assert (await groups(plane))[new.key].uids == new.uids
        assert len(await groups(plane)) == 1
        assert await counts(plane) == {new.key: 1}
        assert not [pod for pod in new.pods if pod.metadata.finalizers]


async def wait_group_gone(plane: Plane, key: str) -> None:
    """Until a successor of the group is ready."""

    async def replaced() -> bool:
        found = await groups(plane)
        return key not in found and any(group.ready(2) for group in found.values())

    await plane.wait_for(replaced, timeout=120)


@STEPS
@ANSWERED
async def test_killed_at_every_write_of_exhaustion_and_recovery(plane: Plane, step: int, answered: bool) -> None:
    """Behaviour 85, case C127 step 2: retained with the replacement held, whatever happened; recovered, whole with count 0."""
    async with plane:
        await plane.apply(hashed(limit=0))
        (old,) = await settled(plane)
        await plane.sleep(5)
        killed = plane.kill_at(step, answered=answered)
        await plane.faults.crash(NAMESPACE, old.last)
        await plane.sleep(20)
        await _restart_if(plane, killed)
        await wait_group(plane, old.key, lambda group: group.retained)
        await plane.sleep(20)
        assert len(await gated(plane)) == 1
        assert await counts(plane) == {}
        assert await degraded(plane) == "True ReplicaRestartBudgetExceeded"
        killed = plane.kill_at(step, answered=answered)
        await recover(plane, old)
        await plane.sleep(20)
        await _restart_if(plane, killed)
        (new,) = await settled(plane)
        assert new.key != old.key
        assert await counts(plane) == {}
        assert not [pod for pod in new.pods if pod.metadata.finalizers]
