"""maxGroupRestarts, exhaustion, recovery: spec/leaderworkerset.md 5.5, 5.6, behaviours 68-106, cases C22, C24, C26, C39."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.pod import Pod
from regroup.kube.resources import NAMESPACES, PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.wire.errors import NotFound

GROUP = group_names(0, size=2)


def budget(limit: int | None, **more: Any) -> dict[str, Any]:
    template = {} if limit is None else {"maxGroupRestarts": limit}
    return lws_manifest(**{"replicas": 2, "size": 2, "template": template, **more})


async def fail(plane: Plane, old: dict[str, str], pod: str = "demo-0-1") -> dict[str, str]:
    """Crash a container and wait for the whole new group."""
    await plane.faults.crash(NAMESPACE, pod)
    group = pod.split("-")[1]
    new = await plane.wait_recreated(old, group_names(int(group), size=2))
    await plane.wait_available()
    return new


async def exhaust(plane: Plane, *pods: str) -> None:
    """Crash and wait until their groups are retained."""
    for pod in pods:
        await plane.faults.crash(NAMESPACE, pod)
    for pod in pods:
        group = int(pod.split("-")[1])
        await plane.wait_for(partial(retained, plane, group), what=f"the group of {pod} is retained")


async def retained(plane: Plane, group: int) -> bool:
    pods = await plane.pods()
    names = group_names(group, size=2)
    return (
        all(name in pods and pods[name].deleting and keys.CLEANUP_FINALIZER in pods[name].metadata.finalizers for name in names)
        and pods[names[0]].metadata.annotations.get(keys.EXHAUSTED) == "true"
    )


async def counts(plane: Plane) -> dict[str, int]:
    text = (await plane.lws()).metadata.annotations.get(keys.RESTART_COUNTS, "{}")
    value: dict[str, int] = json.loads(text)
    return {key.split("/")[1]: count for key, count in value.items()}


async def degraded(plane: Plane) -> str:
    condition = await plane.condition("Degraded")
    return f"{condition.status} {condition.reason}" if condition is not None else ""


async def test_two_restarts_and_no_third(plane: Plane) -> None:
    """Behaviours 68, 71, 74, 86, 87, 89: the third failure exhausts; pods stay as objects, stopped; the other group runs on."""
    async with plane:
        await plane.apply(budget(2))
        old = await plane.wait_available()
        first = await fail(plane, old)
        assert await counts(plane) == {"0": 1}
        await plane.delete_pod("demo-0-1")
        second = await plane.wait_recreated(first, GROUP)
        await plane.wait_available()
        assert await counts(plane) == {"0": 2}
        await exhaust(plane, "demo-0")
        await plane.sleep(60)
        assert await retained(plane, 0)
        assert await counts(plane) == {"0": 2}, "exhaustion itself is not counted"
        pods = await plane.pods()
        assert {pods[name].phase for name in GROUP} <= {"Failed", "Succeeded"}, "stopped: their resources are free"
        assert {name: pods[name].metadata.uid for name in GROUP} == {name: second[name] for name in GROUP}
        assert await degraded(plane) == "True ReplicaRestartBudgetExceeded"
        lws = await plane.lws()
        assert lws.status.ready_replicas == 1
        assert {name: uid for name, uid in (await plane.uids()).items() if name.startswith("demo-1")} == {
            name: old[name] for name in group_names(1, size=2)
        }
        assert len([event for event in await plane.events("ReplicaRestartBudgetExceeded") if event.type == "Warning"]) == 1
        uids = await plane.uids()
        for spent in (1, 2):
            await plane.faults.crash(NAMESPACE, "demo-1-1")
            uids = await plane.wait_recreated(uids, group_names(1, size=2))
            assert await counts(plane) == {"0": 2, "1": spent}, "a budget of its own, and all of it"
        assert await retained(plane, 0)


async def test_zero(plane: Plane) -> None:
    """Behaviours 69, 90, 105, cases C22, C39: the first failure exhausts; nothing is recreated or counted."""
    async with plane:
        await plane.apply(budget(0))
        old = await plane.wait_available()
        await exhaust(plane, "demo-0-1")
        mark = await plane.at_rest()
        for _ in range(10):
            await plane.sleep(2)
            for name in GROUP:
                await plane.delete_pod(name)
        assert [(str(entry), entry.body) for entry in plane.writes(since=mark)] == []
        assert {name: uid for name, uid in (await plane.uids()).items() if name in GROUP} == {name: old[name] for name in GROUP}
        assert await counts(plane) == {}
        for kind in ("Available", "Progressing", "UpdateInProgress"):
            condition = await plane.condition(kind)
            assert condition is not None
            assert (condition.status, condition.reason) == ("False", "ReplicaRestartBudgetExceeded")


async def test_unset_counts_nothing(plane: Plane) -> None:
    """Behaviour 70."""
    async with plane:
        await plane.apply(budget(None, replicas=1))
        uids = await plane.wait_available()
        for _ in range(8):
            uids = await fail(plane, uids)
        assert keys.RESTART_COUNTS not in (await plane.lws()).metadata.annotations
        assert await degraded(plane) == "False AsExpected"


async def test_a_leader_deleted_by_a_user_costs_nothing(plane: Plane) -> None:
    """Behaviour 73."""
    async with plane:
        await plane.apply(budget(1, replicas=1))
        old = await plane.wait_available()
        await plane.delete_pod("demo-0")
        await plane.wait_recreated(old, GROUP)
        await plane.wait_available()
        assert await counts(plane) == {}


async def test_recovery(plane: Plane) -> None:
    """Behaviours 92, 93, 95, 106, case C24: only recover=true on the retained leader; only that group; with a full budget."""
    async with plane:
        await plane.apply(budget(1))
        old = await plane.wait_available()
        once = await fail(plane, old)
        once = await fail(plane, once, "demo-1-1")
        await exhaust(plane, "demo-0-1", "demo-1-1")
        for name, value in (("demo-0", "yes"), ("demo-0", "True"), ("demo-0-1", "true")):
            await annotate(plane, name, value)
            await plane.sleep(20)
            assert await retained(plane, 0)
        mark = len(plane.requests)
        await annotate(plane, "demo-0", "true")
        new = await plane.wait_recreated(once, GROUP)
        let_go = [entry.request.path for entry in plane.writes(since=mark) if "/metadata/finalizers" in str(entry.body)]
        assert [path.rsplit("/", 1)[1] for path in let_go] == ["demo-0-1", "demo-0"], "workers first"
        await plane.sleep(10)
        assert await counts(plane) == {"1": 1}
        assert await retained(plane, 1)
        assert await degraded(plane) == "True ReplicaRestartBudgetExceeded"
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        new = await plane.wait_recreated(new, GROUP)
        await plane.sleep(5)
        assert await counts(plane) == {"0": 1, "1": 1}, "a fresh budget"
        await annotate(plane, "demo-1", "true")
        await plane.wait_recreated(once, group_names(1, size=2))
        await plane.wait_available()
        assert await degraded(plane) == "False AsExpected"
        assert not [pod for pod in (await plane.pods()).values() if pod.metadata.finalizers]


async def annotate(plane: Plane, name: str, value: str) -> None:
    await plane.client.merge_patch(PODS, name, {"metadata": {"annotations": {keys.RECOVER: value}}}, namespace=NAMESPACE)


async def test_a_request_from_before_does_not_recover(plane: Plane) -> None:
    """Behaviour 94, case C24 step 3."""
    async with plane:
        await plane.apply(budget(0))
        await plane.wait_available()
        await annotate(plane, "demo-0", "true")
        await exhaust(plane, "demo-0-1")
        await plane.sleep(20)
        assert await retained(plane, 0)
        assert keys.RECOVER not in (await plane.pods())["demo-0"].metadata.annotations


async def test_a_retained_group_goes_with_its_namespace(plane: Plane) -> None:
    """Behaviours 98, 99, spec 5.6.5: Kubernetes takes the pods out of a namespace before it touches a LeaderWorkerSet there, and
    retained pods wait for theirs: the namespace itself has to be what lets them go."""
    async with plane:
        await plane.apply(budget(0))
        await plane.wait_available()
        await exhaust(plane, "demo-0-1")
        await plane.client.delete(NAMESPACES, NAMESPACE)

        async def gone() -> bool:
            try:
                await plane.client.get(NAMESPACES, NAMESPACE)
            except NotFound:
                return True
            return False

        await plane.wait_for(gone, timeout=120, what="the namespace is gone")


@pytest.mark.parametrize("limit", [5, None])
async def test_editing_the_limit_does_not_recover(plane: Plane, limit: int | None) -> None:
    """Behaviours 80, 96, B6: nor does it roll anything."""
    async with plane:
        await plane.apply(budget(0))
        await plane.wait_available()
        await exhaust(plane, "demo-0-1")
        before = await plane.uids()
        revisions = len(await plane.events("CreatingRevision"))
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"maxGroupRestarts": limit}})
        await plane.sleep(30)
        assert await retained(plane, 0)
        assert await plane.uids() == before
        assert len(await plane.events("CreatingRevision")) == revisions


async def test_a_raised_and_a_lowered_limit(plane: Plane) -> None:
    """Behaviours 78, 79: nothing now; the next failure compares with the new limit."""
    async with plane:
        await plane.apply(budget(1, replicas=1))
        first = await fail(plane, await plane.wait_available())
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"maxGroupRestarts": 3}})
        await plane.sleep(5)
        second = await fail(plane, first)
        assert await counts(plane) == {"0": 2}
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"maxGroupRestarts": 1}})
        await plane.sleep(20)
        assert await plane.uids() == second
        await exhaust(plane, "demo-0-1")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("down", [False, True], ids=["up", "down meanwhile"])
async def test_deleting_it_lets_go(plane: Plane, propagation: Any, down: bool) -> None:
    """Behaviours 98, 99, B10, case C26 a: nothing hangs, nothing comes back, and nobody writes to the counters of what goes."""
    async with plane:
        await plane.apply(budget(1))
        await plane.wait_available()
        (revision,) = await plane.revisions()
        used_up = {f"{revision.metadata.labels[keys.REVISION]}/1": 1}
        patch = {"metadata": {"annotations": {keys.RESTART_COUNTS: json.dumps(used_up)}}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", patch, namespace=NAMESPACE)
        await exhaust(plane, "demo-1-1")
        mark = len(plane.requests)
        if down:
            await plane.stop_operator()
        await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE, propagation=propagation)
        if down:
            await plane.sleep(20)
            await plane.start_operator()

        async def gone() -> bool:
            return not await plane.pods() and not await plane.exists(LEADERWORKERSETS, "demo")

        await plane.wait_for(gone, timeout=30)
        await plane.sleep(20)
        assert await plane.pods() == {}
        assert [str(entry) for entry in plane.writes(since=mark) if keys.RESTART_COUNTS in str(entry.body)] == []


async def test_scaling_down_lets_go(plane: Plane) -> None:
    """Behaviours 83, 100, case C26 b: the group above goes with its counter and is not recreated."""
    async with plane:
        await plane.apply(budget(1))
        once = await fail(plane, await plane.wait_available(), "demo-1-1")
        await exhaust(plane, "demo-1-1")
        await plane.patch_lws("demo", {"replicas": 1})

        async def gone() -> bool:
            return sorted(await plane.uids()) == GROUP

        await plane.wait_for(gone, timeout=30)
        await plane.wait_available()
        await plane.sleep(20)
        assert await plane.uids() == {name: once[name] for name in GROUP}
        assert await counts(plane) == {}
        assert await degraded(plane) == "False AsExpected"


async def test_a_rollout_lets_go_and_starts_anew(plane: Plane) -> None:
    """Behaviours 72, 82, 102, case C26 c: replaced at the new revision with an unused budget; old counters go at its end."""
    async with plane:
        await plane.apply(budget(1))
        once = await fail(plane, await plane.wait_available(), "demo-1-1")
        await exhaust(plane, "demo-1-1")
        await plane.apply(budget(1, worker=pod_template(image="worker:2")))
        new = await plane.wait_recreated(once, [*GROUP, *group_names(1, size=2)], timeout=120)
        await plane.wait_available()
        await plane.sleep(5)
        assert await counts(plane) == {}
        assert await degraded(plane) == "False AsExpected"
        again = await fail(plane, new, "demo-1-1")
        assert await counts(plane) == {"1": 1}
        assert again["demo-0"] == new["demo-0"]


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("limits", [{}, {"maxUnavailable": 0, "maxSurge": 1}], ids=["default", "surge"])
async def test_a_rollout_gets_past_a_retained_group(plane: Plane, lost: int, limits: dict[str, Any]) -> None:
    """5.6.5, seed: selected for replacement during a rollout, the group is released, wherever it stands and although it uses up
    what may be unavailable. The healthy one serves until another does (case C87); nothing is left over."""
    strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": limits} if limits else None
    more = {"rolloutStrategy": strategy} if strategy else {}
    async with plane:
        await plane.apply(budget(0, **more))
        old = await plane.wait_available()
        await exhaust(plane, f"demo-{lost}-1")
        await plane.apply(budget(0, worker=pod_template(image="worker:2"), **more))

        async def over() -> bool:
            pods = await plane.pods()
            groups: dict[str, list[bool]] = {}
            for pod in pods.values():
                serves = pod.running_and_ready and not pod.deleting
                groups.setdefault(pod.metadata.labels[keys.GROUP_INDEX], []).append(serves)
            assert any(len(group) == 2 and all(group) for group in groups.values()), "one group serves at any time"
            assert len(groups) == 2 or lost == 0 or limits, "its turn comes first: nobody stands in for it"
            return len(pods) == 4 and all(all(group) for group in groups.values()) and not old.items() & _uids(pods).items()

        await plane.wait_for(over, timeout=180)
        new = await plane.wait_available()
        assert sorted(new) == [*GROUP, *group_names(1, size=2)]
        assert await degraded(plane) == "False AsExpected"
        assert await counts(plane) == {}
        await plane.sleep(20)
        assert await plane.uids() == new


def _uids(pods: Mapping[str, Pod]) -> dict[str, str]:
    return {name: pod.metadata.uid for name, pod in pods.items()}


@pytest.mark.parametrize("text", ["null", "[]", '{"x/0":-1}'])
async def test_counters_that_cannot_be_read(plane: Plane, text: str) -> None:
    """Behaviour 76, Q27: told, nothing is deleted; another LeaderWorkerSet is handled all the same; put right, it goes on."""
    async with plane:
        await plane.apply(budget(1, replicas=1), lws_manifest("other", size=2))
        old = await plane.wait_available()
        other = await plane.wait_available("other")
        patch = {"metadata": {"annotations": {keys.RESTART_COUNTS: text}}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", patch, namespace=NAMESPACE)
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.faults.crash(NAMESPACE, "other-0-1")
        await plane.wait_recreated(other, group_names(0, size=2, name="other"), name="other")
        await plane.sleep(20)
        assert await plane.uids() == old
        assert await plane.events("FailedRestartCount")
        mended = {"metadata": {"annotations": {keys.RESTART_COUNTS: None}}}
        await plane.client.merge_patch(LEADERWORKERSETS, "demo", mended, namespace=NAMESPACE)
        await plane.wait_recreated(old, GROUP)


async def test_a_recreation_that_counts_costs_at_most_seven_writes(plane: Plane) -> None:
    """Design 8: one more where a restart count is kept."""
    async with plane:
        await plane.apply(budget(5, replicas=1))
        old = await plane.wait_available()
        mark = await plane.at_rest()
        await fail(plane, old)
        await plane.sleep(30)
        writes = plane.writes(since=mark)
        assert len(writes) <= 7, "\n".join(map(str, writes))


@pytest.mark.parametrize("step", range(1, 8))
@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("limit", [2, 0], ids=["recreation", "exhaustion"])
async def test_killed_at_every_write(plane: Plane, limit: int, step: int, answered: bool) -> None:
    """Behaviour 85, case C127: the count grows by one, or the group is exhausted, wherever the operator died."""
    async with plane:
        await plane.apply(budget(limit, replicas=1))
        old = await plane.wait_available()
        await plane.sleep(5)
        killed = plane.kill_at(step, answered=answered)
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.sleep(20)
        if killed.is_set():
            await plane.stop_operator()
            await plane.sleep(2)
            plane.kill_at(0)
            await plane.start_operator()
        plane.kill_at(0)
        if limit:
            new = await plane.wait_recreated(old, GROUP)
            await plane.wait_available()
            await plane.sleep(30)
            assert await plane.uids() == new
            assert await counts(plane) == {"0": 1}
            assert not [pod for pod in (await plane.pods()).values() if pod.metadata.finalizers]
        else:
            await plane.wait_for(lambda: retained(plane, 0))
            await plane.sleep(30)
            assert await counts(plane) == {}
            assert await degraded(plane) == "True ReplicaRestartBudgetExceeded"
