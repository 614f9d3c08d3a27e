"""Deletions: at once, with grace, held by finalizers, of collections and namespaces."""

import asyncio

import pytest
from tests.sandbox.apiserver_hands import CONFIGMAPS, PODS, STATEFULSETS, Api, Obj, template

pytestmark = pytest.mark.looptime


async def test_an_object_goes_at_once(api: Api) -> None:
    """Status Success with the UID; the watch sees one DELETED; then 404."""
    made = await api.create(CONFIGMAPS, "a")
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={made['metadata']['resourceVersion']}") as watch:
        answer = await api.ask("DELETE", f"{CONFIGMAPS}/a")
        assert answer.body["status"] == "Success"
        assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
        assert await watch.brief(1) == [("DELETED", "a")]
    assert (await api.ask("DELETE", f"{CONFIGMAPS}/a")).status == 404


@pytest.mark.parametrize(
    ("preconditions", "message"),
    [
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record"),
    ],
)
async def test_preconditions(api: Api, preconditions: Obj, message: str) -> None:
    """409, and the object stays: a deletion decided on a stale cache never hits a replacement."""
    await api.create(CONFIGMAPS, "a")
    answer = await api.ask("DELETE", f"{CONFIGMAPS}/a", {"preconditions": preconditions})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert message in answer.message
    assert await api.names(CONFIGMAPS) == ["a"]
    uid = (await api.get(f"{CONFIGMAPS}/a"))["metadata"]["uid"]
    assert (await api.ask("DELETE", f"{CONFIGMAPS}/a", {"preconditions": {"uid": uid}})).status == 200


async def test_a_running_pod_gets_its_grace(api: Api) -> None:
    """deletionTimestamp lies the grace ahead, the pod stays, the generation counts; grace 0 removes it."""
    await api.pod("p", node="n", terminationGracePeriodSeconds=45)
    meta = (await api.ask("DELETE", f"{PODS}/p")).body["metadata"]
    assert (meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"]) == (45, "2026-01-01T00:00:45Z")
    assert meta["generation"] == 2
    assert (await api.get(f"{PODS}/p"))["metadata"] == meta
    assert (await api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})).body["kind"] == "Pod"
    assert await api.names(PODS) == []


@pytest.mark.parametrize("node", ["n", ""], ids=["bound, force deleted", "unbound"])
async def test_a_pod_without_grace_is_marked_before_it_goes(api: Api, node: str) -> None:
    """Seen on a real API server (1.36): MODIFIED with deletionTimestamp and grace 0, then DELETED with a version of its own."""
    made = await api.pod("p", node=node)
    async with api.watch(f"{PODS}?resourceVersion={made['metadata']['resourceVersion']}") as watch:
        await api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0} if node else {})
        seen = [await watch.next() for _ in range(2)]
    assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]
    first, last = (event["object"]["metadata"] for event in seen)
    for meta in (first, last):
        assert (meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"]) == (0, "2026-01-01T00:00:00Z")
    assert int(made["metadata"]["resourceVersion"]) < int(first["resourceVersion"]) < int(last["resourceVersion"])


async def test_a_shorter_grace_wins_a_longer_does_not(api: Api) -> None:
    """A second deletion can only hurry."""
    await api.pod("p", node="n")
    first = (await api.ask("DELETE", f"{PODS}/p")).body["metadata"]
    assert first["deletionGracePeriodSeconds"] == 30
    await asyncio.sleep(5)
    for asked, grace, at in ((None, 30, "30"), (60, 30, "30"), (10, 10, "10")):
        body = {} if asked is None else {"gracePeriodSeconds": asked}
        meta = (await api.ask("DELETE", f"{PODS}/p", body)).body["metadata"]
        assert (meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"]) == (grace, f"2026-01-01T00:00:{at}Z")


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
async def test_pods_that_need_no_grace(api: Api, phase: str) -> None:
    """A pod that is on no node, or whose containers have ended, goes at once."""
    await api.pod("p", node="n" if phase else "")
    if phase:
        await api.patch(f"{PODS}/p/status", {"status": {"phase": phase}})
    await api.ask("DELETE", f"{PODS}/p")
    assert await api.names(PODS) == []


async def test_finalizers_hold(api: Api) -> None:
    """The object stays marked until the last finalizer is taken off, which removes it; no new one may come on (422)."""
    await api.create(CONFIGMAPS, "a", finalizers=["x.io/a", "x.io/b"])
    meta = (await api.ask("DELETE", f"{CONFIGMAPS}/a")).body["metadata"]
    assert (meta["finalizers"], meta["deletionGracePeriodSeconds"]) == (["x.io/a", "x.io/b"], 0)
    version = meta["resourceVersion"]
    again = (await api.ask("DELETE", f"{CONFIGMAPS}/a")).body["metadata"]
    assert again["resourceVersion"] == version, "a second deletion changes nothing"
    more = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": ["x.io/a", "x.io/b", "x.io/c"]}})
    assert (more.status, {cause[1] for cause in more.causes}) == (422, {"metadata.finalizers"})
    assert (await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": ["x.io/b"]}})).status == 200
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={await api.version()}") as watch:
        last = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": None}})
        assert (last.status, "finalizers" in last.body["metadata"]) == (200, False)
        assert await watch.brief(1) == [("DELETED", "a")]


async def test_a_pod_waits_for_grace_and_finalizers(api: Api) -> None:
    """Whichever comes last: a finalizer taken off early leaves the pod to its kubelet, and the kubelet leaves it to the other."""
    for name in ("a", "b"):
        await api.create(PODS, name, finalizers=["x.io/f"], spec={"nodeName": "n", "containers": [{"name": "c", "image": "i"}]})
        await api.ask("DELETE", f"{PODS}/{name}")
    await api.patch(f"{PODS}/a", {"metadata": {"finalizers": None}})
    assert await api.names(PODS) == ["a", "b"]
    await api.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    await api.ask("DELETE", f"{PODS}/b", {"gracePeriodSeconds": 0})
    assert await api.names(PODS) == ["b"]
    await api.patch(f"{PODS}/b", {"metadata": {"finalizers": None}})
    assert await api.names(PODS) == []


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
        ({"propagationPolicy": "Background"}, None),
        ({}, None),
    ],
)
async def test_propagation(api: Api, options: Obj, finalizers: list[str] | None) -> None:
    """Each way to go is a finalizer for the garbage collector, or none."""
    spec = {"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")}
    await api.create(STATEFULSETS, "s", spec=spec)
    answer = await api.ask("DELETE", f"{STATEFULSETS}/s", options)
    if finalizers is None:
        assert answer.body["status"] == "Success"
    else:
        assert answer.body["metadata"]["finalizers"] == finalizers
        assert (await api.get(f"{STATEFULSETS}/s"))["metadata"]["deletionTimestamp"]


async def test_the_way_can_be_changed(api: Api) -> None:
    """Foreground, then Orphan: the later wish replaces the finalizer of the earlier."""
    await api.create(CONFIGMAPS, "a")
    await api.ask("DELETE", f"{CONFIGMAPS}/a?propagationPolicy=Foreground")
    assert (await api.ask("DELETE", f"{CONFIGMAPS}/a")).body["metadata"]["finalizers"] == ["foregroundDeletion"]
    meta = (await api.ask("DELETE", f"{CONFIGMAPS}/a", {"propagationPolicy": "Orphan"})).body["metadata"]
    assert meta["finalizers"] == ["orphan"]
    await api.ask("DELETE", f"{CONFIGMAPS}/a", {"propagationPolicy": "Background"})
    assert await api.names(CONFIGMAPS) == []


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"propagationPolicy": "Foo"}, 422),
        ({"propagationPolicy": "Background", "orphanDependents": True}, 422),
        ({"dryRun": ["Some"]}, 422),
        ({"kind": "Foo"}, 400),
        (b"{bad", 400),
    ],
)
async def test_options_of_deletions_are_checked(api: Api, options: Obj | bytes, status: int) -> None:
    """And the object stays."""
    await api.create(CONFIGMAPS, "a")
    assert (await api.ask("DELETE", f"{CONFIGMAPS}/a", options)).status == status
    assert await api.names(CONFIGMAPS) == ["a"]


async def test_collections(api: Api) -> None:
    """All that the selector names, each by its own rules, in this namespace only; the answer lists them."""
    await api.create("/api/v1/namespaces", "other")
    await api.create(
        "/api/v1/namespaces/other/pods", "x", labels={"app": "x"}, spec={"containers": [{"name": "c", "image": "i"}]}
    )
    await api.pod("a", labels={"app": "x"})
    await api.pod("b", labels={"app": "x"}, node="n")
    await api.pod("c", labels={"app": "y"})
    answer = await api.ask("DELETE", f"{PODS}?labelSelector=app%3Dx")
    assert (answer.body["kind"], [item["metadata"]["name"] for item in answer.body["items"]]) == ("PodList", ["a", "b"])
    assert await api.names(PODS) == ["b", "c"]
    assert (await api.get(f"{PODS}/b"))["metadata"]["deletionGracePeriodSeconds"] == 30
    assert await api.names("/api/v1/namespaces/other/pods") == ["x"]


async def test_namespaces_go_in_two_steps(api: Api) -> None:
    """Terminating until its controller has emptied it and finalizes it; the built-in ones cannot be deleted."""
    await api.create("/api/v1/namespaces", "a")
    gone = (await api.ask("DELETE", "/api/v1/namespaces/a")).body
    assert gone["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in gone["metadata"]
    assert (await api.ask("DELETE", "/api/v1/namespaces/a")).body["metadata"] == gone["metadata"]
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {"finalizers": []}}
    assert (await api.ask("PUT", "/api/v1/namespaces/a/finalize", body)).status == 200
    assert await api.names("/api/v1/namespaces") == ["default"]
    answer = await api.ask("DELETE", "/api/v1/namespaces/default")
    assert (answer.status, answer.message) == (403, 'namespaces "default" is forbidden: this namespace may not be deleted')
