"""Restart counters and back-off: spec/leaderworkerset.md 5.5, 5.7."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.leaderworkerset.lws_builders import NOW

from regroup.leaderworkerset.groups import backoff
from regroup.leaderworkerset.groups.budget import (
    CorruptCounts,
    counter_key,
    format_counts,
    handed_over,
    parse_counts,
    pruned,
    pruned_hash,
    raised,
    without,
)
from regroup.leaderworkerset.view import Backoff

MAPS = st.dictionaries(st.from_regex(r"[a-z0-9]{1,6}/[0-9]{1,3}", fullmatch=True), st.integers(0, 1000), max_size=6)


@pytest.mark.parametrize("text", ["null", "[]", '{"a/0":-1}', '{"a/0":1.5}', '{"a/0":true}', '{"a/0":"1"}', "{", "3"])
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    """Behaviour 76, Q27: never guessed."""
    with pytest.raises(CorruptCounts, match="group-restart-counts"):
        parse_counts(text)


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_nothing_is_an_empty_map(text: str | None) -> None:
    """Spec 5.5."""
    assert parse_counts(text) == {}


@given(MAPS)
def test_round_trip(counts: dict[str, int]) -> None:
    """Property: what is written is read again; an empty map removes the annotation."""
    assert parse_counts(format_counts(counts)) == counts


@given(MAPS, st.integers(0, 20))
def test_raising_keeps_others_and_never_lowers(counts: dict[str, int], to: int) -> None:
    """Behaviours 75, B8: monotonic, other groups' entries survive."""
    after = raised(counts, "x/0", to=to)
    assert after["x/0"] == max(to, counts.get("x/0", 0))
    assert without(after, {"x/0"}) == without(counts, {"x/0"})


def test_pruning_ordinals() -> None:
    """Behaviours 81-83, B7: surge groups keep theirs, old revisions go only when the rollout is completely done."""
    counts = {"a/0": 1, "b/0": 2, "b/4": 1, "b/6": 1}
    assert pruned(counts, replicas=6, revision="b", update_done=False) == {"a/0": 1, "b/0": 2, "b/4": 1}
    assert pruned(counts, replicas=4, revision="b", update_done=True) == {"b/0": 2}
    for key in ("a", "a/x"):
        with pytest.raises(CorruptCounts):
            pruned({key: 1}, replicas=1, revision="a", update_done=False)


def test_hand_over() -> None:
    """Behaviours 107, 119: the highest unowned count of the revision moves, a scale-up starts at 0."""
    counts = {"a/k1": 1, "a/k2": 3, "a/k3": 3, "b/k4": 9}
    after = handed_over(counts, revision="a", index="new", owned={"a/k2"})
    assert after == {"a/k1": 1, "a/k2": 3, "a/new": 3, "b/k4": 9}
    assert handed_over(after, revision="a", index="new", owned=set()) == after, "a second call changes nothing"
    assert handed_over({"a/k1": 1}, revision="a", index="new", owned={"a/k1"}) == {"a/k1": 1}


def test_pruning_hash() -> None:
    """Spec 5.5: owned entries stay, unowned ones only as many as there is room for."""
    counts = {"a/k1": 1, "a/k2": 3, "a/k3": 3, "b/k": 1}
    assert pruned_hash(counts, revision="a", owned={"a/k1"}, room=1, update_done=False) == {"a/k1": 1, "a/k2": 3, "b/k": 1}
    assert pruned_hash(counts, revision="a", owned=set(), room=-1, update_done=False) == {"b/k": 1}
    assert pruned_hash(counts, revision="a", owned=set(), room=1, update_done=True) == {"a/k2": 3}, "behaviour 82"


def test_counter_key() -> None:
    assert counter_key("rev", "3") == "rev/3"


@pytest.mark.parametrize(
    ("base", "cap", "count", "seconds"),
    [
        *((10, 300, count, want) for count, want in enumerate([10, 20, 40, 80, 160, 300, 300])),
        (10, 300, 35, 300),
        *((2, 10, count, want) for count, want in enumerate([2, 4, 8, 10])),
        *((30, 600, count, 600) for count in (5, 58, 59, 61, 62, 63, 1000, 100_000, 10**30)),
        (30, 600, 4, 480),
        (10, 300, -3, 10),
        (5, 5, 0, 5),
        (1, 2**31 - 1, 30, 2**30),
    ],
)
def test_delay(base: int, cap: int, count: int, seconds: int) -> None:
    """Behaviours 123, 124, case C32: exact min(base * 2^count, cap), whatever the count."""
    assert backoff.delay(Backoff(base, cap), count=count) == seconds


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(0, 200))
def test_delay_is_the_formula(base: int, more: int, count: int) -> None:
    """Property: equals the formula, never above the cap."""
    cap = base + more
    assert backoff.delay(Backoff(base, cap), count=count) == min(base * 2**count, cap)


@given(st.integers(-1000, 1000), st.integers(0, 20))
def test_nobody_waits_longer_than_the_delay(age: int, count: int) -> None:
    """Spec 5.7, case C38: clock skew in either direction."""
    rule = Backoff()
    at = backoff.due(rule, count=count, created=NOW - timedelta(seconds=age), now=NOW)
    wait = backoff.delay(rule, count=count)
    if at is None:
        assert age >= wait
    else:
        assert timedelta(0) < at - NOW <= timedelta(seconds=wait)


def test_a_leader_without_a_creation_time_waits_for_nothing() -> None:
    """Spec 5.7."""
    assert backoff.due(Backoff(), count=3, created=None, now=NOW) is None
