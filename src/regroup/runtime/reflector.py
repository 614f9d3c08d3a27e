"""Keeps a store equal to a collection of the API server: list, then watch, for ever.

It knows every way in which a watch can break and loses nothing in any of them: what was deleted while it was deaf shows as a
deletion when it hears again. A kind that cannot be listed or watched is tried again for ever, while the others go on; how long
it has been deaf is a fact (``deaf_for``) that liveness rests on.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from regroup.kube.meta import HasMeta
from regroup.runtime.clock import Clock
from regroup.runtime.store import Change, Store
from regroup.wire.client import Client
from regroup.wire.errors import ApiError, ConnectionFailed, Gone, Invalid, WireError
from regroup.wire.events import WatchEvent
from regroup.wire.resource import Resource

T = TypeVar("T", bound=HasMeta)

PAGE = 500
BATCH = 100
"""Changes that are handled before the loop gets its turn."""
WATCH_SECONDS = (300, 600)
READ_TIMEOUT = 90.0
"""Seconds of silence after which a watch is taken for dead; servers send a bookmark about once a minute."""
INITIAL_EVENTS_LIMIT = 60.0
"""Seconds that a streamed first list may stand still before pages are asked for instead."""
BACKOFF_BASE = 0.8
BACKOFF_CAP = 30.0
BACKOFF_RESET = 120.0
"""Seconds of a working watch after which the next failure starts with the shortest pause again."""


@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """How the watch of one kind has fared: counts since the start."""

    resource: str
    objects: int
    synced: bool
    lists: int
    watches: int
    events: int
    failures: int
    last_error: str


class _NotStreamed(Exception):
    """The server does not stream the first list."""


class Reflector(Generic[T]):
    """Feeds ``store`` from one collection and tells ``on_change`` of everything that happened, in order."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        type: type[T],
        store: Store[T],
        on_change: Callable[[Change[T]], None],
        clock: Clock,
        rng: random.Random,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        read_timeout: float = READ_TIMEOUT,
        log: Any = None,
    ) -> None:
        self._client, self._resource, self._type = client, resource, type
        self._store, self._on_change = store, on_change
        self._clock, self._rng = clock, rng
        self._namespace = namespace
        self._label_selector, self._field_selector = label_selector, field_selector
        self._read_timeout = read_timeout
        self._log = (log or structlog.get_logger("reflector")).bind(resource=str(resource), namespace=namespace or "")
        self._version = ""
        self._streamed_list = True
        self._alive_at: float | None = None
        self._attempts = 0
        self.synced = asyncio.Event()
        self._lists = self._watches = self._events = self._failures = 0
        self._last_error = ""

    async def run(self) -> None:
        """List and watch until cancelled. Never ends by itself; anything but an API failure is a bug and is raised."""
        self._alive_at = self._clock.monotonic()
        while True:
            began = self._clock.monotonic()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                pause = 0.0
            except WireError as error:
                pause = self._failed(error)
            if self._clock.monotonic() - began >= BACKOFF_RESET:
                self._attempts = 0
            if pause:
                await asyncio.sleep(pause)

    def deaf_for(self) -> float:
        """Seconds since this kind was last heard of."""
        return 0.0 if self._alive_at is None else self._clock.monotonic() - self._alive_at

    def statistics(self) -> ReflectorStatistics:
        return ReflectorStatistics(
            resource=str(self._resource),
            objects=len(self._store),
            synced=self.synced.is_set(),
            lists=self._lists,
            watches=self._watches,
            events=self._events,
            failures=self._failures,
            last_error=self._last_error,
        )

    @property
    def last_error(self) -> str:
        """The last failure, empty while all is well."""
        return self._last_error

    def _failed(self, error: WireError) -> float:
        self._failures += 1
        self._last_error = str(error)[:300]
        if isinstance(error, Gone):
            # An expired page or version: the next list starts from nothing.
            self._version = ""
        pause = self._pause()
        asked = error.retry_after if isinstance(error, ApiError) else None
        if asked is not None:
            pause = max(pause, asked)
        quiet = isinstance(error, Gone) or (isinstance(error, ConnectionFailed) and self._attempts <= 1)
        (self._log.debug if quiet else self._log.warning)(
            "watch failed; it is tried again", error=self._last_error, seconds=round(pause, 2)
        )
        return pause

    def _pause(self) -> float:
        pause = min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(self._attempts, 10))
        self._attempts += 1
        return pause * (0.5 + self._rng.random())

    def _heard(self) -> None:
        self._alive_at = self._clock.monotonic()
        self._last_error = ""

    async def _list(self) -> None:
        if self._streamed_list:
            try:
                await self._list_by_watch()
            except (Invalid, _NotStreamed) as error:
                self._log.debug("no streamed list here; pages instead", error=str(error)[:200])
                self._streamed_list = False
            except ApiError as error:
                if error.code not in {400, 405, 415}:
                    raise
                self._streamed_list = False
            else:
                return
        await self._list_by_pages()

    async def _list_by_pages(self) -> None:
        page = await self._client.list_all(
            self._resource,
            namespace=self._namespace,
            type=self._type,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        await self._replace(page.items, page.resource_version)

    async def _list_by_watch(self) -> None:
        """The first list as a stream of events that ends with a marked bookmark; only then is it the truth."""
        objects: dict[tuple[str, str], T] = {}
        async with self._open(version="", initial=True) as events:
            iterator = aiter(events)
            while True:
                try:
                    async with asyncio.timeout(INITIAL_EVENTS_LIMIT):
                        event = await anext(iterator)
                except StopAsyncIteration:
                    raise ConnectionFailed("the streamed list ended before it was whole") from None
                except TimeoutError:
                    # A server that ignores the parameter never sends the marker.
                    raise _NotStreamed from None
                if event.object is not None:
                    meta = event.object.metadata
                    if event.type == "DELETED":
                        objects.pop((meta.namespace, meta.name), None)
                    else:
                        objects[meta.namespace, meta.name] = event.object
                elif event.initial_events_end:
                    await self._replace(list(objects.values()), event.resource_version)
                    await self._follow(iterator)
                    return

    async def _replace(self, objects: list[T], version: str) -> None:
        self._lists += 1
        self._heard()
        # Between two batches others may read the store: they see a mix of old and new objects, each of them true by itself.
        changes = self._store.replace(objects)
        for position, change in enumerate(changes, start=1):
            self._on_change(change)
            if position % BATCH == 0:
                await asyncio.sleep(0)
        self._version = version
        self.synced.set()

    async def _watch(self) -> None:
        async with self._open(version=self._version, initial=False) as events:
            await self._follow(aiter(events))

    def _open(self, *, version: str, initial: bool) -> Any:
        self._watches += 1
        return self._client.watch(
            self._resource,
            type=self._type,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=version,
            timeout_seconds=self._rng.randint(*WATCH_SECONDS),
            read_timeout=self._read_timeout,
            send_initial_events=initial,
        )

    async def _follow(self, events: AsyncIterator[WatchEvent[T]]) -> None:
        """Take events until the watch ends. The version moves with each, so that the next watch goes on right there."""
        handled = 0
        began = self._clock.monotonic()
        async for event in events:
            self._events += 1
            self._heard()
            if event.object is not None:
                changes = self._store.remove(event.object) if event.type == "DELETED" else self._store.upsert(event.object)
                for change in changes:
                    self._on_change(change)
            if event.resource_version:
                self._version = event.resource_version
            handled += 1
            if handled % BATCH == 0:
                await asyncio.sleep(0)
        self._heard()
        if handled == 0 and self._clock.monotonic() - began < 1.0:
            # A server that ends watches at once must not be asked in a circle.
            await asyncio.sleep(self._pause())
        else:
            self._attempts = 0
