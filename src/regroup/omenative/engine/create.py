"""Making Instances: new ones, those whose create failed, and single pods that are gone under the policy ``None`` (4.8, T1-T3,
T16-T19).

Pure. Works at the incarnation that the row has: only a restart or an update that recreates raises it.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from regroup.omenative.api.row import CREATE, CREATING, FAILED, PENDING, READY, Operation, Row
from regroup.omenative.engine import build, drain, promote, retries
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.updates import pacing
from regroup.omenative.pods import evidence, gate
from regroup.omenative.pods.members import Slot
from regroup.omenative.view import InstancePod

STEP = "CreatePods"
RULE = "ome 4.8"
_MOST_NEW = 500
"""Rows that one pass adds at most, whatever is asked for."""


def run(draft: Draft, new: Sequence[int]) -> None:
    """The create pass. ``new``: indices that are to become Instances."""
    draft.each(draft.ordered(), _step)
    _open_new(draft, new)


def _step(draft: Draft, row: Row) -> None:
    if row.index in draft.decided:
        return
    if row.phase == CREATING and row.operation is not None:
        _drive(draft, row)
    elif row.phase == FAILED and row.operation is None:
        _again(draft, row)
    elif row.phase in {READY, PENDING} and row.operation is None:
        _replace(draft, row)


def _open_new(draft: Draft, new: Sequence[int]) -> None:
    """T1: rows first, pods after. At most as many pods a pass as the cluster's batch, but always one Instance."""
    if not new:
        return
    target = draft.plan.target
    if draft.plan.paused or not draft.shapes.stored(target) or not retries.admits(draft, target):
        return
    batch = draft.view.settings.start.scale_up_pod_batch_size
    asked = 0
    if len(new) > _MOST_NEW:
        draft.wake_gate()
    for index in new[:_MOST_NEW]:
        pods = sum(draft.shapes.sizes(target).values())
        if batch is not None and asked and asked + pods > batch:
            draft.wake_gate()
            return
        asked += pods
        open_one(draft, index, reason="the component asks for it")


def open_one(draft: Draft, index: int, *, reason: str) -> None:
    """A new Instance at the wanted revision."""
    target = draft.plan.target
    row = Row(index=index, incarnation=1, phase=CREATING, target_revision=target)
    operation = draft.operation(row, type=CREATE, step=STEP, reason=reason, target=target)
    _begin(draft, row, operation, draft.shapes.slots(row, target))


def _begin(draft: Draft, row: Row, operation: Operation, slots: Sequence[Slot]) -> None:
    """Open a create at the operation's revision and ask for the pods that are not there."""
    row = draft.put(msgspec.structs.replace(row, phase=CREATING, operation=operation, target_revision=operation.target_revision))
    retries.started(draft, operation.target_revision)
    # One that has ended is replaced: its successor is asked for as well.
    taken = {pod.name for pod in draft.pods(row.index) if not pod.terminal}
    missing = [slot for slot in slots if slot.name not in taken]
    draft.tell(row, "InstanceCreated", f"materialized; {len(missing)} pod(s) requested")
    draft.explain(row, "ome T1", f"{operation.reason}: {len(missing)} pod(s) are made at incarnation {row.incarnation}")
    build.bring_up(draft, row, slots, revision=operation.target_revision)
    draft.wake_operation()


def _drive(draft: Draft, row: Row) -> None:
    """T2: one step towards Ready."""
    operation = row.operation
    assert operation is not None  # noqa: S101 - only asked with one
    draft.wake_operation()
    revision = operation.target_revision or row.target_revision
    if not draft.plan.paused and pacing.supersedes(draft, row, revision):
        row = _supersede(draft, row, operation)
        revision = draft.plan.target
    if draft.shapes.stored(revision) is None:
        draft.explain(row, RULE, f"ControllerRevision {revision} is gone: nothing to make the pods from")
        return
    wanted = draft.shapes.hash_of(revision)
    members = draft.members(row)
    # What an earlier attempt left under names that are needed now.
    left = [pod for pod in members.own if pod.incarnation not in {row.incarnation, None} or pod.revision_hash not in {wanted, ""}]
    if left:
        waits_for = drain.take_out(draft, row, left, hold=(gate.RECREATE_DRAIN, f"{row.index}-{row.incarnation}"))
        draft.explain(row, RULE, f"pods of an earlier attempt go first; waits for {waits_for}")
        return
    # Under None a pause holds the making of missing pods, whatever operation misses them (4.9).
    create = not draft.plan.paused or draft.plan.recreates
    if build.bring_up(draft, row, draft.shapes.slots(row, revision), revision=revision, create=create):
        row = promote.enter_ready(draft, draft.rows[row.index], revision=revision)
        retries.succeeded(draft, revision)
        draft.tell(row, "InstanceReady", f"is Ready ({draft.desired_pods(row)} pod(s) serving)")


def _supersede(draft: Draft, row: Row, operation: Operation) -> Row:
    """The revision that is being made is not wanted any more: the same Instance is made at the wanted one."""
    target = draft.plan.target
    text = f"create at {operation.target_revision} retired for revision {target}"
    draft.tell(row, "CreateAttemptSuperseded", text)
    new = draft.operation(row, type=CREATE, step=STEP, reason=text, target=target)
    return draft.put(msgspec.structs.replace(row, operation=new, target_revision=target, running_revision="", pod_count=0))


def _again(draft: Draft, row: Row) -> None:
    """T16: a failed create is tried again when the ladder of the revision admits it. Pods that broke are replaced, others
    reused."""
    members = draft.members(row)
    running = row.running_revision or row.target_revision
    slots = draft.expected(row)
    if pacing.off_target(draft, row) and any(not pod.terminal for pod in slots):
        # Its update failed, and is tried again or not by the update pass; what it left is for inspection.
        why = retries.why_not(draft, draft.plan.target)
        draft.explain(row, "ome 5.4", f"its update to {draft.plan.target} failed{'; waits: ' + why if why else ''}")
        return
    if len(slots) == draft.desired_pods(row) and all(pod.containers_ready and pod.incarnation for pod in slots):
        # They came up by themselves (4.11).
        if promote.reached(draft, row, slots):
            row = promote.enter_ready(draft, row, revision=running)
            retries.succeeded(draft, running)
            draft.tell(row, "InstanceReady", f"is Ready ({len(slots)} pod(s) serving)")
        return
    if draft.plan.paused:
        draft.explain(row, "ome 4.9", "failed; nothing is made while the component is paused")
        return
    target = draft.plan.target
    if draft.shapes.stored(running) is not None:
        serving = any(gate.serves(pod) for pod in members.own)
        # What ran well comes back as it was where the wanted revision may not be tried: better old than dark.
        if serving or (pacing.off_target(draft, row) and not retries.admits(draft, target)):
            target = running
    if not retries.admits(draft, target):
        draft.explain(row, "ome 5.4", f"failed; waits: {retries.why_not(draft, target)}")
        return
    if build.group_state(draft, row, revision=target) == build.FOREIGN:
        draft.explain(row, "ome T3", f"failed; PodGroup {draft.group_name(row.index)} belongs to somebody else")
        draft.wake_operation()
        return
    failed_at = row.last_failure.time if row.last_failure is not None else None
    if failed_at is not None:
        again = failed_at + timedelta(seconds=draft.view.settings.live.requeue_operation)
        if draft.now < again:
            draft.wake_at(again)
            draft.explain(row, "ome T16", f"failed; made again from {again:%H:%M:%S}Z on")
            return
    broken = _broken(draft, row, target)
    if broken:
        draft.delete(row.index, broken)
        draft.explain(row, "ome T16", f"failed; {len(broken)} pod(s) of the attempt go before it is made again")
        draft.wake_operation()
        return
    operation = draft.operation(row, type=CREATE, step=STEP, reason="made again after a failure", target=target)
    _begin(draft, row, operation, draft.shapes.slots(row, target))


def _broken(draft: Draft, row: Row, target: str) -> Sequence[InstancePod]:
    """Pods of a failed attempt that another one cannot use: ended, stuck, unplaceable, or of another revision or incarnation."""
    wanted = draft.shapes.hash_of(target)
    own = [pod for pod in draft.members(row).own if pod.incarnation is not None]
    return [
        pod
        for pod in own
        if pod.terminal
        or pod.deleting
        or pod.incarnation != row.incarnation
        or pod.revision_hash not in {"", wanted}
        or evidence.stuck([pod], grace=0.0) is not None
        or evidence.unschedulable([pod], grace=0.0) is not None
    ]


def _replace(draft: Draft, row: Row) -> None:
    """T18, T19: under ``None`` a pod that is gone or has ended is made again, and only that one (seed).

    Under the other policy an Instance that was Ready restarts instead; one whose pods are back goes on whatever the policy is.
    """
    if draft.plan.recreates and (row.phase == READY or not draft.expected(row)):
        return
    slots = draft.shapes.expected(row)
    there = {pod.name: pod for pod in draft.expected(row)}
    ended = [pod for pod in there.values() if pod.terminal]
    missing = [slot for slot in slots if slot.name not in there]
    if not ended and not missing:
        if row.phase == PENDING:
            _reopen(draft, row, row.running_revision or draft.plan.target, reason="its pods are back")
        return
    what = ", ".join(
        [f"pod {pod.name} is {pod.phase}" for pod in ended[:3]] + [f"pod {slot.name} is gone" for slot in missing[:3]]
    )
    if draft.plan.paused:
        if not there and row.phase == READY:
            row = promote.demote(draft, row, lost=what)
        draft.explain(row, "ome 4.9", f"{what}; missing pods are not made while the component is paused")
        return
    running = row.running_revision or row.target_revision
    revision = running
    if not any(not pod.terminal for pod in there.values()) and (pacing.takes(draft, row) or not draft.shapes.stored(running)):
        revision = draft.plan.target
    _reopen(draft, row, revision, reason=what)


def _reopen(draft: Draft, row: Row, revision: str, *, reason: str) -> None:
    if draft.shapes.stored(revision) is None:
        draft.explain(row, RULE, f"{reason}; ControllerRevision {revision} is gone: nothing to make the pod from")
        return
    operation = draft.operation(row, type=CREATE, step=STEP, reason=reason, target=revision)
    _begin(draft, row, operation, draft.shapes.slots(row, revision))
