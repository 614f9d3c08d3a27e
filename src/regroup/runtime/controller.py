"""A controller: a queue of keys and workers that look at them.

``reconcile(key)`` looks at the whole state behind a key and returns when to look again. A pass that fails is retried with a
growing pause; one that is too slow is cut off; no failure stops the others.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog

from regroup.kube.meta import HasMeta
from regroup.runtime.cache import Informer
from regroup.runtime.clock import Clock
from regroup.runtime.queue import BACKOFF_CAP, QueueClosed, QueueStatistics, WorkQueue
from regroup.runtime.store import Change
from regroup.wire.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    TooManyRequests,
    WireError,
    is_namespace_terminating,
)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=HasMeta)

STOP_GRACE = 1.5
"""Seconds that passes under way get to end when the controller stops; within what is left of a lost lease, and together with the
release of the lease within the 5 s that a stop may take (case C126)."""
CONFLICT_CAP = 1.0
"""Seconds: the longest pause after meeting somebody else's write; waiting longer would not make the next try luckier."""
RETRY_AFTER_CAP = 300.0
"""Seconds: no server makes us wait longer for one key."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a pass asks for: a look in ``requeue_after`` seconds, or none before something changes."""

    requeue_after: float | None = None


class TerminalError(Exception):
    """The pass failed in a way that trying again cannot mend; only a change of the objects can."""


class ControllerMetrics(Protocol):
    """What a controller counts; ``runtime.metrics.Metrics`` is one."""

    def controller(self, name: str, *, workers: int) -> None: ...

    def observe_pass(self, controller: str, *, result: str, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class ControllerStatistics:
    """Passes since the start, and the queue now."""

    name: str
    passes: int
    failed: int
    terminal: int
    timed_out: int
    unmapped: int
    queue: QueueStatistics


class Controller(Generic[K]):
    """Workers over one queue of keys."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]],
        *,
        clock: Clock,
        workers: int = 8,
        timeout: float = 30.0,
        stop_grace: float = STOP_GRACE,
        metrics: ControllerMetrics | None = None,
        log: Any = None,
        backoff_cap: float = BACKOFF_CAP,
    ) -> None:
        """``backoff_cap``: the longest pause in seconds after failures in a row."""
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock=clock)
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._timeout = timeout
        self._stop_grace = stop_grace
        self._backoff_cap = backoff_cap
        self._log = (log or structlog.get_logger("controller")).bind(controller=name)
        self._metrics: ControllerMetrics | None = None
        if metrics is not None:
            self.measure(metrics)
        self._passes = self._failed = self._terminal = self._timed_out = self._unmapped = 0

    def measure(self, metrics: ControllerMetrics) -> None:
        """Count passes there; the first that is given stays."""
        if self._metrics is None:
            self._metrics = metrics
            metrics.controller(self.name, workers=self._workers)

    def watches(self, informer: Informer[T], map: Callable[[Change[T]], Iterable[K]]) -> None:
        """Look at the keys that ``map`` names whenever an object of ``informer`` changes.

        What is there before the watch begins has low priority, so that changes are not behind it.
        """
        filled = False

        def handle(change: Change[T]) -> None:
            low = not (filled and informer.synced)
            for key in self._keys(map, change):
                self.queue.add(key, low=low)

        informer.add_handler(handle)
        filled = True

    async def run(self) -> None:
        """Work until cancelled. Passes under way then have ``stop_grace`` seconds to end before they are cut off."""
        workers = [asyncio.create_task(self._work(), name=f"{self.name} worker {number}") for number in range(self._workers)]
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            for worker in ended:
                worker.result()  # a worker ends only by a bug, which ends the controller
        finally:
            self.queue.shut_down()
            # A second cancellation does not wait any more.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(workers, timeout=self._stop_grace)
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def statistics(self) -> ControllerStatistics:
        return ControllerStatistics(
            self.name, self._passes, self._failed, self._terminal, self._timed_out, self._unmapped, self.queue.statistics()
        )

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._pass(key)
            finally:
                self.queue.done(key)
            # A pass that had nothing to wait for has not let anybody else run; thousands of them in a row must.
            await asyncio.sleep(0)

    async def _pass(self, key: K) -> None:
        began = self._clock.monotonic()
        self._passes += 1
        outcome = "error"
        try:
            async with asyncio.timeout(self._timeout):
                result = await self._reconcile(key)
        except TerminalError as error:
            outcome = "terminal"
            self._terminal += 1
            self.queue.forget(key)
            self._log.error("pass failed for good", key=str(key), error=str(error)[:500])
        except (Conflict, NotFound) as error:
            # The cache is behind the server: the next look sees what changed. No failure of anybody.
            lost_race = isinstance(error, Conflict) and not isinstance(error, AlreadyExists)
            self.queue.add_rate_limited(key, cap=CONFLICT_CAP if lost_race else self._backoff_cap)
            outcome = "requeue"
            self._log.debug("pass met a change", key=str(key), error=str(error)[:300])
        except WireError as error:
            self._fail(key, at_least=_asked_to_wait(error))
            failures = self.queue.failures(key)
            # A failure that stays is told the 1st, 2nd, 4th, 8th ... time; what a namespace that ends refuses is no news.
            loud = failures.bit_count() == 1 and not is_namespace_terminating(error)
            (self._log.warning if loud else self._log.debug)(
                "pass failed; it is tried again", key=str(key), error=str(error)[:500], failures=failures
            )
        except TimeoutError:
            self._timed_out += 1
            self._fail(key)
            self._log.warning("pass took too long; it is tried again", key=str(key), limit=self._timeout)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something that the pass waited for was cancelled, not this worker: it must not die of that unseen.
            self._fail(key)
            self._log.warning("pass was cut off from within; it is tried again", key=str(key))
        except Exception:  # noqa: BLE001 - the root of a pass: a bug on one key must not stop the others
            self._fail(key)
            self._log.exception("pass failed; it is tried again", key=str(key), failures=self.queue.failures(key))
        else:
            self.queue.forget(key)
            outcome = "success"
            if result.requeue_after is not None:
                outcome = "requeue_after"
                self.queue.add_after(key, result.requeue_after)
        if self._metrics is not None:
            self._metrics.observe_pass(self.name, result=outcome, seconds=self._clock.monotonic() - began)

    def _fail(self, key: K, *, at_least: float = 0.0) -> None:
        self._failed += 1
        self.queue.add_rate_limited(key, at_least=at_least, cap=self._backoff_cap)

    def _keys(self, map: Callable[[Change[T]], Iterable[K]], change: Change[T]) -> list[K]:
        try:
            return list(map(change))
        except Exception:  # noqa: BLE001 - the root of an event: one odd object must not stop the watch of all others
            self._unmapped += 1
            meta = change.object.metadata
            self._log.exception("a change could not be mapped to keys", namespace=meta.namespace, name=meta.name)
            return []


def _asked_to_wait(error: WireError) -> float:
    """Seconds that the server asked for, at least one when it is overloaded and did not say."""
    asked = error.retry_after if isinstance(error, ApiError) else None
    if asked is None:
        return 1.0 if isinstance(error, TooManyRequests) else 0.0
    return min(asked, RETRY_AFTER_CAP)
