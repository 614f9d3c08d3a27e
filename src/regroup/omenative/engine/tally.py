"""The counts that a status gives: pods on each row, Instances on the whole (spec/omenative.md 1.2, 3.4). Pure.

Rows with an operation in flight keep the counts that were written last until they say something new: every pod that comes and
goes during a restart would cost a write, and nobody acts on a number in between.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from regroup.omenative.api.row import CREATING, DELETING, RESTARTING, UPDATING, Row
from regroup.omenative.engine import repair
from regroup.omenative.engine.draft import Draft
from regroup.omenative.pods import podcounts
from regroup.omenative.pods.podcounts import PodCounts

_IN_FLIGHT = frozenset({CREATING, DELETING, RESTARTING, UPDATING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Instances by state. An Instance counts when all its pods do."""

    replicas: int = 0
    ready: int = 0
    serving: int = 0
    available: int = 0
    updated: int = 0
    updated_ready: int = 0


def run(draft: Draft) -> Totals:
    """Bring the counts of all rows up to date; gives what they sum up to."""
    ready = 0
    updated_ready = 0
    for before in draft.ordered():
        found = _count(draft, before)
        desired = draft.desired_pods(before)
        row = _published(draft, before, found, desired=desired)
        # While an operation runs, "ready" is told when it serves: the pass in between is not worth a write.
        is_ready = (row.serving_pod_count if row.phase in _IN_FLIGHT else found.ready) >= desired
        ready += is_ready
        updated_ready += is_ready and row.running_revision == draft.plan.target
    rows = draft.ordered()
    return Totals(
        replicas=len(rows),
        ready=ready,
        serving=_full(draft, rows, [row.serving_pod_count for row in rows]),
        available=_full(draft, rows, [row.available_pod_count for row in rows]),
        updated=sum(row.running_revision == draft.plan.target for row in rows),
        updated_ready=updated_ready,
    )


def _full(draft: Draft, rows: Iterable[Row], counts: Iterable[int]) -> int:
    return sum(count >= draft.desired_pods(row) for row, count in zip(rows, counts, strict=True))


def _count(draft: Draft, row: Row) -> PodCounts:
    members = draft.members(row)
    # Pods of the incarnation that a restart ends are on their way out: they serve the Instance no more.
    replaced = row.phase == RESTARTING or repair.updating_offline(row)
    current = members.at(row.incarnation) if replaced else members.own
    if draft.plan.min_ready:
        draft.wake_at(podcounts.available_from(current, min_ready=draft.plan.min_ready, now=draft.now))
    return podcounts.count(
        members.own,
        current=() if row.phase == DELETING else current,
        listed=draft.view.headless_listed,
        min_ready=draft.plan.min_ready,
        now=draft.now,
    )


def _published(draft: Draft, row: Row, found: PodCounts, *, desired: int) -> Row:
    """The row with its counts, or as it was where they are not worth a write of their own."""
    new = msgspec.structs.replace(
        row,
        pod_count=found.pods,
        serving_pod_count=found.serving,
        available_pod_count=found.available,
        admitted=found.admitted,
    )
    if row == draft.before.get(row.index) and row.phase in _IN_FLIGHT and not _telling(row, found, desired=desired):
        return row
    return draft.put(new) if new != row else row


def _telling(row: Row, found: PodCounts, *, desired: int) -> bool:
    """Whether counts of an Instance at work say something that somebody acts on: it serves in full, or no longer does; or a gang
    that is being made is complete (T8 asks for that)."""
    serves = found.settled >= desired if row.serving_pod_count < desired else found.serving >= desired
    if serves != (row.serving_pod_count >= desired):
        return True
    return row.phase == CREATING and found.pods >= desired > row.pod_count
