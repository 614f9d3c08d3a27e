"""Counts and conditions: the pictures of spec/leaderworkerset.md 7.5 and the mechanics of 7.2-7.3."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.leaderworkerset.lws_builders import NOW

from regroup.kube.meta import Condition, find_condition
from regroup.leaderworkerset.groups.members import (
    MEMBERS_CONDITION,
    Entry,
    entry_of,
    format_record,
    parse_record,
    recorded_workers,
)
from regroup.leaderworkerset.objects.rollout import MISSING, GroupState
from regroup.leaderworkerset.status.ordinal import GroupFacts, Tally, Wanted, tally

READY, OLD, COMING = GroupState(ready=True, updated=True), GroupState(ready=True), GroupState(updated=True)


def group(index: int, state: GroupState = READY, **more: object) -> GroupFacts:
    return GroupFacts(index, exists=True, state=state, on_revision=state.updated, **more)  # type: ignore[arg-type]  # keyword fields of the dataclass


def computed(groups: Sequence[GroupFacts], *, replicas: int = 2, partition: int = 0, old: Sequence[Condition] = ()) -> Tally:
    return tally(Wanted(replicas, partition, generation=3), groups, old=old, now=NOW)


def picture(result: Tally) -> str:
    """T, F or - for Available, Progressing, UpdateInProgress, Degraded."""
    letters = []
    for kind in ("Available", "Progressing", "UpdateInProgress", "Degraded"):
        condition = find_condition(result.conditions, kind)
        letters.append("-" if condition is None else condition.status[0])
    return "".join(letters)


GONE = group(1, GroupState(updated=True), exhausted=True)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param([], "FTFF", id="creating (149)"),
        pytest.param([group(0, COMING), group(1, COMING)], "FTFF", id="coming up"),
        pytest.param([group(0), group(1)], "TFFF", id="all ready"),
        pytest.param([group(0), group(1, OLD)], "FTTF", id="rolling"),
        pytest.param([group(0), group(1, COMING)], "FTFF", id="all updated, one unready (148)"),
        pytest.param([group(0), GONE], "FFFT", id="one exhausted, rest ready (90)"),
        pytest.param([group(0, COMING), GONE], "FTFT", id="one exhausted, another restarting (91)"),
        pytest.param([group(0, OLD), GONE], "FTTT", id="one exhausted, rollout running"),
        pytest.param(
            [group(0), group(1, has_workers=False, state=MISSING, exhausted=True)], "FFFT", id="exhausted without workers"
        ),
    ],
)
def test_pictures(groups: list[GroupFacts], expected: str) -> None:
    """Spec 7.5, one row each."""
    assert picture(computed(groups)) == expected


def test_counts() -> None:
    """Spec 2.8: surge groups count as ready; an exhausted group does not."""
    result = computed([group(0), group(1, OLD), group(2), replace(GONE, index=3)], replicas=2)
    assert (result.ready, result.updated) == (3, 3)


def test_partition_ends_the_rollout_early() -> None:
    """Behaviour 146: groups below the partition may stay old."""
    result = computed([group(0, OLD), group(1)], partition=1)
    assert picture(result) == "TFFF"
    assert not result.update_done, "old revisions are still needed"
    assert computed([group(0), group(1)]).update_done


def test_scale_to_nothing_is_available() -> None:
    """Behaviour 155."""
    assert picture(computed([], replicas=0)) == "TFFF"


def test_unschedulable_leaders_are_counted_and_reset() -> None:
    """Behaviours 61, 62: reason and number while it lasts, GroupsProgressing afterwards."""
    stuck = computed([group(0), group(1, COMING, unschedulable=True), group(2, COMING, unschedulable=True)], replicas=3)
    progressing = find_condition(stuck.conditions, "Progressing")
    assert progressing is not None
    assert (progressing.reason, progressing.message[:10]) == ("GroupUnschedulable", "2 replicas")
    after = find_condition(computed([group(0), group(1)], old=stuck.conditions).conditions, "Progressing")
    assert after is not None
    assert (after.status, after.reason) == ("False", "GroupsProgressing")


def test_what_a_group_waits_for_is_named() -> None:
    """Behaviour 158."""
    result = computed([group(0), group(1, COMING, blocked="pod demo-1: node n2 is healthy; it waits for finalizers x.io/a")])
    progressing = find_condition(result.conditions, "Progressing")
    assert progressing is not None
    assert "x.io/a" in progressing.message
    assert "group 1" in progressing.message


def test_foreign_conditions_survive_and_nothing_changes_twice() -> None:
    """Case C102, behaviour 150, B12: a second computation equals the first; times move only with the status."""
    foreign = Condition(type="x.io/Custom", status="True", reason="Mine", last_transition_time=NOW)
    first = computed([group(0), group(1)], old=(foreign,))
    assert foreign in first.conditions
    again = tally(Wanted(2, 0, 3), [group(0), group(1)], old=first.conditions, now=NOW.replace(year=2030))
    assert again.conditions == first.conditions
    kinds = [condition.type for condition in first.conditions]
    assert len(kinds) == len(set(kinds))


def test_no_condition_contradicts_its_reason() -> None:
    """anchor-figures: Available=False never says AllGroupsReady."""
    for groups in ([], [group(0), group(1, OLD)], [group(0), GONE]):
        condition = find_condition(computed(groups).conditions, "Available")
        assert condition is not None
        assert (condition.status, condition.reason == "AllGroupsReady") == ("False", False)


class TestMembers:
    """Own extension B27: what the status remembers."""

    def test_round_trip(self) -> None:
        record = {"0": entry_of("a", ["x", "y"], set_generation=1), "12": entry_of("b", [], set_generation=0)}
        assert parse_record(format_record(record)) == record

    def test_nonsense_is_left_out(self) -> None:
        assert parse_record("0=zz.1 1=aaaa.bbbbbbbb x 2= 3=aaaa.bbbbbbb") == {"1": Entry("aaaa", "bbbbbbbb")}

    def test_it_is_bounded(self) -> None:
        record = {str(index): Entry("aaaa", "bbbbbbbb") for index in range(5000)}
        text = format_record(record)
        assert len(text) < 30_000
        assert set(parse_record(text)) == {str(index) for index in range(len(parse_record(text)))}

    def test_only_the_same_incarnation_binds(self) -> None:
        record = {"0": entry_of("a", ["x"], set_generation=1)}
        assert recorded_workers(record, index="0", leader_uid="a", set_generation=1)
        assert not recorded_workers(record, index="0", leader_uid="b", set_generation=1)
        assert not recorded_workers(record, index="0", leader_uid="a", set_generation=2)
        assert not recorded_workers(record, index="1", leader_uid="a", set_generation=1)

    def test_the_first_complete_set_of_one_incarnation_stays(self) -> None:
        """Case C01: a status write must not forget the failure before it was handled."""
        first, other = entry_of("a", ["x"], set_generation=1), entry_of("a", ["y"], set_generation=1)
        remembered = computed([group(0, incarnation=first.leader, entry=first)], replicas=1)
        for seen in (other, None):
            again = computed([group(0, incarnation=first.leader, entry=seen)], replicas=1, old=remembered.conditions)
            condition = find_condition(again.conditions, MEMBERS_CONDITION)
            assert condition is not None
            assert condition.message == format_record({"0": first})

    def test_a_new_leader_starts_anew(self) -> None:
        first, second = entry_of("a", ["x"], set_generation=1), entry_of("b", ["y"], set_generation=1)
        remembered = computed([group(0, incarnation=first.leader, entry=first)], replicas=1)
        gone = computed([group(0, COMING, incarnation=second.leader)], replicas=1, old=remembered.conditions)
        back = computed([group(0, incarnation=second.leader, entry=second)], replicas=1, old=gone.conditions)
        condition = find_condition(back.conditions, MEMBERS_CONDITION)
        assert condition is not None
        assert condition.message == format_record({"0": second})
