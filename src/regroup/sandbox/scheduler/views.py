"""Pods and nodes as the scheduler sees them: what a placement rests on, decoded straight from bytes. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from regroup.kube.meta import ObjectView, View
from regroup.kube.node import Taint
from regroup.kube.pod import PodStatus, SchedulingGate, Volume

REFUSE_PODS = "sandbox.regroup.dev/refuse-pods"
"""Node annotation, ours: comma separated ``namespace/name`` of pods that find no place on the node."""


class Requirement(View, frozen=True, gc=False, kw_only=True):
    """``matchExpressions[]`` of any selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Selector(View, frozen=True, gc=False, kw_only=True):
    """``metav1.LabelSelector``."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class NodeTerm(View, frozen=True, gc=False, kw_only=True):
    """``nodeSelectorTerms[]``."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeTerms(View, frozen=True, gc=False, kw_only=True):
    """``nodeAffinity.requiredDuringScheduling...``: any term is enough."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class PreferredNodes(View, frozen=True, gc=False, kw_only=True):
    """``nodeAffinity.preferredDuringScheduling...[]``."""

    weight: int = 0
    preference: NodeTerm = NodeTerm()


class NodeAffinity(View, frozen=True, gc=False, kw_only=True):
    """``affinity.nodeAffinity``."""

    required: NodeTerms | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: tuple[PreferredNodes, ...] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodTerm(View, frozen=True, gc=False, kw_only=True):
    """A term of pod affinity or anti-affinity."""

    topology_key: str = ""
    label_selector: Selector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: Selector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class PreferredPods(View, frozen=True, gc=False, kw_only=True):
    """A preferred term of pod affinity or anti-affinity."""

    weight: int = 0
    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(View, frozen=True, gc=False, kw_only=True):
    """``affinity.podAffinity`` and ``affinity.podAntiAffinity``."""

    required: tuple[PodTerm, ...] | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: tuple[PreferredPods, ...] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(View, frozen=True, gc=False, kw_only=True):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(View, frozen=True, gc=False, kw_only=True):
    """``spec.tolerations[]``. An empty key with ``Exists`` tolerates all; an empty effect matches all effects."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers ``taint``."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


class SpreadConstraint(View, frozen=True, gc=False, kw_only=True):
    """``spec.topologySpreadConstraints[]``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: Selector | None = None
    match_label_keys: tuple[str, ...] | None = None


class Resources(View, frozen=True, gc=False, kw_only=True):
    """``resources`` of a container."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Port(View, frozen=True, gc=False, kw_only=True):
    """``ports[]`` of a container: only what can collide on a node."""

    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class Container(View, frozen=True, gc=False, kw_only=True):
    """A container as the scheduler weighs it."""

    resources: Resources | None = None
    ports: tuple[Port, ...] | None = None
    restart_policy: str = ""


class PodSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a pod."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    resources: Resources | None = None
    overhead: dict[str, str | int | float] | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    volumes: tuple[Volume, ...] | None = None


class SchedulerPod(ObjectView, frozen=True, gc=False, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    raw_status: PodStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> PodStatus:
        return self.raw_status or PodStatus()

    @property
    def terminal(self) -> bool:
        """The pod has ended and holds nothing on its node."""
        return self.status.phase in {"Failed", "Succeeded"}


class SchedulerNodeSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class SchedulerNodeStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a node."""

    allocatable: dict[str, str | int | float] | None = None


class SchedulerNode(ObjectView, frozen=True, gc=False, kw_only=True):
    """A node."""

    spec: SchedulerNodeSpec = SchedulerNodeSpec()
    raw_status: SchedulerNodeStatus | None = msgspec.field(name="status", default=None)

    @property
    def allocatable(self) -> Mapping[str, str | int | float]:
        return (self.raw_status.allocatable if self.raw_status else None) or {}

    @property
    def taints(self) -> Sequence[Taint]:
        return self.spec.taints or ()

    @property
    def refused_pods(self) -> frozenset[str]:
        """Pods (``namespace/name``) that the annotation of ``regroup fault`` keeps off this node."""
        text = self.metadata.annotations.get(REFUSE_PODS, "")
        return frozenset(name.strip() for name in text.split(",") if name.strip())


class Namespace(ObjectView, frozen=True, gc=False, kw_only=True):
    """A namespace: its labels, for ``namespaceSelector``."""


class ClaimSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a PersistentVolumeClaim."""

    volume_name: str = ""


class Claim(ObjectView, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim: whether it has a volume."""

    spec: ClaimSpec = ClaimSpec()
