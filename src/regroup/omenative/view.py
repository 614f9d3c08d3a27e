"""What one pass over an InferenceReplica may know: gathered by the controller, read by the pass (spec/omenative.md 3.3). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from regroup.kube.meta import View
from regroup.kube.pod import Pod, PodSpec
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.configuration.settings import Settings
from regroup.omenative.keys import INCARNATION, INSTANCE_INDEX, POD_ORDINAL, REVISION_HASH, RUNNER


class InstanceContainer(View, frozen=True, gc=False, kw_only=True):
    """``spec.containers[]``: what an update in place compares."""

    name: str = ""
    image: str = ""


class InstancePodSpec(PodSpec, frozen=True, gc=False, kw_only=True):
    """``spec`` of a pod of an Instance."""

    containers: tuple[InstanceContainer, ...] = ()


class InstancePod(Pod, frozen=True, gc=False, kw_only=True):
    """A pod of an Instance."""

    spec: InstancePodSpec = InstancePodSpec()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def index(self) -> int | None:
        """Its Instance's index, None where the label is no number."""
        return _number(self.metadata.labels.get(INSTANCE_INDEX, ""))

    @property
    def incarnation(self) -> int | None:
        """None where the label is missing or is no number: an orphan (4.6)."""
        return _number(self.metadata.labels.get(INCARNATION, ""))

    @property
    def ordinal(self) -> int | None:
        return _number(self.metadata.labels.get(POD_ORDINAL, ""))

    @property
    def runner(self) -> str:
        return self.metadata.labels.get(RUNNER, "")

    @property
    def revision_hash(self) -> str:
        return self.metadata.labels.get(REVISION_HASH, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A stored ControllerRevision of the component: ``data`` has the pod templates of all runners."""

    name: str
    hash: str
    number: int
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """What the EndpointSlices say of one revision's routed Service: the evidence that a pod is drained (2.5)."""

    service_exists: bool
    slices: int
    """How many EndpointSlices the Service has."""
    ready_pods: frozenset[str] = frozenset()
    """UIDs of the pods that are listed as ready; a missing ``ready`` counts as ready. Names where a slice has no UID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A node's health: ``known`` False while its kubelet has stopped reporting, or where there is no such node."""

    exists: bool = True
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One InferenceReplica, its pods and what surrounds them, at ``now``."""

    replica: InferenceReplica
    now: datetime
    settings: Settings
    pods: Sequence[InstancePod]
    """All pods with the component's labels that this replica owns, deleting ones included, and orphans of it: pods with its
    labels and without an incarnation. Never pods that another controller owns."""
    revisions: Sequence[Revision] = ()
    """Stored revisions, the wanted one included: the controller stores it before the pass."""
    update_revision: str = ""
    """Name of the wanted revision."""
    routing: Mapping[str, Routing] = field(default_factory=dict)
    """By revision hash."""
    stable_ready: frozenset[str] = frozenset()
    """UIDs of the pods that the stable Service lists as ready: also workers, where the service itself declares none (2.5)."""
    headless_listed: frozenset[str] = frozenset()
    """UIDs of the pods that the headless Service lists: the base of "available" (3.4)."""
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    pod_groups: Mapping[str, str] = field(default_factory=dict)
    """Name of each PodGroup that exists to its state: "ours", "foreign" or "terminating"."""
    gang_api: bool = False
    """Whether PodGroups are served by this cluster."""


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None
