"""Partition and replicas of the leader StatefulSet during a rollout (spec/leaderworkerset.md 6.2). Pure integers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group as a rollout sees it."""

    ready: bool = False
    """The leader runs and is ready, and so are all its workers."""
    updated: bool = False
    """Leader and worker set carry the current revision."""
    retained: bool = False
    """Its budget is used up and its pods are kept: it does not come back by itself."""

    @property
    def lost(self) -> bool:
        """Only the rollout itself brings it back: it is released once its turn comes (5.6.5)."""
        return self.retained and not self.updated and not self.ready

    @property
    def done(self) -> bool:
        return self.ready and self.updated


MISSING = GroupState()
"""A group without a leader or without its worker set."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """``spec.rolloutStrategy`` as it stands."""

    partition: int = 0
    max_unavailable: int | str = 1
    max_surge: int | str = 0


@dataclass(frozen=True, slots=True)
class Current:
    """The leader StatefulSet as it is now."""

    replicas: int
    partition: int
    wanted_replicas: int | None
    """The annotation ``replicas``: spec.replicas at the last apply; None when it is missing or unreadable."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the leader StatefulSet is to have, and why."""

    partition: int
    replicas: int
    why: str


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """An int-or-percent of ``total``: percents round up or down in exact integers. Nonsense counts as 0; admission refuses it."""
    if isinstance(value, int):
        return max(0, value)
    text = value.strip()
    if not text.endswith("%") or not text[:-1].isdigit():
        return int(text) if text.isdigit() else 0
    share = int(text[:-1]) * total
    return -(-share // 100) if up else share // 100


def plan(
    *, replicas: int, strategy: Strategy, current: Current | None, states: Mapping[int, GroupState], new_revision: bool
) -> Target:
    """Where the rollout goes next. ``states`` by index, absent ones count as missing; ``new_revision``: made in this pass."""
    target = _plan(replicas=replicas, strategy=strategy, current=current, states=states, new_revision=new_revision)
    if target.partition < strategy.partition:
        return Target(strategy.partition, target.replicas, f"{target.why}; held at the user's partition {strategy.partition}")
    return target


def max_unavailable_of_set(*, replicas: int, strategy: Strategy) -> int:
    """``updateStrategy.rollingUpdate.maxUnavailable`` of the leader StatefulSet (3.1)."""
    surge, unavailable = _limits(strategy, replicas)
    return max(1, unavailable + surge)


def _limits(strategy: Strategy, replicas: int) -> tuple[int, int]:
    """Surge and unavailable groups in numbers.

    A percentage that was fine for one count may be nothing for another, and scaling passes no admission: one group may then be
    unavailable, or the rollout would stand still for ever (case C108).
    """
    surge = min(scaled(strategy.max_surge, replicas, up=True), replicas)
    unavailable = scaled(strategy.max_unavailable, replicas, up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _plan(
    *, replicas: int, strategy: Strategy, current: Current | None, states: Mapping[int, GroupState], new_revision: bool
) -> Target:
    if current is None:
        return Target(0, replicas, "the leader set does not exist yet")
    running = current.replicas
    # Counted from what exists: replicas may be a million of which nothing is there yet.
    unready = replicas - sum(state.done for index, state in states.items() if 0 <= index < replicas)
    surge, unavailable = _limits(strategy, replicas)
    wanted = _wanted(replicas, surge=surge, unavailable=unavailable, unready=unready)
    if new_revision:
        return Target(min(replicas, running), replicas if running < replicas else wanted, "a new revision begins")
    if current.partition == 0 and running == replicas:
        return Target(0, replicas, "no rollout is under way")
    if running < replicas:
        return Target(current.partition, replicas, "scaling up")
    if current.wanted_replicas is not None and current.wanted_replicas != replicas:
        return Target(min(current.partition, replicas + surge), wanted, "scaled in the middle of a rollout")
    surge += max(0, running - replicas - surge)  # groups that stand in for lost ones
    lost = _lost(states, range(strategy.partition, min(replicas, current.partition)))
    target = _step(replicas, current, states, surge=surge, unavailable=unavailable, unready=unready)
    stands = (target.partition, target.replicas) == (current.partition, running)
    if lost and stands and all(_settled(states, running=running, partition=current.partition)):
        # Only the rollout can bring them back, and they use up its limit: groups of the new revision stand in for them until it
        # is over, in the room that their pods have left, so that no healthy group has to go for it (case C87).
        surge = max(surge, _limits(strategy, replicas)[0] + lost)
        return Target(current.partition, replicas + surge, f"{lost} retained group(s) wait for the rollout: others stand in")
    return target


def _step(
    replicas: int, current: Current, states: Mapping[int, GroupState], *, surge: int, unavailable: int, unready: int
) -> Target:
    running = current.replicas
    step = unavailable + surge - (replicas + surge - running)
    partition = min(_walk(states, running=running, step=step), current.partition)
    wanted = _wanted(replicas, surge=surge, unavailable=unavailable, unready=unready)
    return Target(partition, wanted, f"{unready} of {replicas} groups are not updated and ready")


def _wanted(replicas: int, *, surge: int, unavailable: int, unready: int) -> int:
    return replicas + max(0, unready - unavailable) if unready <= surge else replicas + surge


def _lost(states: Mapping[int, GroupState], indexes: range) -> int:
    """How many of these groups only the rollout brings back."""
    return sum(state.lost for index, state in states.items() if index in indexes)


def _settled(states: Mapping[int, GroupState], *, running: int, partition: int) -> Iterator[bool]:
    """For each group whether nothing is to be expected of it: it is ready, or lost and its turn has not come."""
    for index in range(running):
        state = states.get(index, MISSING)
        yield state.ready or (state.lost and index < partition)


def _walk(states: Mapping[int, GroupState], *, running: int, step: int) -> int:
    """The lowest partition that keeps the old, ready groups above the limit."""
    tail = 0
    while tail < running and states.get(running - 1 - tail, MISSING).done:
        tail += 1
    floor = max(0, running - tail - step)
    partition = 2 * floor - sum(state.ready for index, state in states.items() if 0 <= index < floor)
    for index in range(min(partition, running - 1), floor - 1, -1):
        state = states.get(index, MISSING)
        if state.ready and not state.updated:
            break
        partition = index
    return partition
