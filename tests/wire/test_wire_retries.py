"""When a call is sent again (wire.retries), and how that looks from the client under virtual time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from tests.wire.scripted_wire import Answer, ScriptedTransport, answer

from regroup.kube.resources import PODS
from regroup.wire.auth import CredentialsFailed
from regroup.wire.client import Client
from regroup.wire.errors import ApiError, ConnectionFailed, TooManyRequests, WireError, api_error
from regroup.wire.retries import ATTEMPTS, RETRY_AFTER_LIMIT, TOTAL_LIMIT, next_pause, retry_after

NOW = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
LOST, REFUSED = ConnectionFailed("lost", maybe_done=True), ConnectionFailed("refused")


def pause(error: WireError, *, attempt: int = 1, elapsed: float = 0.0, again: bool = True) -> float | None:
    return next_pause(error, attempt=attempt, elapsed=elapsed, again=again, rng=random.Random(1))


@pytest.mark.parametrize(
    ("error", "harmless", "once"),
    [
        (REFUSED, True, True),
        (LOST, True, False),
        (api_error(429), True, True),
        (api_error(500), True, False),
        (api_error(503), True, False),
        (api_error(504), True, False),
        (api_error(501), False, False),
        (api_error(404), False, False),
        (api_error(409), False, False),
        (CredentialsFailed("no"), False, False),
    ],
)
def test_which_failures_are_followed_by_another_attempt(error: WireError, harmless: bool, once: bool) -> None:
    """Issue 3, point 2: retries only where the verb allows. ``harmless`` is a call that may be done twice, ``once`` one that may
    not."""
    assert (pause(error, again=True) is not None) is harmless
    assert (pause(error, again=False) is not None) is once


def test_attempts_pauses_and_the_whole_time_are_bounded() -> None:
    """C117: the caller gets the error with its ``retry_after`` instead of a wait that is not ours to make."""
    busy = api_error(429, retry_after=RETRY_AFTER_LIMIT)

    assert pause(busy) == RETRY_AFTER_LIMIT
    assert pause(busy, attempt=ATTEMPTS) is None
    assert pause(api_error(429, retry_after=RETRY_AFTER_LIMIT + 1)) is None
    assert pause(busy, elapsed=TOTAL_LIMIT - RETRY_AFTER_LIMIT + 1) is None
    assert pause(api_error(503, retry_after=7)) == 7


def test_pauses_grow_and_differ() -> None:
    """Many clients that failed together do not come back together."""
    first = [next_pause(LOST, attempt=1, elapsed=0, again=True, rng=random.Random(seed)) for seed in range(50)]
    third = [next_pause(LOST, attempt=3, elapsed=0, again=True, rng=random.Random(seed)) for seed in range(50)]

    assert len(set(first)) == 50
    assert max(value or 0 for value in first) < min(value or 0 for value in third)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("Sat, 01 Aug 2026 12:00:05 GMT", 5.0),
        ("Sat, 01 Aug 2026 12:00:05 -0000", 5.0),
        ("Sat, 01 Aug 2026 14:00:05 +0200", 5.0),
        ("Sat, 01 Aug 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("nan", None),
        ("", None),
        ("Sat, 99 Aug 99999 12:00:05 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    """RFC 9110 10.2.3; anything else is as good as no header."""
    assert retry_after(header, now=lambda: NOW) == seconds


def client_of(*answers: Answer) -> tuple[Client, ScriptedTransport]:
    transport = ScriptedTransport(*answers)
    return Client(transport, rng=random.Random(1)), transport


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("verb", "attempts"),
    [
        ("get", 2), ("list", 2), ("apply", 2), ("merge_patch", 2), ("strategic_patch", 2), ("delete of a UID", 2),
        ("get_text", 2), ("delete of a name", 1), ("delete_collection", 1), ("create", 1), ("replace", 1), ("json_patch", 1),
    ],
)  # fmt: skip
async def test_verbs_that_may_be_sent_again_after_a_lost_answer(verb: str, attempts: int) -> None:
    """Issue 3, point 2. A DELETE by name could hit the object's replacement the second time; one with a UID cannot."""
    client, transport = client_of(LOST, answer(200, b'{"items":[]}'))
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "get": lambda: client.get(PODS, "a", namespace="n"),
        "list": lambda: client.list(PODS),
        "get_text": lambda: client.get_text("/version"),
        "apply": lambda: client.apply(PODS, "a", {}, namespace="n"),
        "merge_patch": lambda: client.merge_patch(PODS, "a", {}, namespace="n"),
        "strategic_patch": lambda: client.strategic_patch(PODS, "a", {}, namespace="n"),
        "delete of a UID": lambda: client.delete(PODS, "a", namespace="n", uid="u"),
        "delete of a name": lambda: client.delete(PODS, "a", namespace="n"),
        "delete_collection": lambda: client.delete_collection(PODS, namespace="n", label_selector="a=b"),
        "create": lambda: client.create(PODS, {}, namespace="n"),
        "replace": lambda: client.replace(PODS, "a", {}, namespace="n"),
        "json_patch": lambda: client.json_patch(PODS, "a", [], namespace="n"),
    }
    call = calls[verb]

    if attempts == 1:
        with pytest.raises(ConnectionFailed):
            await call()
    else:
        await call()

    assert len(transport.requests) == attempts


@pytest.mark.looptime
async def test_waits_are_those_the_server_asked_for() -> None:
    """429 with 3 and then 5 seconds: eight seconds pass, on the loop's clock."""
    client, _ = client_of(answer(429, retry_after="3"), answer(429, retry_after="5"), answer(200))
    start = asyncio.get_running_loop().time()

    await client.get(PODS, "a", namespace="n")

    assert asyncio.get_running_loop().time() - start == pytest.approx(8, abs=0.01)


@pytest.mark.looptime
async def test_a_busy_server_does_not_hold_a_call_for_ever() -> None:
    """Waits that are each allowed do not add up beyond the limit."""
    client, transport = client_of(answer(429, retry_after="19"))
    start = asyncio.get_running_loop().time()

    with pytest.raises(TooManyRequests):
        await client.get(PODS, "a", namespace="n")

    assert asyncio.get_running_loop().time() - start <= TOTAL_LIMIT
    assert len(transport.requests) == 2


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"Status","details":[],"message":5,"reason":null}',
        b'{"kind":"Status","details":{"causes":{"a":1},"retryAfterSeconds":"7"}}',
        b'{"kind":"Status","details":{"causes":[1,null]}}',
        b"[]",
        b"\xff",
        b"",
    ],
)
async def test_odd_error_bodies_are_still_typed_errors(body: bytes) -> None:
    """Whoever answers (a proxy, a broken server), callers meet an ApiError and its bounded text, nothing else."""
    client, _ = client_of(answer(403, body))

    with pytest.raises(ApiError) as raised:
        await client.get(PODS, "a", namespace="n")

    assert raised.value.code == 403
    assert raised.value.causes == []
    assert str(raised.value)
