"""The work queue: client-go's rules, one at a time (design 4)."""

import asyncio
from datetime import UTC, datetime

import pytest

from regroup.runtime.clock import LoopClock
from regroup.runtime.queue import BACKOFF_CAP, QueueClosed, WorkQueue

pytestmark = pytest.mark.looptime


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(clock=LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC)))


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _take(queue: WorkQueue[str]) -> str:
    key = await queue.get()
    queue.done(key)
    return key


async def test_a_waiting_key_is_kept_once(queue: WorkQueue[str]) -> None:
    """Ten additions of a key that waits are one look, in the order of the first."""
    for _ in range(10):
        queue.add("a")
        queue.add("b")

    assert len(queue) == 2
    assert [await _take(queue), await _take(queue)] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_in_a_hand_comes_back_after_it_is_given_back(queue: WorkQueue[str]) -> None:
    """Added while it is worked on, a key is handed out again, once, and only after ``done``."""
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 5)

    queue.done("a")

    assert await _take(queue) == "a"
    assert len(queue) == 0


async def test_get_waits_for_a_key(queue: WorkQueue[str]) -> None:
    """Each addition wakes one of those who wait."""
    takers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(1)

    assert sorted(taker.result() for taker in takers if taker.done()) == ["a", "b"]
    queue.add("c")
    assert {await taker for taker in takers} == {"a", "b", "c"}


async def test_a_cancelled_get_loses_no_key(queue: WorkQueue[str]) -> None:
    """A wake-up that comes together with the cancellation goes to the next who waits."""
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add("a")
    first.cancel()

    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_add_after_waits_and_the_earliest_time_wins(queue: WorkQueue[str]) -> None:
    """Of several times for one key only the earliest counts, in whichever order they come."""
    for times in ((30.0, 10.0, 20.0), (10.0, 30.0, 20.0)):
        began = _now()
        for seconds in times:
            queue.add_after("a", seconds)
        assert queue.statistics().delayed == 1

        assert await _take(queue) == "a"
        assert _now() - began == pytest.approx(10.0, abs=0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 100)


async def test_a_look_in_between_takes_the_place_of_a_later_one(queue: WorkQueue[str]) -> None:
    """A key that is looked at now says anew when it wants to be looked at; its old time is void."""
    queue.add_after("a", 50)
    queue.add("a")
    assert await _take(queue) == "a"

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 100)


async def test_a_superseded_time_does_not_come_with_another_that_is_due(queue: WorkQueue[str]) -> None:
    """Two times that are due in the same moment: the one that was looked at in between does not come again."""
    queue.add_after("b", 50)
    queue.add_after("a", 50)
    queue.add("a")
    assert await _take(queue) == "a"

    assert await _take(queue) == "b"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 100)


async def test_add_after_of_a_key_in_a_hand_is_not_lost(queue: WorkQueue[str]) -> None:
    """A pass asks for its next look before it gives the key back; the time runs from then."""
    queue.add("a")
    await queue.get()
    queue.add_after("a", 7)
    await asyncio.sleep(10)
    queue.done("a")

    assert await _take(queue) == "a"


async def test_times_in_order_of_their_coming(queue: WorkQueue[str]) -> None:
    """Many keys with many times come when they are due; zero and less is now."""
    began = _now()
    for number in (5, 3, 9, 1):
        queue.add_after(str(number), number)
    queue.add_after("now", 0)
    queue.add_after("past", -3)

    seen = [(await _take(queue), round(_now() - began)) for _ in range(6)]

    assert seen == [("now", 0), ("past", 0), ("1", 1), ("3", 3), ("5", 5), ("9", 9)]


async def test_failures_double_the_pause_up_to_a_minute(queue: WorkQueue[str]) -> None:
    """5 ms, 10 ms, ... 60 s; a success starts anew; other keys have pauses of their own."""
    pauses = [queue.add_rate_limited("a") for _ in range(20)]
    assert pauses[:4] == [0.005, 0.01, 0.02, 0.04]
    assert pauses[-1] == BACKOFF_CAP
    assert queue.failures("a") == 20
    assert queue.add_rate_limited("b") == 0.005

    queue.forget("a")

    assert queue.failures("a") == 0
    assert queue.add_rate_limited("a") == 0.005


async def test_a_pause_can_have_a_floor_and_a_cap(queue: WorkQueue[str]) -> None:
    """What the server asks for is waited for; after a lost race the pause stays short."""
    assert queue.add_rate_limited("a", at_least=12) == 12
    began = _now()
    assert await _take(queue) == "a"
    assert _now() - began == pytest.approx(12, abs=0.01)
    assert max(queue.add_rate_limited("b", cap=1.0) for _ in range(20)) == 1.0


async def test_what_fails_together_does_not_come_back_together() -> None:
    """Over all keys: a burst, then a steady rate; time gives the burst back."""
    queue: WorkQueue[int] = WorkQueue(clock=LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC)), retry_rate=10, retry_burst=20)
    pauses = [queue.add_rate_limited(number) for number in range(120)]

    assert pauses[:20] == [0.005] * 20
    assert pauses[-1] == pytest.approx(10.0)
    began = _now()
    for _ in range(120):
        key = await queue.get()
        queue.done(key)
    assert _now() - began == pytest.approx(10.0, abs=0.1)

    await asyncio.sleep(60)
    assert queue.add_rate_limited(500) == 0.005
    with pytest.raises(ValueError, match="rate above 0"):
        WorkQueue[int](clock=LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC)), retry_rate=0)


async def test_low_priority_waits_for_everything_else(queue: WorkQueue[str]) -> None:
    """Keys of a first list come last; one of them that changes meanwhile moves up and is still looked at once."""
    for key in ("old-1", "old-2", "old-3"):
        queue.add(key, low=True)
    queue.add("fresh")
    queue.add("old-3")
    queue.add("fresh", low=True)

    assert [await _take(queue) for _ in range(4)] == ["fresh", "old-3", "old-1", "old-2"]
    assert len(queue) == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 1)


async def test_a_low_key_added_while_in_a_hand_keeps_its_priority(queue: WorkQueue[str]) -> None:
    """Low work that comes back is still low, unless somebody needs it now."""
    queue.add("a")
    await queue.get()
    queue.add("a", low=True)
    queue.add("b")
    queue.done("a")
    assert await _take(queue) == "b"
    assert await _take(queue) == "a"

    queue.add("a")
    await queue.get()
    queue.add("a", low=True)
    queue.add("a")
    queue.add("b", low=True)
    queue.done("a")
    assert await _take(queue) == "a"


async def test_a_key_that_moved_up_is_not_found_at_its_old_place_while_in_a_hand(queue: WorkQueue[str]) -> None:
    """The place that a key left behind in the low queue is nobody's, even when the key is needed again at low priority."""
    queue.add("a", low=True)
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a", low=True)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 1)
    queue.done("a")
    assert await _take(queue) == "a"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 1)


async def test_shut_down_ends_waiting_and_hands_out_nothing_more(queue: WorkQueue[str]) -> None:
    """Everybody who waits gets ``QueueClosed``; what is added or due afterwards is dropped; ``done`` is still allowed."""
    queue.add("in hand")
    await queue.get()
    takers = [asyncio.create_task(queue.get()) for _ in range(3)]
    queue.add_after("later", 5)
    await asyncio.sleep(1)
    queue.add("in hand")

    queue.shut_down()
    queue.done("in hand")
    queue.add("a")
    queue.add_after("a", 1)
    queue.add_rate_limited("a")

    assert all(isinstance(result, QueueClosed) for result in await asyncio.gather(*takers, return_exceptions=True))
    await asyncio.sleep(10)
    with pytest.raises(QueueClosed):
        await queue.get()
    assert len(queue) == 0


async def test_statistics_say_what_is_there(queue: WorkQueue[str]) -> None:
    """Ready, in hands, delayed, failing, and the counts since the start."""
    queue.add("a")
    queue.add("b")
    queue.add("a")
    await queue.get()
    queue.add_after("c", 5)
    queue.add_rate_limited("d")

    statistics = queue.statistics()

    assert (statistics.ready, statistics.processing, statistics.delayed, statistics.failing) == (1, 1, 2, 1)
    assert (statistics.added, statistics.taken, statistics.retried) == (2, 1, 1)


async def test_a_key_put_off_again_and_again_does_not_pile_up(queue: WorkQueue[str]) -> None:
    """A key that asks for a look in an hour at every event leaves no trail of superseded times."""
    queue.add_after("sooner", 1800)
    for _ in range(5000):
        queue.add_after("a", 3600)
        queue.add("a")
        await _take(queue)
    queue.add_after("a", 3600)

    assert len(queue._heap) < 200
    assert queue.statistics().delayed == 2
    assert await _take(queue) == "sooner"
    assert await _take(queue) == "a"


async def test_a_pause_that_no_clock_can_tell_still_lets_time_pass(queue: WorkQueue[str]) -> None:
    """Case C38: what is put off by less than a clock's step comes back after that step, never at the same moment again and
    again: under virtual time that would be for ever."""
    for _ in range(3):
        before = _now()
        queue.add_after("a", 1e-17)
        assert await _take(queue) == "a"
        assert _now() > before
