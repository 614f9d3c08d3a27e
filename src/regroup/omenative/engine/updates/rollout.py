"""The update pass: one step of every update in flight, then new ones as far as the budget goes (spec/omenative.md 5). Pure."""

from collections.abc import Collection, Sequence

from regroup.omenative.api.lifecycle import IN_PLACE_ONLY
from regroup.omenative.api.replica import RolloutHold
from regroup.omenative.api.row import FAILED, READY, UPDATE, Row
from regroup.omenative.engine import promote, retries
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.updates import attempt, gang, in_place, pacing, recreate, surge
from regroup.omenative.engine.updates.pacing import SURGE

BUDGET, RETRY_BLOCK, HELD = "Budget", "RetryBlock", "Held"


def run(draft: Draft, *, start: bool, new: Collection[int]) -> RolloutHold | None:
    """The pass. ``start``: new updates may start; ``new``: indices that other new Instances get. Gives what holds the rollout."""
    draft.each([row for row in draft.ordered() if pacing.moving(row)], _step)
    draft.each([row for row in draft.ordered() if row.phase == FAILED], _kept)
    draft.each(draft.ordered(), _refuse)
    off = [row for row in draft.ordered() if pacing.off_target(draft, row) and not pacing.staged(draft, row)]
    if not off or draft.plan.paused:
        return None
    target = draft.plan.target
    if not retries.admits(draft, target):
        gate = HELD if retries.held(draft, target) else RETRY_BLOCK
        return _hold(draft, gate, retries.why_not(draft, target))
    if not start:
        for row in off:
            if not pacing.moving(row) and row.index not in draft.reasons:
                draft.explain(row, "ome 3.3", "its update waits for restarts of other Instances")
        return draft.view.replica.status.rollout_hold
    return _start(draft, new)


def _step(draft: Draft, row: Row) -> None:
    operation = row.operation
    if operation is None or row.index in draft.decided:
        return
    match operation.step:
        case "Surge" | "SurgeDrain":
            surge.step(draft, row, operation)
        case "GangSurgeTarget" | "GangSurgeTargetCleanup":
            gang.step(draft, row, operation)
        case "InPlace":
            in_place.step(draft, row, operation)
        case _:
            recreate.step(draft, row, operation)
    draft.explain_why(row, f"moves from {row.running_revision} to {operation.target_revision}")


def _kept(draft: Draft, row: Row) -> None:
    """An Instance whose update failed is Ready at the wanted revision when its pods come up by themselves (4.11)."""
    operation = row.operation
    if row.index in draft.decided or (operation is not None and operation.type != UPDATE):
        return
    target = operation.target_revision if operation is not None else draft.plan.target
    if operation is None and not pacing.off_target(draft, row):
        return
    slots = {slot.name for slot in draft.shapes.slots(row, target)}
    wanted = draft.shapes.hash_of(target)
    pods = [pod for pod in draft.members(row).at(row.incarnation) if pod.name in slots and pod.revision_hash == wanted]
    if len(pods) == len(slots) and all(pod.containers_ready for pod in pods):
        if promote.reached(draft, row, pods):
            promote.enter_ready(draft, row, revision=target)
            retries.succeeded(draft, target)
    elif operation is not None:
        draft.explain(row, "ome 5.4", f"its update to {target} failed: kept until a new revision reaches it")


def _refuse(draft: Draft, row: Row) -> None:
    """InPlaceOnly, and more than images differ: the Instance stays as it is (5.2)."""
    if draft.plan.strategy != IN_PLACE_ONLY or row.phase != READY or row.operation is not None:
        return
    if not pacing.off_target(draft, row) or not pacing.is_open(draft) or pacing.strategy(draft, row):
        return
    text = "rejected update: InPlaceOnly strategy but diff exceeds container images"
    draft.tell_once(row, "InPlaceUpdateNotPossible", text, of=draft.plan.target)
    draft.explain(row, "ome 5.2", text)


def _start(draft: Draft, new: Collection[int]) -> RolloutHold | None:
    """Start what the budget has room for; what holds the rollout if nothing can move."""
    limit = pacing.budget(draft)
    taken = set(new)
    moved = any(pacing.moving(row) for row in draft.rows.values())
    waiting = list(pacing.candidates(draft))
    while (row := _next(draft, waiting, limit)) is not None:
        waiting.remove(row)
        draft.each([row], lambda draft, row: _begin(draft, row, taken))
        moved = True
    if limit is None or not (waiting or _stalled_by_zero(draft)):
        return None
    why = pacing.exhausted(draft, limit, pacing.in_use(draft))
    for row in waiting:
        draft.explain(row, "ome 5.3", f"its update waits: {why}")
    draft.wake_gate()
    return None if moved else _hold(draft, BUDGET, why)


def _next(draft: Draft, waiting: Sequence[Row], limit: int | None) -> Row | None:
    """The first that the budget has room for. A slot that an Instance holds already is the one that its start takes over: the
    next revision must be able to reach what failed at the last one, whatever waits before it (T17, 5.3)."""
    if limit is None or not waiting:
        return next(iter(waiting), None)
    used, own = pacing.in_use(draft), pacing.own_slots(draft)
    return next((row for row in waiting if used - own[row.index] + 1 <= limit), None)


def _begin(draft: Draft, row: Row, taken: set[int]) -> None:
    match pacing.strategy(draft, row):
        case "RecreatePod":
            recreate.start(draft, row)
        case "InPlaceIfPossible":
            in_place.start(draft, row)
        case _ if draft.plan.multi_pod:
            gang.start(draft, row, taken=taken)
        case _:
            row = attempt.begin(draft, row, step=SURGE, strategy=draft.plan.strategy)
            if row.operation is not None:
                surge.step(draft, row, row.operation)


def _stalled_by_zero(draft: Draft) -> bool:
    """A budget of 0: nothing ever starts."""
    rows = draft.ordered()
    return pacing.budget(draft) == 0 and any(pacing.off_target(draft, row) and not pacing.staged(draft, row) for row in rows)


def _hold(draft: Draft, gate: str, reason: str) -> RolloutHold:
    """Why nothing can move; ``since`` stays while gate and target do (5.3)."""
    before, target = draft.view.replica.status.rollout_hold, draft.plan.target
    same = before is not None and before.gate == gate and before.target == target
    since = before.since if before is not None and same else draft.stamp
    return RolloutHold(gate=gate, reason=reason, target=target, since=since)
