"""One object that cannot be read or indexed stops nothing but itself (design 9, case C116)."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest
from tests.runtime.runtime_feed import Feed, feed
from tests.runtime.runtime_server import ScriptedServer, names

from regroup.kube.pod import Pod

pytestmark = pytest.mark.looptime


def _odd(name: str, *, uid: str = "uid-odd", **metadata: Any) -> dict[str, Any]:
    """A pod whose status is of a type that no API server would send."""
    return {"metadata": {"name": name, "namespace": "default", "uid": uid, **metadata}, "status": {"phase": ["not", "a", "text"]}}


async def _let_pass(server: ScriptedServer, seen: Feed) -> None:
    """Others change, appear and vanish while the odd one is there; all of it is seen."""
    server.put("a", labels={"round": str(server.version)})
    server.put("fresh")
    await asyncio.sleep(1)
    assert "fresh" in names(list(seen.store.values()))
    server.delete("fresh")
    await asyncio.sleep(1)
    assert "fresh" not in names(list(seen.store.values()))
    pod = seen.store.get("default", "a")
    assert pod is not None
    assert pod.metadata.resource_version == server.objects["default", "a"]["metadata"]["resourceVersion"]


@pytest.mark.parametrize("streams_lists", ["yes", "refuses"])
async def test_an_object_that_cannot_be_read_is_left_out_of_a_first_list(streams_lists: str) -> None:
    """The list is taken without it, the others work, and its number is a fact in the statistics."""
    server = ScriptedServer(streams_lists=streams_lists)
    server.put("a")
    server.put_raw(_odd("odd"))
    async with feed(server) as seen:
        assert names(list(seen.store.values())) == {"a"}
        await _let_pass(server, seen)

        assert seen.reflector.statistics().unreadable > 0


@pytest.mark.parametrize("streams_lists", ["yes", "refuses"])
async def test_an_object_that_can_no_longer_be_read_stays_as_it_was(streams_lists: str) -> None:
    """What turns unreadable is neither lost nor told to be deleted, by an event or by a relist; its end is still seen."""
    server = ScriptedServer(streams_lists=streams_lists)
    server.put("a")
    uid = server.put("b")
    async with feed(server) as seen:
        server.put_raw(_odd("b", uid=uid), kind="MODIFIED")
        await asyncio.sleep(1)
        await _let_pass(server, seen)
        assert seen.store.by_uid(uid) is not None

        server.error_in_watches(410)
        await asyncio.sleep(10)
        await _let_pass(server, seen)
        assert seen.store.by_uid(uid) is not None
        assert uid not in seen.deleted()

        server.delete("b")
        await asyncio.sleep(2)
        assert seen.deleted().count(uid) == 1
        seen.check()


@pytest.mark.parametrize("by_relist", [False, True])
async def test_an_unreadable_replacement_still_ends_the_object_before_it(by_relist: bool) -> None:
    """Another UID under the name means that the old object is gone, readable or not."""
    server = ScriptedServer()
    server.put("a")
    uid = server.put("b")
    async with feed(server) as seen:
        if by_relist:
            server.silence_watches()
        server.delete("b")
        server.put_raw(_odd("b", uid="another"))
        if by_relist:
            server.compact()
            await asyncio.sleep(100)
        await asyncio.sleep(2)

        assert seen.deleted() == [uid]
        assert names(list(seen.store.values())) == {"a"}


async def test_an_object_without_readable_identity_is_passed_over() -> None:
    """Even metadata that is no metadata stops nobody else."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        server.send(json.dumps({"type": "ADDED", "object": {"metadata": [1, 2]}}).encode() + b"\n")
        server.send(json.dumps({"type": "ADDED", "object": {"metadata": {"name": 7}}}).encode() + b"\n")
        await asyncio.sleep(5)
        await _let_pass(server, seen)

        seen.check()


async def test_nulls_where_maps_and_lists_belong_are_read_as_empty() -> None:
    """C116: labels, annotations, owners and status that are null make an object with none of them, not a failure."""
    server = ScriptedServer()
    async with feed(server) as seen:
        metadata = {"name": "n", "namespace": "default", "uid": "u", "labels": None, "annotations": None, "ownerReferences": None}
        server.put_raw({"metadata": metadata, "status": None})
        await asyncio.sleep(1)

        pod = seen.store.by_uid("u")
        assert pod is not None
        assert dict(pod.metadata.labels) == {}
        assert pod.phase == ""
        assert seen.reflector.statistics().failures == 0


async def test_a_line_that_is_no_json_costs_one_relist() -> None:
    """C116: garbage twice from the same version: the watch begins anew with a list and works."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        server.send(b"%%%\n")
        await asyncio.sleep(0.1)
        server.send(b"%%%\n")
        await asyncio.sleep(0.1)
        server.delete("a")
        server.put("b")
        await asyncio.sleep(5)

        seen.check()
        assert seen.reflector.statistics().lists == 2


async def test_an_indexer_that_fails_on_one_object_does_not_stop_the_others() -> None:
    """An indexer that cannot take a label's value leaves that object out, by event and by list, and its earlier state stays."""

    def by_number(pod: Pod) -> Iterable[str]:
        text = pod.metadata.labels.get("number")
        return [str(int(text))] if text else []

    server = ScriptedServer()
    server.put("a", labels={"number": "1"})
    server.put("bad", labels={"number": "one"})
    async with feed(server, indexers={"number": by_number}) as seen:
        assert names(list(seen.store.values())) == {"a"}
        server.put("a", labels={"number": "two"})
        server.put("c", labels={"number": "3"})
        await asyncio.sleep(1)
        assert names(seen.store.index("number", "1")) == {"a"}
        assert names(seen.store.index("number", "3")) == {"c"}

        server.put("a", labels={"number": "2"})
        server.put("bad", labels={"number": "4"})
        await asyncio.sleep(1)
        seen.check()
        assert set(seen.store.index_values("number")) == {"2", "3", "4"}


async def test_reading_one_by_one_ends_with_the_watch() -> None:
    """After an odd object the fast way of reading comes back with the next watch; nothing is lost on the way."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        server.put_raw(_odd("odd"))
        await asyncio.sleep(2)
        server.delete("odd")
        await asyncio.sleep(2)
        failures = seen.reflector.statistics().failures
        server.end_watches()
        await asyncio.sleep(2)
        await _let_pass(server, seen)

        assert seen.reflector._wanted() is Pod
        assert seen.reflector.statistics().failures == failures
        seen.check()
