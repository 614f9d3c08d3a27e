"""Namespaces, nodes, ConfigMaps, Secrets, leases, and kinds with metadata alone. Pure."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from regroup.sandbox.kinds.validation import metadata, names, placement
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema.errors import FieldError
from regroup.wire.codec import parse_quantity

Obj = dict[str, Any]

DATA_LIMIT = 1024 * 1024
_SECRET_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
"""What secrets of a type cannot be without."""
_SEALED = "field is immutable when `immutable` is set"


def plain(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    """A kind with rules for its metadata alone."""
    report = Report()
    metadata.check(report, obj, old)
    return report.errors


def namespace(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old, name_rule=names.dns_label)
    for name in (obj.get("spec") or {}).get("finalizers") or []:
        report.all_invalid("spec.finalizers", name, names.qualified_name(name))
        if "/" not in name and name != "kubernetes":
            report.invalid("spec.finalizers", name, "name is neither a standard finalizer name nor is it fully qualified")
    return report.errors


def node(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    # The path is the server's own: it judges taints with the metadata.
    placement.taints(report, spec.get("taints") or [], "metadata.taints")
    for field in ("capacity", "allocatable"):
        for name, amount in sorted((status.get(field) or {}).items()):
            if parse_quantity(amount) < 0:
                report.invalid(f"status.{field}.{name}", amount, "must be greater than or equal to 0")
    _addresses(report, status.get("addresses") or [])
    ranges = spec.get("podCIDRs") or [entry for entry in [spec.get("podCIDR")] if entry]
    for number, value in enumerate(ranges):
        report.all_invalid(f"spec.podCIDRs[{number}]", value, names.network(value))
    if old is not None:
        before = old.get("spec") or {}
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            report.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            report.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    return report.errors


def _addresses(report: Report, values: Sequence[Obj]) -> None:
    seen: list[Obj] = []
    for number, entry in enumerate(values):
        if entry in seen:
            report.duplicate(f"status.addresses[{number}]", {"Type": entry.get("type"), "Address": entry.get("address")})
        seen.append(entry)


def config_map(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    text, raw = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in text:
        report.all_invalid(f"data[{key}]", key, names.config_key(key))
        if key in raw:
            report.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in raw:
        report.all_invalid(f"binaryData[{key}]", key, names.config_key(key))
    total = sum(len(value.encode()) for value in text.values()) + sum(map(_decoded_length, raw.values()))
    if total > DATA_LIMIT:
        report.too_long("[]", DATA_LIMIT)
    _sealed(report, obj, old, fields=("data", "binaryData"))
    return report.errors


def _decoded_length(value: str) -> int:
    return len(base64.b64decode(value))


def _sealed(report: Report, obj: Obj, old: Obj | None, *, fields: Sequence[str]) -> None:
    """An object that was made immutable stays as it is."""
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        report.forbidden("immutable", _SEALED)
    for name in fields:
        if (obj.get(name) or {}) != (old.get(name) or {}):
            report.forbidden(name, _SEALED)


def secret(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    data, kind = obj.get("data") or {}, obj.get("type") or ""
    for key in data:
        report.all_invalid(f"data[{key}]", key, names.config_key(key))
    if sum(map(_decoded_length, data.values())) > DATA_LIMIT:
        report.too_long("data", DATA_LIMIT)
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            report.required(f"data[{key}]")
        elif key.startswith(".docker"):
            _json(report, data[key], f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        report.required("data[username]")
        report.required("data[password]")
    account = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token" and not (obj["metadata"].get("annotations") or {}).get(account):
        report.required(f"metadata.annotations[{account}]")
    if old is not None and kind != old.get("type"):
        report.invalid("type", kind, "field is immutable")
    _sealed(report, obj, old, fields=("data",))
    return report.errors


def _json(report: Report, value: str, path: str) -> None:
    try:
        json.loads(base64.b64decode(value))
    except ValueError as error:
        report.invalid(path, "<secret contents redacted>", str(error))


def lease(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    spec = obj.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        report.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    report.not_negative("spec.leaseTransitions", spec.get("leaseTransitions"))
    if spec.get("strategy") is not None:
        report.forbidden("spec.strategy", "is not supported by this server")
    return report.errors
