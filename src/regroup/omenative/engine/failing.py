"""An Instance becomes Failed: what is kept of it, and what is told (spec/omenative.md 4.6, 5.4). Pure."""

import msgspec

from regroup.omenative.api.lifecycle import SURGE_THEN_DRAIN
from regroup.omenative.api.row import FAILED, RESTART, UPDATE, LastFailure, Operation, Row
from regroup.omenative.engine import retries
from regroup.omenative.engine.draft import Draft

FAILED_EVENT = "InstanceFailed"


def fail(draft: Draft, row: Row, *, text: str, failure: LastFailure, cause: str, event: str = FAILED_EVENT) -> Row:
    """The row in phase Failed. Its pods stay. ``cause``: the reason that decides whether the revision is to blame.

    A restart keeps its operation for inspection (seed), and so does an update that took a whole gang down; other operations are
    over, and the ladder of their revision decides when they are tried again.
    """
    operation = row.operation
    draft.decided.add(row.index)
    draft.tell(row, event, text, warning=True, pod=failure.pod_name)
    kept = operation if operation is not None and _kept(draft, operation) else None
    if operation is not None and operation.type != RESTART:
        retries.failed(draft, operation.target_revision, reason=cause, began=operation.started_at)
    draft.explain(row, "ome T11" if kept else "ome T3", text)
    return draft.put(msgspec.structs.replace(row, phase=FAILED, operation=kept, last_failure=failure))


def _kept(draft: Draft, operation: Operation) -> bool:
    if operation.type == RESTART:
        return True
    return operation.type == UPDATE and draft.plan.multi_pod and operation.strategy != SURGE_THEN_DRAIN
