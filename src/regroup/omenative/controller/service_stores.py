"""The cache as the InferenceService controller reads it, and which services an object concerns."""

from collections.abc import Iterable
from dataclasses import dataclass

from regroup.kube.meta import HasMeta, ObjectView
from regroup.kube.workloads import Service
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.types import BaseModel, InferenceService, ServingRuntime
from regroup.omenative.keys import SERVICE
from regroup.omenative.service.resolve import Sources, find_model, find_runtime
from regroup.runtime.store import Store

BY_RUNTIME = "runtime"
BY_MODEL = "model"
BY_SERVICE = "service"

ServiceKey = tuple[str, str]
"""Namespace and name of an InferenceService."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStores:
    """What the InferenceService controller reads."""

    services: Store[InferenceService]
    replicas: Store[InferenceReplica]
    runtimes: Store[ServingRuntime]
    cluster_runtimes: Store[ServingRuntime]
    models: Store[BaseModel]
    cluster_models: Store[BaseModel]
    stable: Store[Service]
    budgets: Store[ObjectView]

    def sources(self, service: InferenceService) -> Sources:
        """The runtime and the model that ``service`` names, or why there is none."""
        spec, namespace = service.spec, service.namespace
        runtime = model = None
        if spec.runtime is not None:
            name = spec.runtime.name
            runtime = find_runtime(
                spec.runtime,
                namespace=namespace,
                cluster=self.cluster_runtimes.get("", name),
                namespaced=self.runtimes.get(namespace, name),
            )
        if spec.model is not None:
            name = spec.model.name
            model = find_model(
                spec.model,
                namespace=namespace,
                cluster=self.cluster_models.get("", name),
                namespaced=self.models.get(namespace, name),
            )
        return Sources(runtime=runtime, model=model)

    def users_of(self, found: HasMeta, *, index: str) -> Iterable[ServiceKey]:
        """The services that name a runtime or a model, by the store's index."""
        meta = found.metadata
        for service in self.services.index(index, meta.name):
            if not meta.namespace or meta.namespace == service.namespace:
                yield service.namespace, service.name


def runtime_index(service: InferenceService) -> Iterable[str]:
    return (service.spec.runtime.name,) if service.spec.runtime is not None else ()


def model_index(service: InferenceService) -> Iterable[str]:
    return (service.spec.model.name,) if service.spec.model is not None else ()


def service_index(replica: InferenceReplica) -> Iterable[str]:
    """The InferenceService that a replica says it belongs to."""
    parent = replica.spec.parent_ref
    return (f"{replica.namespace}/{parent.name}",) if parent is not None else ()


def service_of(found: HasMeta) -> Iterable[ServiceKey]:
    """The InferenceService that an object's label names."""
    meta = found.metadata
    name = meta.labels.get(SERVICE, "")
    return ((meta.namespace, name),) if name else ()
