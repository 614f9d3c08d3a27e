"""StatefulSets, Deployments, ReplicaSets, ControllerRevisions, disruption budgets and priority classes. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.validation import metadata, names, pods
from regroup.sandbox.kinds.validation.claims import claim_spec
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.schema.errors import FieldError
from regroup.wire.selectors import from_object

Obj = dict[str, Any]

_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_USER_PRIORITY = 1_000_000_000


def _selected(report: Report, spec: Obj, *, kind: str) -> None:
    """There is a selector, and the template's labels fit it."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    usable = True
    if selector is None:
        report.required("spec.selector")
    else:
        usable = metadata.selector(report, "spec.selector", selector)
        if usable and not selector:
            named = "deployment" if kind == "replicaset" else kind  # as the server says it
            report.invalid("spec.selector", {}, f"empty selector is invalid for {named}")
            return
    if not usable:
        report.invalid("spec.selector", selector, "" if kind == "statefulset" else "invalid label selector")
        return
    labels = (template.get("metadata") or {}).get("labels")
    if selector is None or not from_object(selector).matches(labels or {}):
        shown = dict(sorted(labels.items())) if labels else None
        report.invalid("spec.template.metadata.labels", shown, "`selector` does not match template `labels`")


def _always_restarts(report: Report, template: Obj, kind: str) -> None:
    spec = template.get("spec") or {}
    if spec.get("restartPolicy") and spec["restartPolicy"] != "Always":
        report.one_of("spec.template.spec.restartPolicy", spec["restartPolicy"], ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        report.forbidden("spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported")


def stateful_set(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old, name_rule=names.dns_label)
    spec = obj["spec"]
    if spec.get("podManagementPolicy") not in {"OrderedReady", "Parallel"}:
        report.invalid("spec.podManagementPolicy", spec.get("podManagementPolicy"), "must be 'OrderedReady' or 'Parallel'")
    _update_strategy(report, spec.get("updateStrategy") or {})
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        report.one_of(f"spec.persistentVolumeClaimRetentionPolicy.{name}", policy.get(name), ("Retain", "Delete"))
    report.not_negative("spec.replicas", spec.get("replicas"))
    report.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    report.not_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
    _selected(report, spec, kind="statefulset")
    pods.template(report, spec.get("template") or {}, "spec.template")
    _always_restarts(report, spec.get("template") or {}, "StatefulSet")
    if old is None or spec.get("serviceName") != old["spec"].get("serviceName"):
        name = spec.get("serviceName")
        if name:
            report.all_invalid("spec.serviceName", name, names.dns_label(name))
    if old is None:
        for number, template in enumerate(spec.get("volumeClaimTemplates") or []):
            claim_spec(report, template.get("spec") or {}, f"spec.volumeClaimTemplates[{number}].spec")
    else:
        _fixed_spec(report, spec, old["spec"])
    _statuses(
        report,
        obj.get("status") or {},
        counts=("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        all_counts=("observedGeneration", "collisionCount"),
    )
    return report.errors


def _fixed_spec(report: Report, spec: Obj, before: Obj) -> None:
    left = {key: value for key, value in spec.items() if key not in _MUTABLE}
    if left != {key: value for key, value in before.items() if key not in _MUTABLE}:
        report.forbidden("spec", _FIXED)


def _update_strategy(report: Report, strategy: Obj) -> None:
    path = "spec.updateStrategy"
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    match kind:
        case "":
            report.required(path)
        case "OnDelete":
            if rolling is not None:
                shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
                report.invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")
        case "RollingUpdate":
            if rolling is not None:
                report.not_negative(f"{path}.rollingUpdate.partition", rolling.get("partition"))
                if rolling.get("maxUnavailable") is not None:
                    _positive_share(report, rolling["maxUnavailable"], f"{path}.rollingUpdate.maxUnavailable")
        case _:
            report.invalid(path, {"Type": kind, "RollingUpdate": rolling}, "must be 'RollingUpdate' or 'OnDelete'")


def _positive_share(report: Report, value: int | str, path: str) -> None:
    _share(report, value, path)
    if value in (0, "0%"):
        report.invalid(path, value, "cannot be 0")


def _share(report: Report, value: int | str, path: str, *, at_most_all: bool = True) -> None:
    """A number, or a percentage."""
    if isinstance(value, int):
        report.not_negative(path, value)
        return
    wrong = names.percent(value)
    report.all_invalid(path, value, wrong)
    if not wrong and at_most_all and int(value[:-1]) > 100:
        report.invalid(path, value, "must not be greater than 100%")


def _statuses(report: Report, status: Obj, *, counts: Sequence[str], all_counts: Sequence[str] = ()) -> None:
    """Counts of a status are not negative and no more than ``replicas``."""
    for name in ("replicas", *counts, *all_counts):
        report.not_negative(f"status.{name}", status.get(name))
    total = status.get("replicas") or 0
    for name in counts:
        if (status.get(name) or 0) > total:
            report.invalid(f"status.{name}", status.get(name) or 0, "cannot be greater than status.replicas")
    if (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        report.invalid("status.availableReplicas", status["availableReplicas"], "cannot be greater than readyReplicas")


def deployment(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    spec = obj["spec"]
    report.not_negative("spec.replicas", spec.get("replicas"))
    _selected(report, spec, kind="deployment")
    pods.template(report, spec.get("template") or {}, "spec.template")
    _always_restarts(report, spec.get("template") or {}, "Deployment")
    _deployment_strategy(report, spec.get("strategy") or {})
    for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        report.not_negative(f"spec.{name}", spec.get(name))
    deadline, settle = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= settle:
        report.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    _fixed_selector(report, obj, old)
    status = obj.get("status") or {}
    _statuses(
        report, status, counts=("updatedReplicas", "readyReplicas", "availableReplicas"), all_counts=("observedGeneration",)
    )
    return report.errors


def _deployment_strategy(report: Report, strategy: Obj) -> None:
    path = "spec.strategy"
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in {"Recreate", "RollingUpdate"}:
        report.one_of(path, {"Type": kind, "RollingUpdate": rolling}, ("Recreate", "RollingUpdate"))
    elif kind == "Recreate" and rolling is not None:
        report.forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate" and rolling is not None:
        down, up = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
        _share(report, down, f"{path}.rollingUpdate.maxUnavailable")
        _share(report, up, f"{path}.rollingUpdate.maxSurge", at_most_all=False)
        if down in (0, "0%") and up in (0, "0%"):
            report.invalid(f"{path}.rollingUpdate.maxUnavailable", down, "may not be 0 when `maxSurge` is 0")


def _fixed_selector(report: Report, obj: Obj, old: Obj | None) -> None:
    selector = obj["spec"].get("selector")
    if old is not None and selector != old["spec"].get("selector"):
        report.invalid("spec.selector", _sorted(selector), "field is immutable")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return value


def replica_set(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    spec = obj["spec"]
    report.not_negative("spec.replicas", spec.get("replicas"))
    report.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    _selected(report, spec, kind="replicaset")
    pods.template(report, spec.get("template") or {}, "spec.template")
    _always_restarts(report, spec.get("template") or {}, "ReplicaSet")
    _fixed_selector(report, obj, old)
    _statuses(report, obj.get("status") or {}, counts=("fullyLabeledReplicas", "readyReplicas", "availableReplicas"))
    return report.errors


def controller_revision(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    report.not_negative("revision", obj.get("revision"))
    if obj.get("data") is None:
        report.required("data", "data is mandatory")
    elif not isinstance(obj["data"], dict):
        report.required("data", "data must be a valid JSON object")
    if old is not None and obj.get("data") != old.get("data"):
        report.invalid("data", obj.get("data"), "field is immutable")
    return report.errors


def disruption_budget(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    spec = obj.get("spec") or {}
    least, most, policy = spec.get("minAvailable"), spec.get("maxUnavailable"), spec.get("unhealthyPodEvictionPolicy")
    if least is not None and most is not None:
        shown = {
            "MinAvailable": least,
            "Selector": spec.get("selector"),
            "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": policy,
        }
        report.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            _share(report, value, f"spec.{name}")
    metadata.selector(report, "spec.selector", spec.get("selector"))
    if policy is not None:
        report.one_of("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))
    return report.errors


def priority_class(obj: Obj, old: Obj | None) -> Sequence[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    if name.startswith("system-"):
        if name not in {"system-node-critical", "system-cluster-critical"}:
            why = "priority class names with 'system-' prefix are reserved for system use only."
            report.forbidden("metadata.name", f"{why} error: {name} is not a known system priority class")
    elif value > _USER_PRIORITY:
        report.forbidden("value", f"maximum allowed value of a user defined priority is {_USER_PRIORITY}")
    if obj.get("preemptionPolicy") is not None:
        report.one_of("preemptionPolicy", obj["preemptionPolicy"], ("PreemptLowerPriority", "Never"))
    if old is not None:
        if value != (old.get("value") or 0):
            report.forbidden("value", "may not be changed in an update.")
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            report.invalid("preemptionPolicy", obj.get("preemptionPolicy"), "field is immutable")
    return report.errors
