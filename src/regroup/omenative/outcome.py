"""What one pass comes to: a status to write first, then work on pods, then events (spec/omenative.md 3.3). Plain values. Pure.

The controller writes ``status`` in one request with the resourceVersion that was read; only when that succeeded does it carry the
actions out, in their order, and tell the events. A refused write drops the whole pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from regroup.omenative.api.replica import InferenceReplicaStatus

OF_REPLICA = -1
"""Index of an action that concerns no single Instance."""
NORMAL = "Normal"
WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An event on the InferenceService (or on a standalone replica itself)."""

    type: str
    reason: str
    message: str
    index: int | None = None
    pod: str = ""
    """The pod it is about, if one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A write that follows the status write. Every action is idempotent; ``index`` is the Instance it belongs to, so that a
    failure stops only that Instance's later actions."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod(Action):
    """Make one pod. A name that is taken by a pod of the same Instance and incarnation is no error."""

    name: str
    runner: str
    ordinal: int
    incarnation: int
    revision: str
    """Name of the stored revision that it is made from."""
    avoid_nodes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod(Action):
    """Delete one pod with its own grace, if it still has this UID."""

    name: str
    uid: str
    grace: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGate(Action):
    """Write the pod's serving condition: ``holders`` is the whole list that is to stand; empty means in rotation (3.5)."""

    name: str
    uid: str
    resource_version: str
    holders: Sequence[tuple[str, str]] = ()
    """(userAgent, key) of each writer that holds the pod out of rotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchImages(Action):
    """Update a pod in place: new images by container, and the labels that name the new revision."""

    name: str
    uid: str
    images: Sequence[tuple[str, str]]
    labels: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsurePodGroup(Action):
    """Make the Instance's PodGroup before its pods."""

    name: str
    min_member: int
    timeout: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePodGroup(Action):
    """The Instance is gone, and with it its PodGroup."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropAnnotation(Action):
    """Take an order that was carried out from the replica's mailbox, if it still says ``value``. ``index`` is ``OF_REPLICA``."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFinalizer(Action):
    """All pods are gone: let the replica go. ``index`` is ``OF_REPLICA``."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The API server did not take a pod of an Instance. ``kind``: ``Quota``, ``QuotaForever`` (more than the quota's hard
    limit: waiting cannot help), ``Invalid``, ``Webhook``, ``NameTaken``."""

    index: int
    pod: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why the pass did what it did with one Instance: for ``regroup explain`` and the log."""

    index: int
    rule: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of ``passes.run``."""

    status: InferenceReplicaStatus
    actions: Sequence[Action] = ()
    events: Sequence[Told] = ()
    reasons: Sequence[Reason] = ()
    wake: float | None = None
    """Seconds until another pass even if nothing changes; None: only when something does."""
    problems: Sequence[str] = field(default=())
    """What went wrong with single Instances; the rest of the pass went on."""
