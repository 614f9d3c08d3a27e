"""How often a busy replica is looked at: freely for one failure, at a distance in a storm."""

from hypothesis import given
from hypothesis import strategies as st

from regroup.omenative.controller.pace import FREE, PER_ROW, Pace

KEY = ("t", "svc-engine")


def test_one_failure_is_never_held_up_and_a_storm_is() -> None:
    """The passes of one restart follow each other at once; those of a storm at a distance that grows with the rows."""
    pace = Pace()

    assert [pace.wait(KEY, rows=200, now=10.0) for _ in range(int(FREE))] == [0.0] * int(FREE)
    assert pace.wait(KEY, rows=200, now=10.0) == 200 * PER_ROW
    assert pace.wait(KEY, rows=200, now=10.0 + 200 * PER_ROW) == 0.0
    assert pace.wait(KEY, rows=200, now=10.0 + 200 * PER_ROW) > 0.0
    assert pace.wait(("t", "other-engine"), rows=200, now=10.0) == 0.0, "each replica has an account of its own"


def test_quiet_time_fills_the_account_again() -> None:
    """A storm that is over leaves nothing behind."""
    pace = Pace()
    while pace.wait(KEY, rows=50, now=0.0) == 0.0:
        pass

    later = 50 * PER_ROW * (FREE + 5)
    assert [pace.wait(KEY, rows=50, now=later) for _ in range(int(FREE))] == [0.0] * int(FREE)
    pace.forget(KEY)
    assert pace.wait(KEY, rows=50, now=later) == 0.0


@given(st.integers(0, 1000), st.lists(st.floats(0, 0.5), max_size=60))
def test_who_waits_as_told_is_let_in(rows: int, gaps: list[float]) -> None:
    """A pass that comes back after the wait it was told runs then, whatever was before, and never more than the free passes and
    one for each interval run."""
    pace, now, let_in = Pace(), 0.0, 0
    for gap in gaps:
        now += gap
        rest = pace.wait(KEY, rows=rows, now=now)
        if rest > 0:
            assert rest <= max(1, rows) * PER_ROW
            now += rest
            assert pace.wait(KEY, rows=rows, now=now) == 0.0
        let_in += 1
    assert let_in <= FREE + now / (max(1, rows) * PER_ROW) + 1
