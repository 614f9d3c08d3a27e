"""The Instance restart policy on a cluster: spec/omenative.md 4.2, 4.6, 4.8, behaviours 15, 22, 23, 33-36, 72-78, 82, 120."""

import pytest
from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.omenative.api.row import READY, RESTARTING
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INCARNATION, MAIN_CONTAINER, REVISION_HASH

SETTLED = 3
"""Seconds after which a crash is surely later than the second in which the Instance became Ready (9.34)."""


async def start(plane: Plane, *, instances: int = 1, policy: str | None = RECREATE, **service: object) -> Ome:
    ome = Ome(plane)
    await ome.runtime()
    await ome.apply(service_manifest(instances=instances, policy=policy, **service))  # type: ignore[arg-type]  # passed on
    await ome.wait_ready(instances)
    await plane.sleep(SETTLED)
    return ome


async def start_gang(plane: Plane, *, policy: str | None = None, instances: int = 1) -> Ome:
    ome = Ome(plane)
    body = gang_runtime()
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, body["metadata"]["name"], body, field_manager="kubectl")
    await ome.apply(service_manifest(runtime="gang", policy=policy, instances=instances))
    await ome.wait_ready(instances)
    await plane.sleep(SETTLED)
    return ome


async def test_a_container_restart_rebuilds_the_instance(plane: Plane) -> None:
    """Behaviours 15, 72, 73, 78, 82, 111, 120: the seed's own example, twice in a row."""
    async with plane:
        ome = await start(plane)
        (before,) = (await ome.pods()).values()
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=137, reason="OOMKilled")
        row = await ome.wait_restarted()
        (after,) = (await ome.pods()).values()
        assert after.metadata.uid != before.metadata.uid
        assert after.metadata.name == before.metadata.name
        assert after.metadata.labels[INCARNATION] == "2"
        assert after.metadata.labels[REVISION_HASH] == before.metadata.labels[REVISION_HASH]
        assert row.operation is None
        assert row.last_failure is not None
        assert (row.last_failure.container_name, row.last_failure.reason, row.last_failure.exit_code) == (
            MAIN_CONTAINER,
            "OOMKilled",
            137,
        )
        (told,) = await ome.events("RestartTriggered")
        assert told.regarding == "InferenceService/svc"
        assert told.type == "Warning"
        assert told.note == (
            "OMENative component=engine instance=0 restart triggered: pod svc-engine-0-default-0 container ome-container "
            "restarted after Ready: OOMKilled (exit 137) (incarnation=2)"
        )
        (done,) = await ome.events("RestartCompleted")
        assert (done.type, done.note) == ("Normal", "OMENative component=engine instance=0 restart complete (incarnation=2)")
        await plane.sleep(30)
        assert (await ome.uids()) == {after.metadata.name: after.metadata.uid}, "exactly once"
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_restarted(incarnation=3)
        assert len(await ome.events("RestartTriggered")) == 2


async def test_a_worker_takes_the_whole_gang_along(plane: Plane) -> None:
    """Behaviours 2, 22, 121: by default a multi-pod Instance is rebuilt whole."""
    async with plane:
        ome = await start_gang(plane)
        before = await ome.uids()
        assert sorted(before) == [
            "svc-engine-0-leader-0",
            "svc-engine-0-worker-0",
            "svc-engine-0-worker-1",
            "svc-engine-0-worker-2",
        ]
        await plane.faults.crash(NAMESPACE, "svc-engine-0-worker-2", container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_restarted()
        after = await ome.uids()
        assert sorted(after) == sorted(before)
        assert not set(after.values()) & set(before.values())


async def test_a_deleted_worker_takes_the_whole_gang_along(plane: Plane) -> None:
    """Behaviour 23."""
    async with plane:
        ome = await start_gang(plane)
        before = await ome.uids()
        await plane.delete_pod("svc-engine-0-worker-1")
        await ome.wait_restarted()
        assert not set((await ome.uids()).values()) & set(before.values())
        (told,) = await ome.events("RestartTriggered")
        assert "restart triggered: pod count 3 below desired 4 (incarnation=2)" in told.note


@pytest.mark.parametrize("shape", ["single", "gang"])
async def test_none_replaces_only_the_missing_pod(plane: Plane, shape: str) -> None:
    """Behaviours 34, 36: same name, same incarnation, no RestartTriggered; the others are left alone."""
    async with plane:
        ome = await (start(plane, policy=None) if shape == "single" else start_gang(plane, policy="None"))
        victim = "svc-engine-0-default-0" if shape == "single" else "svc-engine-0-worker-1"
        before = await ome.uids()
        await plane.delete_pod(victim)

        async def replaced() -> bool:
            now = await ome.uids()
            row = await ome.row()
            return now.get(victim, before[victim]) != before[victim] and row is not None and row.phase == READY

        await plane.wait_for(replaced)
        after = await ome.uids()
        assert {name: uid for name, uid in after.items() if name != victim} == {
            name: uid for name, uid in before.items() if name != victim
        }
        row = await ome.row()
        assert row is not None
        assert row.incarnation == 1
        assert await ome.events("RestartTriggered") == []


async def test_none_leaves_a_container_restart_to_the_kubelet(plane: Plane) -> None:
    """Behaviour 33."""
    async with plane:
        ome = await start(plane, policy=None)
        before = await ome.uids()
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        await plane.sleep(30)
        await ome.wait_ready()
        assert await ome.uids() == before
        row = await ome.row()
        assert row is not None
        assert row.incarnation == 1


async def test_the_row_is_written_before_a_pod_is_touched(plane: Plane) -> None:
    """Behaviours 72, 73, 75, 76: one status write says all of the restart, then the leader leaves rotation, then all pods go."""
    async with plane:
        ome = await start_gang(plane)
        mark = len(plane.requests)
        victim = "svc-engine-0-worker-2"
        await plane.faults.crash(NAMESPACE, victim, container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_restarted()
        writes = plane.writes(since=mark)
        opened = next(place for place, entry in enumerate(writes) if RESTARTING in str(entry.body))
        (row,) = writes[opened].body["status"]["instanceStatuses"]
        assert (row["phase"], row["incarnation"]) == (RESTARTING, 2)
        assert (row["operation"]["type"], row["operation"]["step"]) == ("Restart", "Drain")
        assert row["operation"]["reason"].startswith(f"pod {victim} container ome-container restarted after Ready")
        assert row["operation"]["deadline"] > row["operation"]["startedAt"]
        assert row["lastFailure"]["exitCode"] == 1
        gate = next(place for place, entry in enumerate(writes) if entry.request.path.endswith("svc-engine-0-leader-0/status"))
        deleted = next(place for place, entry in enumerate(writes) if entry.request.method == "DELETE")
        assert opened < gate < deleted
        replica = [entry for entry in writes if "/inferenceservices/" not in entry.request.path]
        held = [entry for entry in replica if "/pods/" in entry.request.path and "RestartDrain" in str(entry.body)]
        assert len(held) <= 4, "each serving pod leaves rotation once: this stable Service routes to workers too"
        assert len(replica) <= 2 * 4 + len(held) + 4, "2N + (serving routed pods) + 4"


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("step", range(1, 7))
async def test_killed_at_every_write(plane: Plane, step: int, answered: bool) -> None:
    """Behaviour 85, C47: whatever write it dies at, the Instance comes back once, at incarnation 2, told at most once."""
    async with plane:
        ome = await start(plane)
        before = await ome.uids()
        standing = plane.kill_at(step, answered=answered)
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        await standing.wait()
        await plane.stop_operator()
        plane.kill_at(0)
        await plane.start_operator()
        await ome.wait_restarted()
        await plane.sleep(20)
        row = await ome.row()
        assert row is not None
        assert (row.phase, row.incarnation) == (READY, 2)
        assert not set((await ome.uids()).values()) & set(before.values())
        assert len(await ome.events("RestartTriggered")) <= 1
