"""How long a leader waits whose predecessors ended at once (case C136)."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.leaderworkerset.lws_builders import NOW, pod

from regroup.leaderworkerset.groups.pacing import LONGEST, Admitted, admitted, hold_until


def test_the_first_leader_waits_for_nothing() -> None:
    assert hold_until(None, pod(0), now=NOW) is None
    assert admitted(None, pod(0), now=NOW) == Admitted("uid-0-0", NOW)


def test_each_waits_longer_than_the_one_before() -> None:
    """Half a second, then twice as long each time, thirty seconds at most, counted from the last admission."""
    last = admitted(None, pod(0, uid="a0"), now=NOW)
    waits = []
    for number in range(1, 12):
        leader = pod(0, uid=f"a{number}", age=(NOW - last.at).total_seconds())
        until = hold_until(last, leader, now=last.at)
        assert until is not None
        waits.append((until - last.at).total_seconds())
        last = admitted(last, leader, now=until)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0, 30.0]
    assert last.quick == 11


def test_a_leader_that_lived_ends_the_row() -> None:
    last = Admitted("old", NOW - timedelta(seconds=60), quick=7)
    leader = pod(0, uid="new", age=5)
    assert hold_until(last, leader, now=NOW) is None
    assert admitted(last, leader, now=NOW).quick == 0


def test_the_same_leader_is_not_counted_twice() -> None:
    """A lift whose answer was lost is tried again."""
    last = Admitted("uid-0-0", NOW, quick=3)
    assert admitted(last, pod(0), now=NOW).quick == 3


@given(quick=st.integers(0, 10_000), age=st.floats(0, 100), since=st.floats(0, 100))
def test_nobody_waits_for_ever(quick: int, age: float, since: float) -> None:
    last = Admitted("old", NOW - timedelta(seconds=since), quick=quick)
    until = hold_until(last, pod(0, uid="new", age=age), now=NOW)
    assert until is None or NOW < until <= last.at + timedelta(seconds=LONGEST)
