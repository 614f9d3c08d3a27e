"""Counts and conditions of a LeaderWorkerSet in Hash mode (spec/leaderworkerset.md 7.4). Pure.

Here a Deployment makes and rolls the leaders, so what it has observed bounds what may be claimed: never Available on its old
figures (behaviour 153).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from regroup.kube.meta import Condition, find_condition
from regroup.leaderworkerset.groups.members import MEMBERS_CONDITION, parse_record
from regroup.leaderworkerset.status.ordinal import (
    GroupFacts,
    Sums,
    Tally,
    all_conditions,
    available_phase,
    degraded_phase,
    exceeded,
    progressing_phase,
    updating_phase,
)


@dataclass(frozen=True, slots=True)
class WantedHash:
    """What the spec asks for. ``revision``: the key that it is at; ``rolling``: earlier revisions are still kept."""

    replicas: int
    generation: int
    revision: str
    rolling: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What the leader Deployment says of itself."""

    revision: str
    """The revision key that it carries."""
    observed: bool
    """Its status is of its present generation."""
    replicas: int
    updated: int
    ready: int


@dataclass(slots=True)
class _Sums(Sums):
    ready: int = 0
    updated: int = 0
    outdated: int = 0
    """Leaders of earlier revisions that are not on their way out."""
    ready_exhausted: int = 0
    """Marked, and still ready for the moment."""


def tally_hash(
    wanted: WantedHash,
    groups: Iterable[GroupFacts],
    report: Report | None,
    *,
    old: Sequence[Condition],
    now: datetime,
    also: Sequence[Condition] = (),
) -> Tally:
    """Everything that the status says of the groups. ``report`` is None while there is no Deployment; ``also`` are conditions
    of others' making."""
    sums = _sum(groups, old)
    seen = report or Report("", observed=False, replicas=0, updated=0, ready=0)
    # Our own look knows first of what breaks, the Deployment last of what is mended: the lower of both is written once each way.
    ready = min(sums.ready, max(0, seen.ready - sums.ready_exhausted))
    carried = report is not None and seen.revision == wanted.revision
    current = carried and seen.observed and not sums.outdated and sums.updated >= wanted.replicas
    settled = seen.replicas == seen.updated == sums.updated == seen.ready == ready == wanted.replicas
    available = current and settled and not sums.degraded
    behind = wanted.rolling and not current
    updating = report is not None and (sums.outdated > 0 or not carried or behind)
    moving = ready + sums.degraded < max(wanted.replicas, seen.replicas)
    if updating:
        moves = moving or not sums.degraded
        phase = updating_phase(moving=moves, stuck_because=exceeded(sums))
    elif available:
        phase = available_phase()
    elif sums.degraded:
        phase = degraded_phase(sums, moving=moving)
    else:
        phase = progressing_phase()
    conditions = all_conditions(phase, sums, also=also, old=old, generation=wanted.generation, now=now)
    return Tally(ready=ready, updated=sums.updated, conditions=conditions, update_done=available)


def _sum(groups: Iterable[GroupFacts], old: Sequence[Condition]) -> _Sums:
    remembered = find_condition(old, MEMBERS_CONDITION)
    record = parse_record(remembered.message) if remembered is not None else {}
    sums = _Sums()
    for group in groups:
        sums.add(group, record)
        sums.unschedulable += group.unschedulable
        sums.ready += group.state.ready and not group.exhausted
        sums.ready_exhausted += group.leader_ready and group.exhausted
        if group.exists and not group.leaving:
            sums.updated += group.at_revision
            sums.outdated += not group.at_revision
    return sums
