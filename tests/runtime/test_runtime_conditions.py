"""Conditions (spec/leaderworkerset.md 7.2): set one, keep the rest, move the time only with the status."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from regroup.kube.meta import Condition
from regroup.runtime.conditions import MESSAGE_LIMIT, set_condition, set_conditions, to_wire

NOW = datetime(2026, 8, 1, 12, 0, 0, 700, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def test_a_new_condition_comes_last_with_the_time_in_whole_seconds() -> None:
    """metav1.Time has no fractions: what is written equals what will be read back."""
    ready = Condition(type="Ready", status="True")
    conditions = set_condition((ready,), Condition(type="Available", status="False", reason="No"), now=NOW)
    assert [condition.type for condition in conditions] == ["Ready", "Available"]
    assert conditions[1].last_transition_time == NOW.replace(microsecond=0)


def test_the_time_stays_while_the_status_stays() -> None:
    """Reason, message and observedGeneration follow without moving lastTransitionTime."""
    first = set_condition((), Condition(type="Ready", status="False", reason="A", observed_generation=1), now=NOW)
    wanted = Condition(type="Ready", status="False", reason="B", message="now", observed_generation=2)
    (second,) = set_condition(first, wanted, now=LATER)
    assert (second.reason, second.message, second.observed_generation) == ("B", "now", 2)
    assert second.last_transition_time == NOW.replace(microsecond=0)


def test_the_time_moves_with_the_status() -> None:
    """A change of status is a transition, whatever time the caller put in."""
    first = set_condition((), Condition(type="Ready", status="False"), now=NOW)
    (second,) = set_condition(first, Condition(type="Ready", status="True", last_transition_time=NOW), now=LATER)
    assert second.last_transition_time == LATER.replace(microsecond=0)


def test_a_condition_without_a_time_gets_one() -> None:
    """A foreign writer may have left the time out."""
    (repaired,) = set_condition((Condition(type="Ready", status="True"),), Condition(type="Ready", status="True"), now=NOW)
    assert repaired.last_transition_time == NOW.replace(microsecond=0)


def test_messages_are_bounded() -> None:
    """The API refuses longer ones, which would stop every status write."""
    (condition,) = set_condition((), Condition(type="Ready", status="True", message="x" * 100_000), now=NOW)
    assert len(condition.message) == MESSAGE_LIMIT


def test_on_the_wire_empty_fields_are_left_out() -> None:
    """No observedGeneration 0, times as the API writes them."""
    conditions = set_condition((), Condition(type="Ready", status="True", reason="Ok", message="fine"), now=NOW)
    assert to_wire(conditions) == [
        {"type": "Ready", "status": "True", "reason": "Ok", "message": "fine", "lastTransitionTime": "2026-08-01T12:00:00Z"}
    ]


CONDITIONS = st.builds(
    Condition, type=st.sampled_from("ABC"), status=st.sampled_from(["True", "False", "Unknown"]), reason=st.sampled_from("xy")
)


@given(st.lists(CONDITIONS, max_size=3, unique_by=lambda condition: condition.type), st.lists(CONDITIONS, max_size=4))
def test_setting_many_keeps_order_and_is_idempotent(old: list[Condition], wanted: list[Condition]) -> None:
    """Conditions that are not named stay as they are and where they are; setting the same again, later, changes nothing."""
    once = set_conditions(old, wanted, now=NOW)
    assert [condition.type for condition in once][: len(old)] == [condition.type for condition in old]
    assert len({condition.type for condition in once}) == len(once)
    named = {condition.type: condition for condition in wanted}
    for condition in once:
        assert condition.status == (named[condition.type].status if condition.type in named else condition.status)
    untouched = [condition for condition in old if condition.type not in named]
    assert all(condition in once for condition in untouched)
    assert set_conditions(once, list(named.values()), now=LATER) == once
