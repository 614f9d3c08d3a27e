"""The rollout algorithm: spec/leaderworkerset.md 6.2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.leaderworkerset.objects.rollout import (
    MISSING,
    Current,
    GroupState,
    Strategy,
    Target,
    max_unavailable_of_set,
    plan,
    scaled,
)

OLD, DONE, NEW = GroupState(ready=True), GroupState(ready=True, updated=True), GroupState(updated=True)


class Trace:
    """Plays a rollout step by step."""

    def __init__(self, replicas: int, strategy: Strategy) -> None:
        self.replicas, self.strategy = replicas, strategy
        self.states = dict.fromkeys(range(replicas), OLD)
        self.current = Current(replicas, 0, replicas)
        self.target = Target(0, replicas, "")

    def step(self, states: dict[int, GroupState] | None = None, *, new_revision: bool = False) -> tuple[int, int]:
        self.states.update(states or {})
        self.target = plan(
            replicas=self.replicas,
            strategy=self.strategy,
            current=self.current,
            states=self.states,
            new_revision=new_revision,
        )
        self.current = Current(self.target.replicas, self.target.partition, self.replicas)
        return self.target.partition, self.target.replicas


def test_the_reference_trace() -> None:
    """Behaviour 144: R=4, S=2, U=2."""
    trace = Trace(4, Strategy(0, 2, 2))
    assert trace.step(new_revision=True) == (4, 6)
    assert trace.step({4: MISSING, 5: MISSING}) == (2, 6)
    assert trace.step({2: MISSING, 3: MISSING}) == (2, 6)
    assert trace.step({4: DONE}) == (2, 6)
    assert trace.step({5: DONE}) == (0, 6)
    assert trace.step({0: MISSING, 1: MISSING, 2: DONE, 3: DONE}) == (0, 4)
    assert trace.step({1: DONE}) == (0, 4)
    assert trace.step({0: DONE}) == (0, 4)


def test_one_at_a_time() -> None:
    """Case C03, C85: maxUnavailable 1, no surge: the highest ordinal first, the next one when it is ready."""
    trace = Trace(3, Strategy())
    assert trace.step(new_revision=True) == (3, 3)
    assert trace.step() == (2, 3)
    assert trace.step({2: NEW}) == (2, 3)
    assert trace.step({2: DONE}) == (1, 3)
    assert trace.step({1: DONE}) == (0, 3)


def test_never_stuck_when_everything_is_unready() -> None:
    """Behaviour 145: groups that are down already cost nothing."""
    trace = Trace(4, Strategy())
    trace.states = dict.fromkeys(range(4), MISSING)
    trace.step(new_revision=True)
    for index in (3, 2, 1, 0):
        assert trace.step() == (index, 4)
        trace.states[index] = DONE


def test_the_last_healthy_group_is_kept() -> None:
    """Case C87: group 0 is down; group 1 stays until it is back or replaced."""
    trace = Trace(2, Strategy())
    trace.states[0] = MISSING
    trace.step(new_revision=True)
    partition, _ = trace.step()
    assert partition == 2


LOST = GroupState(retained=True)


def test_a_lost_group_is_replaced_by_the_rollout() -> None:
    """5.6.5, seed: a rollout cleans up a retained group. One below a healthy one uses up the limit for good; a group of the new
    revision stands in for it first, so that the healthy one does not leave before (case C87), and goes at the end."""
    trace = Trace(2, Strategy())
    trace.states[0] = LOST
    assert trace.step(new_revision=True) == (2, 2)
    assert trace.step() == (2, 3), "in the room that the lost group has left"
    assert trace.step({2: NEW}) == (2, 3)
    assert trace.step({2: DONE}) == (0, 3)
    assert trace.step({0: NEW, 1: NEW}) == (0, 3), "the one that stands in is all that serves"
    assert trace.step({1: DONE}) == (0, 2)
    assert trace.step({0: DONE}) == (0, 2)


def test_a_lost_group_whose_turn_comes_needs_nobody_in_its_place() -> None:
    """102: at the top, or within the limit, or with nothing healthy to protect."""
    top, wide, alone = Trace(2, Strategy()), Trace(3, Strategy(0, 2, 0)), Trace(1, Strategy())
    top.states[1] = wide.states[0] = alone.states[0] = LOST
    for trace, expected in ((top, (1, 2)), (wide, (2, 3)), (alone, (0, 1))):
        trace.step(new_revision=True)
        assert trace.step() == expected


def test_a_lost_group_that_is_being_released_is_waited_for() -> None:
    """102: its turn has come and it is still there for a moment: nobody stands in for it, nor for others that follow."""
    trace = Trace(3, Strategy())
    trace.states = dict.fromkeys(range(3), LOST)
    assert trace.step(new_revision=True) == (3, 3)
    assert trace.step() == (2, 3)
    assert trace.step() == (2, 3), "group 2 is not released yet"
    assert trace.step({2: NEW}) == (2, 3)
    assert trace.step({2: DONE}) == (1, 3)
    assert trace.step() == (1, 3)


def test_a_lost_group_that_is_not_to_be_rolled() -> None:
    """103: below the user's partition it stays, and nobody stands in for it; nor for one that the new revision has lost."""
    trace = Trace(3, Strategy(partition=1))
    trace.states[0] = LOST
    trace.step(new_revision=True)
    assert trace.step() == (3, 3)
    bad = Trace(3, Strategy())
    bad.step(new_revision=True)
    bad.step({2: NEW})
    assert bad.step({2: GroupState(updated=True, retained=True)}) == (2, 3)


@given(
    replicas=st.integers(1, 6),
    unavailable=st.integers(0, 3),
    surge=st.integers(0, 3),
    lost=st.sets(st.integers(0, 5)),
)
def test_every_rollout_with_lost_groups_ends(replicas: int, unavailable: int, surge: int, lost: set[int]) -> None:
    """5.6.5: wherever the retained groups are and whatever the limits, all groups are replaced in the end; and where one group
    may go at a time, never is less ready than that asks for or was ready at the beginning."""
    trace = Trace(replicas, Strategy(0, unavailable, surge))
    trace.states.update({index: LOST for index in lost if index < replicas})
    least = min(replicas - 1, sum(state.ready for state in trace.states.values())) if unavailable + surge <= 1 else 0
    trace.step(new_revision=True)
    for _ in range(12 * replicas):
        partition, running = trace.step()
        for index in range(running):
            state = trace.states.get(index, MISSING)
            if not state.updated and (index >= partition or index not in trace.states):
                trace.states[index] = NEW
                break
            if state == NEW:
                trace.states[index] = DONE
                break
        trace.states = {index: state for index, state in trace.states.items() if index < running}
        assert sum(state.ready for state in trace.states.values()) >= least
    assert trace.step() == (0, replicas)
    assert trace.states == dict.fromkeys(range(replicas), DONE)


def test_limits_that_come_to_nothing_do_not_stop_it() -> None:
    """Case C108: 1 % of three groups is none, after a scale that no admission sees; one at a time is the least."""
    trace = Trace(3, Strategy(0, "1%", "0%"))
    assert trace.step(new_revision=True) == (3, 3)
    assert trace.step() == (2, 3)
    assert trace.step({2: DONE}) == (1, 3)
    assert trace.step({1: DONE}) == (0, 3)


def test_surge_with_one_replica() -> None:
    """Case C89 run 1: the old group goes only when the surge group is ready, and the surge is given back at the end."""
    trace = Trace(1, Strategy(0, 0, 1))
    assert trace.step(new_revision=True) == (1, 2)
    assert trace.step({1: NEW}) == (1, 2)
    assert trace.step({1: DONE}) == (0, 2)
    assert trace.step({0: NEW}) == (0, 2)
    assert trace.step({0: DONE}) == (0, 1)


def test_scaling() -> None:
    """Behaviour 147, case C89 run 3: plain scaling makes no surge; mid-rollout it keeps the partition."""
    assert plan(replicas=3, strategy=Strategy(0, 1, 2), current=Current(2, 0, 2), states={}, new_revision=False).replicas == 3
    mid = plan(replicas=6, strategy=Strategy(), current=Current(4, 3, 4), states={}, new_revision=False)
    assert (mid.partition, mid.replicas) == (3, 6)
    down = plan(replicas=2, strategy=Strategy(), current=Current(4, 3, 4), states={0: OLD, 1: OLD}, new_revision=False)
    assert (down.partition, down.replicas) == (2, 2)


def test_the_users_partition_holds() -> None:
    """Behaviour 146: groups below it stay old."""
    trace = Trace(4, Strategy(partition=2))
    trace.step(new_revision=True)
    trace.step({3: DONE})
    assert trace.step({2: DONE}) == (2, 4)


def test_no_leader_set_yet() -> None:
    """Step 1."""
    target = plan(replicas=3, strategy=Strategy(0, 1, 2), current=None, states={}, new_revision=True)
    assert (target.partition, target.replicas) == (0, 3)


@pytest.mark.parametrize(
    ("value", "total", "up", "expected"),
    [
        (2, 10, True, 2),
        ("25%", 10, True, 3),
        ("25%", 10, False, 2),
        ("100%", 7, False, 7),
        ("0%", 7, True, 0),
        ("abc", 7, True, 0),
    ],
)
def test_percentages(value: int | str, total: int, up: bool, expected: int) -> None:
    """Spec 2.4: surge rounds up, unavailable down."""
    assert scaled(value, total, up=up) == expected


def test_max_unavailable_of_the_set() -> None:
    """Spec 3.1."""
    assert max_unavailable_of_set(replicas=4, strategy=Strategy(0, 2, "200%")) == 6
    assert max_unavailable_of_set(replicas=4, strategy=Strategy(0, 0, 0)) == 1


@given(
    replicas=st.integers(1, 8),
    unavailable=st.integers(0, 4),
    surge=st.integers(0, 4),
    order=st.randoms(use_true_random=False),
)
def test_every_rollout_ends_and_keeps_its_promises(replicas: int, unavailable: int, surge: int, order: object) -> None:
    """Properties: the partition only goes down; without a surge at least R-U groups serve at any moment; it ends at
    (0, R) with all updated. (With one the reference algorithm does not look at whether the surge groups that stay are ready.)"""
    if unavailable == 0 and surge == 0:
        unavailable = 1
    trace = Trace(replicas, Strategy(0, unavailable, surge))
    last, _ = trace.step(new_revision=True)
    for _ in range(20 * replicas + 20):
        partition, size = trace.step()
        assert partition <= last
        last = partition
        for index in [index for index in trace.states if index >= size]:
            del trace.states[index]
        for index in range(replicas, size):
            trace.states.setdefault(index, NEW)
        taken = [index for index in range(partition, size) if trace.states.get(index, OLD) == OLD]
        for index in taken[-1:]:
            trace.states[index] = NEW
        ready = sum(1 for state in trace.states.values() if state.ready)
        assert surge or ready >= replicas - unavailable, "at least R-U groups serve"
        waiting = [index for index, state in trace.states.items() if state == NEW]
        if waiting:
            trace.states[order.choice(waiting)] = DONE  # type: ignore[attr-defined]  # hypothesis' Random
    assert (trace.target.partition, trace.target.replicas) == (0, replicas)
    assert all(trace.states[index] == DONE for index in range(replicas))
