"""Watches: what they begin with, what they see, when they end, and what they resume from."""

import asyncio

import pytest
from tests.sandbox.apiserver_hands import CONFIGMAPS, PODS, TABLE, Api

from regroup.kube.resources import CONFIGMAPS as RESOURCE

pytestmark = pytest.mark.looptime


async def test_a_watch_without_a_version_begins_with_what_is_there(api: Api) -> None:
    """Also with version 0: ADDED for all, then what comes."""
    await api.create(CONFIGMAPS, "a")
    for query in ("", "resourceVersion=0"):
        async with api.watch(f"{CONFIGMAPS}?{query}") as watch:
            assert await watch.brief(1) == [("ADDED", "a")]
            await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": query or "x"}})
            assert await watch.brief(1) == [("MODIFIED", "a")]


async def test_a_watch_resumes_where_a_list_ended(api: Api) -> None:
    """Nothing twice and nothing lost between a list and a watch, or between two watches."""
    await api.create(CONFIGMAPS, "a")
    version = (await api.get(CONFIGMAPS))["metadata"]["resourceVersion"]
    await api.create(CONFIGMAPS, "b")
    await api.ask("DELETE", f"{CONFIGMAPS}/a")
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={version}") as watch:
        first = await watch.next()
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "b")
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={first['object']['metadata']['resourceVersion']}") as watch:
        deleted = await watch.next()
        assert (deleted["type"], deleted["object"]["metadata"]["name"]) == ("DELETED", "a")
        assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(first["object"]["metadata"]["resourceVersion"])


async def test_a_version_below_the_window_is_expired(api: Api) -> None:
    """ERROR with a 410 Status in the stream, as a real server with a watch cache."""
    await api.create(CONFIGMAPS, "a")
    await api.create(CONFIGMAPS, "b")
    api.server.storage.forget_events(RESOURCE)
    async with api.watch(f"{CONFIGMAPS}?resourceVersion=1") as watch:
        event = await watch.next()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        with pytest.raises(StopAsyncIteration):
            await watch.next()
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={await api.version()}") as watch:
        await api.create(CONFIGMAPS, "c")
        assert await watch.brief(1) == [("ADDED", "c")]


async def test_the_window_is_bounded(api: Api) -> None:
    """Old events go, one by one; a version within the window can still be resumed from."""
    await api.create(CONFIGMAPS, "a")
    versions = []
    for number in range(20_010):
        obj = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": "a", "namespace": "default", "uid": "u"},
            "data": {"k": str(number)},
        }
        versions.append(api.server.storage.put(RESOURCE, ("default", "a"), obj).version)
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={versions[0]}") as watch:
        assert (await watch.next())["type"] == "ERROR"
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={versions[10]}") as watch:
        assert (await watch.next())["object"]["data"] == {"k": "11"}


async def test_large_events_leave_the_window_earlier(api: Api) -> None:
    """Sixteen mebibytes of events at most: the memory of a long life is bounded, whatever the objects' size."""
    big = "x" * 1_000_000
    for number in range(40):
        await api.ask("PUT" if number else "POST", f"{CONFIGMAPS}/a" if number else CONFIGMAPS, configmap(f"{number}{big}"))
    table = api.server.storage._table(RESOURCE)
    assert len(table.events) == 16
    assert table.size == sum(len(event.stored.data) for event in table.events)


def configmap(text: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": text}}


async def test_an_object_that_leaves_the_selection_is_deleted_there(api: Api) -> None:
    """And one that enters is added; the deletion carries the last state that matched, at the new version."""
    await api.create(CONFIGMAPS, "a", labels={"app": "x"})
    async with api.watch(f"{CONFIGMAPS}?labelSelector=app%3Dx") as watch:
        assert await watch.brief(1) == [("ADDED", "a")]
        left = (await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"app": "y"}}})).body
        event = await watch.next()
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["labels"] == {"app": "x"}
        assert event["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})
        await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"app": "x"}}})
        assert await watch.brief(1) == [("ADDED", "a")]
        await api.ask("DELETE", f"{CONFIGMAPS}/a")
        assert await watch.brief(1) == [("DELETED", "a")]


async def test_field_selectors_on_watches(api: Api) -> None:
    """A kubelet sees a pod from the moment that it is bound to its node."""
    async with api.watch(f"{PODS}?fieldSelector=spec.nodeName%3Dn1") as watch:
        await api.pod("p")
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        assert (await api.ask("POST", f"{PODS}/p/binding", body)).status == 201
        assert await watch.brief(1) == [("ADDED", "p")]


async def test_a_watch_sees_its_namespace_only(api: Api) -> None:
    """Other namespaces' objects are not there."""
    await api.create("/api/v1/namespaces", "other")
    async with api.watch(CONFIGMAPS) as watch, api.watch("/api/v1/configmaps") as everywhere:
        await api.create("/api/v1/namespaces/other/configmaps", "a")
        await api.create(CONFIGMAPS, "b")
        assert await watch.brief(1) == [("ADDED", "b")]
        assert await everywhere.brief(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_of_one_name(api: Api) -> None:
    """As kubectl waits for one object."""
    async with api.watch(f"{CONFIGMAPS}?fieldSelector=metadata.name%3Db") as watch:
        await api.create(CONFIGMAPS, "a")
        await api.create(CONFIGMAPS, "b")
        assert await watch.brief(1) == [("ADDED", "b")]


async def test_the_time_of_a_watch(api: Api) -> None:
    """timeoutSeconds ends it cleanly."""
    async with api.watch(f"{CONFIGMAPS}?timeoutSeconds=7") as watch:
        start = asyncio.get_running_loop().time()
        with pytest.raises(StopAsyncIteration):
            await watch.next(within=60)
        assert asyncio.get_running_loop().time() - start == pytest.approx(7, abs=0.01)


async def test_bookmarks(api: Api) -> None:
    """About once a minute and shortly before the end, at a version to resume from although no event of the kind came."""
    async with api.watch(f"{CONFIGMAPS}?allowWatchBookmarks=true&timeoutSeconds=90") as watch:
        await api.create("/api/v1/nodes", "n")
        version = await api.version()
        first = await watch.next(within=61)
        assert first["type"] == "BOOKMARK"
        assert first["object"] == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": version}}
        last = await watch.next(within=61)
        assert last["type"] == "BOOKMARK"
        with pytest.raises(StopAsyncIteration):
            await watch.next(within=61)
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={version}&timeoutSeconds=90") as watch:
        with pytest.raises(StopAsyncIteration):
            await watch.next(within=100)  # no bookmark for who asked for none


async def test_watch_lists(api: Api) -> None:
    """sendInitialEvents: what is there, then a bookmark that says so, then what comes."""
    await api.create(CONFIGMAPS, "a")
    await api.create(CONFIGMAPS, "b")
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion="
    async with api.watch(f"{CONFIGMAPS}?{query}") as watch:
        assert await watch.brief(2) == [("ADDED", "a"), ("ADDED", "b")]
        mark = await watch.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert mark["object"]["metadata"]["resourceVersion"] == await api.version()
        await api.create(CONFIGMAPS, "c")
        assert await watch.brief(1) == [("ADDED", "c")]


async def test_a_watch_list_asked_for_wrongly(api: Api) -> None:
    """422: a client that is refused falls back to a list."""
    answer = await api.ask("GET", f"{CONFIGMAPS}?watch=true&sendInitialEvents=true")
    assert (answer.status, answer.causes) == (422, [("FieldValueForbidden", "resourceVersionMatch")])


async def test_what_is_written_while_a_watch_lists_is_not_lost(api: Api) -> None:
    """The listener is in place before the first event goes out."""
    for number in range(250):
        await api.create(CONFIGMAPS, f"a{number:03}")
    async with api.watch(CONFIGMAPS) as watch:
        assert await watch.brief(1) == [("ADDED", "a000")]
        await api.ask("DELETE", f"{CONFIGMAPS}/a249")
        events = await watch.brief(250)
    assert events[-2:] == [("ADDED", "a249"), ("DELETED", "a249")]


async def test_tables_on_watches(api: Api) -> None:
    """One row an event, with column definitions in the first only: ``kubectl get -w``."""
    await api.pod("a")
    async with api.watch(PODS, accept=TABLE) as watch:
        first = await watch.next()
        await api.pod("b")
        second = await watch.next()
    assert (first["object"]["kind"], first["object"]["rows"][0]["cells"][0]) == ("Table", "a")
    assert first["object"]["columnDefinitions"]
    assert not second["object"]["columnDefinitions"]
    assert [row["cells"][0] for row in second["object"]["rows"]] == ["b"]


async def test_a_watch_that_is_left_frees_its_listener(api: Api) -> None:
    """Whoever goes away leaves nothing behind, also when it never read."""
    table = api.server.storage._table(RESOURCE)
    async with api.watch(CONFIGMAPS), api.watch(CONFIGMAPS):
        assert len(table.listeners) == 2
    assert table.listeners == []


async def test_a_version_to_come(api: Api) -> None:
    """A watch from the future waits, and sees only what comes after its version."""
    version = int(await api.version())
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={version + 1}") as watch:
        await api.create(CONFIGMAPS, "a")
        await api.create(CONFIGMAPS, "b")
        assert await watch.brief(1) == [("ADDED", "b")]
