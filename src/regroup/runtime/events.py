"""Events (``events.k8s.io/v1``) that a controller tells people: aggregated, bounded, never in the way of the work.

``event()`` only notes; ``run()`` writes. An event that repeats (same objects, type, reason, action and message) becomes a
series on the first Event object instead of a new object. A source that floods is cut off by a token bucket for each object, and
the number that was dropped is kept in ``statistics()``. Each event has a name of its own, so that a write whose answer was lost
can be sent again without telling it twice. Events are told, not state: one that cannot be written after some tries is dropped.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha1
from typing import Any, Literal

import structlog

from regroup.kube.meta import ObjectRef
from regroup.kube.resources import EVENTS
from regroup.runtime.clock import Clock, micro_timestamp
from regroup.wire.client import Client
from regroup.wire.errors import (
    AlreadyExists,
    ConnectionFailed,
    NotFound,
    ServerError,
    TooManyRequests,
    WireError,
    is_namespace_terminating,
)

NOTE_LIMIT = 1024
"""``note`` of events.k8s.io/v1: at most 1 kB."""
REASON_LIMIT = 128
SERIES_WINDOW = 6 * 60.0
"""Seconds after which a repeated event starts a new object, as client-go's broadcaster does."""
SERIES_REFRESH = 2.0
"""Seconds until a repetition is written at the earliest. Doubles with every write of the series ..."""
SERIES_SLOWEST = 64.0
"""... up to this."""
ATTEMPTS = 12
"""How often a new event is tried while the API server does not answer."""
RETRY_PAUSE = 5.0
STOP_LIMIT = 2.0
"""Seconds for what is unwritten at the stop: the process must end soon (case C126)."""
TICK = 0.001
"""Seconds that a timer may fire early: what is due within them is due now, or a loop with coarse time would turn without end."""
REMEMBERED = 4096
PENDING_LIMIT = 1000
BURST = 80
REFILL = 1 / 2.0
"""Tokens a second for one object: a burst of 80, then one event in two seconds. One object speaks for all of its groups or
Instances, and each of their restarts is to be told (both seeds); what a node or a switch takes down at once is some tens."""

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
    written: int = 0
    """The count that the server knows; 0: not even the first."""
    due: float = 0.0
    """When the next count may be written."""
    pause: float = SERIES_REFRESH


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
    annotations: Mapping[str, str]
    attempts: int = 0


class EventRecorder:
    """Tells events in the name of one ``component`` (``reportingController``) and ``instance``."""

    def __init__(self, client: Client, *, component: str, instance: str, clock: Clock, log: Any = None) -> None:
        self._client = client
        self._component = component
        self._instance = instance[:REASON_LIMIT]
        self._clock = clock
        self._log = log or structlog.get_logger(component)
        self._pending: deque[_Pending] = deque()
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._dirty: set[_Key] = set()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._answered = True
        self._noted = self._written = self._aggregated = self._dropped = self._failed = 0

    def event(
        self,
        regarding: ObjectRef,
        *,
        type: EventType,
        reason: str,
        message: str,
        action: str,
        related: ObjectRef | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Note an event about ``regarding``. Never blocks and never raises; texts are cut to the API's limits.

        ``annotations`` are for machines; those of the first of a series stay.
        """
        self._noted += 1
        key = _Key(
            regarding=f"{regarding.kind}/{regarding.namespace}/{regarding.name}/{regarding.uid}",
            related=f"{related.kind}/{related.namespace}/{related.name}/{related.uid}" if related else "",
            type=type,
            reason=_cut(reason, REASON_LIMIT),
            action=_cut(action, REASON_LIMIT),
            note=_cut(message, NOTE_LIMIT),
        )
        now = self._clock.monotonic()
        series = self._series.get(key)
        if series is not None and now - series.last < SERIES_WINDOW:
            series.count += 1
            series.last = now
            series.last_time = self._clock.now()
            self._aggregated += 1
            if not self._dirty:
                self._wake.set()
            self._dirty.add(key)
            return
        if len(self._pending) >= PENDING_LIMIT or not self._take_token(key.regarding, now):
            self._dropped += 1
            return
        moment = self._clock.now()
        namespace = regarding.namespace or "default"
        self._remember(key, _Series(namespace, self._name(regarding, key, moment), 1, now, moment, due=now + SERIES_REFRESH))
        self._pending.append(_Pending(key, regarding, related, moment, annotations or {}))
        self._wake.set()

    async def run(self) -> None:
        """Write what was noted until cancelled; then give what is left a last chance of ``STOP_LIMIT`` seconds."""
        try:
            while True:
                await self._until_due()
                await self._write_noted()
                await self._write_series(until=self._clock.monotonic() + TICK)
        finally:
            try:
                async with asyncio.timeout(STOP_LIMIT):
                    await self.flush()
            except TimeoutError:
                self._log.warning("events were left unwritten at the stop", count=len(self._pending))

    async def flush(self) -> None:
        """Write everything that was noted so far, whatever is due when."""
        await self._write_noted()
        await self._write_series(until=float("inf"))

    def statistics(self) -> EventStatistics:
        return EventStatistics(self._noted, self._written, self._aggregated, self._dropped, self._failed)

    async def _until_due(self) -> None:
        """Wait for news, for a repetition that is due, or for the pause after a write that failed."""
        now = self._clock.monotonic()
        if not self._answered and self._pending:
            await asyncio.sleep(RETRY_PAUSE)
            return
        waiting = (series for key in self._dirty if (series := self._series.get(key)) is not None and series.written)
        due = min((series.due for series in waiting), default=None)
        if due is not None and due <= now + TICK:
            return
        try:
            async with asyncio.timeout(None if due is None else due - now):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _write_noted(self) -> None:
        async with self._writing:
            while self._pending:
                # It stays in the queue across the await: what a cancelled write may have told is told again under the same name.
                entry = self._pending[0]
                entry.attempts += 1
                series = self._series.get(entry.key)
                try:
                    if series is not None:
                        await self._create(entry, series)
                        series.written = 1
                        self._succeeded()
                except (ConnectionFailed, ServerError, TooManyRequests) as error:
                    self._complain(error)
                    if entry.attempts < ATTEMPTS:
                        # The others go first next time, in case it is only this one that fails.
                        self._pending.rotate(-1)
                        return
                    self._give_up(entry)
                except WireError as error:
                    self._complain(error)
                    self._give_up(entry)
                self._pending.popleft()

    async def _write_series(self, *, until: float) -> None:
        async with self._writing:
            self._dirty = {key for key in self._dirty if key in self._series}
            due = [key for key in self._dirty if self._series[key].written and self._series[key].due <= until]
            for key in sorted(due, key=lambda key: (key.regarding, key.reason, key.note)):
                series = self._series.get(key)
                if series is None:
                    continue
                self._dirty.discard(key)
                try:
                    await self._extend(series)
                    self._succeeded()
                except NotFound:
                    # It expired on the server; the next repeat starts anew.
                    self._failed += 1
                    self._series.pop(key, None)
                except WireError as error:
                    self._failed += 1
                    self._complain(error)
                    self._dirty.add(key)

    def _give_up(self, entry: _Pending) -> None:
        """The next repeat is a new event: there is none that it could extend."""
        self._failed += 1
        self._series.pop(entry.key, None)

    def _succeeded(self) -> None:
        self._written += 1
        self._answered = True

    def _complain(self, error: WireError) -> None:
        """One warning for a row of failures; none when it is only that a namespace ends."""
        if is_namespace_terminating(error):
            self._log.debug("event not written", error=str(error)[:300])
            return
        (self._log.warning if self._answered else self._log.debug)("event not written", error=str(error)[:300])
        self._answered = False

    async def _create(self, entry: _Pending, series: _Series) -> None:
        key = entry.key
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": series.name,
                "namespace": series.namespace,
                **({"annotations": dict(entry.annotations)} if entry.annotations else {}),
            },
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
        try:
            await self._client.create(EVENTS, body, namespace=series.namespace)
        except AlreadyExists:
            # Names are drawn once for each event, so it is this one: an earlier try was done although its answer was lost.
            return

    async def _extend(self, series: _Series) -> None:
        count = series.count
        patch = {"series": {"count": count, "lastObservedTime": micro_timestamp(series.last_time)}}
        series.due = self._clock.monotonic() + series.pause
        series.pause = min(SERIES_SLOWEST, series.pause * 2)
        await self._client.merge_patch(EVENTS, series.name, patch, namespace=series.namespace)
        # Across the await the event may have repeated: that is for the next write.
        series.written = count

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
        """``<object>.<time><hash>``: unique for what is told, when and by whom, within the limit for names.

        The time comes first, because clients that do not sort show events in the order of their names.
        """
        parts = (
            self._instance,
            key.regarding,
            key.related,
            key.reason,
            key.action,
            key.note,
            moment.isoformat(),
            str(self._noted),
        )
        digest = sha1("\x00".join(parts).encode(errors="replace"), usedforsecurity=False).hexdigest()[:12]
        nanoseconds = int(moment.timestamp() * 1e6) * 1000 + self._noted % 1000
        return f"{regarding.name[:200].rstrip('-.')}.{nanoseconds:016x}{digest}"


def _cut(text: str, limit: int) -> str:
    """``text`` within ``limit`` bytes, marked where it was cut, without what UTF-8 cannot say."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode(errors="ignore") + "..."


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
