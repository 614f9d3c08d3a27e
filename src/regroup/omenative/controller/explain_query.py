"""Reads one InferenceService and all that belongs to it through a plain client, and explains its Instances. Reads only.

No cache and no memory: writes of a running operator that are still on their way are not seen here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regroup.kube.meta import ObjectView
from regroup.kube.node import Node
from regroup.kube.resources import CONFIGMAPS, CONTROLLER_REVISIONS, ENDPOINT_SLICES, NODES, PODS, SERVICES
from regroup.kube.workloads import ControllerRevision, Service
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.types import InferenceService
from regroup.omenative.configuration.config import CONFIG_MAP, live_settings, start_settings
from regroup.omenative.configuration.settings import Settings
from regroup.omenative.controller.belongings import controlled
from regroup.omenative.controller.config import ConfigMapView
from regroup.omenative.controller.observe import Observer
from regroup.omenative.controller.slices import EndpointSlice
from regroup.omenative.controller.stores import BY_COMPONENT, BY_NODE, Stores, component_index, node_index, replica_index
from regroup.omenative.engine.explain import ComponentReport, explain_component
from regroup.omenative.keys import COMPONENT, COMPONENTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, POD_GROUPS, SERVICE
from regroup.omenative.names import headless_service, replica_name
from regroup.omenative.view import InstancePod
from regroup.runtime.clock import Clock
from regroup.runtime.store import Store
from regroup.wire.client import Client
from regroup.wire.errors import Forbidden, NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceExplanation:
    """What the operator sees and would do for each Instance of one InferenceService."""

    namespace: str
    name: str
    conditions: Mapping[str, str]
    """``<status>/<reason>: <message>`` by type."""
    components: Sequence[ComponentReport]
    notes: Sequence[str] = ()
    """What is not there or could not be read, and what that means."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "conditions": dict(self.conditions),
            "components": [component.to_dict() for component in self.components],
            "notes": list(self.notes),
        }


async def explain(
    client: Client, namespace: str, name: str, *, clock: Clock, config_namespaces: Sequence[str]
) -> ServiceExplanation:
    """Explain all Instances; the operator's ConfigMap is the first that ``config_namespaces`` have.

    Raises ``WireError`` (``NotFound`` for the InferenceService).
    """
    service = await client.get(INFERENCE_SERVICES, name, namespace=namespace, type=InferenceService)
    settings, notes = await _settings(client, config_namespaces)
    stores, more = await _read(client, service)
    observer = Observer(stores, clock=clock, settings=lambda: settings)
    reports: list[ComponentReport] = []
    for component in COMPONENTS:
        replica = stores.replicas.get(namespace, replica_name(name, component))
        if replica is None:
            if component in service.spec.declared:
                more.append(f"{component} has no InferenceReplica: the conditions say why")
            continue
        more += await _in_the_way(client, replica)
        revisions = observer.revisions(replica)
        view = observer.view(replica, revisions=revisions, update_revision=replica.status.update_revision)
        reports.append(explain_component(view, policy_from=_policy_from(service, component, replica)))
    conditions = {one.type: f"{one.status}/{one.reason}: {one.message}" for one in service.status.conditions}
    return ServiceExplanation(namespace=namespace, name=name, conditions=conditions, components=reports, notes=[*notes, *more])


async def _in_the_way(client: Client, replica: InferenceReplica) -> list[str]:
    """A Service of somebody else under the name of ours: without ours no pod is made."""
    name = headless_service(replica.name)
    try:
        found = await client.get(SERVICES, name, namespace=replica.namespace, type=ObjectView)
    except NotFound:
        return []
    if controlled(replica, found):
        return []
    return [f"Service {name} exists and is not ours: nothing is done for {replica.spec.component} until it is gone"]


def _policy_from(service: InferenceService, component: str, replica: InferenceReplica) -> str:
    """Where the restart policy in force comes from (seed: the first of these that has one)."""
    own = (service.spec.component(component) or {}).get("lifecycle") or {}
    if own.get("restartPolicy"):
        return "InferenceService"
    return "runtime" if replica.spec.lifecycle.restart_policy else "default"


async def _settings(client: Client, namespaces: Sequence[str]) -> tuple[Settings, list[str]]:
    notes: list[str] = []
    for namespace in namespaces:
        try:
            found = await client.get(CONFIGMAPS, CONFIG_MAP, namespace=namespace, type=ConfigMapView)
        except NotFound:
            continue
        except Forbidden:
            notes.append(f"ConfigMap {namespace}/{CONFIG_MAP} may not be read with these credentials: taken as absent")
            continue
        data = found.data or {}
        return Settings(live=live_settings(data).settings, start=start_settings(data)), notes
    where = " or ".join(namespaces)
    return Settings(), [*notes, f"no ConfigMap {CONFIG_MAP} was found in {where}: no deadline and no grace is set cluster-wide"]


async def _read(client: Client, service: InferenceService) -> tuple[Stores, list[str]]:
    namespace, selector = service.namespace, f"{SERVICE}={service.name},{COMPONENT}"
    replicas, pods, services, slices, revisions = await asyncio.gather(
        client.list_all(INFERENCE_REPLICAS, namespace=namespace, type=InferenceReplica),
        client.list_all(PODS, namespace=namespace, label_selector=selector, type=InstancePod),
        client.list_all(SERVICES, namespace=namespace, label_selector=selector, type=Service),
        client.list_all(ENDPOINT_SLICES, namespace=namespace, label_selector=selector, type=EndpointSlice),
        client.list_all(CONTROLLER_REVISIONS, namespace=namespace, label_selector=selector, type=ControllerRevision),
    )
    notes: list[str] = []
    try:
        nodes = (await client.list_all(NODES, type=Node)).items
    except Forbidden:
        nodes = []
        notes.append("nodes may not be read with these credentials: lost nodes are not seen")
    by_component = {BY_COMPONENT: component_index}
    stores = Stores(
        replicas=Store(indexers={BY_COMPONENT: replica_index}),
        pods=Store(indexers={BY_COMPONENT: component_index, BY_NODE: node_index}),
        services=Store(indexers=by_component),
        slices=Store(indexers=by_component),
        revisions=Store(indexers=by_component),
        nodes=Store(),
        pod_groups=await _pod_groups(client, namespace),
    )
    stores.replicas.replace(replicas.items)
    stores.pods.replace(pods.items)
    stores.services.replace(services.items)
    stores.slices.replace(slices.items)
    stores.revisions.replace(revisions.items)
    stores.nodes.replace(nodes)
    return stores, notes


async def _pod_groups(client: Client, namespace: str) -> Store[ObjectView] | None:
    """PodGroups, None where the cluster serves none or they may not be read."""
    try:
        found = await client.list_all(POD_GROUPS, namespace=namespace, type=ObjectView)
    except (NotFound, Forbidden):
        return None
    store: Store[ObjectView] = Store()
    store.replace(found.items)
    return store
