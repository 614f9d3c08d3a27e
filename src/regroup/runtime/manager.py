"""Runs a process's caches, controllers and other tasks together: all live, or none.

Order: caches first, then, when every first list is in, the controllers. The death of any of them ends ``run`` with its error.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from regroup.runtime.cache import Cache, InformerStatistics
from regroup.runtime.clock import Clock
from regroup.runtime.controller import Controller, ControllerMetrics, ControllerStatistics
from regroup.wire.client import Client

Runnable = Callable[[], Awaitable[None]]


class EndedEarly(Exception):
    """A task that must live as long as the process has returned."""


@dataclass(frozen=True, slots=True)
class ManagerStatistics:
    """Everything that runs, as it is now."""

    ready: bool
    informers: tuple[InformerStatistics, ...]
    controllers: tuple[ControllerStatistics, ...]


class Manager:
    """What runs together on one client. Everything is added before ``run``."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        namespaces: Sequence[str] = (),
        log: Any = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.rng = rng
        self.namespaces = tuple(namespaces)
        self.cache = Cache(client, clock=clock, rng=rng, namespaces=namespaces, log=log)
        self.ready = asyncio.Event()
        """Set while the controllers work."""
        self._log = log or structlog.get_logger("manager")
        self._metrics = metrics
        self._runnables: list[tuple[str, Runnable]] = []
        self._controllers: list[Controller[Any]] = []

    def add(self, runnable: Runnable, *, name: str) -> None:
        """Run a task as long as the process; its death or its end ends the process."""
        self._runnables.append((name, runnable))

    def add_controller(self, controller: Controller[Any]) -> None:
        if self._metrics is not None:
            controller.measure(self._metrics)
        self._controllers.append(controller)

    @property
    def controllers(self) -> Sequence[Controller[Any]]:
        return tuple(self._controllers)

    def statistics(self) -> ManagerStatistics:
        return ManagerStatistics(
            ready=self.ready.is_set(),
            informers=self.cache.statistics(),
            controllers=tuple(controller.statistics() for controller in self._controllers),
        )

    async def run(self) -> None:
        """Run everything until cancelled, which is a clean stop: controllers first, then the rest, the caches last.

        Raises the error of the first task that died, or ``EndedEarly`` for one that returned.
        """
        try:
            async with asyncio.TaskGroup() as caches:
                caches.create_task(self.cache.run(), name="caches")
                await self._run_on_caches()
        except BaseExceptionGroup as group:
            raise _first(group) from group
        finally:
            self.ready.clear()

    async def _run_on_caches(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, runnable in self._runnables:
                tasks.create_task(_for_ever(name, runnable), name=name)
            await self.cache.wait_synced()
            self._log.debug("caches are filled")
            async with asyncio.TaskGroup() as controllers:
                for controller in self._controllers:
                    controllers.create_task(_for_ever(controller.name, controller.run), name=controller.name)
                self.ready.set()
            # Only without controllers do we get here: the rest goes on.


async def _for_ever(name: str, runnable: Runnable) -> None:
    await runnable()
    raise EndedEarly(f"{name} ended although it must run as long as the process")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
