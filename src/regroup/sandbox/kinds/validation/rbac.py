"""Roles and their bindings. They are kept, and nobody is refused by them. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.validation import metadata, names
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema.errors import FieldError

Obj = dict[str, Any]


def role(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old, name_rule=names.path_segment)
    for number, rule in enumerate(obj.get("rules") or []):
        _rule(report, rule, f"rules[{number}]", namespaced=obj.get("kind") == "Role")
    return report.errors


def _rule(report: Report, rule: Obj, path: str, *, namespaced: bool) -> None:
    if not rule.get("verbs"):
        report.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            report.invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            report.invalid(f"{path}.nonResourceURLs", urls, "rules cannot apply to both regular resources and non-resource URLs")
        return
    if not rule.get("apiGroups"):
        report.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        report.required(f"{path}.resources", "resource rules must supply at least one resource")


def binding(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old, name_rule=names.path_segment)
    reference = obj.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if obj.get("kind") == "RoleBinding" else ("ClusterRole",)
    report.one_of("roleRef.kind", reference.get("kind"), kinds)
    if not reference.get("name"):
        report.required("roleRef.name")
    for number, subject in enumerate(obj.get("subjects") or []):
        path = f"subjects[{number}]"
        if not subject.get("name"):
            report.required(f"{path}.name")
        report.one_of(f"{path}.kind", subject.get("kind"), ("ServiceAccount", "User", "Group"))
    if old is not None and reference != old.get("roleRef"):
        shown = {"APIGroup": reference.get("apiGroup"), "Kind": reference.get("kind"), "Name": reference.get("name")}
        report.invalid("roleRef", shown, "cannot change roleRef")
    return report.errors
