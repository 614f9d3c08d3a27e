"""Pods and nodes as a kubelet sees them. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from regroup.kube.meta import Condition, ObjectView, View
from regroup.kube.pod import ContainerState

PREFIX = "sandbox.regroup.dev/"
"""Of every annotation that tells the simulated kubelet something."""
DOWN = PREFIX + "down"
"""Node annotation: ``"true"`` cuts the node off; its containers run on, unseen."""
REFUSE_IMAGES = PREFIX + "refuse-images"
"""Node annotation: comma separated prefixes of images that cannot be pulled."""


class Probe(View, frozen=True, gc=False, kw_only=True):
    """A probe: only when it first asks."""

    initial_delay_seconds: int = 0


class ExitCodes(View, frozen=True, gc=False, kw_only=True):
    """``exitCodes`` of a restart rule."""

    operator: str = ""
    values: tuple[int, ...] | None = None


class RestartRule(View, frozen=True, gc=False, kw_only=True):
    """``restartPolicyRules[]`` of a container."""

    action: str = ""
    exit_codes: ExitCodes | None = None


class Container(View, frozen=True, gc=False, kw_only=True):
    """A container to run."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] | None = None
    readiness_probe: Probe | None = None


class ReadinessGate(View, frozen=True, gc=False, kw_only=True):
    """``spec.readinessGates[]``."""

    condition_type: str = ""


class PodSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a pod."""

    node_name: str = ""
    restart_policy: str = "Always"
    host_network: bool = False
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    readiness_gates: tuple[ReadinessGate, ...] | None = None


class ContainerStatus(View, frozen=True, gc=False, kw_only=True):
    """``status.containerStatuses[]``, every field that a kubelet writes."""

    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(name="imageID", default="")
    container_id: str = msgspec.field(name="containerID", default="")
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class Address(View, frozen=True, gc=False, kw_only=True):
    """``podIPs[]`` and ``hostIPs[]``."""

    ip: str = ""


class PodStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    host_ip: str = msgspec.field(name="hostIP", default="")
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class KubeletPod(ObjectView, frozen=True, gc=False, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    raw_status: PodStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> PodStatus:
        return self.raw_status or PodStatus()

    @property
    def conditions(self) -> Sequence[Condition]:
        return self.status.conditions or ()

    @property
    def terminal(self) -> bool:
        """The API already says that the pod has ended."""
        return self.status.phase in {"Failed", "Succeeded"}


class KubeletNodeStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a node: whether others have overwritten our word."""

    conditions: tuple[Condition, ...] | None = None


class KubeletNode(ObjectView, frozen=True, gc=False, kw_only=True):
    """A node."""

    raw_status: KubeletNodeStatus | None = msgspec.field(name="status", default=None)

    @property
    def down(self) -> bool:
        """Cut off by ``regroup fault node-down``."""
        return self.metadata.annotations.get(DOWN, "").lower() == "true"

    @property
    def refused_images(self) -> tuple[str, ...]:
        """Image prefixes that the node cannot pull."""
        text = self.metadata.annotations.get(REFUSE_IMAGES, "")
        return tuple(sorted({prefix.strip() for prefix in text.split(",") if prefix.strip()}))

    @property
    def conditions(self) -> Mapping[str, Condition]:
        """By type."""
        return {entry.type: entry for entry in (self.raw_status.conditions if self.raw_status else None) or ()}
