"""Object metadata as we read it: frozen, partial, decoded straight from bytes.

Every view ignores the fields that it does not name. Maps and lists that a server may send as ``null`` come out empty.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from sys import intern
from typing import Any, Protocol

import msgspec
from msgspec import structs

_EMPTY: dict[str, str] = {}


class View(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Base of all views: frozen, invisible to the garbage collector, camelCase on the wire."""


class OwnerReference(
    View,
    frozen=True,
    gc=False,
    kw_only=True,
    rename={"block_owner_deletion": "blockOwnerDeletion", "api_version": "apiVersion"},
):
    """``metadata.ownerReferences[]``."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(View, frozen=True, gc=False, kw_only=True):
    """``metadata``. ``labels``, ``annotations``, ``finalizers`` and ``owner_references`` are never None."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    raw_labels: dict[str, str] | None = msgspec.field(name="labels", default=None)
    raw_annotations: dict[str, str] | None = msgspec.field(name="annotations", default=None)
    raw_finalizers: tuple[str, ...] | None = msgspec.field(name="finalizers", default=None)
    raw_owner_references: tuple[OwnerReference, ...] | None = msgspec.field(name="ownerReferences", default=None)

    def share(self, twin: "ObjectMeta | None") -> None:
        """Keep label texts once, however many objects carry them: thousands of pods carry the same labels, which are a sixth of
        what a cached pod weighs. For a store that takes this in, in the place of ``twin``, whose labels mostly are the same."""
        labels = self.raw_labels
        if not labels:
            return
        if twin is not None and twin.raw_labels == labels:
            structs.force_setattr(self, "raw_labels", twin.raw_labels)
            return
        shared = [(intern(name), intern(value)) for name, value in labels.items()]
        labels.clear()
        labels.update(shared)

    @property
    def labels(self) -> Mapping[str, str]:
        return self.raw_labels or _EMPTY

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.raw_annotations or _EMPTY

    @property
    def finalizers(self) -> Sequence[str]:
        return self.raw_finalizers or ()

    @property
    def owner_references(self) -> Sequence[OwnerReference]:
        return self.raw_owner_references or ()

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with ``controller: true``, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    def controlled_by(self, uid: str) -> bool:
        """Whether the object with this UID is the controller."""
        controller = self.controller
        return controller is not None and controller.uid == uid

    @property
    def key(self) -> str:
        """``namespace/name``, or ``name`` for what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class HasMeta(Protocol):
    """Anything with ``metadata``."""

    @property
    def metadata(self) -> ObjectMeta: ...


class ObjectView(View, frozen=True, gc=False, kw_only=True):
    """A view of a whole object. Also the view of its metadata alone (``PartialObjectMetadata``)."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace


class Condition(View, frozen=True, gc=False, kw_only=True):
    """A condition of any kind. ``status`` is ``"True"``, ``"False"`` or ``"Unknown"``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None


class ObjectRef(View, frozen=True, gc=False, kw_only=True):
    """A reference to an object as events carry it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


def object_ref(obj: HasMeta, *, api_version: str, kind: str) -> ObjectRef:
    """The reference to ``obj``, which does not know its own kind."""
    meta = obj.metadata
    return ObjectRef(
        api_version=api_version,
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


class ListMeta(
    View,
    frozen=True,
    gc=False,
    kw_only=True,
    rename={
        "resource_version": "resourceVersion",
        "next_page": "continue",
        "remaining_item_count": "remainingItemCount",
    },
):
    """``metadata`` of a list."""

    resource_version: str = ""
    next_page: str = ""
    remaining_item_count: int | None = None


def owner_reference(owner: HasMeta, *, api_version: str, kind: str, controller: bool = True) -> dict[str, Any]:
    """An owner reference to ``owner`` as it is written: a controller that blocks its owner's foreground deletion."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def find_condition(conditions: Sequence[Condition] | None, kind: str) -> Condition | None:
    """The condition of type ``kind``, if present."""
    return next((condition for condition in conditions or () if condition.type == kind), None)
