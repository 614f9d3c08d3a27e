"""Conditions of an InferenceReplica (spec/omenative.md 6.2). Pure."""

from collections.abc import Sequence

from regroup.kube.meta import Condition, find_condition
from regroup.omenative.api import durations
from regroup.omenative.api.row import FAILED, UPDATING
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.tally import Totals
from regroup.omenative.engine.updates import pacing
from regroup.runtime.conditions import set_conditions

READY, STALLED, OVERDUE = "Ready", "RolloutStalled", "DrainOverdue"
NO_GANGS, NO_TIMEOUT = "GangSchedulingUnavailable", "InstanceReadyTimeoutUnconfigured"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
_NAMED = 8


def run(draft: Draft, totals: Totals, *, overdue: Sequence[int]) -> tuple[Condition, ...]:
    """All conditions as they are to stand. Tells once that no timeout is set."""
    before = draft.view.replica.status.conditions
    wanted = [_ready(draft, totals), _stalled(draft), _overdue(overdue), _timeout(draft)]
    if draft.plan.multi_pod:
        wanted.append(_gangs(draft))
    generation = draft.view.replica.metadata.generation
    wanted = [_observed(condition, generation) for condition in wanted]
    timeout = wanted[3]
    known = find_condition(before, NO_TIMEOUT)
    if timeout.status == TRUE and (known is None or known.status != TRUE):
        draft.tell_replica(NO_TIMEOUT, timeout.message, warning=True)
    return set_conditions(before, wanted, now=draft.now)


def least_serving(draft: Draft) -> int:
    """How many Instances must serve (4.13)."""
    most = draft.plan.max_unavailable
    return draft.plan.desired if most is None else max(0, draft.plan.desired - most)


def _ready(draft: Draft, totals: Totals) -> Condition:
    """The first row of the table that is true."""
    rows = draft.ordered()
    target, desired, least = draft.plan.target, draft.plan.desired, least_serving(draft)
    off = [row for row in rows if pacing.off_target(draft, row)]
    rolling = [row for row in off if not pacing.staged(draft, row)] + [row for row in rows if row.phase == UPDATING]
    if any(row.phase == FAILED for row in rows):
        return _condition(READY, FALSE, "InstanceFailed", "At least one Instance has Phase=Failed")
    if off and not rolling:
        text = f"Staged at partition {draft.plan.partition}: {totals.updated}/{len(rows)} Instances on {target}, "
        return _condition(READY, TRUE, "Staged", f"{text}{len(off)} held on the prior revision")
    if rolling:
        text = f"Rolling out {target} ({totals.updated}/{len(rows)} Instances on target)"
        return _condition(READY, UNKNOWN, "RolloutInProgress", text)
    if not desired:
        return _condition(READY, FALSE, "NoReplicas", "InferenceReplica has no desired Instances")
    if len(rows) == desired and min(totals.ready, totals.serving) >= desired:
        return _condition(READY, TRUE, "AllInstancesReady", f"{totals.ready}/{desired} Instances Ready")
    if len(rows) == desired and totals.serving >= least:
        text = f"{totals.serving}/{desired} Instances serving (min {least})"
        return _condition(READY, TRUE, "MinimumAvailable", text)
    text = f"{totals.serving}/{desired} Instances serving, need {least} (no rollout in flight)"
    return _condition(READY, FALSE, "ReplicaCountMismatch", text)


def _stalled(draft: Draft) -> Condition:
    rows = draft.ordered()
    failed = [row.index for row in rows if row.phase == FAILED]
    rolling = any(pacing.off_target(draft, row) and not pacing.staged(draft, row) for row in rows)
    if failed and rolling:
        return _condition(STALLED, TRUE, "InstancesFailing", f"Instances {_listed(failed)} have Phase=Failed during a rollout")
    return _condition(STALLED, FALSE, "Progressing", "No Instance holds up a rollout")


def _overdue(overdue: Sequence[int]) -> Condition:
    if overdue:
        return _condition(OVERDUE, TRUE, "DrainsOverdue", f"Instances {_listed(overdue)} are still draining")
    return _condition(OVERDUE, FALSE, "DrainsWithinDeadline", "No drain is overdue")


def _timeout(draft: Draft) -> Condition:
    timeout = draft.plan.timeout
    if timeout is None:
        text = "no instanceReadyTimeout is set: creates, updates and restarts of Instances never expire"
        return _condition(NO_TIMEOUT, TRUE, NO_TIMEOUT, text)
    text = f"Instance readiness deadline is {durations.format_seconds(timeout)}"
    return _condition(NO_TIMEOUT, FALSE, "InstanceReadyTimeoutConfigured", text)


def _gangs(draft: Draft) -> Condition:
    if draft.view.gang_api:
        return _condition(NO_GANGS, FALSE, "GangSchedulingAvailable", "PodGroups are served by this cluster")
    return _condition(NO_GANGS, TRUE, "PodGroupCRDNotInstalled", "This cluster serves no PodGroups: pods are placed one by one")


def _condition(kind: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message)


def _observed(condition: Condition, generation: int) -> Condition:
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        observed_generation=generation,
    )


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(str(index) for index in indices[:_NAMED]) + (", ..." if len(indices) > _NAMED else "")
