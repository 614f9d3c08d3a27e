"""An InferenceReplica that is being deleted: its pods are drained and deleted, then it may go (spec/omenative.md 5.7). Pure."""

from datetime import datetime, timedelta

import msgspec

from regroup.omenative.api.row import DELETING, Row
from regroup.omenative.engine import drain
from regroup.omenative.engine.draft import Draft
from regroup.omenative.keys import TEARDOWN_FINALIZER
from regroup.omenative.outcome import OF_REPLICA, DropFinalizer
from regroup.omenative.pods import gate
from regroup.omenative.view import InstancePod

RULE = "ome 5.7"
_LEEWAY = 30.0
"""Seconds past a pod's own grace before it is told that it does not go."""


def run(draft: Draft) -> None:
    """One step. Nothing is made any more. Past the deadline the drain is not waited for (a reading: the spec only tells it)."""
    ended = _deadline(draft)
    late = ended is not None and draft.now >= ended
    left = False
    indices = sorted({*draft.rows, *draft.indices_with_pods})
    for index in indices:
        row = draft.rows.get(index) or Row(index=index)
        pods = [pod for pod in draft.pods(index) if pod.incarnation is not None]
        if not pods:
            if index in draft.rows:
                draft.drop(index)
            continue
        left = True
        if index in draft.rows and row.phase != DELETING:
            row = draft.put(msgspec.structs.replace(row, phase=DELETING, operation=None))
        waits_for = drain.take_out(draft, row, pods, hold=(gate.DELETE_DRAIN, str(index)), force=late)
        draft.explain(row, RULE, f"the component is being deleted; waits for {waits_for}")
        if index in draft.rows:
            row = _tell(draft, row, pods, late=late, waits_for=waits_for)
    if left:
        draft.wake_operation()
        if not late:
            draft.wake_at(ended)
        return
    if TEARDOWN_FINALIZER in draft.view.replica.metadata.finalizers:
        draft.act(DropFinalizer(index=OF_REPLICA, name=TEARDOWN_FINALIZER))


def _tell(draft: Draft, row: Row, pods: list[InstancePod], *, late: bool, waits_for: str) -> Row:
    if late:
        row = draft.tell_once(row, "TeardownDeadlineExceeded", f"is not gone within the teardown deadline; waits for {waits_for}")
    blocked = [pod for pod in pods if _overdue(pod, draft.now)]
    if blocked:
        what = blocked[0].metadata.finalizers
        why = f"finalizer {what[0][:128]}" if what else f"node {blocked[0].spec.node_name or 'unknown'}"
        text = f"cannot go: pod {blocked[0].name} is past its grace and is held by {why}"
        row = draft.tell_once(row, "TeardownBlocked", text, pod=blocked[0].name)
    return row


def _overdue(pod: InstancePod, now: datetime) -> bool:
    """Its deletionTimestamp has the grace in it already."""
    gone = pod.metadata.deletion_timestamp
    return gone is not None and now >= gone + timedelta(seconds=_LEEWAY)


def _deadline(draft: Draft) -> datetime | None:
    began, limit = draft.view.replica.metadata.deletion_timestamp, draft.view.settings.live.teardown_deadline
    return began + timedelta(seconds=limit) if began is not None and limit is not None else None
