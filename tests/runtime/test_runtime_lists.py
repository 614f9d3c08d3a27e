"""First lists and relists: streamed or by pages, whole or not at all (stack.md 2.5, case C130)."""

import asyncio
from collections.abc import Callable, Iterable

import pytest
from tests.runtime.runtime_feed import feed
from tests.runtime.runtime_server import ScriptedServer, status

from regroup.kube.pod import Pod
from regroup.wire.errors import ConnectionFailed
from regroup.wire.transport import Response

pytestmark = pytest.mark.looptime


def _cut() -> Response:
    raise ConnectionFailed("cut in the middle of page 2", maybe_done=True)


def _filled(count: int, *, streams_lists: str = "yes") -> ScriptedServer:
    server = ScriptedServer(streams_lists=streams_lists)
    for number in range(count):
        server.put(f"pod-{number:04}")
    return server


async def test_the_first_list_is_streamed_where_the_server_does_that() -> None:
    """WatchList: one watch with ``sendInitialEvents`` is list and watch at once; no page is asked for."""
    server = _filled(1200)
    async with feed(server) as seen:
        server.put("pod-0007")
        await asyncio.sleep(1)

        seen.check()
        assert server.lists == []
        assert len(server.watches) == 1
        query = server.watches[0].query
        assert (query["sendInitialEvents"], query["resourceVersionMatch"], query["resourceVersion"]) == (
            "true",
            "NotOlderThan",
            "",
        )


async def test_changes_during_a_streamed_list_are_part_of_it() -> None:
    """What is changed and deleted before the mark comes is neither old nor there when the list is taken."""
    server = _filled(3, streams_lists="ignores")

    async def late() -> None:
        await asyncio.sleep(1)
        server.put("pod-0001", labels={"late": "yes"})
        server.delete("pod-0002")
        watch = server._open[0]
        watch.bookmark(initial_events_end=True)

    changing = asyncio.create_task(late())
    async with feed(server) as seen:
        await changing

        seen.check()
        assert seen.deleted() == [], "what was never told cannot be told to be gone"
        assert server.lists == []


async def test_a_server_that_refuses_streamed_lists_is_asked_for_pages() -> None:
    """422 to ``sendInitialEvents``: pages of 500, then a watch from the version of the list; and never again the other way."""
    server = _filled(1200, streams_lists="refuses")
    async with feed(server) as seen:
        seen.check()
        assert [request.query["limit"] for request in server.lists] == ["500"] * 3
        assert server.watches[-1].query["resourceVersion"] == str(server.version)

        server.error_in_watches(410)
        await asyncio.sleep(5)
        assert sum("sendInitialEvents" in watch.query for watch in server.watches) == 1


@pytest.mark.parametrize("busy", [False, True])
async def test_a_server_that_ignores_the_parameter_does_not_hang_us(busy: bool) -> None:
    """A server that knows no ``sendInitialEvents`` never sends the mark, quiet or busy: pages are asked for in bounded time."""
    server = _filled(20, streams_lists="ignores")

    async def keep_busy() -> None:
        while True:
            server.put("pod-0003")
            await asyncio.sleep(0.05)

    noise = asyncio.create_task(keep_busy()) if busy else None
    try:
        async with feed(server) as seen:
            assert asyncio.get_running_loop().time() < 130
            assert len(server.lists) == 1
            assert len(seen.store) == 20
    finally:
        if noise is not None:
            noise.cancel()
            await asyncio.gather(noise, return_exceptions=True)


async def test_a_server_that_fails_streamed_lists_is_asked_for_pages_in_the_end() -> None:
    """A 500 to every streamed list must not keep the cache empty for ever."""
    server = _filled(5)
    server.watch_answers.extend([lambda: status(500)] * 3)
    async with feed(server) as seen:
        seen.check()
        assert len(server.lists) == 1


async def test_a_streamed_list_that_ends_early_is_no_list() -> None:
    """A stream that is cut before the mark leaves the store as it was; nothing is taken for deleted."""
    server = _filled(50)
    async with feed(server) as seen:
        told = len(seen.changes)
        server.streams_lists = "ignores"
        server.compact()
        server.version += 1
        server.oldest = server.version
        server.end_watches()
        await asyncio.sleep(4)
        assert server.watches[-1].query.get("sendInitialEvents") == "true"
        server.end_watches()
        await asyncio.sleep(0.1)
        assert len(seen.store) == 50
        server.streams_lists = "yes"
        await asyncio.sleep(10)

        seen.check()
        assert len(seen.changes) == told
        assert server.lists == [], "one that was cut is no reason to give up streaming"


BROKEN_PAGES: list[tuple[str, list[Callable[[], Response] | None]]] = [
    ("second page 410", [None, lambda: status(410, reason="Expired")]),
    ("second page 410, and then the whole list", [None, lambda: status(410), lambda: status(410)]),
    ("second page 500", [None, *[lambda: status(500)] * 4]),
    ("second page cut", [None, *[_cut] * 4]),
    ("first page 410", [lambda: status(410)]),
    ("second page 429", [None, lambda: status(429, headers={"retry-after": "30"})]),
    ("second page empty with a token", [None, lambda: _page([], token="500")]),
    ("second page no JSON", [None, lambda: Response(200, {}, b'{"items":[{"metadata":{"na')]),
]


def _page(items: Iterable[object], *, token: str) -> Response:
    body = f'{{"metadata":{{"resourceVersion":"900","continue":"{token}"}},"items":{list(items)}}}'
    return Response(200, {}, body.encode())


@pytest.mark.parametrize(("name", "answers"), BROKEN_PAGES, ids=[name for name, _ in BROKEN_PAGES])
async def test_a_list_that_is_cut_off_between_pages_is_not_the_truth(
    name: str, answers: list[Callable[[], Response] | None]
) -> None:
    """C130: whatever happens on page 2 of 800 pods, the old view is kept until a list is whole: no pod seems to vanish."""
    server = _filled(800, streams_lists="refuses")
    async with feed(server) as seen:
        told = len(seen.changes)
        server.list_answers.extend(answers)
        server.error_in_watches(410)
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert len(seen.store) == 800
        assert not server.list_answers, "the scripted answers were all given"

        assert len(seen.changes) == told
        seen.check()
        assert seen.reflector.statistics().lists == 2


async def test_an_expired_page_leads_to_one_list_of_everything() -> None:
    """A collection that outruns its pages is listed in one answer, which cannot expire half-way."""
    server = _filled(800, streams_lists="refuses")
    async with feed(server) as seen:

        def expire() -> Response:
            server.delete("pod-0001")  # which the first page still had
            return status(410)

        server.list_answers.extend([None, expire])
        server.error_in_watches(410)
        await asyncio.sleep(3)

        assert [(request.query.get("limit"), "continue" in request.query) for request in server.lists[-3:]] == [
            ("500", False),
            ("500", True),
            (None, False),
        ]
        seen.check()


async def test_a_list_that_does_not_get_on_ends() -> None:
    """A server that gives the same token again and again is not asked for ever in one list."""
    server = _filled(800, streams_lists="refuses")
    async with feed(server) as seen:
        server.list_answers.extend([lambda: _page([], token="77")] * 2)
        server.error_in_watches(410)
        server.delete("pod-0001")
        await asyncio.sleep(30)

        seen.check()


async def test_a_relist_tells_deletions_first_and_only_what_changed() -> None:
    """A relist over 2,000 pods of which three changed tells three changes: first what is gone, then what is new."""
    server = _filled(2000)
    async with feed(server) as seen:
        await asyncio.sleep(1)
        told = len(seen.changes)
        server.silence_watches()
        server.put("pod-0005")
        server.put("pod-0006", new=True)
        server.delete("pod-0007")
        server.put("zzz")
        server.compact()
        await asyncio.sleep(100)

        seen.check()
        fresh = seen.changes[told:]
        kinds = ["gone" if change.new is None else "added" if change.old is None else "changed" for change in fresh]
        assert kinds[:2] == ["gone", "gone"]
        assert sorted(kinds) == ["added", "added", "changed", "gone", "gone"]


async def test_a_relist_is_seen_at_once() -> None:
    """Whoever hears of the first change of a relist finds all of the new content, however long telling takes."""
    server = _filled(600)
    phases: set[tuple[str, ...]] = set()
    async with feed(server) as seen:
        for obj in server.objects.values():
            obj["metadata"]["resourceVersion"] = str(9000 + int(obj["metadata"]["resourceVersion"]))
            obj["status"]["phase"] = "Failed"
        server.version = 20000
        seen.on_each = lambda: phases.add(tuple({pod.phase for pod in seen.store.values()}))
        server.error_in_watches(410)
        await asyncio.sleep(5)

        assert phases == {("Failed",)}
        assert len(seen.changes) == 1200
        seen.check()


async def test_indexes_hold_after_a_relist() -> None:
    """After a relist an index gives what a fresh computation gives."""

    def by_color(pod: Pod) -> Iterable[str]:
        return [color] if (color := pod.metadata.labels.get("color")) else []

    server = ScriptedServer()
    for number in range(30):
        server.put(f"pod-{number}", labels={"color": "red" if number % 2 else "blue"})
    async with feed(server, indexers={"color": by_color}) as seen:
        server.silence_watches()
        for number in range(10):
            server.put(f"pod-{number}", labels={"color": "green"}, new=number % 3 == 0)
        server.delete("pod-29")
        server.compact()
        await asyncio.sleep(100)

        seen.check()
        for color in ("red", "blue", "green"):
            expected = sorted(pod.metadata.name for pod in seen.store.values() if color in by_color(pod))
            assert [pod.metadata.name for pod in seen.store.index("color", color)] == expected
        assert set(seen.store.index_values("color")) == {"red", "blue", "green"}
