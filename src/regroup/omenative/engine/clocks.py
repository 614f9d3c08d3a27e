"""The clocks of an operation: deadline, stuck pod, unschedulable, and the holds that park the deadline (spec/omenative.md 3.6).
Pure.

No clock fails an Instance whose pods all serve. All times are on the row or on the pods, so a restart of the operator stops none.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from regroup.omenative.api.row import CREATING, RESTARTING, UPDATING, LastFailure, Operation, Row
from regroup.omenative.engine import build
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.failing import fail
from regroup.omenative.engine.updates import pacing, surge
from regroup.omenative.pods import evidence, last_failure
from regroup.omenative.pods.evidence import Stuck
from regroup.omenative.view import InstancePod

PAUSED = "Paused"
QUOTA = "QuotaExceeded"
NODE_UNKNOWN = "NodeUnknown"
GROUP_TERMINATING = "PodGroupTerminating"
GATED = "SchedulingGated"
DEADLINE = "DeadlineExceeded"
_RUNNING = frozenset({CREATING, RESTARTING, UPDATING})


def run(draft: Draft) -> None:
    """Park, re-arm and read the clocks of every operation in flight."""
    draft.each([row for row in draft.ordered() if row.phase in _RUNNING], _tick)


def being_made(draft: Draft, row: Row) -> tuple[InstancePod, ...]:
    """The pods that the operation has made so far. While pods that it replaces are left there are none: those that do not go are
    caught by the deadline alone (4.6)."""
    operation, members = row.operation, draft.members(row)
    step = operation.step if operation is not None else ""
    if step in {pacing.SURGE, pacing.SURGE_DRAIN}:
        wanted = operation.target_revision if operation is not None else ""
        return surge.new_pods(draft, row, wanted)
    if step == pacing.IN_PLACE:
        # A pod that is not patched yet may hang for what the update is to mend.
        patched = draft.shapes.hash_of(operation.target_revision) if operation is not None else ""
        return tuple(pod for pod in members.at(row.incarnation) if pod.revision_hash == patched)
    if row.phase == CREATING:
        return members.at(row.incarnation)
    return () if members.before(row.incarnation) else members.at(row.incarnation)


def _to_be_made(draft: Draft, row: Row, operation: Operation) -> int:
    """How many pods the operation is to make."""
    if row.phase == UPDATING and operation.step != pacing.IN_PLACE:
        return len(draft.shapes.slots(row, operation.target_revision))
    return draft.desired_pods(row)


def _tick(draft: Draft, row: Row) -> None:
    operation = row.operation
    if operation is None or operation.step == pacing.GANG_SURGE:
        # The source of a gang's surge serves on; the clock is its replacement's.
        return
    pods = being_made(draft, row)
    desired = _to_be_made(draft, row, operation)
    hold = _hold(draft, row, operation, pods, desired=desired)
    operation = _parked(draft, operation, hold)
    row = draft.put_operation(row, operation)
    if evidence.fully_serves(pods, desired=desired):
        return
    since = operation.last_progress_at if operation.step == pacing.IN_PLACE else None
    for found in (
        evidence.stuck(pods, grace=draft.plan.grace, since=since),
        evidence.unschedulable(pods, grace=draft.plan.unschedulable_grace),
    ):
        if found is None:
            continue
        if draft.now >= found.due:
            _stuck(draft, row, found)
            return
        draft.wake_at(found.due)
    if operation.deadline is not None:
        if draft.now >= operation.deadline:
            _expired(draft, row, operation, pods)
            return
        draft.wake_at(operation.deadline)


def _hold(draft: Draft, row: Row, operation: Operation, pods: Sequence[InstancePod], *, desired: int) -> str:
    """Why the deadline does not run; empty when it does."""
    if draft.plan.paused:
        return PAUSED
    if operation.waiting == QUOTA and len(pods) < desired:
        return QUOTA
    revision = operation.target_revision or row.running_revision
    if len(pods) < desired and build.group_state(draft, row, revision=revision) == build.TERMINATING:
        return GROUP_TERMINATING
    if evidence.on_silent_node(pods, draft.view.nodes) is not None:
        return NODE_UNKNOWN
    if evidence.gated(pods) is not None:
        return GATED
    # Without a grace of its own there is no other clock for it: then the deadline runs on (seed: "A restart has until ...").
    if draft.plan.unschedulable_grace is not None and evidence.unschedulable(pods, grace=0.0) is not None:
        return evidence.UNSCHEDULABLE
    return ""


def _parked(draft: Draft, operation: Operation, hold: str) -> Operation:
    """The operation with its deadline taken off during a hold, and a full window when the hold is over."""
    if hold:
        return msgspec.structs.replace(operation, waiting=hold, deadline=None)
    if operation.waiting or operation.deadline is None:
        return msgspec.structs.replace(operation, waiting="", deadline=_full_window(draft, operation))
    return operation


def _full_window(draft: Draft, operation: Operation) -> datetime | None:
    if operation.deadline is not None and not operation.waiting:
        return operation.deadline
    return draft.deadline()


def _stuck(draft: Draft, row: Row, found: Stuck) -> None:
    pod = found.pod
    failure = last_failure.read([pod], now=draft.now) or LastFailure(
        pod_name=pod.name, reason=found.reason, message=found.message, time=draft.stamp
    )
    grace = "unschedulable" if found.reason == evidence.UNSCHEDULABLE else "stuck-pod"
    text = f"pod {pod.name} stuck in {found.reason} past the {grace} grace"
    fail(draft, row, text=text, failure=failure, cause=found.reason)


def _expired(draft: Draft, row: Row, operation: Operation, pods: Sequence[InstancePod]) -> None:
    what = f"{operation.type}/{operation.step} exceeded InstanceReadyTimeout"
    found = last_failure.read(pods, now=draft.now)
    text = f"{DEADLINE}: {what}" + (f"; {last_failure.sentence(found)}" if found is not None else "")
    failure = found or LastFailure(reason=DEADLINE, message=what, time=draft.stamp)
    waiting = evidence.stuck(pods, grace=0.0)
    fail(draft, row, text=text, failure=failure, cause=waiting.reason if waiting is not None else DEADLINE)
