"""One pass over an InferenceReplica, in the order of the spec, and what becomes of refusals (spec/omenative.md 3.3). Pure.

Level-triggered: every step is derived anew from the rows and the live pods. The rows of ``Outcome.status`` are final for the
pass; its actions hold once they are written. What goes wrong with one step is a problem of that step and stops no other.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from regroup.omenative.api.replica import InferenceReplicaStatus, RolloutHold
from regroup.omenative.api.row import Row
from regroup.omenative.engine import announced, clocks, conditions, create, plan, reset, restart, retries, scale, tally, teardown
from regroup.omenative.engine import refused as refusing
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.updates import rollout
from regroup.omenative.objects.instances import component_selector
from regroup.omenative.outcome import Outcome, Refusal
from regroup.omenative.view import ReplicaView


def run(view: ReplicaView) -> Outcome:
    """The whole pass. A settled replica's outcome has the status that stands, and no action."""
    draft = Draft(view, plan.make(view))
    if view.replica.metadata.deleting:
        teardown.run(draft)
        return _outcome(draft, view.replica.status)
    if unreadable := view.replica.status.unreadable:
        return _refuse(draft, unreadable)
    reset.run(draft)
    retries.release(draft)
    scale.adopt(draft)
    scale.mend(draft)
    clocks.run(draft)
    new = scale.run(draft)
    restarting = restart.run(draft)
    hold = rollout.run(draft, start=not restarting, new=new)
    create.run(draft, new)
    restart.explain_ready(draft)
    return _outcome(draft, view.replica.status, hold=hold)


def _refuse(draft: Draft, unreadable: str) -> Outcome:
    """Rows that cannot be read: to go on as if there were none would start over what is failed, held or under way."""
    draft.tell_replica("InstanceRowsUnreadable", f"nothing is done until its rows can be read: {unreadable}", warning=True)
    status = draft.view.replica.status
    return Outcome(status=status, events=tuple(draft.events), problems=(*draft.problems, unreadable))


def refused(view: ReplicaView, status: InferenceReplicaStatus, refusals: Sequence[Refusal]) -> Outcome:
    """What the API server refused, folded into the rows of ``status``, which the pass over ``view`` has just written."""
    replica = msgspec.structs.replace(view.replica, raw_status=status)
    draft = Draft(replace(view, replica=replica), plan.make(view))
    refusing.run(draft, refusals)
    return _outcome(draft, status, hold=status.rollout_hold)


def _outcome(draft: Draft, before: InferenceReplicaStatus, *, hold: RolloutHold | None = None) -> Outcome:
    """The draft as an outcome: counts, conditions, and the rows in order."""
    totals = tally.run(draft)
    retries.prune(draft)
    rows = tuple(_tidy(draft, row) for row in draft.ordered())
    target = draft.plan.target
    current = before.current_revision or target
    if rows and all(row.running_revision == target for row in rows):
        current = target
    status = msgspec.structs.replace(
        before,
        observed_generation=draft.view.replica.metadata.generation,
        replicas=totals.replicas,
        ready_replicas=totals.ready,
        serving_replicas=totals.serving,
        available_replicas=totals.available,
        updated_replicas=totals.updated,
        updated_ready_replicas=totals.updated_ready,
        current_revision=current,
        update_revision=target,
        label_selector=component_selector(draft.view.replica),
        raw_rows=rows or None,
        raw_encoding=None,
        raw_columns=None,
        raw_retry_blocks=tuple(draft.blocks[name] for name in sorted(draft.blocks)) or None,
        rollout_hold=hold,
        raw_conditions=conditions.run(draft, totals, overdue=scale.overdue(draft)) or None,
    )
    return Outcome(
        status=status,
        actions=tuple(draft.actions),
        events=tuple(draft.events),
        reasons=tuple(draft.reasons[index] for index in sorted(draft.reasons)),
        wake=draft.wake,
        problems=tuple(draft.problems),
    )


def _tidy(draft: Draft, row: Row) -> Row:
    """A row that is written anyway loses the marks of episodes that are over."""
    return row if row == draft.before.get(row.index) else announced.pruned(row)
