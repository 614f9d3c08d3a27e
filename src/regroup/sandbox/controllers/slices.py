"""Which EndpointSlices a Service needs, given its pods and the slices that exist. Pure.

Endpoints stay in the slice they are in, so that a change of one pod changes one slice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from regroup.kube.meta import ObjectView, View, owner_reference
from regroup.sandbox.controllers.views import Pod, labels_equal

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS_LABEL = "service.kubernetes.io/headless"
MAX_ENDPOINTS = 100
"""Endpoints in one slice, as a real controller manager is configured by default."""

Endpoint = dict[str, Any]
Ports = tuple[tuple[str, int, str, str], ...]
"""Name, number, protocol and application protocol, in the order of the Service."""


class ServicePort(View, frozen=True, gc=False, kw_only=True):
    """``spec.ports[]`` of a Service."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None
    app_protocol: str | None = None


class ServiceSpec(
    View,
    frozen=True,
    gc=False,
    kw_only=True,
    rename={
        "cluster_ip": "clusterIP",
        "raw_ports": "ports",
        "raw_selector": "selector",
        "raw_ip_families": "ipFamilies",
        "publish_not_ready_addresses": "publishNotReadyAddresses",
    },
):
    """``spec`` of a Service."""

    type: str = ""
    cluster_ip: str = ""
    raw_selector: dict[str, str] | None = None
    raw_ports: tuple[ServicePort, ...] | None = None
    raw_ip_families: tuple[str, ...] | None = None
    publish_not_ready_addresses: bool = False


class Service(ObjectView, frozen=True, gc=False, kw_only=True):
    """A Service as the EndpointSlice controller sees it."""

    spec: ServiceSpec = ServiceSpec()

    @property
    def headless(self) -> bool:
        return self.spec.cluster_ip == "None"

    @property
    def selects(self) -> bool:
        """Whether its endpoints are pods that a controller has to find."""
        return bool(self.spec.raw_selector) and self.spec.type != "ExternalName"

    @property
    def address_type(self) -> str:
        families = self.spec.raw_ip_families or ("IPv4",)
        return families[0]


class EndpointSlice(ObjectView, frozen=True, gc=False, kw_only=True):
    """An EndpointSlice; endpoints and ports as they are on the wire."""

    address_type: str = ""
    raw_endpoints: tuple[dict[str, Any], ...] | None = msgspec.field(name="endpoints", default=None)
    raw_ports: tuple[dict[str, Any], ...] | None = msgspec.field(name="ports", default=None)

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        return self.raw_endpoints or ()

    @property
    def port_set(self) -> Ports:
        return tuple(
            (entry.get("name") or "", entry.get("port") or 0, entry.get("protocol") or "TCP", entry.get("appProtocol") or "")
            for entry in self.raw_ports or ()
        )


@dataclass(frozen=True, slots=True)
class SliceChanges:
    """What is to be written: whole objects to create, bodies to put in place of existing slices, slices to delete."""

    create: tuple[dict[str, Any], ...] = ()
    update: tuple[tuple[EndpointSlice, dict[str, Any]], ...] = ()
    delete: tuple[EndpointSlice, ...] = ()


def endpoint(service: Service, pod: Pod, *, zone: str) -> Endpoint:
    """The pod as an endpoint. ``ready`` of a terminating pod is False, unless the Service publishes what is not ready."""
    serving = pod.ready
    conditions = {
        "ready": service.spec.publish_not_ready_addresses or (serving and not pod.deleting),
        "serving": serving,
        "terminating": pod.deleting,
    }
    entry: Endpoint = {
        "addresses": [pod.status.pod_ip],
        "conditions": conditions,
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    }
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        entry["hostname"] = pod.spec.hostname
    if pod.spec.node_name:
        entry["nodeName"] = pod.spec.node_name
    if zone:
        entry["zone"] = zone
    return entry


def belongs(service: Service, pod: Pod) -> bool:
    """Whether the pod is an endpoint: it has an address of the Service's family and has not ended."""
    address = pod.status.pod_ip
    return bool(address) and not pod.terminal and (":" in address) == (service.address_type == "IPv6")


def ports_of(service: Service, pod: Pod) -> Ports:
    """The Service's ports on this pod; a named target port that the pod lacks is left out."""
    found: list[tuple[str, int, str, str]] = []
    for port in service.spec.raw_ports or ():
        number = _target(port, pod)
        if number is not None:
            found.append((port.name, number, port.protocol, port.app_protocol or ""))
    return tuple(found)


def reconcile(
    service: Service, pods: Iterable[Pod], slices: Sequence[EndpointSlice], *, zones: Mapping[str, str]
) -> SliceChanges:
    """The changes that bring the Service's slices in line. ``pods``: those that its selector matches; ``zones``: by node, of all
    nodes that there are. A pod on no node, or on one that is gone, is published only by a Service that publishes whatever is not
    ready."""
    wanted: dict[Ports, dict[str, Endpoint]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if belongs(service, pod) and (pod.spec.node_name in zones or service.spec.publish_not_ready_addresses):
            entry = endpoint(service, pod, zone=zones.get(pod.spec.node_name, ""))
            wanted.setdefault(ports_of(service, pod), {})[pod.metadata.uid] = entry
    drafts = [_Draft.of(entry) for entry in slices if not entry.metadata.deleting and entry.address_type == service.address_type]
    for draft in drafts:
        draft.keep(wanted.get(draft.ports, {}))
    for ports, endpoints in wanted.items():
        _place(drafts, ports, [endpoints[uid] for uid in endpoints])
    return _changes(service, drafts, slices)


@dataclass(slots=True)
class _Draft:
    """A slice as it is going to be. ``source`` is None for a new one."""

    source: EndpointSlice | None
    ports: Ports
    endpoints: list[Endpoint] = field(default_factory=list)

    @classmethod
    def of(cls, source: EndpointSlice) -> "_Draft":
        return cls(source, source.port_set, list(source.endpoints))

    def keep(self, wanted: dict[str, Endpoint]) -> None:
        """Bring the endpoints that stay up to date, drop the others, and take them off ``wanted``."""
        kept: list[Endpoint] = []
        for present in self.endpoints:
            now = wanted.pop((present.get("targetRef") or {}).get("uid") or "", None)
            if now is not None:
                kept.append(now)
        self.endpoints = kept


def _place(drafts: list[_Draft], ports: Ports, endpoints: list[Endpoint]) -> None:
    """Put new endpoints where there is room, and into new slices then."""
    for draft in drafts:
        if draft.ports == ports and endpoints:
            room = MAX_ENDPOINTS - len(draft.endpoints)
            draft.endpoints += endpoints[:room]
            endpoints = endpoints[room:]
    while endpoints:
        drafts.append(_Draft(None, ports, endpoints[:MAX_ENDPOINTS]))
        endpoints = endpoints[MAX_ENDPOINTS:]


def _changes(service: Service, drafts: list[_Draft], slices: Sequence[EndpointSlice]) -> SliceChanges:
    filled = [draft for draft in drafts if draft.endpoints]
    if not filled:
        # A Service without endpoints keeps one empty slice, so that a reader can tell "none" from "not looked at yet".
        filled = [_Draft(drafts[0].source if drafts else None, ())]
    create: list[dict[str, Any]] = []
    update: list[tuple[EndpointSlice, dict[str, Any]]] = []
    _reuse(service, filled, slices)
    used: set[str] = set()
    for draft in filled:
        body = _body(service, draft)
        if draft.source is None:
            create.append(body)
            continue
        used.add(draft.source.metadata.uid)
        if not _same(draft.source, body):
            update.append((draft.source, body))
    # A slice of the wrong address type, or one that has run empty.
    delete = [entry for entry in slices if entry.metadata.uid not in used and not entry.metadata.deleting]
    return SliceChanges(tuple(create), tuple(update), tuple(delete))


def _reuse(service: Service, filled: Sequence[_Draft], slices: Sequence[EndpointSlice]) -> None:
    """Put new slices in the place of those that would go: readers see one change instead of a gap."""
    kept = {draft.source.metadata.uid for draft in filled if draft.source is not None}
    spare = [
        entry
        for entry in slices
        if entry.metadata.uid not in kept
        and not entry.metadata.deleting
        and entry.address_type == service.address_type
        and any(owner.uid == service.metadata.uid for owner in entry.metadata.owner_references)
    ]
    for draft, entry in zip(reversed([draft for draft in filled if draft.source is None]), spare, strict=False):
        draft.source = entry


def _body(service: Service, draft: _Draft) -> dict[str, Any]:
    labels = {
        key: value
        for key, value in service.metadata.labels.items()
        if key not in {SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL}
    }
    labels |= {SERVICE_NAME_LABEL: service.metadata.name, MANAGED_BY_LABEL: MANAGER}
    if service.headless:
        labels[HEADLESS_LABEL] = ""
    metadata: dict[str, Any] = {
        "namespace": service.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(service, api_version="v1", kind="Service")],
    }
    if draft.source is None:
        metadata["generateName"] = f"{service.metadata.name}-"
    else:
        metadata["name"] = draft.source.metadata.name
        metadata["resourceVersion"] = draft.source.metadata.resource_version
        metadata["uid"] = draft.source.metadata.uid
        if draft.source.metadata.name.startswith(f"{service.metadata.name}-"):
            metadata["generateName"] = f"{service.metadata.name}-"  # a replacement keeps only what it says
        if draft.source.metadata.annotations:
            metadata["annotations"] = dict(draft.source.metadata.annotations)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": service.address_type,
        "endpoints": draft.endpoints,
        "ports": [_port(*entry) for entry in draft.ports],
    }


def _port(name: str, number: int, protocol: str, app_protocol: str) -> dict[str, Any]:
    port: dict[str, Any] = {"name": name, "port": number, "protocol": protocol}
    if app_protocol:
        port["appProtocol"] = app_protocol
    return port


def _same(live: EndpointSlice, body: dict[str, Any]) -> bool:
    return (
        list(live.endpoints) == body["endpoints"]
        and [_port(*entry) for entry in live.port_set] == body["ports"]
        and labels_equal(live.metadata.labels, body["metadata"]["labels"])
    )


def _target(port: ServicePort, pod: Pod) -> int | None:
    target = port.target_port
    if isinstance(target, int) and target:
        return target
    if not isinstance(target, str) or not target:
        return port.port
    for container in pod.spec.containers:
        for candidate in container.ports:
            if candidate.name == target and candidate.protocol == port.protocol:
                return candidate.container_port
    return None
