"""Watches: events of one resource as a stream of lines, selected, transformed, with bookmarks."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regroup.sandbox.apiserver.selection import Selection
from regroup.sandbox.apiserver.storage import Event, EventType, Storage, Stored
from regroup.wire import codec

Obj = dict[str, Any]

BOOKMARK_PERIOD = 50.0
"""Seconds between bookmarks on a watch that asked for them."""
LAST_BOOKMARK = 2.0
"""Seconds before its end at which such a watch gets one more, so that its client resumes from late."""
TICK = 0.001
"""Seconds that a timer may fire early on a loop with coarse time: what is due within them is due now."""
BACKLOG_LIMIT = 100_000
"""Events that a slow reader may be behind before its watch is ended."""
TICK = 0.001
"""Seconds that a wait takes at least: a clock with coarse steps would never reach the rest of a rounding error."""
BATCH = 100
"""Events that are sent in one piece."""

Encode = Callable[[Stored], bytes]
"""The object of an event in the form that was asked for."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What one watch asked for. ``initial`` are the events to start with, ``since`` the version after them."""

    selection: Selection
    encode: Encode
    bookmark: Callable[[int, bool], bytes]
    """The line of a bookmark at a version; True marks the end of the initial events."""
    timeout: float
    bookmarks: bool
    initial: Sequence[tuple[EventType, Stored]]
    initial_end: bool
    since: int


def line(kind: EventType, data: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + data + b"}\n"


def error_line(status: Obj) -> bytes:
    return b'{"type":"ERROR","object":' + codec.encode(status) + b"}\n"


def select(event: Event, selection: Selection) -> tuple[EventType, Stored] | None:
    """The event as a selecting watch sees it: an object that leaves the selection is deleted there, one that enters is added."""
    before = event.previous is not None and selection.matches(event.previous)
    if event.type == "DELETED":
        return ("DELETED", event.stored) if before else None
    if selection.matches(event.stored):
        return ("MODIFIED" if before else "ADDED", event.stored)
    if before and event.previous is not None:
        # The last state that matched, at the version of the write that took it away.
        meta = {**event.previous.obj["metadata"], "resourceVersion": str(event.stored.version)}
        obj = {**event.previous.obj, "metadata": meta}
        return ("DELETED", Stored(obj, event.stored.version, codec.encode(obj)))
    return None


async def watch(storage: Storage, request: WatchRequest, *, missed: Sequence[Event]) -> AsyncIterator[bytes]:
    """The lines of a watch: initial events, what was missed since, then what comes, until the time is up.

    The listener must be in place before the caller awaits anything after it read ``missed``: this generator does that at its
    first step, so it has to be started at once.
    """
    backlog: deque[Event] = deque(missed)
    wake = asyncio.Event()

    def hear(event: Event) -> None:
        if event.stored.version > request.since:
            backlog.append(event)
            wake.set()

    loop = asyncio.get_running_loop()
    end = loop.time() + request.timeout
    stop = storage.listen(request.selection.served.stored_as, hear)
    try:
        yield b""  # started: the listener hears from here on
        for first in range(0, len(request.initial), BATCH):
            part = request.initial[first : first + BATCH]
            yield b"".join([line(kind, request.encode(stored)) for kind, stored in part])
        if request.initial_end:
            yield request.bookmark(request.since, True)
        next_bookmark = _next_bookmark(loop.time(), end) if request.bookmarks else end
        while len(backlog) <= BACKLOG_LIMIT:
            if lines := _lines(backlog, request):
                yield b"".join(lines)
                continue
            now = loop.time() + TICK
            if now >= end:
                return
            if now + TICK > next_bookmark and next_bookmark < end:
                # Every event up to the storage's version was looked at, so the watch may resume from there.
                yield request.bookmark(max(storage.version, request.since), False)
                next_bookmark = _next_bookmark(now, end)
                continue
            wake.clear()
            try:
                async with asyncio.timeout(max(min(end, next_bookmark) - now, TICK)):
                    await wake.wait()
            except TimeoutError:
                pass
    finally:
        stop()


def _next_bookmark(now: float, end: float) -> float:
    last = end - LAST_BOOKMARK
    return min(now + BOOKMARK_PERIOD, last) if now + TICK < last else end


def _lines(backlog: deque[Event], request: WatchRequest) -> list[bytes]:
    """The next events that the watch sees, at most one batch."""
    lines: list[bytes] = []
    while backlog and len(lines) < BATCH:
        seen = select(backlog.popleft(), request.selection)
        if seen is not None:
            lines.append(line(seen[0], request.encode(seen[1])))
    return lines
