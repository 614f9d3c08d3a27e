"""A changed template rolls under the update strategy, on a cluster: omenative 5.2, 5.4; behaviours 92, 93, 105, 106; C44, C51."""

from typing import Any

import pytest
from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.omenative.api.row import FAILED, READY, Row
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, MAIN_CONTAINER, RESET_INSTANCES

SETTLED = 3
"""Seconds after which a crash is surely later than the second in which the Instance became Ready (9.34)."""
NEW = "server:2"


async def start(plane: Plane, *, gang: bool = False, lifecycle: dict[str, Any] | None = None, instances: int = 1) -> Ome:
    ome = Ome(plane)
    await ome.runtime()
    body = gang_runtime(workers=1)
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, body["metadata"]["name"], body, field_manager="kubectl")
    runtime = "gang" if gang else "stub"
    await ome.apply(service_manifest(runtime=runtime, policy=RECREATE, lifecycle=lifecycle, instances=instances))
    await ome.wait_ready(instances)
    await plane.sleep(SETTLED)
    return ome


async def new_image(ome: Ome, *, gang: bool = False, image: str = NEW) -> None:
    """What a user does: another image."""
    runner = {"name": MAIN_CONTAINER, "image": image}
    await ome.patch({"engine": {"leader": {"runner": runner}, "worker": {"runner": runner}} if gang else {"runner": runner}})


async def images(ome: Ome) -> set[str]:
    return {container.image for pod in (await ome.pods()).values() if not pod.deleting for container in pod.spec.containers}


async def wait_rolled(plane: Plane, ome: Ome, *, count: int = 1, image: str = NEW) -> dict[int, Row]:
    """Until every Instance is Ready at the new image and nothing else is left."""

    async def rolled() -> dict[int, Row] | None:
        rows, pods = await ome.rows(), await ome.pods()
        fine = len(rows) == count and all(row.phase == READY and row.operation is None for row in rows.values())
        clean = not any(pod.deleting for pod in pods.values())
        return rows if fine and clean and await images(ome) == {image} else None

    found: dict[int, Row] = await plane.wait_for(rolled, timeout=180, what=f"{count} Instances run {image}")
    return found


async def test_a_single_pod_surges(plane: Plane) -> None:
    """105: the other ordinal, incarnation 1, no restart; and a restart after it keeps the ordinal."""
    async with plane:
        ome = await start(plane)
        await new_image(ome)
        rows = await wait_rolled(plane, ome)
        assert rows[0].incarnation == 1
        assert list(await ome.pods()) == [ome.pod_name(ordinal=1)]
        assert await ome.events("RestartTriggered") == []
        assert len(await ome.revisions()) == 2
        await plane.sleep(SETTLED)
        await plane.faults.crash(NAMESPACE, ome.pod_name(ordinal=1), container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_restarted()
        assert list(await ome.pods()) == [ome.pod_name(ordinal=1)]
        assert await images(ome) == {NEW}


async def test_a_gang_surges_as_a_whole(plane: Plane) -> None:
    """5.2: a replacement at the next index; the source goes when it is Ready."""
    async with plane:
        ome = await start(plane, gang=True)
        await new_image(ome, gang=True)
        rows = await wait_rolled(plane, ome)
        assert list(rows) == [1]
        assert rows[1].incarnation == 1
        assert sorted(await ome.pods()) == [ome.pod_name(1, "leader"), ome.pod_name(1, "worker")]
        assert await ome.events("RestartTriggered") == []


async def test_pods_are_recreated(plane: Plane) -> None:
    """5.2: RecreatePod, incarnation + 1, same names."""
    async with plane:
        rolling = {"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 1}}
        ome = await start(plane, lifecycle={"updateStrategy": rolling}, instances=2)
        before = await ome.uids()
        await new_image(ome)
        rows = await wait_rolled(plane, ome, count=2)
        after = await ome.uids()
        assert sorted(after) == sorted(before)
        assert not set(after.values()) & set(before.values())
        assert [row.incarnation for row in rows.values()] == [2, 2]
        assert await ome.events("RestartTriggered") == []


@pytest.mark.parametrize("gang", [False, True])
async def test_an_update_in_place_is_no_crash(plane: Plane, gang: bool) -> None:
    """106, C44: UIDs kept, no restart; a crash 10 s later is one, on the new image."""
    async with plane:
        ome = await start(plane, gang=gang, lifecycle={"updateStrategy": {"type": "InPlaceIfPossible"}})
        before = await ome.uids()
        await new_image(ome, gang=gang)
        rows = await wait_rolled(plane, ome)
        assert await ome.uids() == before
        await plane.sleep(20)
        assert rows[0].incarnation == 1
        assert await ome.events("RestartTriggered") == []
        runner = "leader" if gang else "default"
        await plane.faults.crash(NAMESPACE, ome.pod_name(0, runner), container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_restarted()
        assert await images(ome) == {NEW}


async def test_a_failed_restart_is_kept_then_reset_then_rolled(plane: Plane) -> None:
    """91, 92, 93, C51: evidence stays; a reset starts it over; a new revision reaches it."""
    async with plane:
        ome = await start(plane, lifecycle={"instanceReadyTimeout": "20s"})
        await plane.faults.refuse_image("server:1")
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=3)
        row = await ome.wait_row(phase=FAILED)
        kept = await ome.uids()
        assert row.operation is not None
        await plane.sleep(60)
        assert await ome.uids() == kept
        assert (await ome.wait_row()).phase == FAILED
        await ome.annotate_replica({RESET_INSTANCES: "0"})
        await plane.wait_for(_other(ome, kept), timeout=60, what="the pod was replaced")
        assert len(await ome.events("InstancesReset")) == 1
        replica = await ome.replica()
        assert RESET_INSTANCES not in replica.metadata.annotations
        await new_image(ome)
        await wait_rolled(plane, ome)


def _other(ome: Ome, kept: dict[str, str]) -> Any:
    async def other() -> bool:
        now = await ome.uids()
        return bool(now) and not set(now.values()) & set(kept.values())

    return other
