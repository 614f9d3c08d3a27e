"""SurgeThenDrain of a gang: a whole replacement at a new index, then the source goes (spec/omenative.md 5.2, 5.4). Pure.

The replacement is an ordinary Instance that is being made; only the source's operation knows that it is one.
"""

from collections.abc import Collection

import msgspec

from regroup.omenative.api.lifecycle import SURGE_THEN_DRAIN
from regroup.omenative.api.row import FAILED, READY, Operation, Row
from regroup.omenative.engine import create, retries, scale
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.updates import attempt
from regroup.omenative.engine.updates.pacing import GANG_SURGE

RULE = "ome 5.2"


def start(draft: Draft, row: Row, *, taken: Collection[int]) -> None:
    """Open the update: the source's row, and the replacement's beside it. ``taken``: indices that others will get."""
    used = {*draft.rows, *draft.gone, *taken}
    index = next(number for number in range(len(used) + 1) if number not in used)
    row = attempt.begin(draft, row, step=GANG_SURGE, strategy=SURGE_THEN_DRAIN)
    operation = row.operation
    if operation is None:
        return
    # The clock that counts is the replacement's.
    draft.put_operation(row, msgspec.structs.replace(operation, surge_index=index, deadline=None, waiting=""))
    create.open_one(draft, index, reason=f"replaces Instance {row.index} for revision {draft.plan.target}")


def step(draft: Draft, row: Row, operation: Operation) -> None:
    """One step, seen from the source."""
    draft.wake_operation()
    replacement = draft.rows.get(operation.surge_index) if operation.surge_index is not None else None
    if row.running_revision == draft.plan.target:
        _abandon(draft, row, replacement, why="the running revision is wanted again", warn=False)
        return
    if replacement is None or replacement.phase == FAILED:
        failed = replacement.last_failure.reason if replacement is not None and replacement.last_failure is not None else "lost"
        _abandon(draft, row, replacement, why=f"replacement {operation.surge_index} failed ({failed})", warn=True)
        return
    if replacement.phase != READY:
        draft.explain(row, RULE, f"serves on until its replacement {replacement.index} is Ready")
        return
    if draft.plan.paused:
        draft.explain(row, "ome 5.5", f"replacement {replacement.index} is Ready; this one stays while the component is paused")
        return
    scale.begin_delete(draft, row, reason=f"replaced by Instance {replacement.index}")
    draft.explain(row, RULE, f"replaced by Instance {replacement.index}; drains and goes")
    retries.succeeded(draft, replacement.running_revision)


def _abandon(draft: Draft, row: Row, replacement: Row | None, *, why: str, warn: bool) -> None:
    """The replacement goes, and the source serves on at the old revision."""
    if replacement is not None:
        scale.begin_delete(draft, replacement, reason=why)
    row = attempt.back_to_ready(draft, row)
    if warn:
        draft.tell(row, "GangSurgeAbandoned", f"stays on {row.running_revision}: {why}", warning=True)
    draft.explain(row, "ome 5.4", f"the update is given up: {why}")
