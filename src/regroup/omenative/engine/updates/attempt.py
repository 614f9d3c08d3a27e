"""One attempt at an update: its beginning, a change of its goal on the way, and giving it up (spec/omenative.md 5.2, 5.4).
Pure."""

import msgspec

from regroup.omenative.api.row import READY, UPDATE, UPDATING, Row
from regroup.omenative.engine import retries
from regroup.omenative.engine.draft import Draft


def begin(draft: Draft, row: Row, *, step: str, strategy: str, new_incarnation: bool = False) -> Row:
    """The row in phase Updating towards the wanted revision. What is pinned now holds to the end."""
    target = draft.plan.target
    reason = f"the component wants revision {target}"
    operation = draft.operation(row, type=UPDATE, step=step, reason=reason, target=target, strategy=strategy)
    retries.started(draft, target)
    draft.explain(row, "ome 5.2", f"moves from {row.running_revision} to {target} by {strategy}")
    draft.wake_operation()
    return draft.put(
        msgspec.structs.replace(
            row,
            phase=UPDATING,
            incarnation=row.incarnation + new_incarnation,
            operation=operation,
            target_revision=target,
        )
    )


def retargeted(draft: Draft, row: Row) -> Row:
    """The row with its attempt at the revision that is wanted by now: an attempt at what nobody wants any more helps nobody."""
    operation, target = row.operation, draft.plan.target
    if operation is None or operation.target_revision == target or draft.plan.paused or not draft.shapes.stored(target):
        return row
    if not retries.admits(draft, target):
        return row
    new = draft.operation(
        row,
        type=UPDATE,
        step=operation.step,
        reason=f"the component wants revision {target}",
        target=target,
        strategy=operation.strategy,
    )
    retries.started(draft, target)
    return draft.put(msgspec.structs.replace(row, operation=new, target_revision=target))


def back_to_ready(draft: Draft, row: Row) -> Row:
    """The attempt is given up and the Instance serves on as before. It never left service, so ``readySince`` stays: what failed
    meanwhile is judged now."""
    draft.decided.add(row.index)
    return draft.put(msgspec.structs.replace(row, phase=READY, operation=None, target_revision=row.running_revision))
