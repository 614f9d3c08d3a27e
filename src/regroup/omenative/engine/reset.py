"""The reset mailbox: a person asks for Failed Instances to be started over (spec/omenative.md 4.12). Pure."""

from collections.abc import Sequence

import msgspec

from regroup.omenative.api.row import CREATE, FAILED, RESTART, Row
from regroup.omenative.engine.draft import Draft
from regroup.omenative.keys import RESET_INSTANCES
from regroup.omenative.outcome import OF_REPLICA, DropAnnotation
from regroup.omenative.pods import gate

ALL = "all"
_SHOWN = 64
_MOST = 256
_DIGITS = 9


def run(draft: Draft) -> None:
    """Carry out ``ome.io/reset-instances``. Whatever it says, it is taken away."""
    value = draft.view.replica.metadata.annotations.get(RESET_INSTANCES)
    if value is None:
        return
    try:
        wanted = parse(value)
    except ValueError as error:
        shown = value[:_SHOWN]
        draft.tell_replica(
            "InstancesResetRejected", f'{RESET_INSTANCES}="{shown}" rejected: {error}; nothing reset', warning=True
        )
    else:
        if wanted is None:
            _all(draft)
        else:
            _some(draft, wanted)
    # The order is taken away last: until its pods are deleted it would be lost with a process that dies.
    draft.act(DropAnnotation(index=OF_REPLICA, key=RESET_INSTANCES, value=value))


def parse(value: str) -> Sequence[int] | None:
    """The indices that ``value`` names, in order and once each; None for ``all``. Raises ``ValueError``: one bad entry rejects
    it."""
    if value.strip() == ALL:
        return None
    found: list[int] = []
    parts = [part.strip() for part in value.split(",")]
    if len(parts) > _MOST:
        raise ValueError(f"more than {_MOST} instances")
    for part in parts:
        if not (part.isascii() and part.isdecimal() and len(part) <= _DIGITS):
            raise ValueError(f'"{part[:_SHOWN]}" is not a non-negative instance index')
        found.append(int(part))
    return sorted(set(found))


def _some(draft: Draft, wanted: Sequence[int]) -> None:
    done, skipped = [], []
    for index in wanted:
        why = _refused(draft, index)
        if why:
            skipped.append(f"{index} ({why})")
        else:
            _reset(draft, draft.rows[index])
            done.append(index)
    _tell_done(draft, done)
    if skipped:
        draft.tell_replica("InstancesResetSkipped", f"reset skipped for instance(s) {', '.join(skipped)}")


def _all(draft: Draft) -> None:
    done, skipped = [], []
    failed = [row for row in draft.ordered() if row.phase == FAILED]
    for row in failed:
        why = _refused(draft, row.index)
        if why:
            skipped.append(f"{row.index} ({why})")
        else:
            _reset(draft, row)
            done.append(row.index)
    _tell_done(draft, done)
    if skipped:
        draft.tell_replica("InstancesResetSkipped", f"reset skipped for instance(s) {', '.join(skipped)}")
    elif not failed:
        draft.tell_replica("InstancesResetSkipped", "reset requested for all instances but none is Failed; nothing to reset")


def _refused(draft: Draft, index: int) -> str:
    """Why the Instance is not reset; empty when it is."""
    row = draft.rows.get(index)
    if row is None:
        return "no such instance"
    if row.phase != FAILED:
        return f"Phase={row.phase}"
    pods = draft.pods(index)
    if any(gate.serves(pod) for pod in pods):
        return "still serving"
    if row.operation is not None and row.operation.type not in {CREATE, RESTART}:
        return f"owned by {row.operation.type}"
    if row.operation is None and not pods:
        return "nothing to reset"
    return ""


def _reset(draft: Draft, row: Row) -> None:
    """Its pods go and the kept operation with them; the create path makes it anew at the same incarnation."""
    draft.decided.add(row.index)
    # An orphan is not ours to delete, whoever asks (4.6).
    draft.delete(row.index, [pod for pod in draft.members(row).own if pod.incarnation is not None])
    draft.put(msgspec.structs.replace(row, operation=None))
    draft.explain(row, "ome 4.12", "reset by a person: its pods are deleted and made anew")
    draft.wake_gate()


def _tell_done(draft: Draft, done: Sequence[int]) -> None:
    if done:
        listed = ", ".join(str(index) for index in done)
        draft.tell_replica(
            "InstancesReset",
            f"reset instance(s) {listed} at operator request ({RESET_INSTANCES} annotation): pods deleted and preserved "
            "operation cleared; the lifecycle passes rebuild them",
        )
