"""restartBackoff: spec/leaderworkerset.md 5.7, behaviours 120-137, cases C20, C32, C34, C36."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS

GROUP = group_names(0, size=2)
FIGURES = re.compile(r"Group (\d+) is recreated in (\d+) s \(restart count (\d+)\)")
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


async def leaves(plane: Plane, old: Mapping[str, str]) -> bool:
    """The old leader is on its way out or gone."""
    leader = (await plane.pods()).get("demo-0")
    return leader is None or leader.deleting or leader.metadata.uid != old["demo-0"]


async def test_a_young_group_waits_for_the_rest(plane: Plane) -> None:
    """Behaviours 120, 126, 128: measured from the leader's creation; told once with delay and count; nothing is counted yet."""
    async with plane:
        await plane.apply(backoff(30, 300))
        old = await plane.wait_available()
        await plane.delete_pod("demo-0-1")
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        (event,) = await plane.events("GroupRestartBackoff")
        assert (event.type, event.count) == ("Warning", 1)
        found = FIGURES.match(event.note)
        assert found is not None, event.note
        assert 30 - await leader_age(plane) - 1 <= int(found[2]) <= 30
        assert found[3] == "0"
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
        created = (await plane.pods())["demo-0"].metadata.creation_timestamp
        assert created is not None
        await plane.wait_for(partial(leaves, plane, old), timeout=30)
        assert 20 <= (plane.clock.now() - created).total_seconds() < 21.5
        await plane.wait_recreated(old, GROUP)


async def store_counts(plane: Plane, counts: Mapping[int, int]) -> None:
    """Let the groups have been recreated so often."""
    (revision,) = await plane.revisions()
    key = revision.metadata.labels[keys.REVISION]
    text = json.dumps({f"{key}/{group}": count for group, count in counts.items()})
    await plane.client.merge_patch(
        LEADERWORKERSETS, "demo", {"metadata": {"annotations": {keys.RESTART_COUNTS: text}}}, namespace=NAMESPACE
    )


async def stored_counts(plane: Plane) -> dict[int, int]:
    text = (await plane.lws()).metadata.annotations.get(keys.RESTART_COUNTS, "{}")
    return {int(key.rsplit("/", 1)[1]): count for key, count in json.loads(text).items()}


async def deferrals(plane: Plane, *, groups: int) -> dict[int, tuple[int, int]]:
    """The seconds left and the count that were told of each group, once all groups were told of."""

    async def told() -> dict[int, tuple[int, int]] | None:
        found = [FIGURES.match(event.note) for event in await plane.events("GroupRestartBackoff")]
        by_group = {int(one[1]): (int(one[2]), int(one[3])) for one in found if one}
        assert len(found) == len(by_group), "once a group"
        return by_group if len(by_group) == groups else None

    figures: dict[int, tuple[int, int]] = await plane.wait_for(told, what=f"{groups} deferrals are told")
    return figures


async def fail_all(plane: Plane, counts: Mapping[int, int], *, delay: Callable[[int], int]) -> None:
    """Let every group fail, and see that each waits for what is left of its delay."""
    began = min(pod.metadata.creation_timestamp for pod in (await plane.pods()).values() if pod.metadata.creation_timestamp)
    for group in counts:
        await plane.faults.crash(NAMESPACE, f"demo-{group}")
    figures = await deferrals(plane, groups=len(counts))
    age = (plane.clock.now() - began).total_seconds()
    for group, count in counts.items():
        left, told = figures[group]
        assert told == count
        assert delay(count) - age - 1 <= left <= delay(count), f"count {count}"


async def test_the_delay_ends_at_its_cap(plane: Plane) -> None:
    """Behaviour 123: 300 s for count 5 and for count 35, from the leader's creation; not before, and then at once."""
    counts = {0: 5, 1: 35}
    async with plane:
        await plane.apply(backoff(10, 300, size=1, replicas=2))
        old = await plane.wait_available()
        await store_counts(plane, counts)
        await fail_all(plane, counts, delay=lambda count: 300)
        await plane.age(290 - await leader_age(plane))
        await plane.touch()
        await plane.sleep(2)
        assert await plane.uids() == old
        await plane.age(11)
        await plane.touch()
        await plane.wait_recreated(old, ["demo-0", "demo-1"])
        assert await stored_counts(plane) == {0: 6, 1: 36}


async def test_large_counts(plane: Plane) -> None:
    """Case C32: 30, 60, 480, then 600 s whatever the count is; the groups go on being looked after, and each counts on."""
    counts = dict(enumerate((0, 1, 4, 5, 58, 59, 61, 62, 63, 1000, 100_000)))
    async with plane:
        await plane.apply(backoff(30, 600, size=1, replicas=len(counts)))
        old = await plane.wait_available()
        await store_counts(plane, counts)
        await fail_all(plane, counts, delay=lambda count: {0: 30, 1: 60, 4: 480}.get(count, 600))
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"restartBackoff": {"baseSeconds": 1, "capSeconds": 1}}})
        await plane.wait_recreated(old, list(old))
        assert await stored_counts(plane) == {group: count + 1 for group, count in counts.items()}


async def test_a_small_base_and_a_small_cap(plane: Plane) -> None:
    """Behaviour 124: a leader that always fails at once is recreated at ages 2, 4, 8, 10 and 10."""
    failing = pod_template(annotations={**QUICK, "sandbox.regroup.dev/exit-after": "300ms"})
    async with plane:
        wall = plane.clock.now() - timedelta(seconds=plane.clock.monotonic())
        await plane.apply(backoff(2, 10, size=1, worker=failing))
        created: dict[str, datetime] = {}
        gone: dict[str, float] = {}

        async def five_ends() -> bool:
            for pod in (await plane.pods()).values():
                assert pod.metadata.creation_timestamp is not None
                created[pod.metadata.uid] = pod.metadata.creation_timestamp
            for entry in plane.deletions():
                gone.setdefault(entry.body["preconditions"]["uid"], entry.time)
            return len(gone) == 5

        await plane.wait_for(five_ends, timeout=80)
        ages = [(wall + timedelta(seconds=gone[uid]) - created[uid]).total_seconds() for uid in gone]
        for age, delay in zip(ages, (2, 4, 8, 10, 10), strict=True):
            assert delay <= age < delay + 1.9, ages


async def test_the_replacement_of_a_deleted_worker_is_pending(plane: Plane) -> None:
    """Behaviour 127: under RecreateGroupAfterStart too: the decision was made while the group was started, so the group is
    recreated when it is due although a member is Pending then, and counted once."""
    async with plane:
        await plane.apply(backoff(15, 300, policy="RecreateGroupAfterStart"))
        old = await plane.wait_available()
        await plane.faults.make_unschedulable(NAMESPACE, "demo-0-1")
        await plane.delete_pod("demo-0-1", grace=0)
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        await plane.sleep(14 - await leader_age(plane), exact=True)
        pods = await plane.pods()
        assert (pods["demo-0"].metadata.uid, pods["demo-0"].deleting) == (old["demo-0"], False)
        assert pods["demo-0-1"].metadata.uid != old["demo-0-1"]
        assert pods["demo-0-1"].phase == "Pending"
        await plane.wait_for(partial(leaves, plane, old), timeout=6, what="the group is recreated when it is due")
        await plane.faults.make_schedulable(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(old, GROUP)
        await plane.sleep(10)
        assert await stored_counts(plane) == {0: 1}
        assert await plane.events("GroupUnschedulable") == []
