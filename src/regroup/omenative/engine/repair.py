"""How many crash-loop repairs a pass may open: the batch, the budget, and when a held repair is told (spec/omenative.md 4.4).
Pure.

Only fresh crash-loop repairs are bounded here. Restarts that the policy starts, repairs that run already and the replacement of
pods that are gone never wait. Decided once a pass (9.36).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regroup.omenative.api.row import FAILED, RESTARTING, UPDATE, UPDATING, Row
from regroup.omenative.engine.draft import Draft

HELD_EVENT = "RepairHeld"
SURGE_STEPS = frozenset({"Surge", "SurgeDrain", "GangSurgeTarget", "GangSurgeTargetCleanup"})
"""Steps of an update that take nothing out of service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wedged:
    """An Instance that a crash-loop repair would restart."""

    row: Row
    text: str
    serves: bool
    """A routed pod of it still takes requests: the repair takes it offline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A repair that the budget holds."""

    wedged: Wedged
    would_become: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a pass opens, and what it leaves."""

    opened: Sequence[Wedged]
    denied: Sequence[Denied]
    left_over: Sequence[Wedged]
    """Past the batch: the following passes open them."""


def admit(wedged: Sequence[Wedged], *, out_of_service: int, budget: int | None, batch: int | None) -> Admission:
    """Which of ``wedged`` (by index) open now. The batch is asked first, then the budget; who the budget denies takes no room.

    ``out_of_service``: Instances that restart (policy restarts of this pass included) or are out for an update. Repairs of
    Instances that serve nothing are free, but count once they are open: a serving Instance goes only while no more than the
    budget are out (seed; 9.5), so those that open in the same pass count whatever their index.
    """
    room = len(wedged) if batch is None else batch
    out = out_of_service + min(room, sum(not one.serves for one in wedged))
    opened: list[Wedged] = []
    denied: list[Denied] = []
    left_over: list[Wedged] = []
    for one in sorted(wedged, key=lambda each: each.row.index):
        if len(opened) >= room:
            left_over.append(one)
        elif not one.serves or budget is None or out + 1 <= budget:
            opened.append(one)
            out += one.serves
        else:
            denied.append(Denied(wedged=one, would_become=out + 1))
    return Admission(opened=opened, denied=denied, left_over=left_over)


def to_tell(admission: Admission) -> Denied | None:
    """The repair whose waiting is told: the first denied one, if the budget kept the component from opening any repair (9.3)."""
    return admission.denied[0] if admission.denied and not admission.opened else None


def out_of_service(rows: Iterable[Row]) -> int:
    """Instances that restart, or that an update has taken out of service (4.4.2). A failed restart is not charged (9.21)."""
    return sum(row.phase == RESTARTING or updating_offline(row) for row in rows)


def updating_offline(row: Row) -> bool:
    """An update has the Instance out of service: a step that is no surge, or a failed one that still holds it."""
    operation = row.operation
    if operation is None or operation.type != UPDATE or operation.step in SURGE_STEPS:
        return False
    return row.phase in {UPDATING, FAILED}


def tell(draft: Draft, admission: Admission, *, budget: int | None) -> None:
    """Explain what waits, tell what is to be told, and look again soon."""
    for one in admission.left_over:
        draft.explain(one.row, "ome 4.4.1", f"{one.text}; its repair is past this pass's batch and opens in a following one")
    for denied in admission.denied:
        row, why = denied.wedged.row, _why(budget, denied)
        draft.explain(row, "ome 4.4.2", f"{denied.wedged.text}; its repair waits: {why}")
    if admission.left_over or admission.denied:
        draft.wake_gate()
    first = to_tell(admission)
    if first is not None:
        row = draft.rows[first.wedged.row.index]
        draft.tell_once(row, HELD_EVENT, f"crash-loop repair held by Budget: {_why(budget, first)}")


def _why(budget: int | None, denied: Denied) -> str:
    return f"per-Component unavailability budget {budget} exhausted (would become {denied.would_become})"
