"""Keeps a store equal to a collection of the API server: list, then watch, for ever.

It knows every way in which a watch can break and loses nothing in any of them: what was deleted while it was deaf shows as a
deletion when it hears again. A kind that cannot be listed or watched is tried again for ever, while the others go on; how long
it has been deaf is a fact (``deaf_for``) that liveness rests on. One object that cannot be read stops nothing but itself.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from regroup.kube.meta import HasMeta, ObjectMeta
from regroup.runtime.backoff import Backoff
from regroup.runtime.clock import Clock
from regroup.runtime.store import Change, Replacement, Store
from regroup.wire import codec
from regroup.wire.client import Client
from regroup.wire.codec import DecodeError
from regroup.wire.errors import ApiError, ConnectionFailed, Forbidden, Gone, ServerError, TooManyRequests, Unauthorized, WireError
from regroup.wire.events import WatchEvent
from regroup.wire.resource import Resource

T = TypeVar("T", bound=HasMeta)

PAGE = 500
BATCH = 50
"""Objects that are handled before the loop gets its turn."""
WATCH_SECONDS = (300, 600)
READ_TIMEOUT = 90.0
"""Seconds of silence after which a watch is taken for dead; servers send a bookmark about once a minute."""
STREAMED_LIST_SILENCE = 15.0
STREAMED_LIST_LIMIT = 120.0
"""Seconds that a streamed first list may stand still, and take in all, before pages are asked for instead."""
RETRY_AFTER_CAP = 300.0
"""Seconds: no server makes us stay deaf for longer."""
SHORT_WATCH = 1.0
"""Seconds: a server that ends watches sooner must not be asked in a circle."""
STUBBORN_FAILURES = 5
"""Failures without an event in between after which a version is given up: a new list is dear, but it mends anything."""
STREAMED_LIST_FAILURES = 3
"""The same for the way of listing: pages are tried then."""
WITHOUT_STREAMED_LIST = frozenset({400, 405, 415, 422})
"""Answers by which servers refuse ``sendInitialEvents``."""


@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """How the watch of one collection has fared: counts since the start, seconds since it was last heard of."""

    resource: str
    namespace: str
    synced: bool
    deaf_for: float
    lists: int
    watches: int
    events: int
    failures: int
    unreadable: int
    last_error: str


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
        page: int = PAGE,
        log: Any = None,
    ) -> None:
        self._client, self._resource, self._type = client, resource, type
        self._store, self._on_change = store, on_change
        self._clock, self._rng = clock, rng
        self._namespace = namespace
        self._label_selector, self._field_selector = label_selector, field_selector
        self._read_timeout, self._page = read_timeout, page
        self._log = (log or structlog.get_logger("reflector")).bind(resource=str(resource), namespace=namespace or "")
        self._backoff = Backoff(rng=rng)
        self._version = ""
        self._streamed_list = True
        self._careful = False
        """Objects come undecoded and are read one by one, because one of them did not fit."""
        self._alive_at: float | None = None
        self._opened_at: float | None = None
        """When the watch began that is open or was the last to be asked for; None when that was refused."""
        self._failures_in_row = 0
        self.synced = asyncio.Event()
        self._lists = self._watches = self._events = self._failures = self._unreadable = 0
        self._last_error = ""
        self._refused = ""

    async def run(self) -> None:
        """List and watch until cancelled. Never ends by itself; anything but an API failure is a bug and is raised."""
        self._alive_at = self._clock.monotonic()
        while True:
            try:
                if not self._version:
                    await self._list()
                else:
                    await self._watch()
                pause = 0.0
            except WireError as error:
                pause = self._failed(error)
            if pause:
                await asyncio.sleep(pause)

    def deaf_for(self) -> float:
        """Seconds since this collection was last heard of: an event, a list, or a watch that was opened."""
        return 0.0 if self._alive_at is None else self._clock.monotonic() - self._alive_at

    def statistics(self) -> ReflectorStatistics:
        return ReflectorStatistics(
            resource=str(self._resource),
            namespace=self._namespace or "",
            synced=self.synced.is_set(),
            deaf_for=self.deaf_for(),
            lists=self._lists,
            watches=self._watches,
            events=self._events,
            failures=self._failures,
            unreadable=self._unreadable,
            last_error=self._last_error,
        )

    @property
    def last_error(self) -> str:
        """The last failure, empty while all is well."""
        return self._last_error

    @property
    def refused(self) -> str:
        """What the server said when it last refused to let us list or watch; empty again once a watch is open."""
        return self._refused

    def _failed(self, error: WireError) -> float:
        """Note a failure and decide how to go on. Returns the pause in seconds."""
        self._failures += 1
        self._failures_in_row += 1
        self._last_error = str(error)[:300]
        known = self._refused
        if isinstance(error, Forbidden | Unauthorized):
            self._refused = self._last_error
        if isinstance(error, DecodeError) and not self._careful:
            # The server is fine and so is the version: have a closer look at once.
            self._careful = True
            self._log.info("an object does not fit; objects are read one by one", error=self._last_error)
            return 0.0
        if not _worth_resuming(error) or self._failures_in_row >= STUBBORN_FAILURES:
            self._version = ""
        now = self._clock.monotonic()
        if self._opened_at is not None and now - self._opened_at >= self._read_timeout:
            # It was lost after a time of work, or of a silence that may be nothing but quiet: no reason to stay deaf for long.
            self._backoff.reset()
        pause = self._backoff.next(now)
        asked = error.retry_after if isinstance(error, ApiError) else None
        if asked:
            pause = min(asked, RETRY_AFTER_CAP) + self._rng.random()
        if self._refused != known:
            self._log.error("the API server does not let us list and watch; it is asked again", error=self._refused)
            return pause
        quiet = isinstance(error, Gone) or (isinstance(error, ConnectionFailed) and self._failures_in_row == 1)
        quiet = quiet or bool(self._refused)  # it was told when it began
        (self._log.debug if quiet else self._log.warning)(
            "watch failed; it is tried again", error=self._last_error, seconds=round(pause, 2)
        )
        return pause

    def _heard(self) -> None:
        self._alive_at = self._clock.monotonic()
        self._last_error = ""

    async def _list(self) -> None:
        """Fill the store: by a streamed list where the server has it (which then goes on as the watch), else by pages."""
        if self._streamed_list and self._failures_in_row < STREAMED_LIST_FAILURES:
            try:
                async with self._open(version="", initial=True) as events:
                    iterator = aiter(events)
                    if await self._take_streamed_list(iterator):
                        await self._follow(iterator)
                        return
            except ApiError as error:
                if self._version or error.code not in WITHOUT_STREAMED_LIST:
                    raise
            self._log.info("the server does not stream lists; pages instead")
            self._streamed_list = False
        await self._list_by_pages()

    async def _list_by_pages(self) -> None:
        replacement = self._store.replacement()
        limit, token = self._page, ""
        while True:
            try:
                page = await self._client.list(
                    self._resource,
                    namespace=self._namespace,
                    type=self._wanted(),
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                    limit=limit,
                    continue_token=token,
                )
            except Gone:
                if not token:
                    raise
                # The snapshot expired between two pages: one answer with everything cannot.
                replacement, limit, token = self._store.replacement(), 0, ""
                continue
            for position, obj in enumerate(page.items, start=1):
                self._add(replacement, obj)
                if position % BATCH == 0:
                    await asyncio.sleep(0)
            if not page.continue_token:
                break
            if page.continue_token == token:
                raise DecodeError("the list does not get on: a page has the token of the one before")
            token = page.continue_token
        await self._commit(replacement, page.resource_version)

    async def _take_streamed_list(self, events: AsyncIterator[WatchEvent[Any]]) -> bool:
        """The first list as a stream of events that ends with a marked bookmark; only then is it the truth.

        Returns False when the mark does not come, as from a server that ignores the parameter.
        """
        replacement = self._store.replacement()
        loop = asyncio.get_running_loop()
        end = loop.time() + STREAMED_LIST_LIMIT
        try:
            async with asyncio.timeout(STREAMED_LIST_SILENCE) as silence:
                taken = 0
                async for event in events:
                    taken += 1
                    if event.object is None:
                        if event.initial_events_end:
                            silence.reschedule(None)
                            await self._commit(replacement, event.resource_version)
                            return True
                    elif event.type == "DELETED":
                        meta = self._identity(event.object)
                        replacement.remove(meta.namespace, meta.name)
                    else:
                        self._add(replacement, event.object)
                    if taken % BATCH == 0:
                        silence.reschedule(min(end, loop.time() + STREAMED_LIST_SILENCE))
                        await asyncio.sleep(0)
        except TimeoutError:
            return False
        raise ConnectionFailed("the streamed list ended before it was whole")

    async def _commit(self, replacement: Replacement[T], version: str) -> None:
        self._lists += 1
        self._heard()
        self._failures_in_row = 0
        # From here readers see the new content. Handlers hear of it batch by batch; a look that comes in between sees the truth
        # without having been sent, and is sent again when its turn comes.
        for position, change in enumerate(replacement.commit(), start=1):
            self._on_change(change)
            if position % BATCH == 0:
                await asyncio.sleep(0)
        self._version = version
        self.synced.set()

    async def _watch(self) -> None:
        async with self._open(version=self._version, initial=False) as events:
            await self._follow(aiter(events))

    @asynccontextmanager
    async def _open(self, *, version: str, initial: bool) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        self._watches += 1
        self._opened_at = None
        async with self._client.watch(
            self._resource,
            type=self._wanted(),
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=version,
            timeout_seconds=self._rng.randint(*WATCH_SECONDS),
            read_timeout=self._read_timeout,
            send_initial_events=initial,
        ) as events:
            self._opened_at = self._clock.monotonic()
            yield events

    async def _follow(self, events: AsyncIterator[WatchEvent[Any]]) -> None:
        """Take events until the watch ends. The version moves with each, so that the next watch goes on right there."""
        self._heard()
        self._refused = ""
        handled = 0
        async for event in events:
            self._events += 1
            self._failures_in_row = 0
            self._heard()
            version = event.resource_version
            if event.object is not None:
                version = self._take(event) or version
            if version:
                self._version = version
            handled += 1
            if handled % BATCH == 0:
                await asyncio.sleep(0)
        self._heard()
        self._careful = False
        now = self._clock.monotonic()
        if self._opened_at is not None and now - self._opened_at < SHORT_WATCH:
            await asyncio.sleep(self._backoff.next(now))

    def _take(self, event: WatchEvent[Any]) -> str:
        """Bring one event into the store and tell of it. Returns the version of its object."""
        obj = self._read(event.object)
        if obj is not None:
            meta = obj.metadata
            changes = self._store.remove(obj) if event.type == "DELETED" else self._upsert(obj)
        else:
            # What cannot be read any more still takes away what it was, or what had its name before.
            meta = self._identity(event.object)
            gone = self._store.by_uid(meta.uid) if event.type == "DELETED" else self._predecessor(meta)
            changes = self._store.remove(gone) if gone is not None else []
        for change in changes:
            self._on_change(change)
        return meta.resource_version

    def _upsert(self, obj: T) -> list[Change[T]]:
        try:
            return self._store.upsert(obj)
        except Exception as error:  # noqa: BLE001 - an indexer that fails on one odd object must not stop the others
            self._skip(obj.metadata, error)
            return []

    def _add(self, replacement: Replacement[T], raw: Any) -> None:
        """Bring one object into a list; what cannot be read stays as it was known, so that it does not look deleted."""
        obj = self._read(raw)
        if obj is not None:
            try:
                replacement.add(obj)
            except Exception as error:  # noqa: BLE001 - as in _upsert
                self._skip(obj.metadata, error)
            else:
                return
        meta = self._identity(raw)
        if self._predecessor(meta) is None:
            replacement.keep(meta.namespace, meta.name)

    def _predecessor(self, meta: ObjectMeta) -> T | None:
        """The other object that had the name of ``meta`` before."""
        known = self._store.get(meta.namespace, meta.name)
        return known if known is not None and known.metadata.uid != meta.uid else None

    def _wanted(self) -> Any:
        return msgspec.Raw if self._careful else self._type

    def _read(self, raw: Any) -> T | None:
        """The object, or None when it does not fit our type."""
        if not isinstance(raw, msgspec.Raw):
            obj: T = raw
            return obj
        try:
            return codec.decode(bytes(raw), self._type)
        except DecodeError as error:
            self._skip(self._identity(raw), error)
            return None

    def _identity(self, raw: Any) -> ObjectMeta:
        """Name, UID and version of an object, decoded or not, as far as they can be read at all."""
        if not isinstance(raw, msgspec.Raw):
            meta: ObjectMeta = raw.metadata
            return meta
        found = codec.decode(bytes(raw), Any)
        metadata = found.get("metadata") if isinstance(found, dict) else None
        fields = metadata.items() if isinstance(metadata, dict) else ()
        texts = {name: value for name, value in fields if isinstance(value, str)}
        return ObjectMeta(
            name=texts.get("name", ""),
            namespace=texts.get("namespace", ""),
            uid=texts.get("uid", ""),
            resource_version=texts.get("resourceVersion", ""),
        )

    def _skip(self, meta: ObjectMeta, error: Exception) -> None:
        self._unreadable += 1
        self._log.warning(
            "an object is left out: it cannot be read",
            object=meta.key,
            uid=meta.uid,
            error=f"{type(error).__name__}: {error}"[:300],
        )


def _worth_resuming(error: WireError) -> bool:
    """Whether a watch may go on at its version after ``error``; if not, only a new list shows what was missed."""
    if isinstance(error, ServerError):
        # 504 also says that the version is beyond the server's own, as after a restore of its database.
        return error.code != 504
    return isinstance(error, ConnectionFailed | TooManyRequests | Unauthorized | Forbidden)
