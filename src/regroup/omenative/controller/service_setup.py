"""Wires the InferenceService controller to a manager: informers, indexes, and which change concerns which service. Maps only."""

from collections.abc import Callable, Iterable

from regroup.kube.meta import ObjectView
from regroup.kube.resources import POD_DISRUPTION_BUDGETS, SERVICES
from regroup.kube.workloads import Service
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.types import BaseModel, InferenceService, ServingRuntime
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.controller.service_statuses import ServiceStatuses
from regroup.omenative.controller.service_stores import (
    BY_MODEL,
    BY_RUNTIME,
    BY_SERVICE,
    ServiceKey,
    ServiceStores,
    model_index,
    runtime_index,
    service_index,
    service_of,
)
from regroup.omenative.controller.services import ServicePasses
from regroup.omenative.keys import (
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    MANAGED_BY,
    OMENATIVE,
    SERVING_RUNTIMES,
)
from regroup.runtime.controller import Controller
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.runtime.manager import Manager
from regroup.runtime.metrics import Metrics
from regroup.runtime.store import Change

_OURS = f"{MANAGED_BY}={OMENATIVE}"


class ServiceWiring:
    """The InferenceService controller, and the handlers that give it its keys."""

    def __init__(
        self,
        manager: Manager,
        *,
        recorder: EventRecorder,
        live: Callable[[], LiveSettings],
        workers: int,
        metrics: Metrics | None = None,
    ) -> None:
        cache, client, clock = manager.cache, manager.client, manager.clock
        services = cache.informer(
            INFERENCE_SERVICES, type=InferenceService, indexers={BY_RUNTIME: runtime_index, BY_MODEL: model_index}
        )
        replicas = cache.informer(INFERENCE_REPLICAS, type=InferenceReplica, indexers={BY_SERVICE: service_index})
        runtimes = cache.informer(SERVING_RUNTIMES, type=ServingRuntime)
        cluster_runtimes = cache.informer(CLUSTER_SERVING_RUNTIMES, type=ServingRuntime)
        models = cache.informer(BASE_MODELS, type=BaseModel)
        cluster_models = cache.informer(CLUSTER_BASE_MODELS, type=BaseModel)
        stable = cache.informer(SERVICES, type=Service, label_selector=_OURS)
        budgets = cache.informer(POD_DISRUPTION_BUDGETS, type=ObjectView, label_selector=_OURS)
        self._stores = ServiceStores(
            services=services.store,
            replicas=replicas.store,
            runtimes=runtimes.store,
            cluster_runtimes=cluster_runtimes.store,
            models=models.store,
            cluster_models=cluster_models.store,
            stable=stable.store,
            budgets=budgets.store,
        )
        expectations: Expectations[ServiceKey] = Expectations(clock=clock)
        passes = ServicePasses(
            client,
            clock=clock,
            stores=self._stores,
            live=live,
            expectations=expectations,
            recorder=recorder,
            statuses=ServiceStatuses(client, clock=clock, stores=self._stores, expectations=expectations, recorder=recorder),
        )
        self.services: Controller[ServiceKey] = Controller(
            "ome-service", passes.look, clock=clock, workers=workers, metrics=metrics
        )
        self.services.watches(services, _own_key)
        self.services.watches(replicas, _parent)
        for runtime in (runtimes, cluster_runtimes):
            self.services.watches(runtime, self._users_of_runtime)
        for model in (models, cluster_models):
            self.services.watches(model, self._users_of_model)
        self.services.watches(stable, _losers)
        self.services.watches(budgets, _losers)
        manager.add_controller(self.services)

    def wake_all(self) -> None:
        """Look at every service again: the configuration changed."""
        for service in self._stores.services.values():
            self.services.queue.add((service.namespace, service.name), low=True)

    def _users_of_runtime(self, change: Change[ServingRuntime]) -> Iterable[ServiceKey]:
        if _says_otherwise(change):
            yield from self._stores.users_of(change.object, index=BY_RUNTIME)

    def _users_of_model(self, change: Change[BaseModel]) -> Iterable[ServiceKey]:
        if _says_otherwise(change):
            yield from self._stores.users_of(change.object, index=BY_MODEL)


def _own_key(change: Change[InferenceService]) -> Iterable[ServiceKey]:
    meta = change.object.metadata
    return ((meta.namespace, meta.name),)


def _parent(change: Change[InferenceReplica]) -> Iterable[ServiceKey]:
    parent = change.object.spec.parent_ref
    return ((change.object.namespace, parent.name),) if parent is not None else ()


def _losers(change: Change[Service] | Change[ObjectView]) -> Iterable[ServiceKey]:
    """Services of what is gone; that ours appeared or changed is no news."""
    return service_of(change.old) if change.new is None and change.old is not None else ()


def _says_otherwise(change: Change[ServingRuntime] | Change[BaseModel]) -> bool:
    """A status of a runtime or a model concerns no service."""
    old, new = change.old, change.new
    return old is None or new is None or old.metadata.generation != new.metadata.generation
