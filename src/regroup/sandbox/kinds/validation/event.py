"""Events, in either of their two forms. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.validation import metadata, names
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema.errors import FieldError

Obj = dict[str, Any]

_FIXED = ("eventTime", "reportingController", "reportingInstance", "action", "reason", "regarding", "related", "note", "type")
_SHOWN = {"regarding": "involvedObject", "note": "message"}


def core(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    """An event of core/v1: strict only when it is of the new kind, which has an ``eventTime``."""
    report = Report()
    metadata.check(report, obj, old)
    about = obj.get("involvedObject") or {}
    _about(report, about, obj)
    if obj.get("eventTime"):
        _new_kind(report, obj, controller="reportingComponent")
    return report.errors


def _about(report: Report, about: Obj, obj: Obj) -> None:
    """An event is in the namespace of what it is about; those about cluster-wide objects are in ``default``."""
    place, namespace = about.get("namespace") or "", obj["metadata"].get("namespace")
    homes = {"default", "kube-system"} if obj.get("eventTime") else {"default"}
    if (place and place != namespace and not obj.get("eventTime")) or (not place and namespace not in homes):
        report.invalid("involvedObject.namespace", place, "does not match event.namespace")


def _new_kind(report: Report, obj: Obj, *, controller: str) -> None:
    name = obj.get(controller) or ""
    if not name:
        report.required("reportingComponent" if controller == "reportingComponent" else "reportingController")
    report.all_invalid(controller, name, names.qualified_name(name))
    _bounded(report, obj, "reportingInstance")
    _bounded(report, obj, "action")
    _bounded(report, obj, "reason")


def _bounded(report: Report, obj: Obj, field: str) -> None:
    text = obj.get(field) or ""
    if not text:
        report.required(field)
    elif len(text) > 128:
        report.invalid(field, "", "can have at most 128 characters")


def event(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    """An event of events.k8s.io/v1."""
    report = Report()
    metadata.check(report, obj, old)
    _about(report, obj.get("regarding") or {}, obj)
    if old is None:
        if not obj.get("eventTime"):
            report.required("eventTime")
        else:
            _new_kind(report, obj, controller="reportingController")
    if len(obj.get("note") or "") > 1024:
        report.invalid("message", "", "can have at most 1024 characters")
    _series(report, obj.get("series"))
    if obj.get("type") not in {"Normal", "Warning"}:
        report.invalid("type", "", f"has invalid value: {obj.get('type') or ''}")
    if old is not None:
        for name in _FIXED:
            if obj.get(name) != old.get(name):
                report.invalid(_SHOWN.get(name, name), obj.get(name), "field is immutable")
    return report.errors


def _series(report: Report, series: Obj | None) -> None:
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        report.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        report.required("series.lastObservedTime")
