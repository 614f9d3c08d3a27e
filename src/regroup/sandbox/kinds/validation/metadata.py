"""Metadata of every object: names, labels, annotations, owners, finalizers, and what an update must leave alone. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.sandbox.kinds.validation.names import Rule, dns_subdomain, label_value, prefixed, qualified_name
from regroup.sandbox.kinds.validation.report import Report

Obj = dict[str, Any]

ANNOTATIONS_LIMIT = 256 * 1024
_FINALIZERS = {"kubernetes", "orphan", "foregroundDeletion"}
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def check(report: Report, obj: Obj, old: Obj | None, *, name_rule: Rule = dns_subdomain) -> None:
    """The metadata of a new object, or of one that is updated."""
    meta = obj["metadata"]
    if old is None:
        _names(report, meta, name_rule)
    labels(report, "metadata.labels", meta.get("labels"))
    annotations(report, "metadata.annotations", meta.get("annotations"))
    _owners(report, meta.get("ownerReferences") or [])
    _finalizers(report, meta.get("finalizers") or [])
    if old is not None:
        _fixed(report, meta, old["metadata"])


def _names(report: Report, meta: Obj, rule: Rule) -> None:
    prefix, name = meta.get("generateName"), meta.get("name")
    if prefix:
        report.all_invalid("metadata.generateName", prefix, prefixed(rule)(prefix))
    if not name:
        report.required("metadata.name", "name or generateName is required")
    else:
        report.all_invalid("metadata.name", name, rule(name))


def labels(report: Report, path: str, values: Mapping[str, str] | None) -> None:
    for key, value in sorted((values or {}).items()):
        report.all_invalid(path, key, qualified_name(key))
        report.all_invalid(path, value, label_value(value))


def annotations(report: Report, path: str, values: Mapping[str, str] | None) -> None:
    total = 0
    for key, value in sorted((values or {}).items()):
        # The keys of annotations may have capitals in their prefix.
        report.all_invalid(path, key, qualified_name(key.lower()))
        total += len(key.encode()) + len(value.encode())
    if total > ANNOTATIONS_LIMIT:
        report.too_long(path, ANNOTATIONS_LIMIT)


def _owners(report: Report, owners: Sequence[Obj]) -> None:
    path = "metadata.ownerReferences"
    first: Obj | None = None
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version or version.count("/") > 1 or version.endswith("/"):
            report.invalid(f"{path}.apiVersion", version, "version must not be empty")
        for name in _OWNER_FIELDS[1:]:
            if not owner.get(name):
                report.invalid(f"{path}.{name}", owner.get(name) or "", "must not be empty")
        if (version, owner.get("kind")) == ("v1", "Event"):
            shown = {name: owner[name] for name in (*_OWNER_FIELDS, "controller", "blockOwnerDeletion") if name in owner}
            report.invalid(path, shown, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            if first is not None:
                names = f"{first.get('kind')}/{first.get('name')} and {owner.get('kind')}/{owner.get('name')}"
                why = f'Only one reference can have Controller set to true. Found "true" in references for {names}'
                order = (*_OWNER_FIELDS, "controller", "blockOwnerDeletion")
                report.invalid(path, [{name: each[name] for name in order if name in each} for each in owners], why)
            first = first or owner


def _finalizers(report: Report, finalizers: Sequence[str]) -> None:
    path = "metadata.finalizers"
    for number, name in enumerate(finalizers):
        report.all_invalid(path, name, qualified_name(name))
        if "/" not in name and name not in _FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            report.invalid(f"{path}[{number}]", name, why)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        report.invalid(path, list(finalizers), "finalizer orphan and foregroundDeletion cannot be both set")


def _fixed(report: Report, meta: Obj, before: Obj) -> None:
    for name in _FIXED:
        if meta.get(name) != before.get(name):
            report.invalid(f"metadata.{name}", meta.get(name), "field is immutable")


def selector(report: Report, path: str, value: Obj | None) -> bool:
    """A label selector; False when it cannot be used to match."""
    before = len(report.errors)
    value = value or {}
    labels(report, f"{path}.matchLabels", value.get("matchLabels"))
    for number, entry in enumerate(value.get("matchExpressions") or []):
        place = f"{path}.matchExpressions[{number}]"
        operator, values = entry.get("operator") or "", entry.get("values")
        match operator:
            case "In" | "NotIn":
                if not values:
                    report.required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            case "Exists" | "DoesNotExist":
                if values:
                    report.forbidden(f"{place}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            case _:
                report.invalid(f"{place}.operator", operator, "not a valid selector operator")
        report.all_invalid(f"{place}.key", entry.get("key") or "", qualified_name(entry.get("key") or ""))
        for position, text in enumerate(values or []):
            report.all_invalid(f"{place}.values[{position}]", text, label_value(text))
    return len(report.errors) == before
