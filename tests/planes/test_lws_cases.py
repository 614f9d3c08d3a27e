"""Public cases with strangers, disturbed lines or odd states: C01, C104, C112, C114, C116, C117, C130, C132, C134."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template, status_response

from regroup.kube.resources import PODS, STATEFULSETS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.runtime.reflector import READ_TIMEOUT
from regroup.wire.transport import Request, Response

QUICK = pod_template(
    annotations={"sandbox.regroup.dev/start-delay": "50ms", "sandbox.regroup.dev/ready-delay": "50ms"},
    container={"imagePullPolicy": "Never"},
)


async def _replaced(plane: Plane, name: str, old: str) -> bool:
    pod = (await plane.pods()).get(name)
    return pod is not None and pod.metadata.uid != old and pod.running_and_ready


class TestC01:
    """A deleted worker is replaced before the controller looks."""

    async def test_events_arrive_late_and_back_to_back(self, plane: Plane) -> None:
        """Case C01, behaviours 36, 64, B1: the replacement is there and Ready when the deletion is seen."""
        async with plane:
            await plane.apply(lws_manifest(worker=QUICK))
            old = await plane.wait_available()
            plane.line.flowing.clear()
            await plane.delete_pod("demo-0-2", grace=0)
            await plane.wait_for(lambda: _replaced(plane, "demo-0-2", old["demo-0-2"]))
            plane.line.flowing.set()
            new = await plane.wait_recreated(old, group_names(), timeout=15)
            await plane.wait_available()
            await plane.sleep(20)
            assert await plane.uids() == new
            assert len([entry for entry in plane.deletions() if entry.request.path.endswith("/pods/demo-0")]) == 1

    async def test_the_operator_is_down_meanwhile(self, plane: Plane) -> None:
        """Case C01 second half, B27: nothing was watching; the status remembers who the members were."""
        async with plane:
            await plane.apply(lws_manifest(worker=QUICK))
            old = await plane.wait_available()
            await plane.sleep(5)
            await plane.stop_operator()
            await plane.delete_pod("demo-0-2", grace=0)
            await plane.wait_for(lambda: _replaced(plane, "demo-0-2", old["demo-0-2"]))
            await plane.start_operator()
            new = await plane.wait_recreated(old, group_names(), timeout=30)
            await plane.wait_available()
            await plane.sleep(20)
            assert await plane.uids() == new, "one recreation"


class TestC104:
    """Strangers with matching labels are counted, owned or deleted."""

    @staticmethod
    def stranger(name: str, like: Any, *, owner: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        meta: dict[str, Any] = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {**like.metadata.labels},
            "annotations": {keys.SIZE: "2"},
        }
        if owner is not None:
            meta["ownerReferences"] = owner
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}

    async def test_strangers(self, plane: Plane) -> None:
        """Case C104: their failures cause nothing, they raise no count, and no teardown touches them."""
        async with plane:
            await plane.apply(lws_manifest(replicas=2, size=2), lws_manifest("other", size=1))
            old = await plane.wait_available()
            await plane.wait_available("other")
            like = (await plane.pods())["demo-0-1"]
            other = (await plane.lws("other")).metadata
            owner = {
                "apiVersion": LEADERWORKERSETS.api_version,
                "kind": LEADERWORKERSETS.kind,
                "name": "other",
                "uid": other.uid,
                "controller": True,
            }
            for name, owners in (("p1-9", None), ("p2-9", [owner])):
                await plane.client.create(PODS, self.stranger(name, like, owner=owners), namespace=NAMESPACE)
            await plane.wait_for(lambda: _running(plane, "p1-9"))
            strangers = {name: uid for name, uid in (await plane.uids()).items() if name.startswith("p")}
            for name in ("p1-9", "p2-9"):
                await plane.faults.crash(NAMESPACE, name)
            await plane.sleep(20)
            for name in ("p1-9", "p2-9"):
                await plane.faults.fail_pod(NAMESPACE, name)
            await plane.sleep(20)
            assert {name: uid for name, uid in (await plane.uids()).items() if name in old} == old
            assert plane.deletions() == []
            assert (await plane.lws()).status.ready_replicas == 2
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            await plane.wait_recreated(old, group_names(size=2))
            await plane.wait_available()
            now = await plane.uids()
            assert {name: now[name] for name in group_names(1, size=2)} == {name: old[name] for name in group_names(1, size=2)}
            assert {name: uid for name, uid in now.items() if name in strangers} == strangers
            await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
            await plane.wait_for(lambda: _only_strangers(plane, strangers))

    async def test_a_name_that_is_taken_is_reported(self, plane: Plane) -> None:
        """Case C104 third stranger: a pod of a member's name without any label is not removed."""
        async with plane:
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo-0-1"}, "spec": QUICK["spec"]}
            made: dict[str, Any] = await plane.client.create(PODS, body, namespace=NAMESPACE)
            await plane.apply(lws_manifest(size=2))

            async def told() -> bool:
                return any("demo-0-1" in event.note for event in await plane.events("FailedCreate"))

            await plane.wait_for(told, timeout=60)
            await plane.sleep(60)
            found: dict[str, Any] = await plane.client.get(PODS, "demo-0-1", namespace=NAMESPACE)
            assert found["metadata"]["uid"] == made["metadata"]["uid"]
            assert (await plane.lws()).status.ready_replicas == 0


async def _running(plane: Plane, name: str) -> bool:
    return (await plane.pods())[name].phase == "Running"


async def _only_strangers(plane: Plane, strangers: dict[str, str]) -> bool:
    return await plane.uids() == strangers


class TestC112:
    """A worker is taken for a leader and grows its own group."""

    async def test_a_template_cannot_make_a_worker_a_leader(self, plane: Plane) -> None:
        """Case C112: reserved labels of the template are overridden; two pods, no third level, also after a recreation."""
        async with plane:
            await plane.apply(lws_manifest(size=2, worker=pod_template(labels={keys.WORKER_INDEX: "0"})))
            old = await plane.wait_available()
            assert sorted(old) == ["demo-0", "demo-0-1"]
            assert (await plane.pods())["demo-0-1"].metadata.labels[keys.WORKER_INDEX] == "1"
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            new = await plane.wait_recreated(old, group_names(size=2))
            await plane.sleep(20)
            assert await plane.uids() == new
            assert sorted(await plane.sets()) == ["demo", "demo-0"]

    async def test_no_pod_is_made_without_its_identity(self, plane: Plane) -> None:
        """Case C112, variant: the webhook is away while pods are to be made. None is made then, so that none lacks its labels or
        grows a group of its own; when it is back, the group is whole again."""
        async with plane:
            await plane.apply(lws_manifest(size=2))
            old = await plane.wait_available()
            await plane.stop_operator()
            plane.line.webhooks = False
            await plane.delete_pod("demo-0-1", grace=0)
            await plane.delete_pod("demo-0", grace=0)
            await plane.sleep(30)
            assert await plane.uids() == {}
            await plane.start_operator()
            plane.line.clear()
            new = await plane.wait_recreated(old, group_names(size=2), timeout=120)
            await plane.sleep(30)
            assert await plane.uids() == new
            assert sorted(await plane.sets()) == ["demo", "demo-0"]

    @pytest.mark.parametrize("first", ["demo", "demo-0"])
    async def test_two_whose_names_collide(self, plane: Plane, first: str) -> None:
        """Case C112 second half: the later one reports it and never touches the first one's objects."""
        second = "demo-0" if first == "demo" else "demo"
        async with plane:
            await plane.apply(lws_manifest(first, size=2))
            old = await plane.wait_available(first)
            kept = {name: found.metadata.uid for name, found in (await plane.sets(first)).items()}
            await plane.apply(lws_manifest(second, size=2))
            await plane.wait_for(lambda: plane.events("FailedCreate"))
            await plane.sleep(60)
            assert await plane.uids(first) == old
            assert {name: found.metadata.uid for name, found in (await plane.sets(first)).items()} == kept
            assert not [name for name in await plane.uids(second) if name.count("-") > 2]


class TestDisturbedLines:
    """Cases C114, C116, C117, C130, C132: the line between operator and API server."""

    async def test_watches_go_silent(self, plane: Plane) -> None:
        """Case C114: open and dead; the operator notices by itself and acts."""
        async with plane:
            await plane.apply(lws_manifest(size=2))
            old = await plane.wait_available()
            await plane.sleep(10)
            plane.line.dead = True
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            await plane.sleep(1)
            plane.line.dead = False
            await plane.wait_recreated(old, group_names(size=2), timeout=READ_TIMEOUT + 10)

    async def test_one_kind_is_forbidden_for_a_while(self, plane: Plane) -> None:
        """Case C116: other kinds keep working; after it ends the failure is handled without a restart of the process."""

        refused = 0

        def forbidden(request: Request) -> Response | None:
            nonlocal refused
            if not request.path.endswith("/pods") or request.method != "GET":
                return None
            refused += 1
            return status_response(403, "Forbidden")

        async with plane:
            await plane.apply(lws_manifest(size=2))
            old = await plane.wait_available()
            plane.line.answer = forbidden
            plane.line.cut = True
            await plane.client.merge_patch(PODS, "demo-0", {"metadata": {"labels": {"wake": "up"}}}, namespace=NAMESPACE)
            await plane.sleep(1)
            plane.line.cut = False
            await plane.apply(lws_manifest("other", size=1))
            await plane.wait_for(lambda: plane.exists(STATEFULSETS, "other"), timeout=5, what="other kinds keep working")
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            await plane.sleep(30, exact=True)
            assert refused > 1, "the operator was refused, and asked again"
            assert (await plane.uids())["demo-0"] == old["demo-0"]
            plane.line.clear()
            await plane.wait_recreated(old, group_names(size=2), timeout=30)

    async def test_odd_objects_do_not_end_a_watch(self, plane: Plane) -> None:
        """Case C116 last part: pods without labels or status are nobody's business."""
        async with plane:
            await plane.apply(lws_manifest(size=2))
            old = await plane.wait_available()
            bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "labels": {keys.NAME: "demo"}}}
            with_spec = {**bare, "spec": {"containers": [{"name": "main", "image": "x"}]}}
            with pytest.raises(Exception, match="annotation"):
                await plane.client.create(PODS, with_spec, namespace=NAMESPACE)
            odd = {**bare, "metadata": {"name": "odd", "labels": {keys.NAME: "demo"}, "annotations": {keys.SIZE: "2"}}}
            with pytest.raises(Exception, match="index"):
                await plane.client.create(PODS, {**odd, "spec": with_spec["spec"]}, namespace=NAMESPACE)
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            await plane.wait_recreated(old, group_names(size=2), timeout=30)

    @pytest.mark.parametrize(
        ("header", "within"),
        [({"retry-after": "3"}, 10), ({}, 10), ({"retry-after": "120"}, 130)],
        ids=["header", "no header", "a long header"],
    )
    async def test_too_many_requests(self, plane: Plane, header: dict[str, str], within: float) -> None:
        """Case C117: asked again at leisure, recreated once when it is over; nobody waits longer than the server asked for."""
        async with plane:
            await plane.apply(lws_manifest(size=2))
            old = await plane.wait_available()
            await plane.sleep(5)
            plane.line.answer = lambda request: status_response(429, "TooManyRequests", headers=header)
            mark = len(plane.requests)
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            await plane.sleep(15)
            assert len(plane.requests) - mark < 15 * 3, "at most one a second for each task that is at work"
            plane.line.clear()
            new = await plane.wait_recreated(old, group_names(size=2), timeout=within)
            await plane.sleep(20)
            assert await plane.uids() == new

    @pytest.mark.parametrize("broken", ["expired", "error", "cut"])
    async def test_a_list_that_breaks_off_is_not_the_truth(self, plane: Plane, broken: str) -> None:
        """Case C130: the second page fails; nothing is taken for gone."""
        pages = 0

        def second_page(request: Request) -> Response | None:
            nonlocal pages
            query = dict(request.query)
            if request.path.endswith("/pods") and query.get("sendInitialEvents"):
                return status_response(403, "Forbidden", "no watch lists here")
            if not request.path.endswith("/pods") or "continue" not in query or pages >= 2:
                return None
            pages += 1
            if broken == "expired":
                return status_response(410, "Expired")
            if broken == "error":
                return status_response(500, "InternalError")
            return Response(200, {"content-type": "application/json"}, b'{"kind": "PodList", "items": [{"meta')

        async with plane:
            await plane.apply(lws_manifest(replicas=2, size=260))
            old = await plane.wait_available(timeout=600)
            mark = len(plane.requests)
            plane.line.answer = second_page
            await plane.stop_operator()
            await plane.start_operator()
            await plane.sleep(120)
            assert await plane.uids() == old
            assert plane.deletions(since=mark) == []
            assert (await plane.lws()).status.ready_replicas == 2

    async def test_gone_and_conflict_on_the_way_are_no_failures(self, plane: Plane) -> None:
        """Case C132: every second DELETE answers 404 although it was not done, creates answer AlreadyExists."""
        seen = 0

        def answer(request: Request) -> Response | None:
            nonlocal seen
            if request.method == "DELETE" and "/pods/" in request.path:
                seen += 1
                return status_response(404, "NotFound") if seen % 2 else None
            return None

        def rewrite(request: Request, response: Response) -> Response:
            made = request.method == "POST" and request.path.endswith("/statefulsets") and response.status == 201
            return status_response(409, "AlreadyExists") if made else response

        async with plane:
            await plane.apply(lws_manifest(replicas=2, size=4))
            old = await plane.wait_available()
            plane.line.answer, plane.line.rewrite = answer, rewrite
            for group in (0, 1):
                await plane.faults.crash(NAMESPACE, f"demo-{group}-1")
            new = await plane.wait_recreated(old, [*group_names(0, size=4), *group_names(1, size=4)], timeout=15)
            await plane.wait_available()
            await plane.sleep(20)
            assert await plane.uids() == new


class TestC134:
    """Start of a process with objects in odd states."""

    async def test_a_start_finds_what_it_finds(self, plane: Plane) -> None:
        """Case C134 a, b, c, f: nothing is wanted, a group is half gone, one is being deleted; a second start writes nothing."""
        slow = pod_template(annotations={"sandbox.regroup.dev/stop-delay": "10s"})
        async with plane:
            await plane.apply(
                lws_manifest("a", replicas=0), lws_manifest("b", worker=slow), lws_manifest("c", worker=slow), lws_manifest("f")
            )
            for name in ("a", "b", "c", "f"):
                await plane.wait_available(name)
            await plane.sleep(5)
            old, kept = await plane.uids("b"), await plane.uids("f")
            await plane.faults.crash(NAMESPACE, "b-0-1")
            await plane.wait_for(lambda: _going(plane, "b"))
            await plane.stop_operator()
            await plane.client.delete(LEADERWORKERSETS, "c", namespace=NAMESPACE, propagation="Foreground")
            await plane.sleep(3)
            await plane.start_operator()
            new = await plane.wait_recreated(old, group_names(name="b"), name="b")
            await plane.wait_for(lambda: _none(plane, "c"))
            await plane.wait_available("b")
            await plane.sleep(40)
            assert await plane.uids("b") == new, "once"
            assert await plane.uids("f") == kept
            assert (await plane.lws("a")).status.replicas == 0
            await plane.stop_operator()
            mark = len(plane.requests)
            await plane.start_operator()
            await plane.sleep(30)
            assert [str(entry) for entry in plane.writes(since=mark)] == []

    async def test_pods_without_newer_labels_are_not_restarted(self, plane: Plane) -> None:
        """Case C134 f: pods and an object that an operator from before our own keys left; adopted as they are, and a failure
        after that is a failure."""
        async with plane:
            await plane.apply(lws_manifest(size=2))
            old = await plane.wait_available()
            await plane.stop_operator()
            for name in old:
                body = {"metadata": {"labels": {keys.LEADER_UID: None}}}
                await plane.client.merge_patch(PODS, name, body, namespace=NAMESPACE)
            status = {"status": {"conditions": None}}
            await plane.client.merge_patch(LEADERWORKERSETS, "demo", status, namespace=NAMESPACE, subresource="status")
            await plane.start_operator()
            await plane.sleep(60)
            assert await plane.uids() == old
            assert await plane.events("RecreateGroup") == []
            await plane.wait_available()
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            await plane.wait_recreated(old, group_names(size=2))


async def _going(plane: Plane, name: str) -> bool:
    pods = (await plane.pods(name)).values()
    return bool(pods) and all(pod.deleting for pod in pods)


async def _none(plane: Plane, name: str) -> bool:
    return not await plane.pods(name) and not await plane.exists(LEADERWORKERSETS, name)
