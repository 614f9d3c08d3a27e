"""A controller: a queue of keys and workers that look at them.

``reconcile(key)`` looks at the whole state behind a key and returns when to look again. A pass that fails is retried with a
growing pause; one that is too slow is cut off; no failure stops the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog

from regroup.kube.meta import HasMeta
from regroup.runtime.cache import Informer
from regroup.runtime.clock import Clock
from regroup.runtime.queue import QueueClosed, QueueStatistics, WorkQueue
from regroup.runtime.store import Change
from regroup.wire.errors import Conflict, NotFound, WireError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=HasMeta)


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
        metrics: ControllerMetrics | None = None,
        log: Any = None,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock=clock)
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._timeout = timeout
        self._log = (log or structlog.get_logger("controller")).bind(controller=name)
        self._metrics: ControllerMetrics | None = None
        if metrics is not None:
            self.measure(metrics)
        self._passes = self._failed = self._terminal = self._timed_out = 0

    def measure(self, metrics: ControllerMetrics) -> None:
        """Count passes there; the first that is given stays."""
        if self._metrics is None:
            self._metrics = metrics
            metrics.controller(self.name, workers=self._workers)

    def watches(self, informer: Informer[T], map: Callable[[Change[T]], Iterable[K]]) -> None:
        """Look at the keys that ``map`` names whenever an object of ``informer`` changes."""

        def handle(change: Change[T]) -> None:
            low = not informer.synced
            for key in map(change):
                self.queue.add(key, low=low)

        informer.add_handler(handle)

    async def run(self) -> None:
        """Work until cancelled; passes under way are cancelled with it, which every pass must stand."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._workers):
                    tasks.create_task(self._work(), name=f"{self.name} worker {number}")
        finally:
            self.queue.shut_down()

    def statistics(self) -> ControllerStatistics:
        return ControllerStatistics(
            self.name, self._passes, self._failed, self._terminal, self._timed_out, self.queue.statistics()
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
            self._retry(key)
            outcome = "requeue"
            self._log.debug("pass met a change", key=str(key), error=str(error)[:300])
        except WireError as error:
            self._fail(key)
            self._log.warning(
                "pass failed; it is tried again", key=str(key), error=str(error)[:500], failures=self.queue.failures(key)
            )
        except TimeoutError:
            self._timed_out += 1
            self._fail(key)
            self._log.warning("pass took too long; it is tried again", key=str(key), limit=self._timeout)
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

    def _fail(self, key: K) -> None:
        self._failed += 1
        self._retry(key)

    def _retry(self, key: K) -> None:
        self.queue.add_rate_limited(key)
