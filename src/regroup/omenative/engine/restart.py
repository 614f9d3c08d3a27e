"""Restarts of whole Instances: which open, and one step of each that runs (spec/omenative.md 4.2-4.6). Pure.

Opening is one change of the row: phase, incarnation, operation, evidence. Everything after it is derived from the row and the
pods, so that a pass that is cut off anywhere is continued by the next one.
"""

from dataclasses import dataclass

import msgspec

from regroup.omenative.api.row import CREATING, FAILED, MIGRATING, PENDING, READY, RESTART, RESTARTING, Row
from regroup.omenative.engine import build, drain, promote, repair, retries
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.repair import Wedged
from regroup.omenative.engine.updates import pacing
from regroup.omenative.pods import evidence, gate, last_failure

DRAIN = "Drain"
RULE_OPEN, RULE_RUN = "ome 4.2", "ome 4.6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """An Instance that is to restart for ``text``; ``repair`` when it is a crash-loop repair."""

    row: Row
    text: str
    repair: bool = False
    serves: bool = False


def run(draft: Draft) -> bool:
    """The restart pass. Whether a restart is in flight or left over: then no update starts in this pass."""
    selected: list[Selected] = []

    def select(draft: Draft, row: Row) -> None:
        found = _select(draft, row)
        if found is not None:
            selected.append(found)

    draft.each(draft.ordered(), select)
    texts = {one.row.index: one.text for one in selected}

    def open_one(draft: Draft, row: Row) -> None:
        _open(draft, row, texts[row.index])

    draft.each([one.row for one in selected if not one.repair], open_one)
    wedged = [Wedged(row=one.row, text=one.text, serves=one.serves) for one in selected if one.repair]
    budget = draft.plan.max_unavailable
    admission = repair.admit(
        wedged,
        out_of_service=repair.out_of_service(draft.rows.values()),
        budget=budget,
        batch=draft.view.settings.start.repair_batch_size,
    )
    draft.each([admitted.row for admitted in admission.opened], open_one)
    repair.tell(draft, admission, budget=budget)
    running = [row for row in draft.ordered() if row.phase == RESTARTING]
    draft.each(running, _run)
    draft.each([row for row in draft.ordered() if row.phase == FAILED], _kept)
    return bool(running or admission.left_over)


def _select(draft: Draft, row: Row) -> Selected | None:
    """Whether the Instance is to restart (4.5). The wedge is asked before the policy (9.14)."""
    if row.index in draft.decided:
        return None
    gang = _gang_lost(draft, row)
    pods = draft.expected(row)
    # Pending is what a Ready Instance is that lost all its pods in a pause: it is made up for by what the policy says now.
    resting = row.phase == READY or (row.phase == PENDING and not pods)
    if not gang and (not resting or row.operation is not None):
        return None
    desired = draft.desired_pods(row)
    wedge = None if gang else _wedge(draft, row, desired)
    text = gang
    if wedge is not None:
        text = evidence.wedge_text(wedge)
    elif not gang and draft.plan.recreates:
        text = evidence.trigger(pods, desired=desired, ready_since=row.ready_since, now=draft.now)
    if not text:
        return None
    if draft.plan.frozen:
        if row.phase == READY and not pods:
            promote.demote(draft, row, lost=text)
        draft.explain(row, "ome 4.9", f"{text}; nothing starts while the component is frozen")
        return None
    if pacing.takes(draft, row):
        draft.explain(row, "ome 4.3", f"{text}; the update to {draft.plan.target} rebuilds the Instance instead of a restart")
        return None
    return Selected(row=row, text=text, repair=wedge is not None, serves=evidence.still_serves(pods))


def explain_ready(draft: Draft) -> None:
    """Why nothing is done for Ready Instances of which not all pods serve, and for those that are migrated."""
    for row in draft.ordered():
        if row.phase == MIGRATING and row.index not in draft.reasons:
            draft.explain(row, "ome 5.6", "left to its migration: whoever began it ends it, this operator carries none out")
            continue
        if row.phase != READY or row.index in draft.reasons or row.index in draft.decided:
            continue
        pods, desired = draft.expected(row), draft.desired_pods(row)
        if evidence.fully_serves(pods, desired=desired):
            continue
        text = evidence.trigger(pods, desired=desired, ready_since=row.ready_since, now=draft.now)
        if text and not draft.plan.recreates:
            draft.explain(row, "ome 4.1", f"{text}; the policy None leaves a container's restart to the kubelet")
        else:
            serving = sum(gate.serves(pod) for pod in pods)
            draft.explain(row, "ome 3.1", f"{serving} of {desired} pods serve; a pod that is not ready is no failure")


def _wedge(draft: Draft, row: Row, desired: int) -> evidence.Stuck | None:
    """A pod of a Ready Instance that waits in a terminal reason and is past the grace (4.4)."""
    pods = draft.expected(row)
    if evidence.fully_serves(pods, desired=desired):
        return None
    current = draft.shapes.hash_of(row.running_revision)
    # A pod of another stored revision is left of an attempt that is over; its owner is that attempt.
    mine = [pod for pod in pods if pod.revision_hash in {"", current} or not draft.shapes.named(pod.revision_hash)]
    found = evidence.stuck(mine, grace=draft.plan.grace)
    if found is None:
        return None
    if draft.now >= found.due:
        return found
    draft.wake_at(found.due)
    what = f"pod {found.pod.name} waits in {found.reason}"
    draft.explain(row, "ome 4.4", f"{what}; its repair opens at {found.due:%H:%M:%S}Z, when it is past the stuck-pod grace")
    return None


def _gang_lost(draft: Draft, row: Row) -> str:
    """T8: a gang that was complete, though never Ready, lost some of its pods. All of them: that is a matter of creating it.

    A Failed restart keeps its pods until a reset or a new revision (seed), and a failed create is tried again as a create.
    """
    if row.phase not in {PENDING, CREATING} or not draft.plan.recreates:
        return ""
    desired = draft.desired_pods(row)
    if desired < 2 or row.pod_count < desired or retries.held(draft, row.target_revision):
        return ""
    return evidence.member_lost(draft.expected(row), desired=desired)


def _open(draft: Draft, row: Row, text: str) -> Row:
    """One restart begins: a single change of the row, told once it is written (72)."""
    revision = row.running_revision or row.target_revision or draft.plan.target
    operation = draft.operation(row, type=RESTART, step=DRAIN, reason=text, target=revision)
    found = last_failure.read(draft.expected(row), now=draft.now, since=row.ready_since)
    row = draft.put(
        msgspec.structs.replace(
            row,
            phase=RESTARTING,
            incarnation=row.incarnation + 1,
            operation=operation,
            running_revision=revision,
            target_revision=revision,
            last_failure=found or row.last_failure,
        )
    )
    pod = found.pod_name if found is not None else ""
    draft.tell(row, "RestartTriggered", f"restart triggered: {text} (incarnation={row.incarnation})", warning=True, pod=pod)
    return row


def _run(draft: Draft, row: Row) -> None:
    if row.index in draft.decided:
        return
    draft.wake_operation()
    _drive(draft, row)
    operation = draft.rows[row.index].operation
    if operation is not None:
        draft.explain_why(row, f"restarts at incarnation {row.incarnation} because of {operation.reason}")


def _drive(draft: Draft, row: Row) -> None:
    """One step of a restart: drain the old pods, delete them, make the new ones, promote them (4.6)."""
    members = draft.members(row)
    if members.orphans:
        _orphans(draft, row)
        return
    old = members.before(row.incarnation)
    newer = [pod for pod in old if (pod.incarnation or 0) > row.incarnation]
    if newer:
        # Our row is older than its pods: whoever made them wrote a newer row, which is on its way to us.
        draft.explain(row, RULE_RUN, f"pod {newer[0].name} is of incarnation {newer[0].incarnation}: the row is out of date")
        return
    if old:
        waits_for = drain.take_out(draft, row, old, hold=(gate.RESTART_DRAIN, f"{row.index}-{row.incarnation}"))
        draft.explain(row, RULE_RUN, f"waits for {waits_for}")
        return
    revision = row.running_revision or row.target_revision
    if draft.shapes.stored(revision) is None:
        draft.explain(row, RULE_RUN, f"ControllerRevision {revision} is gone: nothing to make the pods from")
        draft.tell_once(row, "RepairRevisionGone", f"cannot restart: ControllerRevision {revision} is gone")
        return
    if build.bring_up(draft, row, draft.shapes.slots(row, revision), revision=revision):
        _complete(draft, draft.rows[row.index], revision)


def _orphans(draft: Draft, row: Row) -> None:
    """Pods without an incarnation hold the restart up: nothing is deleted and nothing made (seed)."""
    namespace = draft.view.replica.namespace
    for pod in draft.members(row).orphans:
        text = f"found orphan pod {namespace}/{pod.name} without ome.io/instance-incarnation; refusing to delete"
        row = draft.tell_once(row, "FoundOrphan", text, of=pod.name, pod=pod.name)
    draft.explain(row, RULE_RUN, f"{len(draft.members(row).orphans)} pod(s) without an incarnation hold up the restart")


def _kept(draft: Draft, row: Row) -> None:
    """A failed restart and its pods stay (seed), unless the pods recover by themselves (T13) or are all gone (T14)."""
    if row.operation is None or row.operation.type != RESTART or row.index in draft.decided:
        return
    members = draft.members(row)
    if not draft.pods(row.index):
        failure = row.last_failure.reason if row.last_failure is not None else "a failure"
        draft.decided.add(row.index)
        draft.put(msgspec.structs.replace(row, operation=None))
        text = f"repair parked after {failure} closed: no live pod left to resume or rebuild; its pods are created anew"
        draft.tell(row, "RepairClosed", text)
        draft.explain(row, "ome T14", text)
        draft.wake_gate()
        return
    slots = draft.expected(row)
    pods = [pod for pod in slots if pod.incarnation == row.incarnation]
    if len(pods) < draft.desired_pods(row) or members.orphans or members.before(row.incarnation):
        draft.explain(row, "ome 4.11", "failed: kept with its pods until it is reset or a new revision reaches it")
        return
    if promote.reached(draft, row, pods):
        _complete(draft, row, row.running_revision)
    elif row.index in draft.reasons:
        why = draft.reasons[row.index].why
        draft.explain(row, "ome 4.11", f"failed: kept until it is reset or a new revision reaches it; {why}")


def _complete(draft: Draft, row: Row, revision: str) -> None:
    row = promote.enter_ready(draft, row, revision=revision)
    retries.succeeded(draft, revision)
    draft.tell(row, "RestartCompleted", f"restart complete (incarnation={row.incarnation})")
