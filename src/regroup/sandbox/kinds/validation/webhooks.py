"""Configurations of admission webhooks. Pure."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from regroup.sandbox.kinds.validation import metadata, names
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema.errors import FieldError

Obj = dict[str, Any]

_REVIEWS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def configuration(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""
    report = Report()
    metadata.check(report, obj, old)
    seen: set[str] = set()
    for number, webhook in enumerate(obj.get("webhooks") or []):
        path = f"webhooks[{number}]"
        _webhook(report, webhook, path)
        name = webhook.get("name") or ""
        if name and name in seen:
            report.duplicate(f"{path}.name", name)
        seen.add(name)
    return report.errors


def _webhook(report: Report, webhook: Obj, path: str) -> None:
    name = webhook.get("name") or ""
    if not name:
        report.required(f"{path}.name")
    elif names.dns_subdomain(name):
        report.all_invalid(f"{path}.name", name, names.dns_subdomain(name))
    elif name.count(".") < 2:
        report.invalid(f"{path}.name", name, "should be a domain with at least three segments separated by dots")
    for number, rule in enumerate(webhook.get("rules") or []):
        _rule(report, rule, f"{path}.rules[{number}]")
    report.one_of(f"{path}.failurePolicy", webhook.get("failurePolicy"), ("Fail", "Ignore"))
    report.one_of(f"{path}.matchPolicy", webhook.get("matchPolicy"), ("Equivalent", "Exact"))
    if webhook.get("sideEffects") is None:
        report.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    else:
        report.one_of(f"{path}.sideEffects", webhook["sideEffects"], ("None", "NoneOnDryRun"))
    if not 1 <= webhook.get("timeoutSeconds", 10) <= 30:
        report.invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], "the timeout value must be between 1 and 30 seconds")
    for field in ("namespaceSelector", "objectSelector"):
        metadata.selector(report, f"{path}.{field}", webhook.get(field))
    _client(report, webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    _reviews(report, webhook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
    if webhook.get("reinvocationPolicy") is not None:
        report.one_of(f"{path}.reinvocationPolicy", webhook["reinvocationPolicy"], ("IfNeeded", "Never"))
    _conditions(report, webhook.get("matchConditions") or [], f"{path}.matchConditions")


def _rule(report: Report, rule: Obj, path: str) -> None:
    operations = rule.get("operations") or []
    if not operations:
        report.required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        report.invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
    for number, name in enumerate(operations):
        report.one_of(f"{path}.operations[{number}]", name, _OPERATIONS)
    for field in ("apiGroups", "apiVersions", "resources"):
        values = rule.get(field) or []
        if not values:
            report.required(f"{path}.{field}")
        if len(values) > 1 and "*" in values and field != "resources":
            what = {"apiGroups": "API groups", "apiVersions": "API versions"}[field]
            report.invalid(f"{path}.{field}", values, f"if '*' is present, must not specify other {what}")
        if field != "apiGroups":
            for number, value in enumerate(values):
                if not value:
                    report.required(f"{path}.{field}[{number}]")
    if rule.get("scope") is not None:
        report.one_of(f"{path}.scope", rule["scope"], _SCOPES)


def _client(report: Report, client: Obj, path: str) -> None:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        report.required(path, "exactly one of url or service is required")
    elif url is not None:
        _url(report, url, f"{path}.url")
    elif service is not None:
        _service(report, service, f"{path}.service")


def _url(report: Report, url: str, path: str) -> None:
    form = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    if parts.scheme != "https":
        report.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not parts.netloc:
        report.invalid(path, parts.netloc, f"host must be specified{form}")
    if "@" in parts.netloc:
        report.invalid(path, parts.netloc.partition("@")[0], f"user information is not permitted in the URL{form}")
    if parts.query:
        report.invalid(path, parts.query, f"query parameters are not permitted in the URL{form}")
    if parts.fragment:
        report.invalid(path, parts.fragment, f"fragments are not permitted in the URL{form}")


def _service(report: Report, service: Obj, path: str) -> None:
    for field in ("name", "namespace"):
        if not service.get(field):
            report.required(f"{path}.{field}")
    if not 1 <= service.get("port", 443) <= 65535:
        report.invalid(f"{path}.port", service["port"], "port is not valid: must be between 1 and 65535, inclusive")
    where = service.get("path")
    if where is None:
        return
    if not where.startswith("/"):
        report.invalid(f"{path}.path", where, "must start with a '/'")
    for number, segment in enumerate(where[1:].rstrip("/").split("/") if where != "/" else ()):
        if not segment:
            report.invalid(f"{path}.path", where, f"segment[{number}] may not be empty")


def _reviews(report: Report, versions: Sequence[str], path: str) -> None:
    if not versions:
        report.required(path, f"must specify one of {', '.join(_REVIEWS)}")
        return
    seen: set[str] = set()
    for number, version in enumerate(versions):
        if version in seen:
            report.invalid(f"{path}[{number}]", version, "duplicate version")
        seen.add(version)
    if not seen & set(_REVIEWS):
        report.invalid(path, list(versions), f"must include at least one of {', '.join(_REVIEWS)}")


def _conditions(report: Report, conditions: Sequence[Obj], path: str) -> None:
    for number, condition in enumerate(conditions):
        if not (condition.get("expression") or "").strip():
            report.required(f"{path}[{number}].expression")
        if not condition.get("name"):
            report.required(f"{path}[{number}].name")
        else:
            report.all_invalid(f"{path}[{number}].name", condition["name"], names.qualified_name(condition["name"]))
    if conditions:
        report.forbidden(path, "this server does not evaluate match conditions")
