"""InferenceService, its runtimes and models as we read them: frozen views with the effective values (spec/omenative.md 1). Pure.

Components and pod specs stay plain dicts: they are merged, passed on, and never changed in place.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from regroup.kube.meta import Condition, ObjectView, View
from regroup.omenative.api.lifecycle import IntOrPercent, Lifecycle
from regroup.omenative.api.replica import FREEZE
from regroup.omenative.keys import (
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    COMPONENTS,
    DECODER,
    ENGINE,
    ROLLOUT_PAUSED,
    ROUTER,
    SERVING_RUNTIMES,
)

Object = dict[str, Any]

OME_NATIVE = "OMENative"
RAW_DEPLOYMENT = "RawDeployment"
DEPLOYMENT_MODES = (RAW_DEPLOYMENT, OME_NATIVE, "MultiNode", "VirtualDeployment")
"""What the annotation ``ome.io/deploymentMode`` of a component may say; anything else is passed over (1.1.4)."""
SPEC_DEPLOYMENT_MODES = (OME_NATIVE, RAW_DEPLOYMENT)

PAUSE_TRUE = "true"
PAUSE_FREEZE = "freeze"


class ModelRef(View, frozen=True, gc=False, kw_only=True):
    """``spec.model``."""

    name: str = ""
    raw_kind: str | None = msgspec.field(name="kind", default=None)

    @property
    def kind(self) -> str:
        return self.raw_kind or CLUSTER_BASE_MODELS.kind

    @property
    def namespaced(self) -> bool:
        return self.kind == BASE_MODELS.kind


class RuntimeRef(View, frozen=True, gc=False, kw_only=True):
    """``spec.runtime``."""

    name: str = ""
    raw_kind: str | None = msgspec.field(name="kind", default=None)

    @property
    def kind(self) -> str:
        return self.raw_kind or CLUSTER_SERVING_RUNTIMES.kind

    @property
    def namespaced(self) -> bool:
        return self.kind == SERVING_RUNTIMES.kind


class Component(View, frozen=True, gc=False, kw_only=True):
    """What an engine, decoder or router has beyond its pod spec (1.1.1). ``leader`` and ``worker`` are None where absent."""

    min_replicas: int | None = None
    max_replicas: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    raw_lifecycle: Lifecycle | None = msgspec.field(name="lifecycle", default=None)
    runner: Object | None = None
    leader: Object | None = None
    worker: Object | None = None
    topology_key: str | None = None
    topology_spread: str | None = None
    topology_spread_key: str | None = None
    config: dict[str, str] | None = None

    @property
    def lifecycle(self) -> Lifecycle:
        return self.raw_lifecycle or Lifecycle()


class InferenceServiceSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec``."""

    deployment_mode: str | None = None
    model: ModelRef | None = None
    runtime: RuntimeRef | None = None
    engine: Object | None = None
    decoder: Object | None = None
    router: Object | None = None
    rollout: Object | None = None

    @property
    def pairing_protocol(self) -> str:
        """``rollout.pairingProtocol``: a part of each component's revision."""
        return str((self.rollout or {}).get("pairingProtocol") or "")

    def component(self, name: str) -> Object | None:
        """The component as it was declared; None where it was not."""
        return {ENGINE: self.engine, DECODER: self.decoder, ROUTER: self.router}[name]

    @property
    def declared(self) -> Sequence[str]:
        """Names of the declared components, in the usual order."""
        return [name for name in COMPONENTS if self.component(name) is not None]


class InferenceServiceStatus(View, frozen=True, gc=False, kw_only=True):
    """``status``."""

    raw_conditions: tuple[Condition, ...] | None = msgspec.field(name="conditions", default=None)
    raw_components: dict[str, Any] | None = msgspec.field(name="components", default=None)
    url: str | None = None
    observed_generation: int = 0

    @property
    def conditions(self) -> Sequence[Condition]:
        return self.raw_conditions or ()

    @property
    def components(self) -> Mapping[str, Any]:
        return self.raw_components or {}


class InferenceService(ObjectView, frozen=True, gc=False, kw_only=True):
    """An InferenceService."""

    spec: InferenceServiceSpec = InferenceServiceSpec()
    raw_status: InferenceServiceStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> InferenceServiceStatus:
        return self.raw_status or InferenceServiceStatus()

    @property
    def paused(self) -> bool:
        """Exactly ``true`` or ``freeze``; any other value is no pause (1.2, behaviour 103)."""
        return self.metadata.annotations.get(ROLLOUT_PAUSED) in {PAUSE_TRUE, PAUSE_FREEZE}

    @property
    def pause_mode(self) -> str:
        """``Freeze``, or empty, which means Recover."""
        return FREEZE if self.metadata.annotations.get(ROLLOUT_PAUSED) == PAUSE_FREEZE else ""


class RuntimeSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a ServingRuntime or ClusterServingRuntime."""

    engine_config: Object | None = None
    decoder_config: Object | None = None
    router_config: Object | None = None
    node_selector: dict[str, str] | None = None
    scheduler_name: str | None = None

    def component(self, name: str) -> Object | None:
        """What the runtime gives the component of that name."""
        return {ENGINE: self.engine_config, DECODER: self.decoder_config, ROUTER: self.router_config}[name]


class ServingRuntime(ObjectView, frozen=True, gc=False, kw_only=True):
    """A ServingRuntime or a ClusterServingRuntime: the one without a namespace is the cluster's."""

    spec: RuntimeSpec = RuntimeSpec()


class ModelStorage(View, frozen=True, gc=False, kw_only=True):
    """``spec.storage`` of a model."""

    storage_uri: str = ""
    path: str = ""


class ModelSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a BaseModel or ClusterBaseModel."""

    storage: ModelStorage | None = None


class BaseModel(ObjectView, frozen=True, gc=False, kw_only=True):
    """A BaseModel or a ClusterBaseModel: the one without a namespace is the cluster's."""

    spec: ModelSpec = ModelSpec()

    @property
    def node_label(self) -> str:
        """The label of the nodes that have the model (1.4)."""
        meta = self.metadata
        if meta.namespace:
            return f"models.ome.io/{meta.namespace}.basemodel.{meta.name}"
        return f"models.ome.io/clusterbasemodel.{meta.name}"


def config_key(component: str) -> str:
    """The field of a runtime that configures ``component``: ``engineConfig`` and so on."""
    return f"{component}Config"


def decode(obj: Mapping[str, Any]) -> InferenceService:
    """The view of a plain dict. Raises ``msgspec.ValidationError`` with the path of what has the wrong type."""
    return msgspec.convert(obj, InferenceService)
