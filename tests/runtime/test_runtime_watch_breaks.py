"""Every way in which a watch breaks, and that nothing which happened meanwhile is lost (stack.md 1.3, cases C114 and C117)."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.runtime.runtime_feed import feed
from tests.runtime.runtime_server import ScriptedServer, status

from regroup.wire.errors import ConnectionFailed
from regroup.wire.transport import Response

pytestmark = pytest.mark.looptime


def _too_many(seconds: str) -> Callable[[], Response]:
    return lambda: status(429, reason="TooManyRequests", headers={"retry-after": seconds})


def _refused() -> Response:
    raise ConnectionFailed("connection refused")


@dataclass(frozen=True)
class Break:
    """One way to break: what happens to the open watch, and how the next requests are answered."""

    name: str
    how: Callable[[ScriptedServer], None]
    relists: bool
    within: float
    """Seconds after which all must be known again."""


def _then(*answers: Callable[[], Response]) -> Callable[[ScriptedServer], None]:
    """A clean end, after which the next watches are answered like that."""

    def break_(server: ScriptedServer) -> None:
        server.watch_answers.extend(answers)
        server.end_watches()

    return break_


BREAKS = [
    Break("clean end", ScriptedServer.end_watches, relists=False, within=2),
    Break("ERROR 410 in the stream", lambda server: server.error_in_watches(410, reason="Expired"), relists=True, within=3),
    Break("ERROR 500 in the stream", lambda server: server.error_in_watches(500), relists=False, within=3),
    Break("HTTP 410", _then(lambda: status(410, reason="Expired")), relists=True, within=4),
    Break("HTTP 500, twice", _then(lambda: status(500), lambda: status(500)), relists=False, within=6),
    Break(
        "HTTP 504: the version is beyond the server's own", _then(lambda: status(504, reason="Timeout")), relists=True, within=4
    ),
    Break("HTTP 400", _then(lambda: status(400)), relists=True, within=4),
    Break("HTTP 403, three times", _then(*[lambda: status(403)] * 3), relists=False, within=12),
    Break("HTTP 401", _then(lambda: status(401)), relists=False, within=4),
    Break("429 with Retry-After 20", _then(_too_many("20")), relists=False, within=23),
    Break("429 with Retry-After 120", _then(_too_many("120")), relists=False, within=125),
    Break("429 without Retry-After", _then(lambda: status(429)), relists=False, within=4),
    Break("connection refused, twice", _then(_refused, _refused), relists=False, within=6),
    Break("cut in mid-line", ScriptedServer.cut_watches, relists=False, within=3),
    Break("end in mid-line", ScriptedServer.end_watches_within_a_line, relists=False, within=3),
    Break("silence", ScriptedServer.silence_watches, relists=False, within=93),
    Break("a line that is no JSON", lambda server: server.send(b"{nonsense\n"), relists=False, within=3),
    Break("a line that is no event", lambda server: server.send(b'{"type":"ADDED"}\n'), relists=False, within=3),
]
EACH_BREAK = pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.name)


@pytest.mark.parametrize("streams_lists", ["yes", "refuses"])
@EACH_BREAK
async def test_a_deletion_missed_while_deaf_is_seen(broken: Break, streams_lists: str) -> None:
    """What was deleted, replaced and changed while the watch was broken is told once each, and the store equals the server."""
    server = ScriptedServer(streams_lists=streams_lists)
    uids = {name: server.put(name) for name in ("a", "b", "c", "d")}
    async with feed(server) as seen:
        server.put("a")
        await asyncio.sleep(1)
        lists = seen.reflector.statistics().lists

        broken.how(server)
        server.delete("b")
        server.put("c", new=True)
        server.put("d")
        await asyncio.sleep(broken.within)

        seen.check()
        assert sorted(seen.deleted()) == sorted([uids["b"], uids["c"]])
        assert seen.reflector.statistics().lists - lists == (1 if broken.relists else 0)
        assert server.open_watches == 1
        assert seen.reflector.last_error == ""


@EACH_BREAK
async def test_a_deletion_is_seen_even_when_the_history_is_gone(broken: Break) -> None:
    """However it broke: when the server has forgotten what happened meanwhile, the new list shows the deletion."""
    server = ScriptedServer()
    uids = {name: server.put(name) for name in ("a", "b", "c")}
    async with feed(server) as seen:
        server.put("a")
        await asyncio.sleep(1)

        broken.how(server)
        server.delete("b")
        server.put("c", new=True)
        if "no " in broken.name:
            server.end_watches()  # the others have broken the open watch themselves
        server.compact()
        await asyncio.sleep(broken.within + 4)

        seen.check()
        assert sorted(seen.deleted()) == sorted([uids["b"], uids["c"]])


async def test_a_silent_socket_is_noticed_and_closed() -> None:
    """C114: after 90 s without a byte the connection is given up and another takes its place; none is left over."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        await asyncio.sleep(10)
        watches = len(server.watches)

        server.silence_watches()
        server.put("b")
        await asyncio.sleep(80)
        assert len(server.watches) == watches, "bookmarks come once a minute: 80 s of silence are no reason"
        await asyncio.sleep(15)

        seen.check()
        assert len(server.watches) == watches + 1
        assert server.open_watches == 1


async def test_a_server_without_bookmarks_is_not_taken_for_dead_for_ever() -> None:
    """Missing bookmarks: a quiet kind is watched anew every 90 s, is never reported deaf, and misses no deletion."""
    server = ScriptedServer(bookmarks=False)
    server.put("a")
    uid = server.put("b")
    async with feed(server) as seen:
        for _ in range(40):
            await asyncio.sleep(30)
            assert seen.reflector.deaf_for() < 100

        server.delete("b")
        await asyncio.sleep(1)
        assert seen.deleted() == [uid]

        # Nothing told us a newer version, so the old one has expired when the next watch asks for it.
        server.put("x", namespace="elsewhere")
        server.silence_watches()
        server.delete("a")
        server.compact()
        await asyncio.sleep(100)

        seen.check()


async def test_bookmarks_move_the_version() -> None:
    """A watch that saw only bookmarks goes on from the last of them: no new list although its first version has expired."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        server.version += 500  # others' objects changed
        await asyncio.sleep(65)
        server.compact()
        server.end_watches()
        await asyncio.sleep(5)

        assert seen.reflector.statistics().lists == 1
        assert server.watches[-1].query["resourceVersion"] == str(server.version)
        assert all(watch.query["allowWatchBookmarks"] == "true" for watch in server.watches)


async def test_the_time_limit_of_watches_is_random() -> None:
    """``timeoutSeconds`` is between 300 and 600 and not always the same, so that not all watches of a fleet end together."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server):
        await asyncio.sleep(6 * 600)

    asked = [int(watch.query["timeoutSeconds"]) for watch in server.watches]

    assert 6 <= len(asked) <= 14
    assert all(300 <= seconds <= 600 for seconds in asked)
    assert len(set(asked)) > 3


async def test_a_server_that_never_answers_is_asked_ever_more_seldom() -> None:
    """Back-off: from 0.8 s up to 20 s with jitter, never shorter, so that a server in trouble is left in peace (C116 wants a
    failure of that time mended within 30 s, so 30 is too long)."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        await asyncio.sleep(5)
        server.watch_answers.extend([_refused] * 12)
        before = len(server.watches)
        server.end_watches()
        await asyncio.sleep(400)

        times = [watch.at for watch in server.watches[before:]]
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)][:11]
        assert 0.8 <= pauses[0] <= 1.2
        assert all(0.8 <= pause <= 20.0 for pause in pauses)
        assert min(pauses[5:]) >= 13
        assert len({round(pause, 3) for pause in pauses[5:]}) > 3, "jitter"
        seen.check()


async def test_back_off_starts_anew_after_two_healthy_minutes() -> None:
    """A watch that has worked for two minutes is asked for again at once when it is lost."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        server.watch_answers.extend([_refused] * 8)
        server.end_watches()
        await asyncio.sleep(300)
        assert server.open_watches == 1

        server.cut_watches()
        server.delete("a")
        await asyncio.sleep(1.3)

        seen.check()


async def test_watches_that_end_at_once_are_not_asked_for_in_a_circle() -> None:
    """A server (or a proxy) that ends every watch right away gets a growing pause between them, not a storm."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server):
        begin = len(server.seen)
        for _ in range(6000):
            server.end_watches()
            await asyncio.sleep(0.01)

        assert len(server.seen) - begin < 12


async def test_a_version_that_is_refused_again_and_again_is_given_up() -> None:
    """A server that fails only watches from one version (500, for ever) is asked for a new list in the end."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        server.watch_answers.extend([lambda: status(500)] * 5)
        server.end_watches()
        server.delete("a")
        server.compact()
        await asyncio.sleep(60)

        seen.check()
        assert seen.reflector.statistics().lists == 2


async def test_429_is_answered_by_patience() -> None:
    """C117: while every answer is 429 with Retry-After 3, less than one request a second is sent; then all goes on."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        server.watch_answers.extend([_too_many("3")] * 5)
        begin = len(server.seen)
        server.end_watches()
        server.delete("a")
        await asyncio.sleep(15)
        assert len(server.seen) - begin <= 6
        await asyncio.sleep(10)

        seen.check()


async def test_a_retry_after_without_end_does_not_deafen_for_ever() -> None:
    """A ``Retry-After`` of a day is cut to five minutes."""
    server = ScriptedServer()
    server.put("a")
    async with feed(server) as seen:
        server.watch_answers.append(_too_many("86400"))
        server.end_watches()
        server.delete("a")
        await asyncio.sleep(302)

        seen.check()
