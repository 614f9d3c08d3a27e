"""Claims of storage. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.validation import metadata, names
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema.errors import FieldError
from regroup.wire.codec import parse_quantity

Obj = dict[str, Any]

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def claim(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    claim_spec(report, obj["spec"], "spec")
    if old is not None and _compared(obj, old) != _compared(old, old):
        report.forbidden("spec", _FIXED)
    return report.errors


def _compared(obj: Obj, old: Obj) -> Obj:
    """What of the spec must not change: a volume may be bound once, and a bound claim may grow."""
    spec = dict(obj["spec"])
    if not old["spec"].get("volumeName"):
        spec.pop("volumeName", None)
    if (old.get("status") or {}).get("phase") == "Bound":
        spec.pop("volumeAttributesClassName", None)
        spec["resources"] = {**(spec.get("resources") or {}), "requests": None}
    return spec


def claim_spec(report: Report, spec: Obj, path: str) -> None:
    """The spec of a claim, or of a template of claims."""
    modes = spec.get("accessModes") or []
    if not modes:
        report.required(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in modes:
        report.one_of(f"{path}.accessModes", mode, _MODES)
    metadata.selector(report, f"{path}.selector", spec.get("selector"))
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        report.required(f"{path}.resources[storage]")
    elif parse_quantity(size) <= 0:
        report.invalid(f"{path}.resources[storage]", size, "must be greater than zero")
    name = spec.get("storageClassName")
    if name:
        report.all_invalid(f"{path}.storageClassName", name, names.dns_subdomain(name))
    if spec.get("volumeMode") is not None:
        report.one_of(f"{path}.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))
