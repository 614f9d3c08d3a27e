"""Loops whose time runs faster than the wall: everything that waits waits that much shorter (contract, decision 1)."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from regroup.runtime.clock import LoopClock
from regroup.runtime.loop import run

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_hour_passes_in_a_moment() -> None:
    """At speed 36,000 an hour takes a tenth of a second, and the clock says an hour."""

    async def main() -> timedelta:
        clock = LoopClock(start=START)
        clock.now()
        async with asyncio.timeout(7200):
            await asyncio.sleep(3600)
        return clock.now() - START

    began = time.monotonic()
    passed = run(main(), speed=36_000)

    assert time.monotonic() - began < 20
    assert passed >= timedelta(hours=1)


def test_waits_end_in_the_order_of_their_times() -> None:
    """Timers keep their order, and time never runs backwards."""

    async def main() -> list[int]:
        order: list[int] = []
        loop = asyncio.get_running_loop()
        for seconds in (30, 10, 20):
            loop.call_later(seconds, order.append, seconds)
        earlier = loop.time()
        for _ in range(100):
            await asyncio.sleep(0)
            assert loop.time() >= earlier
            earlier = loop.time()
        await asyncio.sleep(60)
        return order

    assert run(main(), speed=1000) == [10, 20, 30]


def test_sockets_work_on_a_fast_loop() -> None:
    """Only waiting is scaled: bytes travel as ever."""

    async def main() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            writer.write(b"hello\n")
            answer = await reader.readline()
            writer.close()
            await writer.wait_closed()
        return answer

    assert run(main(), speed=100) == b"hello\n"


def test_the_machines_own_speed_is_an_ordinary_loop() -> None:
    """At speed 1 the fastest loop there is runs, and ``run`` gives back what ``main`` returns."""

    async def main() -> str:
        await asyncio.sleep(0)
        return type(asyncio.get_running_loop()).__module__

    assert run(main()).startswith(("uvloop", "asyncio"))


def test_work_takes_its_own_time() -> None:
    """A second of computing is a second of the loop's time at any speed: a busy machine makes nobody late."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(10)
        began, until = loop.time(), time.monotonic() + 0.2
        while time.monotonic() < until:
            pass
        return loop.time() - began

    assert 0.2 <= run(main(), speed=1000) < 20


@pytest.mark.parametrize("speed", [0, -1])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    """Time that stands still or runs backwards would hang everything."""

    async def main() -> None:
        raise AssertionError("never begun")

    with pytest.raises(ValueError, match="speed must be more than 0"):
        run(main(), speed=speed)
