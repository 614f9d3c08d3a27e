"""An update in place: new images in the pods that there are (spec/omenative.md 5.2). Pure.

A container that the update restarts ends before the row enters Ready anew, so the restart policy never takes it for a crash.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from regroup.omenative.api.lifecycle import IN_PLACE_IF_POSSIBLE
from regroup.omenative.api.row import Operation, Row
from regroup.omenative.engine import promote, retries
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.updates import attempt, images, recreate
from regroup.omenative.engine.updates.pacing import IN_PLACE
from regroup.omenative.keys import REVISION_HASH
from regroup.omenative.outcome import PatchImages
from regroup.omenative.pods import gate
from regroup.omenative.view import InstancePod, Revision

RULE = "ome 5.2"


def start(draft: Draft, row: Row) -> None:
    """Open the update, and its first step."""
    row = attempt.begin(draft, row, step=IN_PLACE, strategy=IN_PLACE_IF_POSSIBLE)
    draft.tell(row, "InPlaceUpdateStarted", f"update in place to {draft.plan.target} started")
    if row.operation is not None:
        step(draft, row, row.operation)


def step(draft: Draft, row: Row, operation: Operation) -> None:
    """One step: out of rotation, the grace, the patch, the new containers, back into rotation."""
    draft.wake_operation()
    row = attempt.retargeted(draft, row)
    operation = row.operation or operation
    target = draft.shapes.stored(operation.target_revision)
    pods = draft.expected(row)
    if target is None:
        draft.explain(row, RULE, f"ControllerRevision {operation.target_revision} is gone: nothing to take the images from")
        return
    if len(pods) < draft.desired_pods(row) or any(pod.terminal or pod.deleting or pod.incarnation is None for pod in pods):
        # A pod that is gone cannot be patched: the rest of the way is a rebuild.
        recreate.start(draft, row)
        return
    old = [pod for pod in pods if pod.revision_hash != target.hash]
    if old:
        _patch(draft, row, operation, old, first=len(old) == len(pods))
        return
    late = _not_restarted(draft, row, pods, target, since=operation.last_progress_at)
    if late:
        draft.explain(row, RULE, f"container {late} has not started with its new image yet")
        return
    if promote.reached(draft, row, pods):
        row = promote.enter_ready(draft, draft.rows[row.index], revision=target.name)
        retries.succeeded(draft, target.name)
        draft.tell(row, "InPlaceUpdateCompleted", f"update in place to {target.name} complete")


def _patch(draft: Draft, row: Row, operation: Operation, old: Sequence[InstancePod], *, first: bool) -> None:
    """Take the pods out of rotation, wait the grace, then patch them all. ``first``: none of the Instance is patched yet."""
    target = draft.shapes.stored(operation.target_revision)
    if target is None:
        return
    if draft.plan.in_place_unready:
        hold = (gate.IN_PLACE, str(row.index))
        if draft.set_gates([gate.held(pod, hold, index=row.index) for pod in old if gate.in_rotation(pod)]):
            draft.put_operation(row, msgspec.structs.replace(operation, last_progress_at=draft.stamp))
            draft.explain(row, RULE, f"{len(old)} pod(s) leave rotation before their images change")
            return
        due = (operation.last_progress_at or draft.stamp) + timedelta(seconds=draft.plan.in_place_grace)
        if draft.now < due:
            draft.wake_at(due)
            draft.explain(row, RULE, f"the images change at {due:%H:%M:%S}Z, after gracePeriodSeconds")
            return
    # The time of the patch is on the row before it is made: containers that started earlier are old ones. A pass that goes on
    # where another was cut off keeps the time, for the pods that are patched already.
    if first:
        draft.put_operation(row, msgspec.structs.replace(operation, last_progress_at=draft.stamp))
    labels = ((REVISION_HASH, target.hash),)
    draft.act(
        *(
            PatchImages(index=row.index, name=pod.name, uid=pod.uid, images=tuple(images.wanted(pod, target)), labels=labels)
            for pod in old
        )
    )
    draft.explain(row, RULE, f"the images of {len(old)} pod(s) change to those of {target.name}")


def _not_restarted(draft: Draft, row: Row, pods: Sequence[InstancePod], target: Revision, *, since: datetime | None) -> str:
    """A container whose kubelet has not taken up its new image: it has not started since the patch. Empty: all have."""
    before = draft.shapes.stored(row.running_revision)
    for pod in pods:
        names = images.changed(before, target, pod.runner)
        for status in pod.status.container_statuses:
            running = status.state.running if status.state is not None else None
            started = running.started_at if running is not None else None
            if status.name in names and since is not None and (started is None or started < since):
                return f"{status.name} of pod {pod.name}"
    return ""
