"""The stories with real kubelets and real containers: what the other planes play, a kernel and containerd do here."""

import json
from collections.abc import Mapping

import pytest
from tests.planes.node_plane import GROUP_ON_TWO_NODES, NodePlane, real_pod, workload
from tests.planes.nodeplane.images import ABSENT, BUSYBOX
from tests.planes.plane import group_names

from regroup.leaderworkerset import keys

pytestmark = pytest.mark.node

START = 90.0
"""Seconds for real containers to come up; seen: 2 to 5."""
REBUILD = 120.0
LOSS = 240.0
"""12 s without a heartbeat, 5 s of toleration, 5 s of pod grace, 5 s of loss grace, and a start."""
GROUP = group_names(size=2)


def of(uids: Mapping[str, str], group: int) -> dict[str, str]:
    """The pods of one group of two."""
    return {name: uid for name, uid in uids.items() if name in group_names(group, size=2)}


async def nodes_of(plane: NodePlane) -> dict[str, str]:
    return {name: pod.spec.node_name for name, pod in (await plane.pods()).items()}


async def told(plane: NodePlane, reason: str, *, kind: str = "Normal") -> str:
    """The one event with this reason and type, once it is there."""

    async def events() -> list[str]:
        return [event.note for event in await plane.events(reason) if event.type == kind]

    notes: list[str] = await plane.wait_for(events, timeout=30, what=f"a {kind} event {reason}")
    assert len(notes) == 1, notes
    return notes[0]


async def test_a_worker_exits_and_its_group_is_rebuilt(plane: NodePlane) -> None:
    """Behaviours 31-37: exit code 3 of a real process; new UIDs for all of its group, none for the other; the code is told."""
    async with plane:
        await plane.apply(workload(size=2, replicas=2))
        old = await plane.wait_available(timeout=START)
        await plane.exit_with_3("demo-0-1")
        await plane.wait_recreated(old, GROUP, timeout=REBUILD)
        new = await plane.wait_available(timeout=REBUILD)
        assert not set(of(new, 0).values()) & set(old.values())
        assert of(new, 1) == of(old, 1)
        note = await told(plane, "RecreateGroup")
        assert "demo-0-1" in note
        assert "exit code 3" in note


async def test_a_worker_out_of_memory_is_told_as_such(plane: NodePlane) -> None:
    """Behaviour 31: the kernel kills the process at its memory limit; the group is rebuilt and the event has code and reason."""
    async with plane:
        await plane.apply(workload(size=2, memory="48Mi"))
        old = await plane.wait_available(timeout=START)
        await plane.eat_memory("demo-0-1")
        await plane.wait_recreated(old, GROUP, timeout=REBUILD)
        await plane.wait_available(timeout=REBUILD)
        note = await told(plane, "RecreateGroup")
        assert "demo-0-1" in note
        assert "OOMKilled" in note
        assert "137" in note


async def test_a_dead_node_gives_its_group_to_the_other(plane: NodePlane) -> None:
    """Behaviours 43, 156, Q29: kubelet and containers gone at once; the whole group comes back on the other node by itself,
    recreated and counted once; and the node's return changes nothing."""
    async with plane:
        await plane.apply(workload(size=2, template={"maxGroupRestarts": 3}, worker=real_pod(affinity=GROUP_ON_TWO_NODES)))
        old = await plane.wait_available(timeout=START)
        before = await nodes_of(plane)
        assert len(set(before.values())) == 2
        dead = before["demo-0-1"]
        plane.machine.nodes[dead].power_off()
        await plane.wait_recreated(old, GROUP, timeout=LOSS)
        new = await plane.wait_available(timeout=REBUILD)
        assert set((await nodes_of(plane)).values()) == {before["demo-0"]}
        assert "demo-0-1" in await told(plane, "RecreateGroup")
        assert await counts(plane) == {"0": 1}
        plane.machine.nodes[dead].power_on()
        plane.machine.wait_ready()
        await plane.sleep(5)
        assert await plane.uids() == new


async def test_an_image_that_cannot_be_had_keeps_its_pod_pending(plane: NodePlane) -> None:
    """Behaviours 44, 54: a pod that waits for its image is no failure: nothing is recreated, nothing is Available, and a
    mended template brings the group up."""
    async with plane:
        await plane.apply(workload(size=2, leader=real_pod(), worker=real_pod(image=ABSENT)))

        async def refused() -> bool:
            return "ImagePullBackOff" in await plane.kubectl("get", "pods", "demo-0-1", ok=False)

        await plane.wait_for(refused, timeout=START, what="the image is given up on")
        held = await plane.uids()
        await plane.sleep(10)
        assert await plane.uids() == held
        assert (await plane.pods())["demo-0-1"].phase == "Pending"
        assert (await plane.lws()).status.ready_replicas == 0
        available = await plane.condition("Available")
        assert available is None or available.status == "False"
        assert await plane.events("RecreateGroup") == []
        await plane.patch_lws("demo", {"leaderWorkerTemplate": {"workerTemplate": real_pod(image=BUSYBOX)}})
        await plane.wait_available(timeout=REBUILD)


async def test_none_leaves_the_others_running(plane: NodePlane) -> None:
    """Behaviours 47, 48: a crash is restarted in place by the kubelet, a deleted pod is replaced alone; nobody else notices."""
    async with plane:
        await plane.apply(workload(policy="None"))
        old = await plane.wait_available(timeout=START)
        await plane.exit_with_3("demo-0-1")

        async def restarted() -> bool:
            pod = (await plane.pods())["demo-0-1"]
            return pod.restarts == 1 and pod.running_and_ready

        await plane.wait_for(restarted, timeout=REBUILD)
        assert await plane.uids() == old
        await plane.kubectl("delete", "pod", "demo-0-2", "--wait=false")
        new = await plane.wait_recreated(old, ["demo-0-2"], timeout=REBUILD)
        assert {name: new[name] for name in ("demo-0", "demo-0-1")} == {name: old[name] for name in ("demo-0", "demo-0-1")}
        pods = await plane.pods()
        assert {name: pod.restarts for name, pod in pods.items()} == {"demo-0": 0, "demo-0-1": 1, "demo-0-2": 0}
        assert await plane.events("RecreateGroup") == []


async def test_none_moves_only_what_was_on_the_dead_node(plane: NodePlane) -> None:
    """Behaviours 49, 50: the leader's node dies; the leader comes back elsewhere beside workers that were never disturbed."""
    async with plane:
        await plane.apply(workload(size=2, policy="None", worker=real_pod(affinity=GROUP_ON_TWO_NODES)))
        old = await plane.wait_available(timeout=START)
        before = await nodes_of(plane)
        assert len(set(before.values())) == 2
        plane.machine.nodes[before["demo-0"]].power_off()
        new = await plane.wait_recreated(old, ["demo-0"], timeout=LOSS)
        await plane.wait_available(timeout=REBUILD)
        assert new["demo-0-1"] == old["demo-0-1"]
        assert (await plane.pods())["demo-0-1"].restarts == 0
        assert set((await nodes_of(plane)).values()) == {before["demo-0-1"]}


async def test_logs_and_exec(plane: NodePlane) -> None:
    """kubectl reaches the containers of a group through API server and kubelet; names and environment are as the API says."""
    async with plane:
        await plane.apply(workload(size=2))
        await plane.wait_available(timeout=START)
        assert "ready on demo-0-1" in await plane.kubectl("logs", "demo-0-1")
        assert (await plane.kubectl("exec", "demo-0-1", "--", "hostname")).strip() == "demo-0-1"
        environment = dict(
            line.partition("=")[::2] for line in (await plane.kubectl("exec", "demo-0-1", "--", "env")).splitlines()
        )
        assert environment["LWS_GROUP_SIZE"] == "2"
        assert environment["LWS_WORKER_INDEX"] == "1"
        assert environment["LWS_LEADER_ADDRESS"] == "demo-0.demo.t"
        refused = await plane.kubectl("exec", "demo-0-1", "--", "sh", "-c", "exit 7", ok=False)
        assert "exit code 7" in refused


async def test_a_spent_budget_retains_the_group_until_it_is_recovered(plane: NodePlane) -> None:
    """Behaviours 68, 71, 86, 87, 92: budget 1. The second exit stops the group, its containers really end while its pods stay
    as objects, the other group runs on; the annotation brings it back with a full budget."""
    async with plane:
        await plane.apply(workload(size=2, replicas=2, template={"maxGroupRestarts": 1}))
        old = await plane.wait_available(timeout=START)
        await plane.exit_with_3("demo-0-1")
        once = await plane.wait_recreated(old, GROUP, timeout=REBUILD)
        await plane.wait_available(timeout=REBUILD)
        assert await counts(plane) == {"0": 1}
        await plane.exit_with_3("demo-0-1")

        async def retained() -> bool:
            pods = await plane.pods()
            return all(pods[name].deleting and pods[name].phase in {"Failed", "Succeeded"} for name in GROUP) and await degraded(
                plane
            ) == ("True", "ReplicaRestartBudgetExceeded")

        await plane.wait_for(retained, timeout=REBUILD)
        assert of(await plane.uids(), 0) == of(once, 0)
        assert of(await plane.uids(), 1) == of(old, 1)
        assert (await plane.lws()).status.ready_replicas == 1
        assert "exit code 3" in await told(plane, "ReplicaRestartBudgetExceeded", kind="Warning")
        await plane.kubectl("annotate", "pod", "demo-0", f"{keys.RECOVER}=true")
        await plane.wait_recreated(once, GROUP, timeout=REBUILD)
        await plane.wait_available(timeout=REBUILD)
        assert await counts(plane) == {}
        assert await degraded(plane) == ("False", "AsExpected")
        assert of(await plane.uids(), 1) == of(old, 1)


@pytest.mark.parametrize("story", ["recreate", "budget"])
async def test_the_demo_plays_on_real_nodes(plane: NodePlane, story: str) -> None:
    """``regroup demo --context``: the seed's stories with real containers, every check holds, and nothing is left behind."""
    async with plane:
        text = await plane.regroup("demo", "--context", "real", "--image", BUSYBOX, "--story", story, timeout=300)
        assert "checks held" in text
        assert "FAIL" not in text
        left = await plane.kubectl("get", "namespaces", "-o", "jsonpath={.items[?(@.status.phase=='Active')].metadata.name}")
        assert not [name for name in left.split() if name.startswith("demo-")]


async def counts(plane: NodePlane) -> dict[str, int]:
    value: dict[str, int] = json.loads((await plane.lws()).metadata.annotations.get(keys.RESTART_COUNTS, "{}"))
    return {key.split("/")[1]: count for key, count in value.items()}


async def degraded(plane: NodePlane) -> tuple[str, str]:
    condition = await plane.condition("Degraded")
    return (condition.status, condition.reason) if condition is not None else ("", "")
