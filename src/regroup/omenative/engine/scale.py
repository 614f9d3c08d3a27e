"""How many Instances there are to be: which rows stay, which go, which indices are new (spec/omenative.md 2.8, 5.7). Pure."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from regroup.omenative.api.row import (
    CREATE,
    CREATING,
    DELETE,
    DELETING,
    MIGRATING,
    PHASES,
    READY,
    RESTART,
    RESTARTING,
    UPDATING,
    Row,
)
from regroup.omenative.engine import drain
from regroup.omenative.engine.draft import Draft
from regroup.omenative.outcome import DeletePodGroup
from regroup.omenative.pods import gate
from regroup.omenative.view import InstancePod

OVERDUE_EVENT = "DrainOverdue"
STEP = "Drain"
_SHOWN = 32
_MOST = 1000
"""New indices that are looked for at once."""


def adopt(draft: Draft) -> None:
    """Give pods of ours whose row is missing a row again: a status that was lost or put back loses no Instance.

    The incarnation is the highest that a pod has, so that it never falls.
    """
    for index in draft.indices_with_pods:
        if index in draft.rows:
            continue
        pods = [pod for pod in draft.pods(index) if pod.incarnation]
        if not pods:
            continue
        newest = _newest(pods)
        revision = draft.shapes.named(newest.revision_hash) or draft.plan.target
        ordinal = newest.ordinal or 0 if newest.runner == "default" else 0
        row = Row(
            index=index,
            incarnation=newest.incarnation or 1,
            phase=CREATING,
            target_revision=revision,
            active_ordinal=min(ordinal, 1),
        )
        if newest not in draft.shapes.members(row, pods).own:
            continue
        operation = draft.operation(row, type=CREATE, step="CreatePods", reason="its row was missing", target=revision)
        draft.put(msgspec.structs.replace(row, operation=operation))


def mend(draft: Draft) -> None:
    """Give rows from which nothing would ever go on what they lack: a phase that is known, an operation, a revision.

    A status that somebody edited or put back may have such rows; their pods tell what they run.
    """
    for row in draft.ordered():
        if row.phase in {DELETING, MIGRATING}:
            continue
        adrift = row.phase not in PHASES or (row.phase in {CREATING, UPDATING} and row.operation is None)
        if not adrift and (row.running_revision or row.target_revision):
            continue
        pods = [pod for pod in draft.pods(row.index) if pod.incarnation]
        newest = _newest(pods) if pods else None
        asked = row.operation.target_revision if row.operation is not None else ""
        found = draft.shapes.named(newest.revision_hash) if newest is not None else ""
        revision = row.running_revision or row.target_revision or asked or found or draft.plan.target
        if adrift:
            number = max(row.incarnation, 1, newest.incarnation or 1 if newest is not None else 1)
            reason = f"its row says phase {row.phase[:_SHOWN] or '-'} and no operation, from which nothing goes on"
            operation = draft.operation(row, type=CREATE, step="CreatePods", reason=reason, target=revision)
            draft.put(
                msgspec.structs.replace(row, phase=CREATING, incarnation=number, target_revision=revision, operation=operation)
            )
        elif revision:
            runs = row.phase in {READY, RESTARTING} or (row.operation is not None and row.operation.type == RESTART)
            draft.put(msgspec.structs.replace(row, running_revision=revision if runs else "", target_revision=revision))


def _newest(pods: Sequence[InstancePod]) -> InstancePod:
    return max(pods, key=lambda pod: (pod.incarnation or 0, pod.name))


def run(draft: Draft) -> Sequence[int]:
    """Scale down; gives the indices that are to become Instances (T1, T24)."""
    rows = [row for row in draft.ordered() if row.phase != DELETING]
    replacements = {row.operation.surge_index for row in rows if row.operation is not None} - {None}
    counted = [row for row in rows if row.index not in replacements]
    kept = sorted(counted, key=_precedence)[: draft.plan.desired]
    stay = {row.index for row in kept}
    stay |= {row.operation.surge_index for row in kept if row.operation is not None and row.operation.surge_index is not None}
    _select(draft, [row for row in rows if row.index not in stay])
    draft.each([row for row in draft.ordered() if row.phase == DELETING], _drive)
    used = set(draft.rows) | draft.gone
    # A row that is on its way out still has its index.
    return _lowest_free(used, draft.plan.desired - len(kept))


def _precedence(row: Row) -> tuple[int, int]:
    """Hand-overs first, then Ready Instances, then others; each by index."""
    handing_over = row.phase == MIGRATING or (row.operation is not None and row.operation.surge_index is not None)
    return (0 if handing_over else 1 if row.phase == READY else 2, row.index)


def _lowest_free(used: set[int], number: int) -> Sequence[int]:
    found: list[int] = []
    index = 0
    while len(found) < min(number, _MOST):
        if index not in used:
            found.append(index)
        index += 1
    return found


def _select(draft: Draft, victims: Sequence[Row]) -> None:
    """Mark ``victims``, the highest index first, as many as the batch of pods leaves room for."""
    batch = draft.view.settings.start.scale_down_pod_batch_size
    leaving = sum(len(draft.pods(row.index)) for row in draft.rows.values() if row.phase == DELETING)
    for row in sorted(victims, key=lambda one: -one.index):
        pods = len(draft.pods(row.index))
        if batch is not None and leaving and leaving + pods > batch:
            draft.explain(row, "ome 5.7", "surplus; its turn to go comes when others of the batch are gone")
            draft.wake_in(draft.view.settings.start.scale_down_requeue_interval)
            continue
        leaving += pods
        begin_delete(draft, row, reason=f"{draft.plan.desired} Instance(s) are wanted")


def begin_delete(draft: Draft, row: Row, *, reason: str) -> Row:
    """The row in phase Deleting; its pods follow once that is written."""
    operation = draft.operation(row, type=DELETE, step=STEP, reason=reason, target=row.running_revision)
    operation = msgspec.structs.replace(operation, deadline=draft.deadline(), waiting="")
    draft.decided.add(row.index)
    return draft.put(msgspec.structs.replace(row, phase=DELETING, operation=operation))


def _drive(draft: Draft, row: Row) -> None:
    """One step of a deletion: out of rotation, drained, deleted, forgotten. It is never Failed (5.7)."""
    draft.decided.add(row.index)
    pods = [pod for pod in draft.members(row).own if pod.incarnation is not None]
    waits_for = drain.take_out(draft, row, pods, hold=(gate.DELETE_DRAIN, str(row.index)))
    if not waits_for:
        if draft.view.gang_api and draft.view.pod_groups.get(draft.group_name(row.index)) == "ours":
            draft.act(DeletePodGroup(index=row.index, name=draft.group_name(row.index)))
        draft.drop(row.index)
        return
    draft.explain(row, "ome 5.7", f"on its way out; waits for {waits_for}")
    draft.wake_in(draft.view.settings.start.scale_down_requeue_interval)
    deadline = row.operation.deadline if row.operation is not None else None
    if deadline is not None and draft.now >= deadline:
        draft.tell_once(row, OVERDUE_EVENT, f"is still draining {_since(draft, row)} after it was to go; waits for {waits_for}")
    else:
        draft.wake_at(deadline)


def overdue(draft: Draft) -> Sequence[int]:
    """Instances whose deletion takes longer than the readiness timeout."""
    found = []
    for row in draft.ordered():
        deadline = row.operation.deadline if row.phase == DELETING and row.operation is not None else None
        if deadline is not None and draft.now >= deadline:
            found.append(row.index)
    return found


def _since(draft: Draft, row: Row) -> timedelta:
    started = row.operation.started_at if row.operation is not None else None
    return draft.stamp - started if started is not None else timedelta()
