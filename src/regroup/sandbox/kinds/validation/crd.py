"""CustomResourceDefinitions. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.validation import metadata, names
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema import structure_rules
from regroup.sandbox.schema.errors import FieldError
from regroup.sandbox.schema.structural import unevaluated

Obj = dict[str, Any]

_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    f"with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL}')"
)
_SIMPLE_PATH = re.compile(r"^\.[^.\[\]]*")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_APPROVAL = "api-approved.kubernetes.io"
_COMMUNITY = (".k8s.io", ".kubernetes.io")


def _label(value: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(value) > 63 else []
    return found if re.fullmatch(_LABEL, value) else [*found, _LABEL_RULE]


def validate(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    spec = obj["spec"]
    naming = spec.get("names") or {}
    metadata.check(report, obj, old)
    if old is None and obj["metadata"].get("name") != f"{naming.get('plural', '')}.{spec.get('group', '')}":
        report.invalid("metadata.name", obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
    _approval(report, obj)
    _group(report, spec.get("group") or "")
    report.one_of("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"), needed=True)
    _versions(report, spec.get("versions") or [])
    _naming(report, naming)
    _conversion(report, spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        report.invalid("spec.preserveUnknownFields", True, why)
    _stored(report, obj)
    if old is not None:
        _fixed(report, obj, old)
    return report.errors


def warnings(obj: Obj) -> Sequence[str]:
    """CEL rules are kept and not evaluated: whoever relies on them must know."""
    found = []
    for number, version in enumerate(obj["spec"].get("versions") or []):
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for path in unevaluated(schema):
            where = f"spec.versions[{number}].schema.openAPIV3Schema"
            found.append(f"{where}: x-kubernetes-validations at {path} are kept, but this server does not evaluate CEL rules")
    return found


def _approval(report: Report, obj: Obj) -> None:
    group = obj["spec"].get("group") or ""
    if not group.endswith(_COMMUNITY) or group.endswith((".x-k8s.io", ".x-kubernetes.io")):
        return
    if not (obj["metadata"].get("annotations") or {}).get(_APPROVAL):
        why = f'protected groups must have approval annotation "{_APPROVAL}", '
        link = "see https://github.com/kubernetes/enhancements/pull/1111"
        report.required(f"metadata.annotations[{_APPROVAL}]", why + link)


def _group(report: Report, group: str) -> None:
    if not group:
        report.required("spec.group")
    elif names.dns_subdomain(group):
        report.all_invalid("spec.group", group, names.dns_subdomain(group))
    elif "." not in group:
        report.invalid("spec.group", group, "should be a domain with at least one dot")


def _versions(report: Report, versions: Sequence[Obj]) -> None:
    for number, version in enumerate(versions):
        path = f"spec.versions[{number}]"
        name = version.get("name") or ""
        report.all_invalid(f"{path}.name", name, _label(name))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            report.required(f"{path}.schema.openAPIV3Schema")
        else:
            # With one version alone the server names the paths of the older, version-less form.
            place = "spec.validation" if len(versions) == 1 else f"{path}.schema"
            report.errors.extend(structure_rules.check(schema, f"{place}.openAPIV3Schema"))
        top = "spec" if len(versions) == 1 else path
        _columns(report, version.get("additionalPrinterColumns") or [], f"{top}.additionalPrinterColumns")
        _scale(report, (version.get("subresources") or {}).get("scale"), f"{top}.subresources.scale")
    if len(versions) == 1:
        name = versions[0].get("name") or ""
        report.all_invalid("spec.version", name, _label(name))
    counted = Counter(version.get("name") for version in versions)
    if any(count > 1 for count in counted.values()):
        report.invalid("spec.versions", _shown(versions), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        report.invalid("spec.versions", _shown(versions), "must have exactly one version marked as storage version")


def _shown(versions: Sequence[Obj]) -> list[Obj] | None:
    return [
        {
            "Name": version.get("name", ""),
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": None,
            "Subresources": None,
            "AdditionalPrinterColumns": None,
            "SelectableFields": None,
        }
        for version in versions
    ] or None


def _columns(report: Report, columns: Sequence[Obj], path: str) -> None:
    for number, column in enumerate(columns):
        place = f"{path}[{number}]"
        if not column.get("name"):
            report.required(f"{place}.name")
        kind = column.get("type") or ""
        if not kind:
            report.required(f"{place}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif kind not in _COLUMN_TYPES:
            report.invalid(f"{place}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        _json_path(report, column.get("jsonPath") or "", f"{place}.JSONPath")


def _json_path(report: Report, value: str, path: str) -> bool:
    if not value:
        report.required(path)
    elif not value.startswith("."):
        report.invalid(path, value, "must be a simple json path starting with .")
    else:
        return True
    return False


def _scale(report: Report, scale: Obj | None, path: str) -> None:
    if scale is None:
        return
    for field, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value = scale.get(field) or ""
        if not value and field == "labelSelectorPath":
            continue
        if _json_path(report, value, f"{path}.{field}") and not value.startswith(roots):
            where = "either .spec or .status" if len(roots) > 1 else roots[0].rstrip(".")
            report.invalid(f"{path}.{field}", value, f"should be a json path under {where}")


def _naming(report: Report, naming: Obj) -> None:
    for field in ("plural", "singular", "kind", "listKind"):
        value = naming.get(field) or ""
        path = f"spec.names.{field}"
        if not value:
            report.required(path)
        elif field in {"kind", "listKind"}:
            why = "may have mixed case, but should otherwise match: "
            report.all_invalid(path, value, [why + each for each in _label(value.lower())])
        else:
            report.all_invalid(path, value, _label(value))
    for field in ("shortNames", "categories"):
        for number, value in enumerate(naming.get(field) or []):
            report.all_invalid(f"spec.names.{field}[{number}]", value, _label(value))
    if naming.get("kind") and naming.get("kind") == naming.get("listKind"):
        report.invalid("spec.names.listKind", naming["listKind"], "kind and listKind may not be the same")


def _conversion(report: Report, conversion: Obj) -> None:
    strategy = conversion.get("strategy") or ""
    report.one_of("spec.conversion.strategy", strategy, ("None", "Webhook"), needed=True)
    if strategy == "Webhook":
        webhook = conversion.get("webhook") or {}
        if not webhook.get("clientConfig"):
            report.required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")
        if not webhook.get("conversionReviewVersions"):
            report.required("spec.conversion.conversionReviewVersions")
        report.forbidden("spec.conversion.strategy", "this server does not call conversion webhooks")


def _stored(report: Report, obj: Obj) -> None:
    stored = (obj.get("status") or {}).get("storedVersions")
    wanted = [version.get("name") for version in obj["spec"].get("versions") or [] if version.get("storage")]
    if not stored:
        report.invalid("status.storedVersions", None, "must have at least one stored version")
    elif len(wanted) != 1 or wanted[0] not in stored:
        report.invalid("status.storedVersions", stored, f"must have the storage version {(wanted or [''])[-1]}")


def _fixed(report: Report, obj: Obj, old: Obj) -> None:
    """What a definition that is served must not change."""
    spec, before = obj["spec"], old["spec"]
    accepted = {entry["type"]: entry["status"] for entry in (old.get("status") or {}).get("conditions") or []}
    if spec.get("group") != before.get("group"):
        report.invalid("spec.group", spec.get("group"), "field is immutable")
    if accepted.get("Established") == "True":
        if spec.get("scope") != before.get("scope"):
            report.invalid("spec.scope", spec.get("scope"), "field is immutable")
        if spec["names"].get("kind") != before["names"].get("kind"):
            report.invalid("spec.names.kind", spec["names"].get("kind"), "field is immutable")
    if spec["names"].get("plural") != before["names"].get("plural"):
        report.invalid("spec.names.plural", spec["names"].get("plural"), "field is immutable")
    served = {version.get("name") for version in spec.get("versions") or []}
    for number, name in enumerate((obj.get("status") or {}).get("storedVersions") or []):
        if name not in served:
            why = f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until"
            rest = " a storage migration ensures no data remains persisted in it and removes it from status.storedVersions"
            report.invalid(f"status.storedVersions[{number}]", name, why + rest)
