"""The client: paths, bodies, typed errors, and which verbs are sent again."""

import random

import msgspec
import pytest
from tests.wire.scripted_wire import Answer, ScriptedTransport, answer

from regroup.kube.pod import Pod
from regroup.kube.resources import NODES, PODS
from regroup.wire.client import Client
from regroup.wire.codec import DecodeError
from regroup.wire.errors import AlreadyExists, Conflict, ConnectionFailed, Forbidden, Gone, Invalid, ServerError, TooManyRequests

POD = b'{"metadata":{"name":"a","namespace":"t","resourceVersion":"7"},"spec":{"nodeName":"n"}}'


def client_of(*answers: Answer) -> tuple[Client, ScriptedTransport]:
    transport = ScriptedTransport(*answers)
    return Client(transport, field_manager="me", rng=random.Random(1)), transport


def status(code: int, reason: str, **details: object) -> bytes:
    return msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": "said so", "details": details})


async def test_get_decodes_straight_into_the_view() -> None:
    """One request to the object's path; the answer comes as the type that was asked for."""
    client, transport = client_of(answer(200, POD))

    pod = await client.get(PODS, "a", namespace="t", type=Pod)

    assert (pod.metadata.name, pod.spec.node_name) == ("a", "n")
    assert transport.requests[0].path == "/api/v1/namespaces/t/pods/a"


async def test_delete_carries_what_was_judged() -> None:
    """Behaviour 42: propagation and the UID precondition are in the body."""
    client, transport = client_of(answer(200))

    await client.delete(PODS, "a", namespace="t", uid="u1", propagation="Foreground")

    body = msgspec.json.decode(transport.requests[0].body or b"")
    assert (body["propagationPolicy"], body["preconditions"]) == ("Foreground", {"uid": "u1"})


async def test_list_all_follows_pages_and_a_failing_page_is_an_error() -> None:
    """C130: a part of a list is never taken for the whole."""
    page = b'{"metadata":{"resourceVersion":"9","continue":"next"},"items":[' + POD + b"]}"
    last = b'{"metadata":{"resourceVersion":"9"},"items":null}'
    client, transport = client_of(answer(200, page), answer(200, last))

    whole = await client.list_all(PODS, type=Pod)

    assert [pod.metadata.name for pod in whole.items] == ["a"]
    assert ("continue", "next") in transport.requests[1].query
    client, _ = client_of(answer(200, page), answer(410, status(410, "Expired")))
    with pytest.raises(Gone):
        await client.list_all(PODS, type=Pod)


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (403, "Forbidden", Forbidden),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
    ],
)
async def test_failures_are_typed_and_keep_the_status(code: int, reason: str, error: type[Conflict]) -> None:
    """Callers catch by meaning; the server's words and causes stay readable."""
    client, transport = client_of(answer(code, status(code, reason, causes=[{"field": "spec.x"}])))

    with pytest.raises(error, match="said so") as raised:
        await client.create(PODS, {}, namespace="t")

    assert raised.value.causes == [{"field": "spec.x"}]
    assert len(transport.requests) == 1


async def test_a_body_that_is_no_status_is_still_an_error() -> None:
    """A proxy's HTML page gives its first words, not a decoding error."""
    client, _ = client_of(answer(502, b"<html>bad gateway</html>"))

    with pytest.raises(ServerError, match="bad gateway"):
        await client.create(PODS, {}, namespace="t")


@pytest.mark.looptime
@pytest.mark.parametrize("header", ["3", "Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_429_is_sent_again_after_the_time_asked_for(header: str) -> None:
    """C117: even a create was not done when the answer is 429; a date in the past means at once."""
    client, transport = client_of(answer(429, retry_after=header), answer(201, POD))

    await client.create(PODS, {}, namespace="t")

    assert len(transport.requests) == 2


async def test_429_with_a_long_wait_is_the_callers_business() -> None:
    """C117, header 120: the call ends with the time in the error, so that a back-off can use it."""
    client, transport = client_of(answer(429, retry_after="120"))

    with pytest.raises(TooManyRequests) as raised:
        await client.get(PODS, "a", namespace="t")

    assert raised.value.retry_after == 120
    assert len(transport.requests) == 1


@pytest.mark.looptime
async def test_a_create_that_may_have_been_done_is_not_sent_again() -> None:
    """A lost answer to a POST is the caller's to look into; a refused connection is not."""
    client, transport = client_of(ConnectionFailed("lost", maybe_done=True), answer(201, POD))
    with pytest.raises(ConnectionFailed):
        await client.create(PODS, {}, namespace="t")
    assert len(transport.requests) == 1

    client, transport = client_of(ConnectionFailed("refused"), answer(201, POD))
    await client.create(PODS, {}, namespace="t")
    assert len(transport.requests) == 2


@pytest.mark.looptime
async def test_attempts_are_bounded() -> None:
    """A server that only fails ends the call after a few tries."""
    client, transport = client_of(answer(503))

    with pytest.raises(ServerError):
        await client.get(NODES, "n")

    assert len(transport.requests) == 4


async def test_a_collection_delete_needs_a_selector() -> None:
    """Nobody deletes all pods of a namespace by an empty string."""
    client, transport = client_of(answer(200))

    with pytest.raises(ValueError, match="selector"):
        await client.delete_collection(PODS, namespace="t", label_selector="")

    assert transport.requests == []


async def test_watch_gives_events_bookmarks_and_versions() -> None:
    """Lines cut anywhere come out whole; a bookmark carries only its version, and marks the end of the first events."""
    lines = (
        b'{"type":"ADDED","object":' + POD + b"}\n"
        b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9",'
        b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
    )
    client, transport = client_of(answer(200, lines))

    async with client.watch(PODS, type=Pod, timeout_seconds=300, send_initial_events=True) as events:
        seen = [event async for event in events]

    assert [(event.type, event.resource_version, event.initial_events_end) for event in seen] == [
        ("ADDED", "7", False),
        ("BOOKMARK", "9", True),
    ]
    assert ("sendInitialEvents", "true") in transport.requests[0].query


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n', Gone),
        (b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"oops"}}\n', ServerError),
        (b"{not json}\n", DecodeError),
        (b'{"type":"ADDED","object":{"metadata":{"name":5}}}\n', DecodeError),
        (b'{"type":"ADDED","object":{"metadata"', ConnectionFailed),
    ],
)
async def test_watch_errors_are_told_apart(line: bytes, error: type[Exception]) -> None:
    """C114, C116: expiry in the stream, server errors, lines that cannot be read, and a cut within a line."""
    client, _ = client_of(answer(200, line))

    async with client.watch(PODS, type=Pod, timeout_seconds=300) as events:
        with pytest.raises(error):
            await anext(events)


async def test_watch_refused_with_410_is_gone() -> None:
    """The rarer form of expiry: an HTTP answer."""
    client, _ = client_of(answer(410, status(410, "Expired")))

    with pytest.raises(Gone):
        async with client.watch(PODS, type=Pod, timeout_seconds=300):
            pass
