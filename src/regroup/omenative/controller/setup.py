"""Wires the InferenceReplica controller to a manager: informers, indexes, and which change concerns which replica. Maps only."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from regroup.kube.meta import ObjectView
from regroup.kube.node import UNREACHABLE_TAINT, Node
from regroup.kube.resources import CONTROLLER_REVISIONS, ENDPOINT_SLICES, NODES, PODS, SERVICES
from regroup.kube.workloads import ControllerRevision, Service
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.configuration.settings import Settings
from regroup.omenative.controller.act import Actor
from regroup.omenative.controller.config import LiveConfig
from regroup.omenative.controller.observe import Observer
from regroup.omenative.controller.replicas import ReplicaPasses
from regroup.omenative.controller.service_setup import ServiceWiring
from regroup.omenative.controller.slices import EndpointSlice
from regroup.omenative.controller.statuses import Statuses
from regroup.omenative.controller.stores import (
    BY_COMPONENT,
    BY_NODE,
    ReplicaKey,
    Stores,
    component_index,
    node_index,
    replica_index,
)
from regroup.omenative.controller.surroundings import Surroundings
from regroup.omenative.controller.tallies import Tallies
from regroup.omenative.keys import INFERENCE_REPLICAS, MANAGED_BY, OMENATIVE, POD_GROUPS
from regroup.omenative.view import InstancePod
from regroup.runtime.controller import Controller
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.runtime.manager import Manager
from regroup.runtime.metrics import Metrics
from regroup.runtime.store import Change, Store

_OURS = f"{MANAGED_BY}={OMENATIVE}"
"""Label selector of everything that we make: caches hold nothing else."""
BACKOFF_CAP = 10.0
"""Seconds: what fails for one Instance fails the pass of its replica, and the clocks of all its other Instances wait as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is known when the controllers are built."""

    settings: Callable[[], Settings]
    """The configuration as it is now."""
    workers: int = 4
    """Replicas that are worked on at the same time."""
    gang_api: bool = False
    """Whether the cluster serves PodGroups; looked at once, at the start (2.6)."""


def setup(
    manager: Manager,
    *,
    recorder: EventRecorder,
    config: LiveConfig,
    workers: int = 4,
    gang_api: bool = False,
    metrics: Metrics | None = None,
) -> None:
    """Add both controllers of OMENative to ``manager``. ``config`` is loaded; ``workers`` is for each controller."""
    options = Options(settings=lambda: config.settings, workers=workers, gang_api=gang_api)
    replicas = Wiring(manager, recorder=recorder, options=options, metrics=metrics)
    services = ServiceWiring(manager, recorder=recorder, live=lambda: config.settings.live, workers=workers, metrics=metrics)
    config.on_change(replicas.wake_all)
    config.on_change(services.wake_all)
    manager.add(config.run, name="configuration")


class Wiring:
    """The replica controller, and the handlers that give it its keys."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder, options: Options, metrics: Metrics | None = None) -> None:
        cache, client, clock = manager.cache, manager.client, manager.clock
        by_component = {BY_COMPONENT: component_index}
        replicas = cache.informer(INFERENCE_REPLICAS, type=InferenceReplica, indexers={BY_COMPONENT: replica_index})
        pods = cache.informer(
            PODS, type=InstancePod, label_selector=_OURS, indexers={BY_COMPONENT: component_index, BY_NODE: node_index}
        )
        services = cache.informer(SERVICES, type=Service, label_selector=_OURS, indexers=by_component)
        slices = cache.informer(ENDPOINT_SLICES, type=EndpointSlice, label_selector=_OURS, indexers=by_component)
        revisions = cache.informer(CONTROLLER_REVISIONS, type=ControllerRevision, label_selector=_OURS, indexers=by_component)
        nodes = cache.informer(NODES, type=Node)
        groups: Store[ObjectView] | None = None
        if options.gang_api:
            groups = cache.informer(POD_GROUPS, type=ObjectView, indexers=by_component).store
        self._stores = Stores(replicas.store, pods.store, services.store, slices.store, revisions.store, nodes.store, groups)
        expectations: Expectations[ReplicaKey] = Expectations(clock=clock)
        passes = ReplicaPasses(
            client,
            clock=clock,
            stores=self._stores,
            observer=Observer(self._stores, clock=clock, settings=options.settings),
            surroundings=Surroundings(client, stores=self._stores, expectations=expectations, settings=options.settings),
            statuses=Statuses(client, stores=self._stores, expectations=expectations),
            actor=Actor(client, clock=clock, stores=self._stores, expectations=expectations),
            recorder=recorder,
            expectations=expectations,
            on_pass=Tallies(metrics).count,
        )
        self.replicas: Controller[ReplicaKey] = Controller(
            "ome-replica", passes.look, clock=clock, workers=options.workers, metrics=metrics, backoff_cap=BACKOFF_CAP
        )
        self.replicas.watches(replicas, _own_key)
        self.replicas.watches(pods, self._owners)
        self.replicas.watches(services, self._losers)
        self.replicas.watches(slices, self._owners)
        self.replicas.watches(revisions, self._losers)
        self.replicas.watches(nodes, self._replicas_of_node)
        manager.add_controller(self.replicas)

    def wake_all(self) -> None:
        """Look at every replica again: the configuration changed."""
        for replica in self._stores.replicas.values():
            self.replicas.queue.add((replica.namespace, replica.name), low=True)

    def _replicas_of_node(self, change: Change[Node]) -> Iterable[ReplicaKey]:
        """Replicas with a pod on a node whose health changed."""
        if change.old is not None and change.new is not None and _health(change.old) == _health(change.new):
            return
        for pod in self._stores.pods.index(BY_NODE, change.object.metadata.name):
            yield from self._stores.keys_of(pod)

    def _owners(self, change: Change[InstancePod] | Change[EndpointSlice]) -> Iterable[ReplicaKey]:
        for found in (change.new, change.old):
            if found is not None:
                yield from self._stores.keys_of(found)

    def _losers(self, change: Change[Service] | Change[ControllerRevision]) -> Iterable[ReplicaKey]:
        """Replicas of what is gone; that ours appeared is no news."""
        if change.new is None and change.old is not None:
            yield from self._stores.keys_of(change.old)


def _own_key(change: Change[InferenceReplica]) -> Iterable[ReplicaKey]:
    """The replica itself. A status that we wrote brings another look, which finds what is next."""
    meta = change.object.metadata
    return ((meta.namespace, meta.name),)


def _health(node: Node) -> tuple[str, bool]:
    ready = node.ready
    return (ready.status if ready is not None else "", node.taint(UNREACHABLE_TAINT) is not None)
