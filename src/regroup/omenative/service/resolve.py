"""What each component of an InferenceService comes to: mode, runtime, model, merged spec (spec/omenative.md 1.1-1.4).

Pure. A component that cannot be resolved gives a named trouble in place of a result, and its workload is left as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from regroup.omenative.api.lifecycle import IntOrPercent
from regroup.omenative.api.lifecycle_rules import budget_problem, lifecycle_problems
from regroup.omenative.api.types import (
    DEPLOYMENT_MODES,
    OME_NATIVE,
    RAW_DEPLOYMENT,
    BaseModel,
    Component,
    InferenceService,
    ModelRef,
    RuntimeRef,
    RuntimeSpec,
    ServingRuntime,
    config_key,
)
from regroup.omenative.configuration import effective
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.keys import (
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    DEPLOYMENT_MODE,
    ROUTER,
    SERVING_RUNTIMES,
)
from regroup.omenative.service.merge import merge_component
from regroup.omenative.service.podspecs import NoContainer, runners

Object = dict[str, Any]

RUNTIME_NOT_FOUND = "RuntimeNotFound"
BASE_MODEL_NOT_FOUND = "BaseModelNotFound"
UNSUPPORTED_MODE = "UnsupportedDeploymentMode"
INVALID_COMPONENT = "InvalidComponent"
REPLICA_REFUSED = "ReplicaRefused"
"""Resolved, but the API server does not take the InferenceReplica."""
_MESSAGE_LIMIT = 1024
_NOT_CHOSEN = ": a runtime is not chosen automatically, name one in spec.runtime.name"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a component cannot be resolved: a reason in one word, and a sentence with path, value and rule."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A component in OMENative mode, as its InferenceReplica is to be."""

    component: str
    replicas: int
    """Instances wanted."""
    runners: tuple[Object, ...]
    lifecycle: Object
    """Merged, not filled: the InferenceReplica's copy."""
    min_ready_seconds: int
    """In force, the cluster's default included."""
    topology_key: str = ""
    topology_spread: str = ""
    topology_spread_key: str = ""
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    declares_worker: bool = False
    """Whether the InferenceService itself says ``worker``: then its stable Service selects leaders only (2.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What an InferenceService refers to, as it was found."""

    runtime: ServingRuntime | Trouble | None = None
    """None: it names no runtime."""
    model: BaseModel | Trouble | None = None


def find_runtime(
    ref: RuntimeRef, *, namespace: str, cluster: ServingRuntime | None, namespaced: ServingRuntime | None
) -> ServingRuntime | Trouble:
    """The runtime that ``ref`` means, of the two that may have its name: the cluster's first, unless ``ref`` asks for the
    namespace's (1.3)."""
    if ref.kind not in {CLUSTER_SERVING_RUNTIMES.kind, SERVING_RUNTIMES.kind}:
        return Trouble(RUNTIME_NOT_FOUND, f'spec.runtime.kind: "{ref.kind[:60]}" is not a kind of runtime')
    found = namespaced if ref.namespaced else cluster or namespaced
    if found is not None:
        return found
    where = f"ServingRuntime {namespace}/{ref.name}"
    if not ref.namespaced:
        where = f"neither ClusterServingRuntime {ref.name} nor {where} exists"
        return Trouble(RUNTIME_NOT_FOUND, f"spec.runtime.name: {where}")
    return Trouble(RUNTIME_NOT_FOUND, f"spec.runtime.name: {where} does not exist")


def find_model(ref: ModelRef, *, namespace: str, cluster: BaseModel | None, namespaced: BaseModel | None) -> BaseModel | Trouble:
    """The model that ``ref`` means: of its kind, and nowhere else."""
    if ref.kind not in {CLUSTER_BASE_MODELS.kind, BASE_MODELS.kind}:
        return Trouble(BASE_MODEL_NOT_FOUND, f'spec.model.kind: "{ref.kind[:60]}" is not a kind of model')
    found = namespaced if ref.namespaced else cluster
    if found is not None:
        return found
    where = f"{ref.kind} {namespace}/{ref.name}" if ref.namespaced else f"{ref.kind} {ref.name}"
    return Trouble(BASE_MODEL_NOT_FOUND, f"spec.model.name: {where} does not exist")


def resolve(service: InferenceService, name: str, *, sources: Sources, live: LiveSettings) -> Resolved | Trouble:
    """The declared component ``name`` of ``service``. Never raises for what a user can write."""
    own = service.spec.component(name)
    if own is None:
        raise ValueError(f"{name} is not declared")
    if isinstance(sources.runtime, Trouble):
        return sources.runtime
    runtime = sources.runtime.spec if sources.runtime is not None else RuntimeSpec()
    merged = merge_component(runtime.component(name) or {}, own)
    path = f"spec.{name}"
    try:
        view = msgspec.convert(merged, Component)
    except msgspec.ValidationError as error:
        return _invalid(f"{path} merged with {_runtime_path(sources, name)}: {error}")
    mode = deployment_mode(service, name, view=view)
    if mode != OME_NATIVE:
        return Trouble(
            UNSUPPORTED_MODE,
            f"{path}: deployment mode {mode} is not served by regroup: set spec.deploymentMode to {OME_NATIVE}, or let another "
            "controller serve it",
        )
    wrong = _wrong(merged, view, name=name, own=own, runtime_path=_runtime_path(sources, name))
    if wrong:
        return _invalid(wrong)
    model = sources.model if name != ROUTER else None
    if isinstance(model, Trouble):
        return model
    try:
        made = runners(merged, view, path=path, runtime=runtime, model=model)
    except NoContainer as error:
        hint = "" if service.spec.runtime is not None else _NOT_CHOSEN
        return _invalid(f"{error}{hint}")
    lifecycle = view.lifecycle
    wanted = view.min_replicas if view.min_replicas is not None else live.default_min_replicas
    return Resolved(
        component=name,
        replicas=max(wanted, 1),
        runners=tuple(made),
        lifecycle=_without_nulls(merged.get("lifecycle") or {}),
        min_ready_seconds=effective.min_ready_seconds(lifecycle, live),
        topology_key=view.topology_key or "",
        topology_spread=view.topology_spread or "",
        topology_spread_key=view.topology_spread_key or "",
        min_available=view.min_available,
        max_unavailable=view.max_unavailable,
        declares_worker=own.get("worker") is not None,
    )


def deployment_mode(service: InferenceService, name: str, *, view: Component) -> str:
    """The mode of a component whose merged spec is ``view`` (1.1.4)."""
    annotated = (view.annotations or {}).get(DEPLOYMENT_MODE)
    if annotated in DEPLOYMENT_MODES:
        return annotated
    if service.spec.deployment_mode:
        return service.spec.deployment_mode
    if name != ROUTER and (view.leader is not None or view.worker is not None):
        return OME_NATIVE
    return RAW_DEPLOYMENT


def declared_mode(spec_mode: str, component: Mapping[str, Any]) -> str:
    """What the InferenceService itself says of a component's mode; empty where it says nothing."""
    annotations = component.get("annotations")
    annotated = annotations.get(DEPLOYMENT_MODE) if isinstance(annotations, Mapping) else None
    return str(annotated) if annotated in DEPLOYMENT_MODES else spec_mode


def _wrong(merged: Object, view: Component, *, name: str, own: Mapping[str, Any], runtime_path: str) -> str:
    """What is wrong with the merged component, with the path of whoever said it; empty when all is well."""
    if name == ROUTER and (view.leader is not None or view.worker is not None):
        return (
            f"InvalidLeaderWorkerPairing: spec.{name} merged with {runtime_path}: a router has one pod, no leader and no worker"
        )
    if (view.leader is None) is not (view.worker is None):
        has, lacks = ("leader", "worker") if view.leader is not None else ("worker", "leader")
        return f"InvalidLeaderWorkerPairing: spec.{name} merged with {runtime_path} has a {has} and no {lacks}"
    size = (view.worker or {}).get("size")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        return f"InvalidLeaderWorkerPairing: spec.{name}.worker.size must be at least 1, got {size!r:.60}"
    multi_pod = view.leader is not None
    problems = lifecycle_problems(merged.get("lifecycle"), f"spec.{name}.lifecycle", multi_pod=multi_pod, explicit=False)
    for problem in problems:
        mine = lifecycle_problems(own.get("lifecycle"), f"spec.{name}.lifecycle", multi_pod=multi_pod, explicit=False)
        if problem in mine:
            return problem.message
        return problem.message.replace(f"spec.{name}.lifecycle", f"{runtime_path}.lifecycle")
    for key, value in (("minAvailable", view.min_available), ("maxUnavailable", view.max_unavailable)):
        wrong = budget_problem(value, f"spec.{name}.{key}") if value is not None else None
        if wrong is not None:
            return wrong.message
    return ""


def _runtime_path(sources: Sources, name: str) -> str:
    """``ClusterServingRuntime srt-x: spec.engineConfig``."""
    runtime = sources.runtime
    if not isinstance(runtime, ServingRuntime):
        return "no runtime"
    meta = runtime.metadata
    kind = SERVING_RUNTIMES.kind if meta.namespace else CLUSTER_SERVING_RUNTIMES.kind
    return f"{kind} {meta.name}: spec.{config_key(name)}"


def _invalid(message: str) -> Trouble:
    return Trouble(INVALID_COMPONENT, message[:_MESSAGE_LIMIT])


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
