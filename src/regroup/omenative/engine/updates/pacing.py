"""Which Instances an update takes, in which order, and how many at once (spec/omenative.md 4.3, 5.2, 5.3). Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from regroup.omenative.api.lifecycle import IN_PLACE_IF_POSSIBLE, IN_PLACE_ONLY, RECREATE_POD, SURGE_THEN_DRAIN
from regroup.omenative.api.row import DELETING, FAILED, PENDING, READY, UPDATE, UPDATING, Row
from regroup.omenative.engine import repair, retries
from regroup.omenative.engine.draft import Draft
from regroup.omenative.engine.updates import images
from regroup.omenative.pods import evidence, gate
from regroup.omenative.pods.members import is_worker
from regroup.omenative.view import InstancePod, Revision

SURGE, SURGE_DRAIN, GANG_SURGE = "Surge", "SurgeDrain", "GangSurgeTarget"
DRAIN, IN_PLACE = "Drain", "InPlace"


def off_target(draft: Draft, row: Row) -> bool:
    """The Instance runs another revision than the wanted one."""
    return bool(row.running_revision) and bool(draft.plan.target) and row.running_revision != draft.plan.target


def moving(row: Row) -> bool:
    """An update of the Instance is in flight."""
    return row.phase == UPDATING and row.operation is not None and row.operation.type == UPDATE


def staged(draft: Draft, row: Row) -> bool:
    """The partition keeps the Instance on the old revision: as many as it says, the lowest indices that are off target."""
    if not draft.plan.partition or not off_target(draft, row) or moving(row):
        return False
    if draft.staged is None or draft.staged[0] != draft.version:
        still = [one.index for one in draft.ordered() if off_target(draft, one) and not moving(one) and one.phase != DELETING]
        draft.staged = (draft.version, frozenset(still[: draft.plan.partition]))
    return row.index in draft.staged[1]


def is_open(draft: Draft) -> bool:
    """The wanted revision can be rolled to: it is stored, nothing is paused, and it is not held after failures (4.3)."""
    target = draft.plan.target
    return draft.shapes.stored(target) is not None and not draft.plan.paused and not retries.held(draft, target)


def takes(draft: Draft, row: Row) -> bool:
    """Whether the update pass rebuilds the Instance at the wanted revision, now or in its turn: then its repair yields (4.3).

    Not where nothing would ever come of it: the partition keeps it, the budget is 0, or the change cannot be made in place and
    may not be made otherwise. Nor while the revision is backing off after failures, half an hour perhaps: a failed Instance is
    not left broken that long (seed: "rebuilds the whole Instance").
    """
    if not off_target(draft, row) or not is_open(draft) or staged(draft, row) or moving(row):
        return False
    if not retries.admits(draft, draft.plan.target):
        return False
    return budget(draft) != 0 and strategy(draft, row) != ""


def may_start(draft: Draft, row: Row) -> bool:
    """The Instance is at rest, or failed at something that a new revision supersedes (T17, T20)."""
    if row.index in draft.decided or not takes(draft, row):
        return False
    if row.operation is None:
        return row.phase in {READY, PENDING} or (row.phase == FAILED and _rested(draft, row))
    return row.phase == FAILED and row.operation.target_revision != draft.plan.target


def _rested(draft: Draft, row: Row) -> bool:
    """A failure at the same revision is not tried again at once (9.28: "paced by requeue")."""
    failed_at = row.last_failure.time if row.last_failure is not None else None
    if failed_at is None or row.target_revision != draft.plan.target:
        return True
    again = failed_at + timedelta(seconds=draft.view.settings.live.requeue_operation)
    if draft.now < again:
        draft.wake_at(again)
        return False
    return True


def strategy(draft: Draft, row: Row) -> str:
    """How the Instance is updated: SurgeThenDrain, RecreatePod or InPlaceIfPossible; empty when it may not be (5.2)."""
    wanted = draft.plan.strategy
    if wanted in {IN_PLACE_IF_POSSIBLE, IN_PLACE_ONLY}:
        if in_place_possible(draft, row):
            return IN_PLACE_IF_POSSIBLE
        if wanted == IN_PLACE_ONLY and not draft.plan.multi_pod and _images_alone(draft, row) is False:
            return ""
        return RECREATE_POD
    return RECREATE_POD if wanted == RECREATE_POD else SURGE_THEN_DRAIN


def in_place_possible(draft: Draft, row: Row) -> bool:
    """Only images differ, and every pod is there to be changed. Gangs are changed in place as well (case C44)."""
    pods = draft.expected(row)
    if len(pods) < draft.desired_pods(row) or any(pod.terminal or pod.deleting or pod.incarnation is None for pod in pods):
        return False
    return _images_alone(draft, row) is True


def _images_alone(draft: Draft, row: Row) -> bool | None:
    """Whether the change is one of images alone, for what runs and for what its pods are of; None where that is not known."""
    target = draft.shapes.stored(draft.plan.target)
    names = {row.running_revision} | {draft.shapes.named(pod.revision_hash) for pod in draft.expected(row)}
    found = [draft.shapes.stored(name) for name in names]
    if target is None or None in found:
        return None
    return all(one is not None and _alike(draft, one, target) for one in found)


def _alike(draft: Draft, old: Revision, new: Revision) -> bool:
    pair = (old.name, new.name)
    if pair not in draft.alike:
        draft.alike[pair] = images.only_images_differ(old, new)
    return draft.alike[pair]


def supersedes(draft: Draft, row: Row, revision: str) -> bool:
    """Whether an Instance that is being made at ``revision`` is to be made at the wanted one instead.

    Not one that replaces single pods of what it runs, and not one that serves.
    """
    target = draft.plan.target
    if revision in {target, row.running_revision} or not is_open(draft) or not retries.admits(draft, target):
        return False
    return not any(gate.serves(pod) for pod in draft.members(row).own)


def candidates(draft: Draft) -> Sequence[Row]:
    """Instances whose update may start, in the order in which they are taken: those that serve nothing first, then by index."""
    found = [row for row in draft.ordered() if may_start(draft, row)]
    return sorted(found, key=lambda row: (evidence.still_serves(draft.expected(row)), row.index))


def budget(draft: Draft) -> int | None:
    """How many Instances may be on their way at once; None is no limit."""
    plan = draft.plan
    return plan.max_surge if plan.strategy == SURGE_THEN_DRAIN else plan.update_unavailable


def in_use(draft: Draft) -> int:
    """How much of the budget is taken."""
    if draft.plan.strategy != SURGE_THEN_DRAIN:
        return repair.out_of_service(draft.rows.values())
    extra = len(_extra_instances(draft)) if draft.plan.multi_pod else len(extra_pods(draft))
    return _surging(draft) + extra


def own_slots(draft: Draft) -> Counter[int]:
    """How much of the budget is taken by each Instance that rests: what a failed attempt has left."""
    if draft.plan.strategy != SURGE_THEN_DRAIN:
        return Counter(row.index for row in draft.rows.values() if row.phase == FAILED and repair.updating_offline(row))
    return Counter() if draft.plan.multi_pod else Counter(pod.index for pod in extra_pods(draft) if pod.index is not None)


def _surging(draft: Draft) -> int:
    operations = [row.operation for row in draft.rows.values() if moving(row)]
    return sum(one is not None and one.step in repair.SURGE_STEPS for one in operations)


def extra_pods(draft: Draft) -> Sequence[InstancePod]:
    """Pods beyond what their Instance has, with no update of it in flight: they still hold resources (5.3).

    One that is on its way out counts until its deletion time, which has its grace in it, is over.
    """
    found = []
    for row in draft.ordered():
        if moving(row) or row.phase == DELETING:
            continue
        expected = {slot.name for slot in draft.shapes.expected(row)}
        for pod in draft.members(row).own:
            gone = pod.metadata.deletion_timestamp
            if pod.name not in expected and not is_worker(pod) and not pod.terminal and (gone is None or draft.now < gone):
                found.append(pod)
    return found


def _extra_instances(draft: Draft) -> Sequence[Row]:
    """Gangs that an update is taking away."""
    return [row for row in draft.ordered() if row.phase == DELETING and off_target(draft, row) and draft.pods(row.index)]


def exhausted(draft: Draft, limit: int, used: int) -> str:
    """Why no update starts."""
    if draft.plan.strategy != SURGE_THEN_DRAIN:
        return f"per-Component unavailability budget {limit} exhausted (would become {used + 1})"
    text = f"per-Component surge budget {limit} exhausted (would become {used + 1})"
    extra = extra_pods(draft)
    if not extra:
        return text
    if extra[0].deleting:
        return f"{text}; Terminating pod {extra[0].name} still counts against the surge budget until its deletion grace elapses"
    return f"{text}; extra pod {extra[0].name} holds a surge slot until a start on its Instance replaces it"
