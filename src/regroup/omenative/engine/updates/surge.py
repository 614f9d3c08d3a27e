"""SurgeThenDrain of a single-pod Instance: a new pod at the other ordinal, then the old one goes (spec/omenative.md 5.2).
Pure."""

import msgspec

from regroup.omenative.api.row import Operation, Row
from regroup.omenative.engine import build, drain, promote, retries
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.updates import attempt
from regroup.omenative.engine.updates.pacing import SURGE, SURGE_DRAIN
from regroup.omenative.pods import gate
from regroup.omenative.view import InstancePod

RULE = "ome 5.2"


def other(row: Row) -> int:
    """The ordinal that the new pod gets."""
    return 1 - row.active_ordinal


def new_pods(draft: Draft, row: Row, revision: str) -> tuple[InstancePod, ...]:
    """Pods at the other ordinal."""
    names = {slot.name for slot in draft.shapes.slots(row, revision, ordinal=other(row))}
    return tuple(pod for pod in draft.members(row).own if pod.name in names and pod.incarnation is not None)


def step(draft: Draft, row: Row, operation: Operation) -> None:
    """One step."""
    draft.wake_operation()
    if operation.step == SURGE:
        row = attempt.retargeted(draft, row)
        operation = row.operation or operation
    target = operation.target_revision
    if operation.step == SURGE and target == row.running_revision:
        _undo(draft, row)
        return
    if operation.step == SURGE and not _surge(draft, row, operation):
        return
    row = draft.rows[row.index]
    if operation.step == SURGE:
        if draft.plan.paused:
            draft.explain(row, "ome 5.5", "the new pod serves; the old one stays while the component is paused")
            return
        row = draft.put_operation(row, msgspec.structs.replace(operation, step=SURGE_DRAIN, last_progress_at=draft.stamp))
    _drain(draft, row, target)


def _surge(draft: Draft, row: Row, operation: Operation) -> bool:
    """Make the new pod and put it in rotation; True when it has served long enough."""
    target = operation.target_revision
    wanted = draft.shapes.hash_of(target)
    began = operation.started_at
    left = [
        pod
        for pod in new_pods(draft, row, target)
        if pod.revision_hash != wanted
        or pod.incarnation != row.incarnation
        or (began is not None and (pod.metadata.creation_timestamp or began) < began)
    ]
    if left:
        fresh = [pod for pod in left if not pod.deleting]
        if fresh:
            draft.tell(row, "FailedSurgeTargetRecycled", f"leftover surge pod {fresh[0].name} is replaced", pod=fresh[0].name)
        waits_for = drain.take_out(draft, row, left, hold=(gate.SURGE_DRAIN, str(row.index)))
        draft.explain(row, RULE, f"a pod of an earlier attempt goes first; waits for {waits_for}")
        return False
    if draft.shapes.stored(target) is None:
        draft.explain(row, RULE, f"ControllerRevision {target} is gone: nothing to make the new pod from")
        return False
    return build.bring_up(draft, row, draft.shapes.slots(row, target, ordinal=other(row)), revision=target)


def _drain(draft: Draft, row: Row, target: str) -> None:
    """The old pod leaves rotation, is drained and deleted; then the ordinals change places."""
    fresh = {pod.uid for pod in new_pods(draft, row, target)}
    old = [pod for pod in draft.members(row).own if pod.uid not in fresh and pod.incarnation is not None]
    if any(not pod.deleting for pod in old):
        waits_for = drain.take_out(draft, row, old, hold=(gate.SURGE_DRAIN, str(row.index)))
        draft.explain(row, RULE, f"the new pod serves; waits for {waits_for}")
        return
    row = draft.put(msgspec.structs.replace(row, active_ordinal=other(row)))
    promote.enter_ready(draft, row, revision=target)
    retries.succeeded(draft, target)


def _undo(draft: Draft, row: Row) -> None:
    """What runs is wanted again: the new pod goes, and nothing else was touched."""
    left = new_pods(draft, row, row.running_revision)
    if any(not pod.deleting for pod in left):
        waits_for = drain.take_out(draft, row, left, hold=(gate.SURGE_DRAIN, str(row.index)))
        draft.explain(row, RULE, f"the running revision is wanted again; waits for {waits_for}")
        return
    attempt.back_to_ready(draft, row)
