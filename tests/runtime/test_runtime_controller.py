"""Controllers: one hand a key, failures retried by their kind, time limits, clean stops (design 4, cases C116, C117, C132)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from regroup.kube.meta import ObjectMeta
from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.runtime.cache import Informer
from regroup.runtime.clock import LoopClock
from regroup.runtime.controller import Controller, Result, TerminalError
from regroup.runtime.metrics import Metrics
from regroup.runtime.store import Change, Store
from regroup.wire.errors import (
    AlreadyExists,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
)

pytestmark = pytest.mark.looptime

CLOCK = LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _controller(reconcile: Callable[[str], Awaitable[Result]], **options: Any) -> Controller[str]:
    return Controller("test", reconcile, clock=CLOCK, log=structlog.get_logger(), **options)


@asynccontextmanager
async def _running(controller: Controller[str]) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    try:
        yield
        assert not task.done(), "a controller never ends by itself"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_key_is_in_one_hand_and_workers_share_the_rest() -> None:
    """Eight workers, eleven keys, many events: passes overlap over keys, never for one key, and none of them is missed."""
    under_way: set[str] = set()
    most = 0
    passes: list[str] = []

    async def reconcile(key: str) -> Result:
        nonlocal most
        assert key not in under_way
        under_way.add(key)
        most = max(most, len(under_way))
        await asyncio.sleep(1)
        under_way.remove(key)
        passes.append(key)
        return Result()

    controller = _controller(reconcile)
    async with _running(controller):
        for _ in range(30):
            for number in range(11):
                controller.queue.add(str(number))
            await asyncio.sleep(0.1)
        await asyncio.sleep(10)

    assert most == 8
    assert set(passes) == {str(number) for number in range(11)}
    assert len(passes) < 60, "events of one key that came while it waited were one look"
    assert controller.statistics().failed == 0


async def test_passes_that_wait_for_nothing_let_others_have_their_turn() -> None:
    """Thousands of looks at settled groups in a row must not hold up watches and leases: others run in between."""
    turns = 0

    async def reconcile(key: int) -> Result:
        return Result()

    controller: Controller[int] = Controller("test", reconcile, clock=CLOCK)
    for number in range(1000):
        controller.queue.add(number)
    task = asyncio.create_task(controller.run())
    while controller.statistics().passes < 1000:
        turns += 1
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert turns > 100


async def test_a_pass_says_when_it_wants_to_look_again() -> None:
    """``requeue_after`` brings the key back at that time; without it only a change does."""
    times: list[float] = []

    async def reconcile(key: str) -> Result:
        times.append(_now())
        return Result(requeue_after=30) if len(times) < 3 else Result()

    controller = _controller(reconcile)
    async with _running(controller):
        controller.queue.add("a")
        await asyncio.sleep(1000)

    assert [round(later - times[0]) for later in times] == [0, 30, 60]


async def test_a_failure_is_retried_with_a_growing_pause_and_stops_nobody() -> None:
    """A bug on one key is logged with its traceback, counted and retried; other keys go on; a success starts pauses anew."""
    times: list[float] = []
    good = 0

    async def reconcile(key: str) -> Result:
        nonlocal good
        if key == "good":
            good += 1
            return Result()
        times.append(_now())
        if len(times) != 8:
            raise RuntimeError("a bug")
        return Result()

    controller = _controller(reconcile, workers=1)
    with capture_logs() as logs:
        async with _running(controller):
            controller.queue.add("bad")
            for _ in range(50):
                await asyncio.sleep(0.1)
                controller.queue.add("good")
            controller.queue.add("bad")
            await asyncio.sleep(0.004)

    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert [round(pause, 3) for pause in pauses[:7]] == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32]
    assert good == 50
    assert controller.statistics().failed == 8
    assert controller.queue.failures("bad") == 1
    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert len(errors) == 8
    assert all(entry["exc_info"] and entry["key"] == "bad" for entry in errors)


@pytest.mark.parametrize(
    ("error", "options", "longest"), [(RuntimeError("a bug"), {}, 60.0), (ServerError(500), {"backoff_cap": 10.0}, 10.0)]
)
async def test_pauses_have_a_limit(error: Exception, options: dict[str, float], longest: float) -> None:
    """Case C64: what fails for long is looked at again within the limit, so that it is soon well when its cause is gone."""
    times: list[float] = []

    async def reconcile(key: str) -> Result:
        times.append(_now())
        raise error

    controller = _controller(reconcile, **options)
    with capture_logs():
        async with _running(controller):
            controller.queue.add("bad")
            await asyncio.sleep(400)
    pauses = [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == longest


async def test_a_terminal_error_is_not_retried() -> None:
    """What trying again cannot mend is logged once with its message and waits for a change."""
    passes = 0

    async def reconcile(key: str) -> Result:
        nonlocal passes
        passes += 1
        raise TerminalError("spec.size must be at least 1")

    controller = _controller(reconcile)
    with capture_logs() as logs:
        async with _running(controller):
            controller.queue.add("a")
            await asyncio.sleep(1000)
            assert passes == 1
            controller.queue.add("a")
            await asyncio.sleep(1)

    assert passes == 2
    assert controller.statistics().terminal == 2
    assert [entry["error"] for entry in logs if entry["log_level"] == "error"] == ["spec.size must be at least 1"] * 2


@pytest.mark.parametrize("error", [Conflict(409), NotFound(404), AlreadyExists(409, reason="AlreadyExists")])
async def test_404_and_409_are_not_failures(error: Exception) -> None:
    """C132: they are retried soon, neither logged as error or warning nor counted as failures."""
    passes = 0

    async def reconcile(key: str) -> Result:
        nonlocal passes
        passes += 1
        if passes < 4:
            raise error
        return Result()

    controller = _controller(reconcile)
    with capture_logs() as logs:
        async with _running(controller):
            controller.queue.add("a")
            await asyncio.sleep(0.1)

    assert passes == 4
    assert controller.statistics().failed == 0
    assert {entry["log_level"] for entry in logs} == {"debug"}


async def test_a_race_that_is_lost_again_and_again_is_tried_every_second() -> None:
    """Another writer that is always first makes us wait a second at most, not a minute."""
    times: list[float] = []

    async def reconcile(key: str) -> Result:
        times.append(_now())
        raise Conflict(409)

    controller = _controller(reconcile)
    async with _running(controller):
        controller.queue.add("a")
        await asyncio.sleep(100)

    assert 95 < len(times) < 115


async def test_api_failures_are_warned_of_and_what_the_server_asks_for_is_waited_for() -> None:
    """C117: ``Retry-After`` sets the pause (bounded), 429 without it at least a second; 5xx backs off."""
    times: list[float] = []
    errors = iter(
        [
            TooManyRequests(429, retry_after=120),
            TooManyRequests(429),
            ServerError(503, retry_after=3),
            ConnectionFailed("reset"),
            TooManyRequests(429, retry_after=86_400),
        ]
    )

    async def reconcile(key: str) -> Result:
        times.append(_now())
        for error in errors:
            raise error
        return Result()

    controller = _controller(reconcile)
    with capture_logs() as logs:
        async with _running(controller):
            controller.queue.add("a")
            await asyncio.sleep(1000)

    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses == pytest.approx([120, 1, 3, 0.04, 300], abs=0.01)
    assert [entry["failures"] for entry in logs if entry["log_level"] == "warning"] == [1, 2, 4]
    assert controller.statistics().failed == 5


async def test_a_failure_that_stays_is_told_less_and_less_often() -> None:
    """A wrong manifest fails for hours: its first failure is told at once, then every doubling; the counter has them all."""

    async def reconcile(key: str) -> Result:
        raise Invalid(422, message="spec.replicas: Invalid value")

    controller = _controller(reconcile)
    with capture_logs() as logs:
        async with _running(controller):
            controller.queue.add("a")
            await asyncio.sleep(3600)

    failed = controller.statistics().failed
    assert failed > 16
    told = [entry["failures"] for entry in logs if entry["log_level"] == "warning"]
    assert told == [number for number in (1, 2, 4, 8, 16, 32, 64) if number <= failed]


async def test_what_an_ending_namespace_refuses_is_no_news() -> None:
    """A namespace that is being deleted takes no new object: the pass is retried quietly until its objects are gone."""
    cause = {"reason": "NamespaceTerminating", "message": "namespace team is being terminated", "field": "metadata.namespace"}

    async def reconcile(key: str) -> Result:
        raise Forbidden(403, message="is forbidden", status={"details": {"causes": [cause]}})

    controller = _controller(reconcile)
    with capture_logs() as logs:
        async with _running(controller):
            controller.queue.add("a")
            await asyncio.sleep(60)

    assert controller.statistics().failed > 5
    assert {entry["log_level"] for entry in logs} == {"debug"}


async def test_a_pass_that_is_too_slow_is_cut_off_and_tried_again() -> None:
    """The time limit frees the worker; the key comes back; it is counted."""
    passes: list[str] = []

    async def reconcile(key: str) -> Result:
        passes.append(key)
        if passes.count("slow") == 1 and key == "slow":
            await asyncio.sleep(3600)
        return Result()

    controller = _controller(reconcile, workers=1, timeout=5.0)
    with capture_logs() as logs:
        async with _running(controller):
            controller.queue.add("slow")
            controller.queue.add("other")
            await asyncio.sleep(4.9)
            assert passes == ["slow"]
            await asyncio.sleep(1)

    assert sorted(passes) == ["other", "slow", "slow"]
    assert controller.statistics().timed_out == 1
    assert [entry["limit"] for entry in logs] == [5.0]


async def test_a_cancellation_from_within_does_not_cost_a_worker() -> None:
    """A pass that waits for something that somebody cancels fails; its worker lives on, or the controller would fall silent."""
    passes = 0

    async def reconcile(key: str) -> Result:
        nonlocal passes
        passes += 1
        if passes <= 3:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.01, future.cancel)
            await future
        return Result()

    controller = _controller(reconcile, workers=1)
    async with _running(controller):
        controller.queue.add("a")
        await asyncio.sleep(5)

    assert passes == 4
    assert controller.statistics().failed == 3


async def test_a_stop_lets_passes_under_way_end() -> None:
    """Cancelling ``run`` hands out nothing more and waits for what is in hand, for a bounded time."""
    ended: list[str] = []
    cut: list[str] = []

    async def reconcile(key: str) -> Result:
        try:
            await asyncio.sleep({"quick": 1, "slow": 100}[key])
        except asyncio.CancelledError:
            cut.append(key)
            raise
        ended.append(key)
        return Result()

    controller = _controller(reconcile, workers=2, stop_grace=3.0, timeout=300.0)
    task = asyncio.create_task(controller.run())
    for key in ("quick", "slow", "quick", "never-looked-at"):
        controller.queue.add(key)
    await asyncio.sleep(0.5)
    began = _now()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert task.cancelled()
    assert _now() - began == pytest.approx(3.0, abs=0.1)
    assert (ended, cut) == (["quick"], ["slow"])


async def test_a_second_cancellation_does_not_wait() -> None:
    """Whoever cancels twice is in a hurry."""
    cut = asyncio.Event()

    async def reconcile(key: str) -> Result:
        try:
            await asyncio.sleep(1000)
        finally:
            cut.set()
        return Result()

    controller = _controller(reconcile, stop_grace=100.0, timeout=2000.0)
    task = asyncio.create_task(controller.run())
    controller.queue.add("a")
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(1)
    task.cancel()
    began = _now()
    await asyncio.gather(task, return_exceptions=True)

    assert task.cancelled()
    assert cut.is_set()
    assert _now() == began


def _informer() -> Informer[Pod]:
    return Informer(PODS, store=Store())


def _pod(name: str, *, group: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name, raw_labels={"group": group}))


async def test_changes_become_keys_and_many_events_one_look() -> None:
    """Sixty-four pods of a group are one key; a pod that moves between groups names both."""
    passes: list[str] = []

    async def reconcile(key: str) -> Result:
        passes.append(key)
        return Result()

    def groups(change: Change[Pod]) -> Iterable[str]:
        return {pod.metadata.labels["group"] for pod in (change.old, change.new) if pod is not None}

    informer = _informer()
    controller = _controller(reconcile)
    controller.watches(informer, groups)
    for number in range(64):
        informer.notify(Change(None, _pod(f"pod-{number}", group="g")))
    async with _running(controller):
        await asyncio.sleep(1)
        assert passes == ["g"]
        informer.notify(Change(_pod("pod-1", group="g"), _pod("pod-1", group="h")))
        await asyncio.sleep(1)

    assert sorted(passes) == ["g", "g", "h"]


async def test_what_was_there_before_comes_after_what_changes_now() -> None:
    """Objects of the first list and those found when the watch begins have low priority."""
    passes: list[str] = []

    async def reconcile(key: str) -> Result:
        passes.append(key)
        return Result()

    informer = _informer()
    for name in ("a", "b"):
        informer.store.upsert(_pod(name))
    controller = _controller(reconcile, workers=1)
    controller.watches(informer, lambda change: [change.object.metadata.name])
    informer.notify(Change(None, _pod("now")))
    async with _running(controller):
        await asyncio.sleep(1)

    assert passes == ["now", "a", "b"]


async def test_a_change_that_cannot_be_mapped_stops_nobody() -> None:
    """A mapping that fails on one odd object is logged and counted; the next change is mapped as ever."""
    passes: list[int] = []

    async def reconcile(key: int) -> Result:
        passes.append(key)
        return Result()

    informer = _informer()
    controller: Controller[int] = Controller("test", reconcile, clock=CLOCK, log=structlog.get_logger())
    controller.watches(informer, lambda change: [int(change.object.metadata.labels["group"])])
    with capture_logs() as logs:
        for group in ("1", "not a number", "2"):
            informer.notify(Change(None, _pod("p", group=group)))
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert passes == [1, 2]
    assert controller.statistics().unmapped == 1
    assert [entry["log_level"] for entry in logs] == ["error"]


async def test_passes_are_measured_under_their_result() -> None:
    """Each kind of end is its own series, with controller-runtime's names."""

    async def reconcile(key: str) -> Result:
        match key:
            case "conflict":
                raise Conflict(409)
            case "terminal":
                raise TerminalError("no")
            case "error":
                raise ServerError(500)
            case "later":
                return Result(requeue_after=1e6)
        return Result()

    metrics = Metrics()
    controller = _controller(reconcile, metrics=metrics)
    controller.measure(Metrics())
    async with _running(controller):
        for key in ("fine", "conflict", "terminal", "error", "later"):
            controller.queue.add(key)
        await asyncio.sleep(0.001)

    def value(result: str) -> float | None:
        return metrics.registry.get_sample_value("controller_runtime_reconcile_total", {"controller": "test", "result": result})

    assert [value(result) for result in ("success", "requeue", "requeue_after")] == [1, 1, 1]
    assert value("error") == 2
    assert metrics.registry.get_sample_value("controller_runtime_max_concurrent_reconciles", {"controller": "test"}) == 8
