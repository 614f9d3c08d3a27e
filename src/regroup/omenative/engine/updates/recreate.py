"""RecreatePod: all pods of an Instance leave, and come back at the wanted revision, one incarnation higher (spec/omenative.md
5.2).

Pure.
"""

from regroup.omenative.api.lifecycle import RECREATE_POD
from regroup.omenative.api.row import Operation, Row
from regroup.omenative.engine import build, drain, promote, retries
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.updates import attempt
from regroup.omenative.engine.updates.pacing import DRAIN
from regroup.omenative.pods import gate

RULE = "ome 5.2"


def start(draft: Draft, row: Row) -> None:
    """Open the update, and its first step."""
    row = attempt.begin(draft, row, step=DRAIN, strategy=RECREATE_POD, new_incarnation=True)
    text = f"update to {draft.plan.target} started (incarnation={row.incarnation})"
    draft.tell(row, "RecreateUpdateStarted", text)
    if row.operation is not None:
        step(draft, row, row.operation)


def step(draft: Draft, row: Row, operation: Operation) -> None:
    """One step."""
    draft.wake_operation()
    row = attempt.retargeted(draft, row)
    target = (row.operation or operation).target_revision
    members = draft.members(row)
    if members.orphans:
        draft.explain(row, RULE, f"pod {members.orphans[0].name} has no incarnation and holds up the update")
        return
    wanted = draft.shapes.hash_of(target)
    old = [
        *members.before(row.incarnation),
        *(pod for pod in members.at(row.incarnation) if pod.revision_hash not in {wanted, ""}),
    ]
    if old:
        waits_for = drain.take_out(draft, row, old, hold=(gate.RECREATE_DRAIN, f"{row.index}-{row.incarnation}"))
        draft.explain(row, RULE, f"updating; waits for {waits_for}")
        return
    if draft.shapes.stored(target) is None:
        draft.explain(row, RULE, f"ControllerRevision {target} is gone: nothing to make the pods from")
        return
    if build.bring_up(draft, row, draft.shapes.slots(row, target), revision=target):
        row = promote.enter_ready(draft, draft.rows[row.index], revision=target)
        retries.succeeded(draft, target)
        draft.tell(row, "RecreateUpdateCompleted", f"update to {target} complete (incarnation={row.incarnation})")
