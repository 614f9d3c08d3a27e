"""Instances of OMENative with real kubelets and real containers: what each restart policy makes of a container that exits."""

import pytest
from tests.planes.node_plane import NodePlane, serving_runtime
from tests.planes.ome_hands import RECREATE, Ome, service_manifest
from tests.planes.plane import NAMESPACE

from regroup.omenative.keys import INCARNATION, MAIN_CONTAINER, SERVING_RUNTIMES

pytestmark = pytest.mark.node

START = 90.0
"""Seconds for real containers to come up."""
REBUILD = 120.0
SETTLED = 3
"""Seconds after which an exit is surely later than the second in which the Instance became Ready (spec/omenative.md 9.34)."""
INSTANCES = 2


async def start(plane: NodePlane, policy: str) -> Ome:
    """Two Instances of a leader and a worker, Ready for some seconds."""
    ome = Ome(plane)
    runtime = serving_runtime()
    await plane.client.apply(SERVING_RUNTIMES, runtime["metadata"]["name"], runtime, namespace=NAMESPACE, field_manager="kubectl")
    manifest = service_manifest(runtime=runtime["metadata"]["name"], instances=INSTANCES, policy=policy)
    manifest["spec"]["runtime"]["kind"] = SERVING_RUNTIMES.kind
    await ome.apply(manifest)
    await ome.wait_ready(INSTANCES, timeout=START)
    await plane.sleep(SETTLED)
    return ome


def of(ome: Ome, uids: dict[str, str], index: int) -> dict[str, str]:
    """The pods of one Instance."""
    return {name: uids[name] for name in (ome.pod_name(index, "leader"), ome.pod_name(index, "worker"))}


async def restarts(ome: Ome) -> dict[str, int]:
    """How often the kubelets restarted each pod's container."""
    return {
        name: sum(status.restart_count for status in pod.status.container_statuses) for name, pod in (await ome.pods()).items()
    }


async def test_an_exit_rebuilds_the_instance(plane: NodePlane) -> None:
    """Behaviours 22, 72, 78, 82: a worker's ome-container exits with code 1 after Ready: both pods of its Instance are new, one
    incarnation higher; the other Instance is not touched; code, reason and container are kept and told, once."""
    async with plane:
        ome = await start(plane, RECREATE)
        old = await ome.uids()
        victim = ome.pod_name(0, "worker")
        await plane.exit_with_1(victim)
        row = await ome.wait_restarted(timeout=REBUILD)
        rows = await ome.wait_ready(INSTANCES, timeout=REBUILD)
        new = await ome.uids()
        assert new.keys() == old.keys()
        assert not set(of(ome, new, 0).values()) & set(old.values())
        assert of(ome, new, 1) == of(ome, old, 1)
        assert rows[1].incarnation == 1
        pods = await ome.pods()
        assert {pods[name].metadata.labels[INCARNATION] for name in of(ome, new, 0)} == {"2"}
        assert set((await restarts(ome)).values()) == {0}
        failure = row.last_failure
        assert failure is not None
        assert (failure.pod_name, failure.container_name, failure.reason, failure.exit_code) == (
            victim,
            MAIN_CONTAINER,
            "Error",
            1,
        )
        (told,) = await plane.wait_for(lambda: ome.events("RestartTriggered"), timeout=30, what="the restart is told")
        assert told.note == (
            f"OMENative component=engine instance=0 restart triggered: pod {victim} container ome-container restarted after "
            "Ready: Error (exit 1) (incarnation=2)"
        )
        (done,) = await plane.wait_for(lambda: ome.events("RestartCompleted"), timeout=30, what="its end is told")
        assert done.note == "OMENative component=engine instance=0 restart complete (incarnation=2)"


async def test_under_none_only_the_kubelet_restarts_it(plane: NodePlane) -> None:
    """Behaviour 33: the same exit under None: its kubelet starts the container anew in the same pod; no other pod is touched, the
    incarnation stays, and the Instance serves again."""
    async with plane:
        ome = await start(plane, "None")
        old = await ome.uids()
        victim = ome.pod_name(0, "worker")
        await plane.exit_with_1(victim)

        async def restarted() -> bool:
            return (await restarts(ome))[victim] == 1

        await plane.wait_for(restarted, timeout=REBUILD, what="the kubelet restarts the container")
        rows = await ome.wait_ready(INSTANCES, timeout=REBUILD)
        await plane.sleep(5)
        assert await ome.uids() == old
        assert await restarts(ome) == {name: int(name == victim) for name in old}
        assert [row.incarnation for row in rows.values()] == [1, 1]
        assert await ome.events("RestartTriggered") == []
