"""Faults of the cluster around Instances: spec/omenative.md 3.3, 3.6, 4.12; C50, C52, C57, C63, C64, C65."""

import pytest
from tests.planes.ome_hands import RECREATE, Ome, gang_runtime, service_manifest, waits_for
from tests.planes.plane import NAMESPACE, Plane, status_response

from regroup.kube.resources import NODES
from regroup.omenative.api.row import FAILED, READY, RESTARTING
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, MAIN_CONTAINER, RESET_INSTANCES
from regroup.wire.transport import Request, Response

SETTLED = 3
"""Seconds after which a crash is surely later than the second in which the Instance became Ready (9.34)."""


async def start(
    plane: Plane, *, instances: int = 1, workers: int = 1, policy: str | None = None, timeout: str = "", apart: bool = False
) -> Ome:
    ome = Ome(plane)
    body = gang_runtime("gang", workers=workers, apart=apart)
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "gang", body, field_manager="kubectl")
    lifecycle = {"instanceReadyTimeout": timeout} if timeout else None
    await ome.apply(service_manifest(runtime="gang", instances=instances, policy=policy, lifecycle=lifecycle))
    await ome.wait_ready(instances)
    await plane.sleep(SETTLED)
    return ome


def creates(request: Request, pod: str) -> bool:
    return request.method == "POST" and request.path.endswith("/pods") and f'"{pod}"'.encode() in (request.body or b"")


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3'),
        (429, "TooManyRequests", "slow down"),
        (500, "InternalError", "boom"),
    ],
)
async def test_refusals_that_pass(plane: Plane, code: int, reason: str, message: str) -> None:
    """C63 a, b, c: quota, throttling and errors of the server: tried again at the same incarnation, until Ready."""
    async with plane:
        ome = await start(plane, workers=2)
        pod = ome.pod_name(0, "worker", 1)
        asked: list[float] = []

        def refuse(request: Request) -> Response | None:
            if not creates(request, pod) or len(asked) >= 4:
                return None
            asked.append(plane.clock.monotonic())
            return status_response(code, reason, message, headers={"retry-after": "1"} if code == 429 else None)

        plane.line.answer = refuse
        await plane.faults.crash(NAMESPACE, ome.pod_name(0, "leader"), container=MAIN_CONTAINER, exit_code=1)
        row = await ome.wait_restarted(timeout=120)
        assert row.incarnation == 2
        assert len(asked) == 4
        assert code == 500 or asked[-1] - asked[0] >= 3, "less than one a second; Retry-After is respected"
        assert len(await ome.events("RestartTriggered")) == 1


async def test_a_refusal_that_stays(plane: Plane) -> None:
    """C63 d: an invalid pod is Failed with the server's words, and not asked for again and again."""
    async with plane:
        ome = await start(plane, workers=2)
        pod = ome.pod_name(0, "worker", 1)
        asked: list[float] = []

        def refuse(request: Request) -> Response | None:
            if not creates(request, pod):
                return None
            asked.append(plane.clock.monotonic())
            return status_response(422, "Invalid", "spec.x: Invalid value: 7: made up by the test")

        plane.line.answer = refuse
        await plane.faults.crash(NAMESPACE, ome.pod_name(0, "leader"), container=MAIN_CONTAINER, exit_code=1)
        row = await ome.wait_row(phase=FAILED)
        assert row.last_failure is not None
        assert "made up by the test" in row.last_failure.message
        await plane.wait_for(lambda: ome.events("InstanceRejected"), timeout=15, what="the refusal is told")
        await plane.sleep(60)
        assert len(asked) <= 20


async def test_one_broken_instance_stops_no_other(plane: Plane) -> None:
    """C64: deletes of Instance 1 answer 500: all others restart meanwhile; 1 does once the fault is over."""
    async with plane:
        ome = await start(plane, instances=5)

        def refuse(request: Request) -> Response | None:
            which = f"{request.path} {dict(request.query).get('labelSelector', '')}"
            mine = "/pods/svc-engine-1-" in which or "instance-index=1" in which
            return status_response(500, "InternalError") if request.method == "DELETE" and mine else None

        plane.line.answer = refuse
        for index in range(5):
            await plane.faults.crash(NAMESPACE, ome.pod_name(index, "leader"), container=MAIN_CONTAINER, exit_code=1)
        for index in (0, 2, 3, 4):
            await ome.wait_restarted(index, timeout=60)
        stuck = await ome.row(1)
        assert stuck is not None
        assert (stuck.phase, stuck.incarnation) == (RESTARTING, 2)
        await plane.sleep(120)
        plane.line.clear()
        await ome.wait_restarted(1, timeout=15)


async def test_a_silent_node_is_waited_for(plane: Plane) -> None:
    """C65: a worker's node stops reporting: no pod is forced, no new one is made beside the old, and the deadline fails the
    Instance. Once the node is gone and a reset asks for it, it is made anew."""
    async with plane:
        ome = await start(plane, timeout="60s", apart=True)
        before = await ome.pods()
        worker = before[ome.pod_name(0, "worker")]
        node = worker.spec.node_name
        assert node != before[ome.pod_name(0, "leader")].spec.node_name
        await plane.faults.node_down(node)
        await plane.faults.crash(NAMESPACE, ome.pod_name(0, "leader"), container=MAIN_CONTAINER, exit_code=1)
        mark = len(plane.requests)
        row = await ome.wait_row(phase=FAILED, timeout=150)
        assert row.incarnation == 2
        pods = await ome.pods()
        assert pods[worker.name].uid == worker.uid
        assert len(pods) <= 2
        assert not [one for one in plane.deletions(since=mark) if b'"gracePeriodSeconds":0' in (one.request.body or b"")]
        (told,) = await plane.wait_for(lambda: ome.events("InstanceFailed"), timeout=15, what="the failure is told")
        assert "DeadlineExceeded" in told.note
        await plane.client.delete(NODES, node)

        async def gone() -> bool:
            pod = (await ome.pods()).get(worker.name)
            return pod is None or pod.uid != worker.uid

        await plane.wait_for(gone, timeout=240, what="the garbage collector takes the pod of the lost node")
        await ome.annotate_replica({RESET_INSTANCES: "0"})
        await ome.wait_ready(timeout=180)
        assert not set((await ome.uids()).values()) & {pod.uid for pod in before.values()}


@pytest.mark.parametrize(
    ("value", "replaced", "event", "words"),
    [
        ("all", [0, 2], "InstancesReset", "reset instance(s) 0, 2 at operator request"),
        ("0,1", [0], "InstancesResetSkipped", "reset skipped for instance(s) 1 (Phase=Ready)"),
        ("ALL", [], "InstancesResetRejected", "nothing reset"),
        ("0,x", [], "InstancesResetRejected", '"x" is not a non-negative instance index; nothing reset'),
        ("-1", [], "InstancesResetRejected", '"-1" is not a non-negative instance index; nothing reset'),
        ("7", [], "InstancesResetSkipped", "reset skipped for instance(s) 7 (no such instance)"),
    ],
)
async def test_orders_of_a_reset(plane: Plane, value: str, replaced: list[int], event: str, words: str) -> None:
    """C52, behaviours 93-95: of three Instances 0 and 2 are Failed. The order is answered and gone; on the InferenceService it
    has no effect."""
    async with plane:
        await Ome(plane).settings(stuckPodGracePeriod="3s")
        ome = await start(plane, instances=3, policy=RECREATE, timeout="10m")
        await plane.faults.refuse_image("server:1")
        for index in (0, 2):
            await plane.faults.crash(NAMESPACE, ome.pod_name(index, "leader"), container=MAIN_CONTAINER, exit_code=1)
        for index in (0, 2):
            await ome.wait_row(index, phase=FAILED, timeout=120)
        before = await ome.uids()
        await ome.annotate({RESET_INSTANCES: "all"})
        await plane.sleep(10)
        assert await ome.uids() == before
        await ome.annotate_replica({RESET_INSTANCES: value})
        notes = await plane.wait_for(lambda: ome.events(event), timeout=30, what=f"{event} is told")
        assert any(words in one.note for one in notes), [one.note for one in notes]

        async def done() -> bool:
            now = await ome.uids()
            new = {index for index in range(3) if now.get(ome.pod_name(index, "leader")) != before[ome.pod_name(index, "leader")]}
            return new == set(replaced)

        await plane.wait_for(done, timeout=30, what=f"{replaced} are replaced and no other")
        await plane.sleep(10)
        assert await done()
        assert RESET_INSTANCES not in (await ome.replica()).metadata.annotations


async def test_a_flapping_crash_loop(plane: Plane) -> None:
    """C57: the pod runs now and then; the repair opens at the first waiting moment after its grace, though it was never waiting
    for that long."""
    async with plane:
        await Ome(plane).settings(stuckPodGracePeriod="12s")
        ome = await start(plane, policy="None")
        name = ome.pod_name(0, "worker")
        seen_early = False

        async def opened() -> bool:
            nonlocal seen_early
            row = await ome.row()
            assert row is not None
            if row.incarnation == 2:
                return True
            pod = (await ome.pods())[name]
            if waits_for(pod) == "CrashLoopBackOff":
                born = pod.metadata.creation_timestamp
                assert born is not None
                seen_early |= (plane.clock.now() - born).total_seconds() < 11
            elif pod.phase == "Running" and not pod.deleting:
                await plane.faults.crash(NAMESPACE, name, container=MAIN_CONTAINER, exit_code=1)
            return False

        await plane.wait_for(opened, timeout=90, what="the repair opens")
        (told,) = await plane.wait_for(lambda: ome.events("RestartTriggered"), timeout=15)
        assert f"pod {name} wedged in CrashLoopBackOff past the stuck-pod grace" in told.note
        assert seen_early, "it waited before, when the pod was too young"
        assert READY in {row.phase for row in (await ome.wait_ready(timeout=120)).values()}
