"""Counts and conditions of a LeaderWorkerSet in Ordinal mode (spec/leaderworkerset.md 2.8, 7); Hash is ``status_hash``. Pure.

Takes one small value a group, so that the status of a thousand groups costs a walk over a thousand values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from regroup.kube.meta import Condition, find_condition
from regroup.leaderworkerset.groups.members import (
    MEMBERS_CONDITION,
    MEMBERS_REASON,
    Entry,
    carried_over,
    format_record,
    parse_record,
)
from regroup.leaderworkerset.objects.rollout import MISSING, GroupState
from regroup.runtime.conditions import set_conditions

AVAILABLE, PROGRESSING, UPDATING, DEGRADED = "Available", "Progressing", "UpdateInProgress", "Degraded"
SCHEDULING = "WorkloadSchedulingCreated"
"""Of a LeaderWorkerSet with ``spec.scheduling``: whether the scheduler's objects exist. Says nothing of health."""
ALL_READY, GROUPS_PROGRESSING, GROUPS_UPDATING = "AllGroupsReady", "GroupsProgressing", "GroupsUpdating"
UNSCHEDULABLE, EXCEEDED, AS_EXPECTED = "GroupUnschedulable", "ReplicaRestartBudgetExceeded", "AsExpected"
_NAMED = 4
"""Groups that a message names at most."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What the status needs to know of one group."""

    index: int
    name: str = ""
    """How the record of members names it."""
    exists: bool = False
    """Its leader exists."""
    leaving: bool = False
    """Its leader is being deleted."""
    leader_ready: bool = False
    """Its leader alone is ready and not being deleted."""
    at_revision: bool = False
    """Its leader carries the current revision."""
    state: GroupState = MISSING
    on_revision: bool = False
    """What exists of it carries the current revision: counted in ``updatedReplicas``, ready or not."""
    has_workers: bool = True
    """Its worker set exists, or it needs none."""
    exhausted: bool = False
    unschedulable: bool = False
    """Its leader is not deleting and cannot be placed."""
    incarnation: str = ""
    """Digest of its leader, empty without one or where nothing is remembered."""
    entry: Entry | None = None
    """Its members, once it is complete and where they are remembered."""
    blocked: str = ""
    """What a terminating group waits for, where a person should know (Q29)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the spec asks for."""

    replicas: int
    partition: int
    generation: int


@dataclass(frozen=True, slots=True)
class Tally:
    """The status, and whether the rollout is completely done (which lets old revisions and counters go)."""

    ready: int
    updated: int
    conditions: Sequence[Condition]
    update_done: bool


def tally(
    wanted: Wanted, groups: Iterable[GroupFacts], *, old: Sequence[Condition], now: datetime, also: Sequence[Condition] = ()
) -> Tally:
    """Everything that the status says of the groups. ``old``: the conditions as they stand; ``also``: ours that do not come from
    the groups.

    Foreign conditions are kept as they are; none of ours is ever left out.
    """
    remembered = find_condition(old, MEMBERS_CONDITION)
    sums = _sum(wanted, groups, parse_record(remembered.message) if remembered is not None else {})
    return Tally(
        ready=sums.ready,
        updated=sums.updated,
        conditions=all_conditions(_phase(wanted, sums), sums, also=also, old=old, generation=wanted.generation, now=now),
        update_done=wanted.partition == 0 and sums.done == wanted.replicas,
    )


@dataclass(slots=True)
class Sums:
    """What both identity modes say of groups besides their phase."""

    degraded: int = 0
    unschedulable: int = 0
    record: dict[str, Entry] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)

    def add(self, group: GroupFacts, remembered: Mapping[str, Entry]) -> None:
        """One more group. Whether it is unschedulable is for the caller to count, who knows which groups are desired."""
        self.degraded += group.exhausted
        name = group.name or str(group.index)
        entry = carried_over(remembered, name=name, incarnation=group.incarnation, seen=group.entry)
        if entry is not None and group.incarnation:
            self.record[name] = entry
        if group.blocked:
            self.blocked.append(f"group {name}: {group.blocked}")


def all_conditions(
    phase: Sequence[Condition],
    sums: Sums,
    *,
    also: Sequence[Condition],
    old: Sequence[Condition],
    generation: int,
    now: datetime,
) -> Sequence[Condition]:
    """The conditions as they are to stand: phase, Degraded, the record of members and ``also`` over the ``old`` ones."""
    conditions = [*_explained(phase, sums), _degraded(sums), *also]
    if sums.record or find_condition(old, MEMBERS_CONDITION) is not None:
        conditions.append(condition_of(MEMBERS_CONDITION, MEMBERS_REASON, format_record(sums.record), status=True))
    stamped = [msgspec.structs.replace(condition, observed_generation=generation) for condition in conditions]
    return set_conditions(old, stamped, now=now)


@dataclass(slots=True)
class _Sums(Sums):
    ready: int = 0
    updated: int = 0
    done: int = 0
    """Desired groups that are updated and ready."""
    ready_desired: int = 0
    degraded_desired: int = 0
    current: int = 0
    """From the partition up: groups that exist with their worker set."""
    current_updated: int = 0
    current_done: int = 0


def _sum(wanted: Wanted, groups: Iterable[GroupFacts], remembered: Mapping[str, Entry]) -> _Sums:
    sums = _Sums()
    for group in groups:
        ready = group.state.ready and not group.exhausted
        sums.ready += ready
        sums.updated += group.on_revision
        sums.add(group, remembered)
        if group.index >= wanted.replicas:
            continue
        sums.ready_desired += ready
        sums.degraded_desired += group.exhausted
        sums.done += ready and group.state.updated
        sums.unschedulable += group.unschedulable
        if group.index >= wanted.partition and group.exists and group.has_workers:
            sums.current += 1
            sums.current_updated += group.state.updated
            sums.current_done += ready and group.state.updated
    return sums


def _phase(wanted: Wanted, sums: _Sums) -> list[Condition]:
    if sums.current_updated < sums.current:
        return updating_phase()
    if sums.ready_desired == wanted.replicas and sums.current_done == sums.current and not sums.degraded:
        return available_phase()
    if sums.degraded:
        return degraded_phase(sums, moving=sums.ready_desired + sums.degraded_desired < wanted.replicas)
    return progressing_phase()


# Available, Progressing and UpdateInProgress by 7.3 and 7.4: the first excludes the others. A False one says why it is False.


def updating_phase(*, moving: bool = True, stuck_because: str = "") -> list[Condition]:
    """A rollout runs; not ``moving``: it cannot go on, ``stuck_because``."""
    why = "A rolling update is in progress"
    return [
        condition_of(AVAILABLE, GROUPS_UPDATING, why, status=False),
        _moving() if moving else condition_of(PROGRESSING, EXCEEDED, stuck_because, status=False),
        condition_of(UPDATING, GROUPS_UPDATING, why, status=True),
    ]


def available_phase() -> list[Condition]:
    """All that is wanted is ready."""
    why = "All replicas are ready"
    return [
        condition_of(AVAILABLE, ALL_READY, why, status=True),
        condition_of(PROGRESSING, GROUPS_PROGRESSING, why, status=False),
        condition_of(UPDATING, GROUPS_UPDATING, why, status=False),
    ]


def degraded_phase(sums: Sums, *, moving: bool) -> list[Condition]:
    """A group used up its budget; ``moving``: others still come up."""
    why = exceeded(sums)
    return [
        condition_of(AVAILABLE, EXCEEDED, why, status=False),
        _moving() if moving else condition_of(PROGRESSING, EXCEEDED, why, status=False),
        condition_of(UPDATING, EXCEEDED, why, status=False),
    ]


def progressing_phase() -> list[Condition]:
    """Something still comes up, at the revision that everything is at."""
    return [
        condition_of(AVAILABLE, GROUPS_PROGRESSING, "Replicas are progressing", status=False),
        _moving(),
        condition_of(UPDATING, GROUPS_PROGRESSING, "No rolling update is in progress", status=False),
    ]


def _moving() -> Condition:
    return condition_of(PROGRESSING, GROUPS_PROGRESSING, "Replicas are progressing", status=True)


def _explained(conditions: Sequence[Condition], sums: Sums) -> list[Condition]:
    """Progressing says what holds it up, where that is known: leaders that cannot be placed, members that cannot go."""
    return [_reasoned(condition, sums) if condition.type == PROGRESSING else condition for condition in conditions]


def _reasoned(progressing: Condition, sums: Sums) -> Condition:
    if progressing.status != "True":
        return progressing
    blocked = "; ".join(sorted(sums.blocked)[:_NAMED])
    if sums.unschedulable:
        many = "replica" if sums.unschedulable == 1 else "replicas"
        message = f"{sums.unschedulable} {many} cannot be scheduled: the leader pod is unschedulable"
        message = f"{message}; {blocked}" if blocked else message
        return msgspec.structs.replace(progressing, reason=UNSCHEDULABLE, message=message)
    return msgspec.structs.replace(progressing, message=blocked) if blocked else progressing


def _degraded(sums: Sums) -> Condition:
    if sums.degraded:
        return condition_of(DEGRADED, EXCEEDED, exceeded(sums), status=True)
    return condition_of(DEGRADED, AS_EXPECTED, "No replica has used up its restart budget", status=False)


def exceeded(sums: Sums) -> str:
    """For a person."""
    many = "replica has" if sums.degraded == 1 else "replicas have"
    return f"{sums.degraded} {many} used up the restart budget"


def condition_of(kind: str, reason: str, message: str, *, status: bool) -> Condition:
    """A condition without time and generation."""
    return Condition(type=kind, status="True" if status else "False", reason=reason, message=message)
