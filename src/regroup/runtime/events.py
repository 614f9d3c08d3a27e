"""Events (``events.k8s.io/v1``) that a controller tells people: aggregated, bounded, never in the way of the work.

``event()`` only notes; ``run()`` writes. An event that repeats (same objects, type, reason, action and message) becomes a
series on the first Event object instead of a new object. A source that floods is cut off by a token bucket for each object, and
the number that was dropped is kept in ``statistics()``. Events are told, not state: one that cannot be written is dropped.
"""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha1
from typing import Any, Literal

import structlog

from regroup.kube.meta import ObjectRef
from regroup.kube.resources import EVENTS
from regroup.runtime.clock import Clock, micro_timestamp
from regroup.wire.client import Client
from regroup.wire.errors import ApiError, NotFound, WireError

NOTE_LIMIT = 1024
"""``note`` of events.k8s.io/v1: at most 1 kB."""
REASON_LIMIT = 128
SERIES_WINDOW = 6 * 60.0
"""Seconds after which a repeated event starts a new object, as client-go's broadcaster does."""
SERIES_REFRESH = 2.0
"""A series is written at most this often, in seconds."""
REMEMBERED = 4096
PENDING_LIMIT = 1000
BURST = 25
REFILL = 1 / 5.0
"""Tokens a second for one object: a burst of 25, then one event in five seconds."""

EventType = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class EventStatistics:
    """What became of the events: all counts since the start."""

    noted: int
    written: int
    aggregated: int
    dropped: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Key:
    regarding: str
    related: str
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class _Series:
    namespace: str
    name: str
    count: int
    last: float
    last_time: datetime
    written: int = 1
    written_at: float = 0.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class _Pending:
    key: _Key
    regarding: ObjectRef
    related: ObjectRef | None
    time: datetime
    attempts: int = field(default=0)


class EventRecorder:
    """Tells events in the name of one ``component`` (``reportingController``) and ``instance``."""

    def __init__(self, client: Client, *, component: str, instance: str, clock: Clock, log: Any = None) -> None:
        self._client = client
        self._component = component
        self._instance = instance[:128]
        self._clock = clock
        self._log = log or structlog.get_logger(component)
        self._pending: deque[_Pending] = deque()
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._dirty: set[_Key] = set()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._noted = self._written = self._aggregated = self._dropped = self._failed = 0

    def event(
        self, regarding: ObjectRef, *, type: EventType, reason: str, message: str, action: str, related: ObjectRef | None = None
    ) -> None:
        """Note an event about ``regarding``. Never blocks and never raises; texts are cut to the API's limits."""
        self._noted += 1
        key = _Key(
            regarding=f"{regarding.kind}/{regarding.namespace}/{regarding.name}/{regarding.uid}",
            related=f"{related.kind}/{related.namespace}/{related.name}/{related.uid}" if related else "",
            type=type,
            reason=reason[:REASON_LIMIT],
            action=action[:REASON_LIMIT],
            note=_cut(message),
        )
        now = self._clock.monotonic()
        series = self._series.get(key)
        if series is not None and now - series.last < SERIES_WINDOW:
            series.count += 1
            series.last = now
            series.last_time = self._clock.now()
            self._aggregated += 1
            self._dirty.add(key)
            self._wake.set()
            return
        if len(self._pending) >= PENDING_LIMIT or not self._take_token(key.regarding, now):
            self._dropped += 1
            return
        moment = self._clock.now()
        namespace = regarding.namespace or "default"
        self._remember(key, _Series(namespace, self._name(regarding, key, moment), 1, now, moment))
        self._pending.append(_Pending(key, regarding, related, moment))
        self._wake.set()

    async def run(self) -> None:
        """Write what was noted until cancelled; then give what is left a last chance of five seconds."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._write_noted()
                if self._dirty:
                    await asyncio.sleep(SERIES_REFRESH)
                    await self._write_series()
        finally:
            try:
                async with asyncio.timeout(5.0):
                    await self.flush()
            except TimeoutError:
                self._log.warning("events were left unwritten at the stop", count=len(self._pending))

    async def flush(self) -> None:
        """Write everything that was noted so far."""
        await self._write_noted()
        await self._write_series()

    def statistics(self) -> EventStatistics:
        return EventStatistics(self._noted, self._written, self._aggregated, self._dropped, self._failed)

    async def _write_noted(self) -> None:
        async with self._writing:
            while self._pending:
                # Taken before the await: a cancelled write may have reached the server, and a second one would tell it twice.
                entry = self._pending.popleft()
                series = self._series.get(entry.key)
                if series is None:
                    continue
                await self._attempt(self._create(entry, series))

    async def _write_series(self) -> None:
        async with self._writing:
            for key in sorted(self._dirty, key=lambda key: (key.regarding, key.reason, key.note)):
                self._dirty.discard(key)
                series = self._series.get(key)
                if series is not None and series.count > series.written:
                    await self._attempt(self._extend(series))

    async def _attempt(self, write: Any) -> None:
        try:
            await write
        except WireError as error:
            self._failed += 1
            quiet = isinstance(error, ApiError) and error.code in {403, 404}
            (self._log.debug if quiet else self._log.warning)("event not written", error=str(error)[:300])
        else:
            self._written += 1

    async def _create(self, entry: _Pending, series: _Series) -> None:
        key = entry.key
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": series.namespace},
            "eventTime": micro_timestamp(entry.time),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "action": key.action,
            "reason": key.reason,
            "note": key.note,
            "type": key.type,
            "regarding": _reference(entry.regarding),
        }
        if entry.related is not None:
            body["related"] = _reference(entry.related)
        await self._client.create(EVENTS, body, namespace=series.namespace)

    async def _extend(self, series: _Series) -> None:
        patch = {"series": {"count": series.count, "lastObservedTime": micro_timestamp(series.last_time)}}
        series.written = series.count
        try:
            await self._client.merge_patch(EVENTS, series.name, patch, namespace=series.namespace)
        except NotFound:
            # It expired on the server; the next repeat starts anew.
            for key in [key for key, value in self._series.items() if value is series]:
                del self._series[key]

    def _remember(self, key: _Key, series: _Series) -> None:
        self._series[key] = series
        self._series.move_to_end(key)
        while len(self._series) > REMEMBERED:
            old, _ = self._series.popitem(last=False)
            self._dirty.discard(old)

    def _take_token(self, source: str, now: float) -> bool:
        bucket = self._buckets.get(source)
        if bucket is None:
            bucket = _Bucket(float(BURST), now)
            self._buckets[source] = bucket
            while len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)
        bucket.tokens = min(float(BURST), bucket.tokens + (now - bucket.at) * REFILL)
        bucket.at = now
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    def _name(self, regarding: ObjectRef, key: _Key, moment: datetime) -> str:
        """``<object>.<hash>``: unique for what is told, when and by whom, within the limit for names."""
        text = "\x00".join((self._instance, key.regarding, key.related, key.reason, key.action, key.note, moment.isoformat()))
        return f"{regarding.name[:200]}.{sha1(text.encode(), usedforsecurity=False).hexdigest()[:16]}"


def _cut(text: str) -> str:
    """``text`` within ``NOTE_LIMIT`` bytes, marked where it was cut."""
    data = text.encode()
    if len(data) <= NOTE_LIMIT:
        return text
    return data[: NOTE_LIMIT - 3].decode(errors="ignore") + "..."


def _reference(ref: ObjectRef) -> dict[str, str]:
    pairs = {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
        "resourceVersion": ref.resource_version,
        "fieldPath": ref.field_path,
    }
    return {name: value for name, value in pairs.items() if value}
