"""Pods as the controllers see them: only the fields that a decision rests on, and facts derived from them. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from regroup.kube.meta import Condition, ObjectView, View, find_condition


class Terminated(View, frozen=True, gc=False, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    signal: int | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Waiting(View, frozen=True, gc=False, kw_only=True):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class Running(View, frozen=True, gc=False, kw_only=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerState(View, frozen=True, gc=False, kw_only=True):
    """One of waiting, running, terminated."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True, gc=False, kw_only=True):
    """``status.containerStatuses[]`` and ``status.initContainerStatuses[]``."""

    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image_id: str = msgspec.field(name="imageID", default="")
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class SchedulingGate(View, frozen=True, gc=False, kw_only=True):
    """``spec.schedulingGates[]``."""

    name: str = ""


class ClaimSource(View, frozen=True, gc=False, kw_only=True):
    """``persistentVolumeClaim`` of a volume."""

    claim_name: str = ""


class Volume(View, frozen=True, gc=False, kw_only=True):
    """``spec.volumes[]``: only whether it is a claim (an ephemeral volume is one as well)."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None

    @property
    def is_claim(self) -> bool:
        return self.persistent_volume_claim is not None or self.ephemeral is not None


class PodSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a pod."""

    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    termination_grace_period_seconds: int | None = None
    raw_scheduling_gates: tuple[SchedulingGate, ...] | None = msgspec.field(name="schedulingGates", default=None)
    raw_volumes: tuple[Volume, ...] | None = msgspec.field(name="volumes", default=None)

    @property
    def scheduling_gates(self) -> Sequence[SchedulingGate]:
        return self.raw_scheduling_gates or ()

    @property
    def has_claim(self) -> bool:
        """Whether one of its volumes is a PersistentVolumeClaim."""
        return any(volume.is_claim for volume in self.raw_volumes or ())


class PodStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: datetime | None = None
    raw_conditions: tuple[Condition, ...] | None = msgspec.field(name="conditions", default=None)
    raw_container_statuses: tuple[ContainerStatus, ...] | None = msgspec.field(name="containerStatuses", default=None)
    raw_init_container_statuses: tuple[ContainerStatus, ...] | None = msgspec.field(name="initContainerStatuses", default=None)

    @property
    def conditions(self) -> Sequence[Condition]:
        return self.raw_conditions or ()

    @property
    def container_statuses(self) -> Sequence[ContainerStatus]:
        return self.raw_container_statuses or ()

    @property
    def init_container_statuses(self) -> Sequence[ContainerStatus]:
        return self.raw_init_container_statuses or ()


class Pod(ObjectView, frozen=True, gc=False, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    raw_status: PodStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> PodStatus:
        return self.raw_status or PodStatus()

    @property
    def phase(self) -> str:
        return self.status.phase

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        """Condition ``Ready`` is True. Says nothing of deletion."""
        condition = find_condition(self.status.conditions, "Ready")
        return condition is not None and condition.status == "True"

    @property
    def containers_ready(self) -> bool:
        condition = find_condition(self.status.conditions, "ContainersReady")
        return condition is not None and condition.status == "True"

    @property
    def running_and_ready(self) -> bool:
        return self.phase == "Running" and self.ready

    @property
    def terminal(self) -> bool:
        """The pod has ended: phase Failed or Succeeded."""
        return self.phase in {"Failed", "Succeeded"}

    @property
    def restarts(self) -> int:
        """Restarts over all regular and init containers. Ephemeral containers never count."""
        return sum(status.restart_count for status in self.all_container_statuses())

    def all_container_statuses(self) -> Iterator[ContainerStatus]:
        """Regular containers first, then init containers."""
        yield from self.status.container_statuses
        yield from self.status.init_container_statuses

    @property
    def scheduled(self) -> Condition | None:
        """Condition ``PodScheduled``, None while no scheduler has reported."""
        return find_condition(self.status.conditions, "PodScheduled")

    def gated_by(self, gate: str) -> bool:
        """Whether the scheduling gate of that name is still on the pod."""
        return any(entry.name == gate for entry in self.spec.scheduling_gates)
