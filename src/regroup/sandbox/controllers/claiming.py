"""Which objects a controller owns, adopts and lets go: the rule that all workload controllers share. Pure.

Ownership is the controller reference by UID. The selector only decides whether an orphan is taken and an owned object is let go.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from regroup.kube.meta import HasMeta, ObjectMeta

T = TypeVar("T", bound=HasMeta)


@dataclass(frozen=True, slots=True)
class Claimed(Generic[T]):
    """The outcome for one owner."""

    owned: tuple[T, ...]
    """Owned already and still selected, terminating ones included."""
    adopt: tuple[T, ...]
    """Orphans that match: to be adopted, once a live look has shown that the owner is not being deleted."""
    release: tuple[T, ...]
    """Owned, but no longer selected."""


def claim(owner: ObjectMeta, objects: Iterable[T], matches: Callable[[T], bool]) -> Claimed[T]:
    """Sort ``objects`` of the owner's namespace. A deleting owner neither adopts nor releases; a deleting orphan stays one."""
    owned: list[T] = []
    adopt: list[T] = []
    release: list[T] = []
    for candidate in objects:
        controller = candidate.metadata.controller
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if matches(candidate):
                owned.append(candidate)
            elif not owner.deleting:
                release.append(candidate)
        elif not owner.deleting and not candidate.metadata.deleting and matches(candidate):
            adopt.append(candidate)
    return Claimed(tuple(owned), tuple(adopt), tuple(release))


def adoption_patch(obj: HasMeta, owner_reference: Mapping[str, Any]) -> dict[str, Any]:
    """The strategic merge patch that makes the owner the controller; the UID keeps it off a replacement of the same name."""
    return {"metadata": {"uid": obj.metadata.uid, "ownerReferences": [dict(owner_reference)]}}


def release_patch(obj: HasMeta, owner_uid: str) -> dict[str, Any]:
    """The strategic merge patch that removes the owner's reference."""
    return {"metadata": {"uid": obj.metadata.uid, "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}}
