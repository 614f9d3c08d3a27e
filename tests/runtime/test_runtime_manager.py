"""The manager: order of start and stop, and that nothing dies unseen (design 4, case C116)."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from tests.runtime.runtime_server import ScriptedServer, status

from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.runtime.clock import LoopClock
from regroup.runtime.controller import Controller, Result
from regroup.runtime.manager import EndedEarly, Manager
from regroup.runtime.metrics import Metrics
from regroup.runtime.store import Change
from regroup.wire.client import Client

pytestmark = pytest.mark.looptime


def _manager(server: ScriptedServer, *, metrics: Metrics | None = None) -> Manager:
    clock = LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    return Manager(Client(server, rng=random.Random(2)), clock=clock, rng=random.Random(1), metrics=metrics)


def _controller(manager: Manager, reconcile: Callable[[str], Awaitable[Result]], workers: int = 8) -> Controller[str]:
    controller = Controller("pods", reconcile, clock=manager.clock, workers=workers)
    controller.watches(manager.cache.informer(PODS, type=Pod), lambda change: [change.object.metadata.name])
    manager.add_controller(controller)
    return controller


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled(), "cancelling is a clean stop"


async def test_controllers_work_only_when_every_first_list_is_in() -> None:
    """No pass sees a half-filled cache; other tasks run from the beginning; ``ready`` says when."""
    server = ScriptedServer()
    for number in range(300):
        server.put(f"pod-{number}")
    server.watch_answers.extend([lambda: status(500)] * 2)
    manager = _manager(server)
    informer = manager.cache.informer(PODS, type=Pod)
    seen: list[int] = []
    started: list[float] = []

    async def reconcile(key: str) -> Result:
        seen.append(len(informer.store))
        return Result()

    async def background() -> None:
        started.append(asyncio.get_running_loop().time())
        await asyncio.Event().wait()

    _controller(manager, reconcile)
    manager.add(background, name="background")
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(0.5)
    assert (seen, len(started), manager.ready.is_set()) == ([], 1, False)
    await asyncio.sleep(10)

    assert seen == [300] * 300
    assert manager.ready.is_set()
    assert manager.statistics().ready
    assert manager.statistics().controllers[0].passes == 300
    assert manager.statistics().informers[0].objects == 300
    await _stop(task)
    assert not manager.ready.is_set()


async def test_a_clean_stop_lets_passes_end_while_the_cache_still_lives() -> None:
    """Controllers stop first: a pass that is under way ends within its grace and still reads a living cache."""
    server = ScriptedServer()
    server.put("a")
    manager = _manager(server)
    informer = manager.cache.informer(PODS, type=Pod)
    ended: list[bool] = []

    async def reconcile(key: str) -> Result:
        await asyncio.sleep(2)
        ended.append(informer.store.get("default", "late") is not None)
        return Result()

    _controller(manager, reconcile)
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(1)
    asyncio.get_running_loop().call_later(0.2, server.put, "late")
    await _stop(task)

    assert ended == [True]
    assert server.open_watches == 0


async def test_the_death_of_any_task_ends_everything_with_its_error() -> None:
    """Never alive and deaf: the error of the task that died is the error of ``run``, and nothing is left running."""
    server = ScriptedServer()
    server.put("a")
    manager = _manager(server)
    stopped: list[str] = []

    async def reconcile(key: str) -> Result:
        return Result()

    async def dying() -> None:
        await asyncio.sleep(5)
        raise ZeroDivisionError("a bug")

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("other")

    _controller(manager, reconcile)
    manager.add(dying, name="dying")
    manager.add(other, name="other")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        await manager.run()

    assert stopped == ["other"]
    assert server.open_watches == 0
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_a_task_that_returns_ends_everything_too() -> None:
    """A background task that is simply over is a death as well, and says whose."""
    manager = _manager(ScriptedServer())

    async def brief() -> None:
        await asyncio.sleep(1)

    manager.add(brief, name="brief")

    with pytest.raises(EndedEarly, match="brief ended although"):
        await manager.run()


async def test_a_watch_that_dies_ends_everything() -> None:
    """A handler with a bug takes the process down, while the controllers are at work."""
    server = ScriptedServer()
    server.put("a")
    manager = _manager(server)

    async def reconcile(key: str) -> Result:
        return Result()

    def broken(change: Change[Pod]) -> None:
        if change.object.metadata.name == "poison":
            raise ZeroDivisionError("in a handler")

    _controller(manager, reconcile)
    manager.cache.informer(PODS, type=Pod).add_handler(broken)
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(5)
    server.put("poison")
    await asyncio.sleep(1)

    assert isinstance(task.exception(), ZeroDivisionError)
    assert not manager.ready.is_set()


async def test_a_stop_before_the_caches_are_filled_is_clean() -> None:
    """Ctrl-C while the API server does not answer ends at once."""
    server = ScriptedServer()
    server.watch_answers.extend([lambda: status(403)] * 1000)
    server.list_answers.extend([lambda: status(403)] * 1000)
    manager = _manager(server)

    async def reconcile(key: str) -> Result:
        return Result()

    _controller(manager, reconcile)
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(20)
    began = asyncio.get_running_loop().time()
    await _stop(task)

    assert asyncio.get_running_loop().time() == began


async def test_controllers_are_measured_by_the_manager() -> None:
    """A manager with metrics gives them to every controller that has none of its own."""
    metrics = Metrics()
    manager = _manager(ScriptedServer(), metrics=metrics)

    async def reconcile(key: str) -> Result:
        return Result()

    controller = _controller(manager, reconcile, workers=3)

    assert manager.controllers == (controller,)
    assert metrics.registry.get_sample_value("controller_runtime_max_concurrent_reconciles", {"controller": "pods"}) == 3
