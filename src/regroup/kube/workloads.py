"""Workload objects as the controllers see them. Pure."""

from typing import Any

import msgspec

from regroup.kube.meta import ObjectView, View


class Ordinals(View, frozen=True, gc=False, kw_only=True):
    """``spec.ordinals``."""

    start: int = 0


class RollingUpdate(View, frozen=True, gc=False, kw_only=True):
    """``spec.updateStrategy.rollingUpdate`` of a StatefulSet."""

    partition: int | None = None
    max_unavailable: int | str | None = None


class UpdateStrategy(View, frozen=True, gc=False, kw_only=True):
    """``spec.updateStrategy`` of a StatefulSet."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class StatefulSetSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a StatefulSet. ``template`` is kept as bytes, decoded only where it is compared."""

    replicas: int | None = None
    service_name: str = ""
    pod_management_policy: str = ""
    ordinals: Ordinals | None = None
    update_strategy: UpdateStrategy | None = None
    template: msgspec.Raw = msgspec.Raw()


class StatefulSetStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(ObjectView, frozen=True, gc=False, kw_only=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    raw_status: StatefulSetStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> StatefulSetStatus:
        return self.raw_status or StatefulSetStatus()

    @property
    def replicas(self) -> int:
        """``spec.replicas``, 1 when unset."""
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def partition(self) -> int:
        """``spec.updateStrategy.rollingUpdate.partition``, 0 when unset."""
        strategy = self.spec.update_strategy
        return (strategy.rolling_update.partition or 0) if strategy and strategy.rolling_update else 0


class ServiceSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a Service."""

    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    selector: dict[str, str] | None = None
    publish_not_ready_addresses: bool = False


class Service(ObjectView, frozen=True, gc=False, kw_only=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class ControllerRevision(ObjectView, frozen=True, gc=False, kw_only=True):
    """A ControllerRevision; ``data`` is whatever its owner put there."""

    revision: int = 0
    data: Any = None


class RollingUpdateDeployment(View, frozen=True, gc=False, kw_only=True):
    """``spec.strategy.rollingUpdate`` of a Deployment."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(View, frozen=True, gc=False, kw_only=True):
    """``spec.strategy`` of a Deployment."""

    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a Deployment. ``template`` is kept as bytes, decoded only where it is compared."""

    replicas: int | None = None
    strategy: DeploymentStrategy | None = None
    template: msgspec.Raw = msgspec.Raw()


class DeploymentStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a Deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0


class Deployment(ObjectView, frozen=True, gc=False, kw_only=True):
    """A Deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    raw_status: DeploymentStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> DeploymentStatus:
        return self.raw_status or DeploymentStatus()

    @property
    def replicas(self) -> int:
        """``spec.replicas``, 1 when unset."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class ReplicaSetSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a ReplicaSet."""

    replicas: int | None = None


class ReplicaSet(ObjectView, frozen=True, gc=False, kw_only=True):
    """A ReplicaSet: whose it is and how many pods it wants."""

    spec: ReplicaSetSpec = ReplicaSetSpec()

    @property
    def replicas(self) -> int:
        """``spec.replicas``, 1 when unset."""
        return 1 if self.spec.replicas is None else self.spec.replicas
