"""The work queue: keys to look at, each in one hand at a time.

client-go's rules. A key that is added while it waits is kept once; added while it is worked on, it comes back when that work is
done. ``add_after`` keeps the earliest time. Keys of a first list have low priority, so that what changes now is not behind them.
Not safe for threads; nothing here awaits between looking and changing.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from regroup.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)

BACKOFF_BASE = 0.005
BACKOFF_CAP = 60.0
"""Seconds: a key that always fails is looked at once a minute."""
SOONEST = 0.001
"""Seconds that a key is put off at least, if at all: what is put off by less than a clock can tell would turn without end."""
RETRY_RATE = 50.0
RETRY_BURST = 200
"""Retries a second over all keys, and how many may come at once: what fails together must not come back together."""


class QueueClosed(Exception):
    """The queue was shut down."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """What is in the queue now, and what went through since the start."""

    ready: int
    processing: int
    delayed: int
    failing: int
    added: int
    taken: int
    retried: int


class WorkQueue(Generic[K]):
    """Keys to work on. ``get`` hands out a key, ``done`` gives it back."""

    def __init__(self, *, clock: Clock, retry_rate: float = RETRY_RATE, retry_burst: int = RETRY_BURST) -> None:
        self._clock = clock
        self._bucket = _Bucket(rate=retry_rate, burst=retry_burst)
        self._high: deque[K] = deque()
        self._low: deque[K] = deque()
        self._dirty: dict[K, bool] = {}
        """Keys that need work; True while the key has low priority."""
        self._processing: set[K] = set()
        self._due: dict[K, tuple[float, int]] = {}
        """When a key is due, with the number that tells its entry in the heap from superseded ones."""
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._closed = False
        self._added = self._taken = self._retried = 0

    def add(self, key: K, *, low: bool = False) -> None:
        """Have ``key`` looked at. ``low``: after everything else."""
        if self._closed:
            return
        self._due.pop(key, None)
        if key in self._dirty:
            if self._dirty[key] and not low:
                self._dirty[key] = False
                if key not in self._processing:
                    self._high.append(key)  # its old place in the low queue is skipped when its turn comes
                    self._wake()
            return
        self._added += 1
        self._dirty[key] = low
        if key not in self._processing:
            (self._low if low else self._high).append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Have ``key`` looked at in ``seconds``; of several times the earliest wins. A waiting key gains nothing."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        if key in self._dirty:
            # It is looked at before that time anyway, and that look says anew when to come back.
            return
        at = self._clock.monotonic() + max(seconds, SOONEST)
        if key in self._due and self._due[key][0] <= at:
            return
        self._sequence += 1
        self._due[key] = (at, self._sequence)
        heapq.heappush(self._heap, (at, self._sequence, key))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._compact()
        self._arm()

    def add_rate_limited(self, key: K, *, at_least: float = 0.0, cap: float = BACKOFF_CAP) -> float:
        """Have ``key`` looked at again after a pause that doubles with each failure, from 5 ms to ``cap``; returns the pause.

        ``at_least`` seconds when the server asked for them; longer while more keys fail than the overall rate lets back.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._retried += 1
        pause = max(min(cap, BACKOFF_BASE * 2.0 ** min(failures, 30)), at_least, self._bucket.take(self._clock.monotonic()))
        self.add_after(key, pause)
        return pause

    def forget(self, key: K) -> None:
        """``key`` went well: its next failure starts with the shortest pause."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often ``key`` has failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, in this caller's hand until ``done``. Raises ``QueueClosed`` after ``shut_down``."""
        while True:
            key = self._pop()
            if key is not None:
                return key[0]
            if self._closed:
                raise QueueClosed
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # A wake-up that came together with the cancellation belongs to somebody else.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                elif waiter in self._waiters:
                    self._waiters.remove(waiter)
                raise

    def done(self, key: K) -> None:
        """Give ``key`` back. If it was added meanwhile it waits again."""
        self._processing.discard(key)
        if key in self._dirty:
            (self._low if self._dirty[key] else self._high).append(key)
            self._wake()

    def shut_down(self) -> None:
        """Take and hand out nothing more; waiting ``get`` calls end. What waits is dropped: the next process looks at all."""
        self._closed = True
        self._high.clear()
        self._low.clear()
        self._dirty.clear()
        self._due.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def __len__(self) -> int:
        return len(self._dirty) - sum(1 for key in self._processing if key in self._dirty)

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(
            ready=len(self),
            processing=len(self._processing),
            delayed=len(self._due),
            failing=len(self._failures),
            added=self._added,
            taken=self._taken,
            retried=self._retried,
        )

    def _pop(self) -> tuple[K] | None:
        """The next key that is due, in a tuple because None may be a key."""
        self._promote(self._clock.monotonic())
        for queue, low in ((self._high, False), (self._low, True)):
            while queue:
                key = queue.popleft()
                if self._dirty.get(key) is not low or key in self._processing:
                    continue  # moved to the other queue, or taken from there
                del self._dirty[key]
                self._processing.add(key)
                self._taken += 1
                return (key,)
        return None

    def _promote(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            at, number, key = heapq.heappop(self._heap)
            if self._due.get(key) == (at, number):
                self.add(key)
        self._arm()

    def _arm(self) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)  # superseded by an earlier time or by an add
        if not self._heap or self._closed:
            return
        at = self._heap[0][0]
        if (
            self._timer is not None
            and not self._timer.cancelled()
            and self._timer_at <= at
            and self._timer_at > self._clock.monotonic()
        ):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_later(max(0.0, at - self._clock.monotonic()), self._fire)

    def _compact(self) -> None:
        """Drop superseded entries, so that a key that is put off for hours again and again does not pile up."""
        self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[:2]]
        heapq.heapify(self._heap)

    def _fire(self) -> None:
        self._timer = None
        # A loop fires timers within its clock's resolution, which may be a little early: what it was set for is due now.
        self._promote(max(self._clock.monotonic(), self._timer_at))

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


class _Bucket:
    """Tokens that come back at a steady rate; taking more than there are means waiting for them."""

    def __init__(self, *, rate: float, burst: int) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"a bucket needs a rate above 0 and a burst of at least 1, got {rate:g} and {burst}")
        self._rate, self._burst = rate, float(burst)
        self._tokens, self._at = self._burst, 0.0

    def take(self, now: float) -> float:
        """Take one token; returns the seconds until it is there."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate) - 1.0
        self._at = now
        return max(0.0, -self._tokens / self._rate)
