"""Services and EndpointSlices. Pure."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from regroup.sandbox.kinds.prepare import NODE_PORTS, SERVICE_NETWORK
from regroup.sandbox.kinds.validation import containers, metadata, names
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema.errors import FieldError

Obj = dict[str, Any]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = {
    "internalTrafficPolicy": ("Cluster", "Local"),
    "ipFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
}


def service(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old, name_rule=names.dns_label)
    spec = obj["spec"]
    kind, headless = spec.get("type"), spec.get("clusterIP") == "None"
    if not spec.get("ports") and not headless and kind != "ExternalName":
        report.required("spec.ports")
    if kind == "ExternalName":
        if spec.get("clusterIP"):
            report.forbidden("spec.clusterIPs", "may not be set for ExternalName services")
        name = spec.get("externalName") or ""
        if name:
            report.all_invalid("spec.externalName", name, names.dns_subdomain(name.removesuffix(".")))
        else:
            report.required("spec.externalName")
    elif headless and kind in {"NodePort", "LoadBalancer"}:
        report.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    _service_ports(report, spec.get("ports") or [], kind=kind or "")
    for number, text in enumerate(spec.get("externalIPs") or []):
        report.all_invalid(f"spec.externalIPs[{number}]", text, names.address(text))
    for field, allowed in _POLICIES.items():
        if spec.get(field):
            report.one_of(f"spec.{field}", spec[field], allowed)
    for number, family in enumerate(spec.get("ipFamilies") or []):
        report.one_of(f"spec.ipFamilies[{number}]", family, ("IPv4", "IPv6"))
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        report.invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], why)
    metadata.labels(report, "spec.selector", spec.get("selector"))
    report.one_of("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"), needed=True)
    report.one_of("spec.type", kind, _TYPES, needed=True)
    _cluster_address(report, spec, (old or {}).get("spec") or {})
    return report.errors


def _service_ports(report: Report, ports: Sequence[Obj], *, kind: str) -> None:
    seen: set[str] = set()
    for number, port in enumerate(ports):
        path = f"spec.ports[{number}]"
        name = port.get("name") or ""
        if name:
            report.all_invalid(f"{path}.name", name, names.dns_label(name))
            if name in seen:
                report.duplicate(f"{path}.name", name)
            seen.add(name)
        elif len(ports) > 1:
            report.required(f"{path}.name")
        report.between(f"{path}.port", port.get("port") or 0, 1, 65535)
        report.one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS, needed=True)
        containers.port(report, port.get("targetPort", 0), f"{path}.targetPort")
        if kind in {"ClusterIP", ""} and port.get("nodePort"):
            report.forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
        elif port.get("nodePort") and port["nodePort"] not in NODE_PORTS:
            why = f"The range of valid ports is {NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            report.invalid(f"{path}.nodePort", port["nodePort"], f"provided port is not in the valid range. {why}")
    taken: set[tuple[Any, ...]] = set()
    for number, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in taken:
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0, "NodePort": 0}
            report.duplicate(f"spec.ports[{number}]", shown)
        taken.add(key)


def _cluster_address(report: Report, spec: Obj, before: Obj) -> None:
    first = spec.get("clusterIP") or ""
    if first and first != "None":
        report.all_invalid("spec.clusterIPs[0]", first, names.address(first))
        if not names.address(first) and not before.get("clusterIP"):
            _in_range(report, first, spec)
    had = before.get("clusterIP")
    if had and first and had != first and before.get("type") != "ExternalName" and spec.get("type") != "ExternalName":
        report.invalid("spec.clusterIPs[0]", spec.get("clusterIPs") or [first], "may not change once set")


def _in_range(report: Report, first: str, spec: Obj) -> None:
    address = ip_address(first)
    families = spec.get("ipFamilies") or []
    if families and families[0] in {"IPv4", "IPv6"} and families[0] != f"IPv{address.version}":
        form = "an IPv6" if families[0] == "IPv6" else "an IPv4"
        report.invalid("spec.clusterIPs[0]", first, f"expected {form} value as indicated by `ipFamilies[0]`")
    elif address not in SERVICE_NETWORK:
        why = f"failed to allocate IP {first}: the provided IP ({first}) is not in the valid range. "
        report.invalid("spec.clusterIPs", spec.get("clusterIPs"), f"{why}The range of valid IPs is {SERVICE_NETWORK}")


def endpoint_slice(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    kind = obj.get("addressType") or ""
    report.one_of("addressType", kind, ("FQDN", "IPv4", "IPv6"), needed=True)
    _slice_ports(report, obj.get("ports") or [])
    for number, endpoint in enumerate(obj.get("endpoints") or []):
        path = f"endpoints[{number}].addresses"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            report.required(path, "must contain at least 1 address")
        for position, value in enumerate(addresses):
            rule = names.dns_subdomain if kind == "FQDN" else names.address
            report.all_invalid(f"{path}[{position}]", value, rule(value))
    if old is not None and kind != old.get("addressType"):
        report.invalid("addressType", kind, "field is immutable")
    return report.errors


def _slice_ports(report: Report, ports: Sequence[Obj]) -> None:
    seen: set[str] = set()
    for number, port in enumerate(ports):
        path = f"ports[{number}]"
        name = port.get("name") or ""
        if name:
            report.all_invalid(f"{path}.name", name, names.dns_label(name))
        if name in seen:
            report.duplicate(f"{path}.name", name)
        seen.add(name)
        report.one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS, needed=True)
