"""What is to become of an object, given what its owners are: the collector's rules on live facts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from regroup.kube.meta import ObjectMeta, OwnerReference
from regroup.sandbox.controllers.collector.graph import FOREGROUND_FINALIZER, ORPHAN_FINALIZER

Propagation = Literal["Foreground", "Background", "Orphan"]


class OwnerState(Enum):
    """What a live look at an owner says."""

    SOLID = "it exists and stays, or is deleted without waiting for its dependents"
    DANGLING = "no object of that UID exists"
    WAITING = "it is deleted in the foreground and waits for its dependents"


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do."""


@dataclass(frozen=True, slots=True)
class DropReferences:
    """A solid owner keeps the object; the references to the others are removed."""

    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """No owner keeps the object."""

    propagation: Propagation
    unblock: bool = False
    """First let go of the owners that wait for it: it waits for one of them in turn (a circle)."""


Verdict = Keep | DropReferences | Delete


def owner_state(reference: OwnerReference, live: ObjectMeta | None) -> OwnerState:
    """What the owner is; ``live`` is what a read of the reference's name found. Another UID is another object."""
    if live is None or live.uid != reference.uid:
        return OwnerState.DANGLING
    if live.deleting and FOREGROUND_FINALIZER in live.finalizers:
        return OwnerState.WAITING
    return OwnerState.SOLID


def judge(
    live: ObjectMeta, owners: Sequence[tuple[OwnerReference, OwnerState]], *, has_dependents: bool, circle: bool
) -> Verdict:
    """What to do with the object ``live``. ``circle``: one of its dependents is itself deleted in the foreground."""
    if not owners:
        return Keep()
    useless = tuple(reference.uid for reference, state in owners if state is not OwnerState.SOLID)
    if len(useless) < len(owners):
        return DropReferences(useless) if useless else Keep()
    waiting = any(state is OwnerState.WAITING for _, state in owners)
    if waiting and has_dependents:
        return Delete("Foreground", unblock=circle)
    if ORPHAN_FINALIZER in live.finalizers:
        return Delete("Orphan")
    if FOREGROUND_FINALIZER in live.finalizers:
        return Delete("Foreground")
    return Delete("Background")
