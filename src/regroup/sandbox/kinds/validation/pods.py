"""Pods, and templates of pods. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.validation import containers, metadata, names, placement, pod_update, volumes
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema.errors import FieldError
from regroup.wire.codec import parse_quantity

Obj = dict[str, Any]

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def validate(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    """A new pod, or an update of one."""
    report = Report()
    metadata.check(report, obj, old)
    if obj["spec"].get("ephemeralContainers") and old is None:
        report.forbidden("spec.ephemeralContainers", "cannot be set on create")
    pod_spec(report, obj["spec"], "spec")
    _addresses(report, obj.get("status") or {})
    if obj["spec"].get("schedulingGates") and obj["spec"].get("nodeName") and old is None:
        report.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    if old is not None:
        pod_update.check(report, obj, old)
    return report.errors


def warnings(obj: Obj) -> Sequence[str]:
    """What the server warns of in a pod."""
    return pod_warnings(obj["spec"], "spec")


def template_warnings(obj: Obj) -> Sequence[str]:
    return pod_warnings(((obj.get("spec") or {}).get("template") or {}).get("spec") or {}, "spec.template.spec")


def pod_warnings(spec: Obj, path: str) -> list[str]:
    found = []
    for number, entry in enumerate(spec.get("imagePullSecrets") or []):
        if not entry.get("name"):
            found.append(f'{path}.imagePullSecrets[{number}].name: invalid empty name ""')
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        field = f"{path}.terminationGracePeriodSeconds"
        found.append(f"{field}: must be >= 0; negative values are invalid and will be treated as 1")
    return found


def template(report: Report, value: Obj, path: str) -> None:
    """A template of pods."""
    meta = value.get("metadata") or {}
    metadata.labels(report, f"{path}.metadata.labels", meta.get("labels"))
    metadata.annotations(report, f"{path}.metadata.annotations", meta.get("annotations"))
    spec = value.get("spec") or {}
    pod_spec(report, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        report.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def pod_spec(report: Report, spec: Obj, path: str) -> None:
    """What a pod is made of."""
    known = volumes.check(report, spec.get("volumes") or [], f"{path}.volumes")
    containers.check(report, spec, path, volumes=known)
    if spec.get("restartPolicy"):
        report.one_of(f"{path}.restartPolicy", spec["restartPolicy"], _RESTART)
    else:
        report.required(f"{path}.restartPolicy")
    report.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS, needed=True)
    placement.check(report, spec, path)
    _names(report, spec, path)
    placement.affinity(report, spec.get("affinity"), f"{path}.affinity")
    if spec.get("dnsPolicy") == "None" and spec.get("dnsConfig") is None:
        report.required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    for number, gate in enumerate(spec.get("readinessGates") or []):
        kind = gate.get("conditionType") or ""
        report.all_invalid(f"{path}.readinessGates[{number}].conditionType", kind, names.qualified_name(kind))
    placement.gates(report, spec.get("schedulingGates") or [], f"{path}.schedulingGates")
    placement.spreading(report, spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds < 2**31:
        report.between(f"{path}.activeDeadlineSeconds", seconds, 1, 2**31 - 1)
    _hosts(report, spec, path)
    placement.tolerations(report, spec.get("tolerations") or [], f"{path}.tolerations")
    for name, amount in sorted((spec.get("overhead") or {}).items()):
        if parse_quantity(amount) < 0:
            report.invalid(f"{path}.overhead.limits[{name}]", amount, "must be greater than or equal to 0")


def _names(report: Report, spec: Obj, path: str) -> None:
    for field, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
        ("priorityClassName", names.dns_subdomain),
        ("runtimeClassName", names.dns_subdomain),
    ):
        if spec.get(field):
            report.all_invalid(f"{path}.{field}", spec[field], rule(spec[field]))


def _hosts(report: Report, spec: Obj, path: str) -> None:
    for number, alias in enumerate(spec.get("hostAliases") or []):
        place = f"{path}.hostAliases[{number}]"
        report.all_invalid(f"{place}.ip", alias.get("ip") or "", names.address(alias.get("ip") or ""))
        for position, host in enumerate(alias.get("hostnames") or []):
            report.all_invalid(f"{place}.hostnames[{position}]", host, names.dns_subdomain(host))


def _addresses(report: Report, status: Obj) -> None:
    for number, entry in enumerate(status.get("podIPs") or []):
        report.all_invalid(f"status.podIPs[{number}]", entry.get("ip") or "", names.address(entry.get("ip") or ""))
