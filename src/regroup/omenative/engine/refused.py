"""What the API server's refusals of pods make of the rows that were just written (spec/omenative.md 5.4, 6.1; cases C49,
C63-C65). Pure."""

from collections.abc import Sequence

import msgspec

from regroup.omenative.api.row import CREATING, RESTARTING, UPDATING, LastFailure, Row
from regroup.omenative.engine.clocks import QUOTA
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.failing import FAILED_EVENT, fail
from regroup.omenative.engine.retries import INVALID_POD
from regroup.omenative.outcome import Refusal

_MESSAGE = 512
_RULE = "ome 6.1"


def run(draft: Draft, refusals: Sequence[Refusal]) -> None:
    """Fold ``refusals`` into the rows. The first of an Instance that nothing can help with decides, else the first."""
    by_index: dict[int, Refusal] = {}
    for refusal in refusals:
        known = by_index.get(refusal.index)
        if known is None or (refusal.kind in _FINAL and known.kind not in _FINAL):
            by_index[refusal.index] = refusal
    for index, refusal in sorted(by_index.items()):
        row = draft.rows.get(index)
        if row is None or row.operation is None or row.phase not in {CREATING, RESTARTING, UPDATING}:
            continue
        _fold(draft, row, refusal)


_FINAL = frozenset({"Invalid", "QuotaForever"})


def _fold(draft: Draft, row: Row, refusal: Refusal) -> None:
    text = f"pod {refusal.pod} was refused: {refusal.message[:_MESSAGE]}"
    match refusal.kind:
        case "Invalid":
            failure = LastFailure(pod_name=refusal.pod, reason=INVALID_POD, message=refusal.message[:_MESSAGE], time=draft.stamp)
            fail(draft, row, text=text, failure=failure, cause=INVALID_POD, event="InstanceRejected")
        case "QuotaForever":
            failure = LastFailure(pod_name=refusal.pod, reason=QUOTA, message=refusal.message[:_MESSAGE], time=draft.stamp)
            fail(draft, row, text=f"{text} ({QUOTA}: no waiting helps)", failure=failure, cause=QUOTA, event=FAILED_EVENT)
        case "Quota":
            row = draft.tell_once(row, "InstanceQuotaBlocked", text, pod=refusal.pod)
            _wait(draft, row, text, hold=QUOTA)
        case "Webhook":
            row = draft.tell_once(row, "InstanceAdmissionUnavailable", text, pod=refusal.pod)
            _wait(draft, row, text)
        case _:
            row = draft.tell_once(row, "InstanceRejected", text, of=refusal.pod, pod=refusal.pod)
            _wait(draft, row, text)


def _wait(draft: Draft, row: Row, why: str, *, hold: str = "") -> None:
    """Ask again later. A temporary hold parks the deadline; during others it runs on."""
    operation = row.operation
    if operation is None:
        return
    operation = msgspec.structs.replace(operation, capacity_refused_at=draft.stamp)
    if hold and operation.waiting != "Paused":
        operation = msgspec.structs.replace(operation, waiting=hold, deadline=None)
    draft.put_operation(row, operation)
    draft.explain(row, _RULE, why)
    draft.wake_operation()
