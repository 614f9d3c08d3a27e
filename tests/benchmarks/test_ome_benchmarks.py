"""Benchmarks of OMENative: the meter tells whose time it was, limits are read right, and small ones of each size answer."""

import asyncio
import json
import time

import pytest
from benchmarks.__main__ import questions, usual
from benchmarks.meter import Meter
from benchmarks.ome_bed import Cost
from benchmarks.ome_size import grow
from benchmarks.ome_storm import limits, strike_alone
from benchmarks.thousand import run_virtually
from tests.planes.plane import Recorded

from regroup.wire.transport import Request


def _burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def _neighbours(meter: Meter) -> None:
    """Ours works for 0.05 s and asks somebody who works for 0.1 s; a task of ours works for 0.05 s, a stranger for 0.1 s."""

    async def other() -> None:
        _burn(0.05)
        await asyncio.sleep(0)
        _burn(0.05)

    async def ours() -> None:
        _burn(0.025)
        await asyncio.sleep(0)
        await meter.outside(other())
        child = asyncio.create_task(small())
        _burn(0.025)
        await child

    async def small() -> None:
        _burn(0.05)

    with meter.installed(asyncio.get_running_loop()):
        with meter.inside():
            task = asyncio.create_task(ours())
        await asyncio.gather(task, asyncio.create_task(other()))


def test_the_meter_counts_our_steps_and_nobody_elses() -> None:
    """Tasks of tasks are ours, what we await of others is not, and neighbours are not."""
    meter = Meter()

    asyncio.run(_neighbours(meter))

    assert meter.seconds == pytest.approx(0.1, abs=0.03)


def test_the_meter_passes_on_what_is_thrown() -> None:
    """A task that is timed can be cancelled, and fails with its own error."""
    meter = Meter()

    async def fails() -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            raise LookupError("told") from None

    async def main() -> None:
        with meter.installed(asyncio.get_running_loop()), meter.inside():
            task = asyncio.create_task(fails())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(LookupError, match="told"):
                await task

    asyncio.run(main())


def _status(rows: list[tuple[int, int, str]], *, code: int = 200) -> Recorded:
    """A write of rows of index, incarnation, phase."""
    body = {"status": {"instanceStatuses": [{"index": i, "incarnation": n, "phase": p} for i, n, p in rows]}}
    path = "/apis/ome.io/v1beta1/namespaces/t/inferencereplicas/svc-engine/status"
    return Recorded(0.0, Request("PATCH", path, body=json.dumps(body).encode()), code)


def test_limits_are_read_from_what_was_written() -> None:
    """Most at once, most by one write, all of them; a write that was refused opened nothing."""
    writes = [
        _status([(0, 2, "Restarting"), (1, 1, "Ready"), (2, 1, "Ready")]),
        _status([(0, 2, "Restarting"), (1, 2, "Restarting"), (2, 2, "Restarting")], code=409),
        _status([(0, 2, "Ready"), (1, 2, "Restarting"), (2, 2, "Restarting")]),
    ]

    assert limits(Cost(writes=writes, reads=0, events=0, cpu=0.0, seen=0)) == (2, 2, 3)


def test_a_small_storm_keeps_its_limits() -> None:
    """Four crash-looping gangs, one of which may be out: one at a time, each once, no write refused (4.4.2)."""
    storm = run_virtually(strike_alone(["storm"], instances=4, budget=1))

    assert (storm.most_out, storm.most_opened, storm.opened) == (1, 1, 4)
    assert storm.cost.refused == 0
    assert storm.cost.cpu > 0


def test_a_small_size_answers() -> None:
    """Two services of 4 Instances: figures of the operator alone, which is a part of the whole."""
    grown = grow(2)

    assert 0 < grown.cost.cpu < grown.cpu
    assert grown.cost.refused == 0
    assert grown.cost.seen >= 2 * 4 * 4 * 3, "each pod came, was ready, was put in rotation"
    assert grown.operator_mib < grown.resident_mib
    assert grown.figures()["of_2_writes_per_instance"] < 13


def test_the_large_ones_are_asked_by_name_only() -> None:
    """``python -m benchmarks`` alone ends within minutes."""
    assert set(questions()) - set(usual()) == {"ome_size_500"}
    assert {"ome_restart", "ome_settled", "ome_size", "ome_storm"} <= set(usual())
