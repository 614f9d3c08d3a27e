"""Stateful: whatever workers and time do, a key is never in two hands and nothing that was asked for is lost."""

import asyncio
from datetime import UTC, datetime

import looptime
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from regroup.runtime.clock import LoopClock
from regroup.runtime.queue import WorkQueue

KEYS = st.sampled_from(["a", "b", "c"])
DAY = 86_400.0


class QueueMachine(RuleBasedStateMachine):
    """A queue on a virtual loop beside what is owed: for each key, by when it must have been handed out at the latest."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(start=0)
        self.queue: WorkQueue[str] = WorkQueue(clock=LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC)))
        self.owed: dict[str, float] = {}
        """The earliest time at which a look was asked for, while it has not begun."""
        self.hands: set[str] = set()
        self.waiting: list[asyncio.Task[str]] = []

    def teardown(self) -> None:
        self.run_for(2 * DAY)  # everything that is owed comes due
        for _ in range(12):
            for key in list(self.hands):
                self.give_back(key)
            if not self.waiting:
                self.take()
            self.run_for(0)
        assert self.owed == {}, "something that was asked for never came"
        self.queue.shut_down()
        for task in self.waiting:
            task.cancel()
        self.run_for(0)
        self.loop.close()

    def run_for(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.collect()

    def collect(self) -> None:
        """Note who got a key. Each key must have been asked for, be due, and be in no other hand."""
        for task in [task for task in self.waiting if task.done()]:
            self.waiting.remove(task)
            if task.cancelled():
                continue
            key = task.result()
            assert key not in self.hands, "a key in two hands"
            assert key in self.owed, "a key that nobody asked for"
            assert self.owed.pop(key) <= self.loop.time() + 1e-6, "a key before its time"
            self.hands.add(key)

    def ask(self, key: str, seconds: float) -> None:
        at = self.loop.time() + seconds
        self.owed[key] = min(at, self.owed.get(key, at))

    def call(self, function: object, *arguments: object, **options: object) -> object:
        """Call a plain function of the queue on the running loop."""

        async def run() -> object:
            return function(*arguments, **options)  # type: ignore[operator]  # any function of the queue

        return self.loop.run_until_complete(run())

    @rule(key=KEYS, low=st.booleans())
    def add(self, key: str, low: bool) -> None:
        self.ask(key, 0.0)
        self.call(self.queue.add, key, low=low)
        self.run_for(0)

    @rule(key=KEYS, seconds=st.sampled_from([0.0, 0.5, 3.0, 60.0, 3600.0]))
    def add_after(self, key: str, seconds: float) -> None:
        self.ask(key, seconds)
        self.call(self.queue.add_after, key, seconds)
        self.run_for(0)

    @rule(key=KEYS)
    def fail(self, key: str) -> None:
        seconds = self.call(self.queue.add_rate_limited, key)
        assert isinstance(seconds, float)
        self.ask(key, seconds)
        self.run_for(0)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.call(self.queue.forget, key)

    @precondition(lambda self: len(self.waiting) < 4)
    @rule()
    def take(self) -> None:
        self.waiting.append(self.loop.create_task(self.queue.get()))
        self.run_for(0)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), together_with=st.none() | KEYS)
    def give_up_waiting(self, data: st.DataObject, together_with: str | None) -> None:
        """A worker is cancelled, perhaps in the very moment in which a key comes."""
        task = data.draw(st.sampled_from(self.waiting))
        if together_with is not None:
            self.ask(together_with, 0.0)
            self.call(self.queue.add, together_with)
        task.cancel()
        self.run_for(0)

    @precondition(lambda self: self.hands)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        self.give_back(data.draw(st.sampled_from(sorted(self.hands))))
        self.run_for(0)

    def give_back(self, key: str) -> None:
        self.hands.remove(key)
        self.call(self.queue.done, key)

    @rule(seconds=st.sampled_from([0.1, 1.0, 90.0, 4000.0]))
    def wait(self, seconds: float) -> None:
        self.run_for(seconds)

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        """While a worker waits, no key that is due and in no hand is left lying."""
        self.run_for(0)
        if self.waiting:
            lying = [key for key, at in self.owed.items() if at < self.loop.time() - 1e-6 and key not in self.hands]
            assert lying == []

    @invariant()
    def the_numbers_agree(self) -> None:
        statistics = self.queue.statistics()
        assert statistics.processing == len(self.hands)
        assert statistics.ready + statistics.delayed >= len([key for key in self.owed if key not in self.hands])


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
