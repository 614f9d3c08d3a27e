"""Orders by annotation on an InferenceReplica: ``ome.io/reset-instances`` (omenative 4.12)."""

from tests.planes.ome_hands import Ome, gang_runtime, service_manifest
from tests.planes.plane import NAMESPACE, Plane, status_response

from regroup.omenative.api.row import FAILED, READY, RESTARTING
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, MAIN_CONTAINER, RESET_INSTANCES
from regroup.wire.transport import Request, Response

SETTLED = 3


async def test_a_reset_is_not_lost_where_its_pods_cannot_be_deleted(plane: Plane) -> None:
    """4.12: the order stays in the mailbox until the pods are told to go, healthy ones among them, whatever fails on the way."""
    async with plane:
        ome = Ome(plane)
        body = gang_runtime(workers=1)
        await plane.client.apply(CLUSTER_SERVING_RUNTIMES, body["metadata"]["name"], body, field_manager="kubectl")
        await ome.apply(service_manifest(runtime="gang", lifecycle={"instanceReadyTimeout": "15s"}))
        await ome.wait_ready()
        await plane.sleep(SETTLED)
        await plane.faults.refuse_image("server:1")
        await plane.faults.crash(NAMESPACE, ome.pod_name(0, "leader"), container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_row(phase=RESTARTING)
        await ome.wait_row(phase=FAILED)
        await plane.faults.accept_image("server:1")
        refused = 0

        def answer(request: Request) -> Response | None:
            nonlocal refused
            if request.method == "DELETE" and "/pods" in request.path and refused < 2:
                refused += 1
                return status_response(403, "Forbidden")
            return None

        plane.line.answer = answer
        before = set((await ome.uids()).values())
        await ome.annotate_replica({RESET_INSTANCES: "0"})

        async def carried_out() -> bool:
            return RESET_INSTANCES not in (await ome.replica()).metadata.annotations

        await plane.wait_for(carried_out, timeout=60, what="the order is carried out")
        assert refused == 2
        await ome.wait_row(phase=READY, incarnation=2)
        assert not before & set((await ome.uids()).values()), "every pod was made anew"
