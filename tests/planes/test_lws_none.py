"""restartPolicy None: only what failed is replaced (spec/leaderworkerset.md 5.3, behaviours 47-52, cases C10, C11)."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

WORKERS = ("demo-0-1", "demo-0-2")


async def test_a_container_restart_is_the_kubelets_business(plane: Plane) -> None:
    """Behaviour 47, case C11 first step: no pod is deleted, the operator writes nothing to pods."""
    async with plane:
        await plane.apply(lws_manifest(policy="None"))
        old = await plane.wait_available()
        mark = len(plane.requests)
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: _restarted(plane, "demo-0-1"))
        await plane.sleep(20)
        assert await plane.uids() == old
        assert [str(entry) for entry in plane.writes(since=mark) if "/pods" in entry.request.path] == []


async def _restarted(plane: Plane, pod: str) -> bool:
    return (await plane.pods())[pod].restarts > 0


@pytest.mark.parametrize("lost", ["demo-0-1", "demo-0"])
@pytest.mark.parametrize("how", ["deleted", "failed", "forced", "foreground"])
async def test_only_the_lost_pod_is_replaced(plane: Plane, lost: str, how: str) -> None:
    """Behaviours 48, 49, 51, cases C10, C11: whoever is lost and however, all others keep their UIDs and are never deleted."""
    async with plane:
        await plane.apply(lws_manifest(policy="None"))
        old = await plane.wait_available()
        others = {name: uid for name, uid in old.items() if name != lost}
        await _lose(plane, lost, how)

        async def replaced() -> bool:
            pods = await plane.pods()
            assert {name: pods[name].metadata.uid for name in others} == others
            assert not any(pods[name].deleting for name in others)
            found = pods.get(lost)
            return found is not None and found.metadata.uid != old[lost] and found.running_and_ready

        await plane.wait_for(replaced, timeout=60)
        await plane.wait_available()
        await plane.sleep(20)
        assert await replaced()
        assert plane.deletions() == []


async def _lose(plane: Plane, name: str, how: str) -> None:
    propagation: Any = "Foreground" if how == "foreground" else "Background"
    if how == "failed":
        await plane.faults.fail_pod(NAMESPACE, name, reason="Evicted")
    else:
        await plane.delete_pod(name, grace=0 if how == "forced" else None, propagation=propagation)


async def test_failed_and_deleted_pods_come_back_within_seconds(plane: Plane) -> None:
    """Case C11 as it was reported, in one life: restarted in place, then failed, then another deleted; each time exactly that pod
    is replaced, within 10 s, and the number of pods is right again."""
    async with plane:
        await plane.apply(lws_manifest(policy="None", worker=QUICK))
        old = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_for(lambda: _restarted(plane, "demo-0-1"))
        assert await plane.uids() == old
        await plane.faults.fail_pod(NAMESPACE, "demo-0-1")
        first = await plane.wait_recreated(old, ["demo-0-1"], timeout=10)
        assert {name for name, uid in first.items() if uid != old[name]} == {"demo-0-1"}
        await plane.delete_pod("demo-0-2")
        second = await plane.wait_recreated(first, ["demo-0-2"], timeout=10)
        assert second.keys() == old.keys()
        assert {name for name, uid in second.items() if uid != first[name]} == {"demo-0-2"}


QUICK = pod_template(
    annotations={"sandbox.regroup.dev/start-delay": "50ms", "sandbox.regroup.dev/ready-delay": "50ms"},
    container={"imagePullPolicy": "Never"},
)


async def test_scaling_down_takes_the_workers_along(plane: Plane) -> None:
    """Behaviour 52, B29, case C10 last step: the sets that outlive their leaders do not outlive their groups."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, policy="None"))
        old = await plane.wait_available()
        await plane.patch_lws("demo", {"replicas": 1})
        await plane.wait_for(lambda: _only(plane, group_names(0)))
        await plane.wait_for(lambda: _sets_are(plane, ["demo", "demo-0"]), timeout=10)
        assert {name: old[name] for name in group_names(0)} == await plane.uids()
        await plane.patch_lws("demo", {"replicas": 0})
        await plane.wait_for(lambda: _only(plane, []), timeout=10)
        await plane.patch_lws("demo", {"replicas": 1})
        await plane.wait_available()


async def _sets_are(plane: Plane, names: list[str]) -> bool:
    return sorted(await plane.sets()) == names


async def _only(plane: Plane, names: list[str]) -> bool:
    return sorted(await plane.uids()) == sorted(names)


async def test_a_rollout_replaces_the_workers_too(plane: Plane) -> None:
    """Spec 5.3 b: the leader of that index exists at another revision, so the old workers go; each pod once."""
    async with plane:
        await plane.apply(lws_manifest(policy="None"))
        old = await plane.wait_available()
        await plane.apply(lws_manifest(policy="None", worker=pod_template(image="worker:2")))
        new = await plane.wait_recreated(old, group_names(), timeout=120)
        await plane.wait_available()
        await plane.sleep(20)
        assert await plane.uids() == new


async def test_changing_the_policy_moves_the_workers_to_their_leader(plane: Plane) -> None:
    """Q31, 5.3: after the rollout the group is recreated as one, and back again."""
    async with plane:
        await plane.apply(lws_manifest(policy="None"))
        old = await plane.wait_available()
        await plane.apply(lws_manifest())
        first = await plane.wait_recreated(old, group_names(), timeout=120)
        await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        second = await plane.wait_recreated(first, group_names(), timeout=60)
        await plane.wait_available()
        await plane.apply(lws_manifest(policy="None"))
        third = await plane.wait_recreated(second, group_names(), timeout=120)
        await plane.wait_available()
        await plane.delete_pod("demo-0")
        fourth = await plane.wait_recreated(third, ["demo-0"], timeout=60)
        assert {name: fourth[name] for name in WORKERS} == {name: third[name] for name in WORKERS}
