"""API faults for tests, seen by a client through the in-process transport; and the record of requests."""

import asyncio
import random
from collections.abc import AsyncGenerator

import pytest
from tests.sandbox.apiserver_hands import CONFIGMAPS, Api

from regroup.kube.resources import CONFIGMAPS as RESOURCE
from regroup.sandbox.apifaults import Match
from regroup.wire.client import Client
from regroup.wire.errors import Conflict, ConnectionFailed, NotFound, ServerError, TooManyRequests
from regroup.wire.transport import Request

pytestmark = pytest.mark.looptime


@pytest.fixture
def client(api: Api) -> Client:
    return Client(api.server.transport(), user_agent="ours/1", rng=random.Random(1))


def body(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_codes(api: Api, client: Client) -> None:
    """As often as asked for, for the requests that match only; the server does not act on them."""
    fault = api.server.faults.fail(409, match=Match(verb="create", resource="configmaps"), times=2)
    for _ in range(2):
        with pytest.raises(Conflict):
            await client.create(RESOURCE, body("a"), namespace="default")
    assert await api.names(CONFIGMAPS) == []
    await client.create(RESOURCE, body("a"), namespace="default")
    assert (fault.hits, fault.ended) == (2, True)


async def test_retry_after(api: Api, client: Client) -> None:
    """The client waits as long as it is told and succeeds."""
    api.server.faults.fail(429, times=1, retry_after=7)
    start = now()
    await client.create(RESOURCE, body("a"), namespace="default")
    assert now() - start == pytest.approx(7, abs=1)
    api.server.faults.fail(429, retry_after=3600)
    with pytest.raises(TooManyRequests) as caught:
        await client.get(RESOURCE, "a", namespace="default")
    assert caught.value.retry_after == 3600


async def test_latency_and_time_limits(api: Api, client: Client) -> None:
    """A slow answer comes late; one slower than the client's limit is a failed connection."""
    slow = api.server.faults.slow(3, match=Match(verb="get"))
    start = now()
    with pytest.raises(NotFound):
        await client.get(RESOURCE, "a", namespace="default")
    assert now() - start == pytest.approx(3)
    slow.end()
    api.server.faults.slow(60)
    with pytest.raises(ConnectionFailed) as caught:
        await client.create(RESOURCE, body("a"), namespace="default")
    assert caught.value.maybe_done


async def test_lost_answers(api: Api, client: Client) -> None:
    """Lost after the server acted, or before; a create is never repeated, so the difference shows."""
    api.server.faults.lose(match=Match(verb="create"), times=1)
    with pytest.raises(ConnectionFailed):
        await client.create(RESOURCE, body("done"), namespace="default")
    api.server.faults.lose(match=Match(verb="create"), times=1, done=False)
    with pytest.raises(ConnectionFailed):
        await client.create(RESOURCE, body("undone"), namespace="default")
    assert await api.names(CONFIGMAPS) == ["done"]


async def test_a_server_that_is_down(api: Api, client: Client) -> None:
    """Refused connections are known to have done nothing, so even a create is sent again."""
    api.server.faults.refuse(times=2)
    await client.create(RESOURCE, body("a"), namespace="default")
    api.server.faults.refuse()
    with pytest.raises(ConnectionFailed) as caught:
        await client.get(RESOURCE, "a", namespace="default")
    assert not caught.value.maybe_done


@pytest.mark.parametrize(
    ("match", "meets"),
    [
        (Match(), True),
        (Match(verb="write"), True),
        (Match(verb="get"), False),
        (Match(resource="configmaps"), True),
        (Match(resource="pods"), False),
        (Match(namespace="default", name=""), True),
        (Match(namespace="other"), False),
        (Match(user_agent="OURS"), True),
        (Match(user_agent="theirs"), False),
        (Match(subresource=""), True),
        (Match(subresource="status"), False),
    ],
)
async def test_matches(api: Api, client: Client, match: Match, meets: bool) -> None:
    """Every field that is not empty must agree."""
    fault = api.server.faults.fail(500, match=match, times=1)
    if meets:
        with pytest.raises(ServerError):
            await client.create(RESOURCE, body("a"), namespace="default")
    else:
        await client.create(RESOURCE, body("a"), namespace="default")
    assert fault.hits == meets


async def events(client: Client, *, read_timeout: float = 20) -> AsyncGenerator[str, None]:
    async with client.watch(RESOURCE, type=dict, namespace="default", timeout_seconds=300, read_timeout=read_timeout) as stream:
        async for event in stream:
            if event.object is not None:
                yield f"{event.type} {event.object['metadata']['name']}"


@pytest.mark.parametrize("within_line", [False, True])
async def test_cut_watches(api: Api, client: Client, within_line: bool) -> None:
    """A cut is an error for the reader, between lines and within one; a new watch works; nothing stays open."""
    reader = events(client)
    await api.create(CONFIGMAPS, "a")
    assert await anext(reader) == "ADDED a"
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(1)
    assert api.server.faults.cut_watches(match=Match(resource="pods")) == 0
    assert api.server.faults.cut_watches(within_line=within_line) == 1
    with pytest.raises(ConnectionFailed):
        await waiting
    assert api.server.faults.watches() == 0
    again = events(client)
    assert await anext(again) == "ADDED a"
    await again.aclose()
    assert api.server.faults.watches() == 0


async def test_silent_watches(api: Api, client: Client) -> None:
    """Nothing comes and nothing ends, until the reader's own limit for silence."""
    reader = events(client, read_timeout=20)
    await api.create(CONFIGMAPS, "a")
    assert await anext(reader) == "ADDED a"
    assert api.server.faults.silence_watches() == 1
    await api.create(CONFIGMAPS, "b")
    start = now()
    with pytest.raises(ConnectionFailed):
        await anext(reader)
    assert now() - start == pytest.approx(20, abs=0.5)


async def test_held_events(api: Api, client: Client) -> None:
    """Held until released, in order and complete; other kinds flow."""
    hold = api.server.faults.hold(match=Match(resource="configmaps"))
    reader = events(client)
    await api.create(CONFIGMAPS, "a")
    first = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(15)
    assert not first.done()
    await api.ask("DELETE", f"{CONFIGMAPS}/a")
    await api.create(CONFIGMAPS, "b")
    hold.release()
    seen = [await first, await anext(reader), await anext(reader)]
    assert seen == ["ADDED a", "DELETED a", "ADDED b"]
    await reader.aclose()


async def test_late_events(api: Api, client: Client) -> None:
    """Each comes some seconds late."""
    api.server.faults.hold(seconds=4)
    reader = events(client)
    await api.create(CONFIGMAPS, "a")
    start = now()
    assert await anext(reader) == "ADDED a"
    assert now() - start == pytest.approx(4, abs=0.1)
    await reader.aclose()


async def test_the_record(api: Api, client: Client) -> None:
    """Who asked for what, when, with which body, and what the answer was; writes can be told from reads."""
    record = api.server.faults.record(limit=3)
    await asyncio.sleep(5)
    await client.create(RESOURCE, body("a"), namespace="default")
    await client.merge_patch(RESOURCE, "a", {"data": {"k": "v"}}, namespace="default")
    with pytest.raises(NotFound):
        await client.get(RESOURCE, "b", namespace="default")
    create, patch, get = record
    assert (create.verb, create.resource, create.namespace, create.name, create.code) == (
        "create",
        "configmaps",
        "default",
        "",
        201,
    )
    assert (create.user_agent, create.time, create.object["metadata"]["name"]) == ("ours/1", 5.0, "a")
    assert (patch.verb, patch.name, patch.content_type, patch.code) == ("patch", "a", "application/merge-patch+json", 200)
    assert (get.verb, get.code) == ("get", 404)
    assert [entry.writes for entry in record] == [True, True, False]
    api.server.faults.lose(times=1)
    with pytest.raises(ConnectionFailed):
        await client.create(RESOURCE, body("c"), namespace="default")
    assert [entry.verb for entry in record] == ["patch", "get", "create"], "bounded"
    assert record[-1].code == 0


async def test_clear(api: Api, client: Client) -> None:
    """Nothing goes wrong any more."""
    api.server.faults.fail(500)
    api.server.faults.hold()
    api.server.faults.clear()
    reader = events(client)
    await client.create(RESOURCE, body("a"), namespace="default")
    assert await anext(reader) == "ADDED a"
    await reader.aclose()


async def test_a_transport_that_is_closed(api: Api) -> None:
    """It says so, and did nothing."""
    transport = api.server.transport()
    await transport.close()
    with pytest.raises(ConnectionFailed) as caught:
        await transport.request(Request("GET", "/version"), timeout=1)
    assert not caught.value.maybe_done


async def test_a_bug_in_one_request_is_one_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 for that one, and the server goes on."""
    await api.create(CONFIGMAPS, "a")
    stored = api.server.storage.get(RESOURCE, ("default", "a"))
    assert stored is not None
    del stored.obj["metadata"]["name"]
    answer = await api.ask("DELETE", f"{CONFIGMAPS}/a")
    assert (answer.status, answer.reason) == (500, "InternalError")
    await api.create(CONFIGMAPS, "b")
