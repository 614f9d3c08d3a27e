"""Where a pod may run: node selectors, affinity, tolerations, spreading, gates. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.validation import names
from regroup.sandbox.kinds.validation.metadata import labels, selector
from regroup.sandbox.kinds.validation.report import Report

Obj = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check(report: Report, spec: Obj, path: str) -> None:
    """Everything of a pod that steers where it runs."""
    labels(report, f"{path}.nodeSelector", spec.get("nodeSelector"))


def affinity(report: Report, value: Obj | None, path: str) -> None:
    """Affinity to nodes and to other pods."""
    if not value:
        return
    node = value.get("nodeAffinity") or {}
    place = f"{path}.nodeAffinity"
    if node.get(_REQUIRED) is not None:
        terms = node[_REQUIRED].get("nodeSelectorTerms") or []
        if not terms:
            report.required(f"{place}.{_REQUIRED}.nodeSelectorTerms", "must have at least one node selector term")
        for number, term in enumerate(terms):
            _node_term(report, term, f"{place}.{_REQUIRED}.nodeSelectorTerms[{number}]")
    for number, entry in enumerate(node.get(_PREFERRED) or []):
        _weight(report, entry, f"{place}.{_PREFERRED}[{number}]")
        _node_term(report, entry.get("preference") or {}, f"{place}.{_PREFERRED}[{number}].preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = value.get(kind) or {}
        for number, term in enumerate(pods.get(_REQUIRED) or []):
            _pod_term(report, term, f"{path}.{kind}.{_REQUIRED}[{number}]")
        for number, entry in enumerate(pods.get(_PREFERRED) or []):
            _weight(report, entry, f"{path}.{kind}.{_PREFERRED}[{number}]")
            _pod_term(report, entry.get("podAffinityTerm") or {}, f"{path}.{kind}.{_PREFERRED}[{number}].podAffinityTerm")


def _weight(report: Report, entry: Obj, path: str) -> None:
    weight = entry.get("weight") or 0
    if not 1 <= weight <= 100:
        report.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_term(report: Report, term: Obj, path: str) -> None:
    for number, entry in enumerate(term.get("matchExpressions") or []):
        _node_expression(report, entry, f"{path}.matchExpressions[{number}]")
    for number, entry in enumerate(term.get("matchFields") or []):
        place = f"{path}.matchFields[{number}]"
        if entry.get("operator") not in {"In", "NotIn"}:
            report.invalid(f"{place}.operator", entry.get("operator") or "", "not a valid selector operator")
        elif len(entry.get("values") or []) != 1:
            report.required(
                f"{place}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
        if entry.get("key") != "metadata.name":
            report.invalid(f"{place}.key", entry.get("key") or "", "not a valid field selector key")


def _node_expression(report: Report, entry: Obj, path: str) -> None:
    operator, values, key = entry.get("operator") or "", entry.get("values") or [], entry.get("key") or ""
    match operator:
        case "In" | "NotIn":
            if not values:
                report.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                report.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt":
            if len(values) != 1:
                report.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            report.invalid(f"{path}.operator", operator, "not a valid selector operator")
    report.all_invalid(f"{path}.key", key, names.qualified_name(key))


def _pod_term(report: Report, term: Obj, path: str) -> None:
    selector(report, f"{path}.labelSelector", term.get("labelSelector"))
    selector(report, f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces") or []:
        report.all_invalid(f"{path}.namespace", name, names.dns_label(name))
    key = term.get("topologyKey") or ""
    if not key:
        report.required(f"{path}.topologyKey", "can not be empty")
    report.all_invalid(f"{path}.topologyKey", key, names.qualified_name(key))


def tolerations(report: Report, values: Sequence[Obj], path: str) -> None:
    for number, entry in enumerate(values):
        place = f"{path}[{number}]"
        key, operator, effect = entry.get("key") or "", entry.get("operator") or "", entry.get("effect") or ""
        if key:
            report.all_invalid(f"{place}.key", key, names.qualified_name(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            report.invalid(f"{place}.operator", operator, why)
        if entry.get("tolerationSeconds") is not None and effect != "NoExecute":
            report.invalid(f"{place}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        match operator:
            case "" | "Equal":
                report.all_invalid(f"{place}.operator", entry.get("value") or "", names.label_value(entry.get("value") or ""))
            case "Exists":
                if entry.get("value"):
                    report.invalid(f"{place}.operator", entry["value"], "value must be empty when `operator` is 'Exists'")
            case _:
                report.one_of(f"{place}.operator", operator, ("Equal", "Exists"))
        if effect:
            report.one_of(f"{place}.effect", effect, EFFECTS)


def spreading(report: Report, values: Sequence[Obj], path: str) -> None:
    seen: set[tuple[str, str]] = set()
    for number, entry in enumerate(values):
        place = f"{path}[{number}]"
        key, action = entry.get("topologyKey") or "", entry.get("whenUnsatisfiable") or ""
        if (entry.get("maxSkew") or 0) <= 0:
            report.invalid(f"{place}.maxSkew", entry.get("maxSkew") or 0, "must be greater than zero")
        if not key:
            report.required(f"{place}.topologyKey", "can not be empty")
        else:
            report.all_invalid(f"{place}.topologyKey", key, names.qualified_name(key))
        report.one_of(f"{place}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        for other, (one, two) in enumerate((each.get("topologyKey"), each.get("whenUnsatisfiable")) for each in values):
            if other > number and (one, two) == (key, action) and (key, action) not in seen:
                report.duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
                seen.add((key, action))
        if entry.get("minDomains") is not None:
            _least_domains(report, entry["minDomains"], action, place)
        selector(report, f"{place}.labelSelector", entry.get("labelSelector"))


def _least_domains(report: Report, value: int, action: str, path: str) -> None:
    if value <= 0:
        report.invalid(f"{path}.minDomains", value, "must be greater than zero")
    if action != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        report.invalid(f"{path}.minDomains", value, why)


def gates(report: Report, values: Sequence[Obj], path: str) -> None:
    seen: set[str] = set()
    for number, entry in enumerate(values):
        name = entry.get("name") or ""
        report.all_invalid(f"{path}[{number}]", name, names.qualified_name(name))
        if name in seen:
            report.duplicate(f"{path}[{number}]", name)
        seen.add(name)


def taints(report: Report, values: Sequence[Obj], path: str) -> None:
    """Taints of a node."""
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(values):
        place = f"{path}[{number}]"
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        report.all_invalid(f"{place}.key", key, names.qualified_name(key))
        report.all_invalid(f"{place}.value", value, names.label_value(value))
        report.one_of(f"{place}.effect", effect, EFFECTS, needed=True)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            report.duplicate(place, shown, "taints must be unique by key and effect pair")
        seen.add((key, effect))
