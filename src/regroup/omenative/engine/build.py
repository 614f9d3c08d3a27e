"""Bringing an Instance up: its missing pods made, ended ones replaced, and all of them put in rotation (3.6, 4.6 B and C). Pure.

The same for creates, restarts and updates that recreate. Works at one incarnation and one revision, both from the row.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from regroup.omenative.api.row import LastFailure, Row
from regroup.omenative.engine import promote, retries
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.failing import fail
from regroup.omenative.keys import LEADER
from regroup.omenative.outcome import CreatePod, EnsurePodGroup
from regroup.omenative.pods import last_failure
from regroup.omenative.pods.members import Slot
from regroup.omenative.view import InstancePod

RULE = "ome 4.6"
FOREIGN_GROUP = "PodGroupTaken"
OURS, TERMINATING, FOREIGN = "ours", "terminating", "foreign"


def bring_up(draft: Draft, row: Row, slots: Sequence[Slot], *, revision: str, create: bool = True) -> bool:
    """One step towards an Instance whose pods all serve; True once the promote bar is reached.

    ``create``: missing pods may be made now.
    """
    there = {pod.name: pod for pod in draft.pods(row.index)}
    pods = [there[slot.name] for slot in slots if slot.name in there]
    foreign = [pod for pod in pods if pod.incarnation != row.incarnation]
    if foreign:
        draft.explain(row, RULE, f"pod {foreign[0].name} is not of incarnation {row.incarnation}: its name is waited for")
        return False
    row = _recycle(draft, row, pods)
    missing = [slot for slot in slots if slot.name not in there]
    if missing:
        if create:
            _make(draft, row, missing, revision=revision, of=len(slots))
        else:
            draft.explain(row, RULE, f"{len(missing)} pod(s) are missing and none is made while the component is paused")
        return False
    return promote.reached(draft, row, pods)


def make_pods(draft: Draft, row: Row, slots: Sequence[Slot], *, revision: str) -> None:
    """Create the pods of ``slots``, after their PodGroup where gangs have one."""
    draft.act(_pod_group(draft, row, revision=revision))
    draft.act(
        *(
            CreatePod(
                index=row.index,
                name=slot.name,
                runner=slot.runner,
                ordinal=slot.ordinal,
                incarnation=row.incarnation,
                revision=revision,
            )
            for slot in slots
        )
    )


def group_state(draft: Draft, row: Row, *, revision: str) -> str:
    """State of the PodGroup that the Instance has or needs; empty where it needs none, or has none yet."""
    if not draft.view.gang_api or LEADER not in draft.shapes.sizes(revision):
        return ""
    return draft.view.pod_groups.get(draft.group_name(row.index), "")


def _recycle(draft: Draft, row: Row, pods: Sequence[InstancePod]) -> Row:
    """Delete pods that have ended, so that they are made again; the deadline goes on, and the pace slows down (case C50)."""
    ended = [pod for pod in pods if pod.terminal and not pod.deleting]
    operation = row.operation
    if not ended or operation is None:
        return row
    due = (operation.last_progress_at or draft.stamp) + timedelta(seconds=retries.recycle_delay(draft, operation.retry_count))
    if draft.now < due:
        draft.wake_at(due)
        return row
    number = operation.retry_count + 1
    found = last_failure.read(ended, now=draft.now)
    row = draft.put(
        msgspec.structs.replace(
            row,
            operation=msgspec.structs.replace(operation, retry_count=number, last_progress_at=draft.stamp),
            last_failure=found or row.last_failure,
            pod_count=min(row.pod_count, len(pods) - len(ended)),
        )
    )
    names = ", ".join(f"{pod.name} ({_ending(pod)})" for pod in ended[:4])
    text = f"deleted terminal pod(s) {names} for recreate ({operation.type} recycle {number})"
    draft.tell(row, "TerminalPodRecycled", text, warning=True, pod=ended[0].name)
    draft.delete(row.index, ended)
    return row


def _ending(pod: InstancePod) -> str:
    return f"{pod.phase}/{pod.status.reason[:64]}" if pod.status.reason else pod.phase


def _make(draft: Draft, row: Row, missing: Sequence[Slot], *, revision: str, of: int) -> None:
    state = group_state(draft, row, revision=revision)
    if state == TERMINATING:
        draft.explain(row, RULE, f"PodGroup {draft.group_name(row.index)} of the earlier pods is still going")
        draft.wake_gate()
        return
    if state == FOREIGN:
        text = f"PodGroup {draft.group_name(row.index)} exists and belongs to somebody else"
        found = LastFailure(reason=FOREIGN_GROUP, message=text, time=draft.stamp)
        fail(draft, row, text=text, failure=found, cause=FOREIGN_GROUP)
        return
    refused = row.operation.capacity_refused_at if row.operation is not None else None
    if refused is not None:
        again = refused + timedelta(seconds=draft.view.settings.live.requeue_operation)
        if draft.now < again:
            draft.wake_at(again)
            draft.explain(row, RULE, f"the API server refused a pod; it is asked again at {again:%H:%M:%S}Z")
            return
    make_pods(draft, row, missing, revision=revision)
    draft.explain(row, RULE, f"{len(missing)} of {of} pods are made at incarnation {row.incarnation}, revision {revision}")


def _pod_group(draft: Draft, row: Row, *, revision: str) -> EnsurePodGroup | None:
    sizes = draft.shapes.sizes(revision)
    if not draft.view.gang_api or LEADER not in sizes or group_state(draft, row, revision=revision) == OURS:
        return None
    live = draft.view.settings.live
    timeout = draft.plan.timeout if draft.plan.timeout is not None else live.gang_timeout_max
    return EnsurePodGroup(
        index=row.index,
        name=draft.group_name(row.index),
        min_member=sum(sizes.values()),
        timeout=int(min(max(timeout, live.gang_timeout_min), live.gang_timeout_max)),
    )
