"""What may change of a pod that exists. Pure."""

from copy import deepcopy
from typing import Any

from regroup.sandbox.kinds.validation.report import Report

Obj = dict[str, Any]

_ALLOWED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_PLACEMENT = ("nodeSelector", "affinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def check(report: Report, obj: Obj, old: Obj) -> None:
    """The spec of an updated pod against what it was."""
    new, before = obj["spec"], old["spec"]
    if new == before:
        return
    if _numbers_differ(report, new, before):
        return
    _deadline(report, new, before)
    _gates(report, new, before)
    _tolerations(report, new, before)
    left, right = _comparable(new, before), before
    if left != right:
        changed = sorted(key for key in {*left, *right} if left.get(key) != right.get(key))
        report.forbidden("spec", f"{_ALLOWED}\nchanged: {', '.join(f'spec.{key}' for key in changed)}")


def _numbers_differ(report: Report, new: Obj, before: Obj) -> bool:
    for name in ("containers", "initContainers"):
        if len(new.get(name) or []) != len(before.get(name) or []):
            report.forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return True
    return False


def _deadline(report: Report, new: Obj, before: Obj) -> None:
    path = "spec.activeDeadlineSeconds"
    wanted, had = new.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if wanted is None:
        if had is not None:
            report.invalid(path, None, "must not update from a positive integer to nil value")
    elif wanted >= 0 and had is not None and had < wanted:
        report.invalid(path, wanted, "must be less than or equal to previous value")


def _gates(report: Report, new: Obj, before: Obj) -> None:
    known = {entry["name"] for entry in before.get("schedulingGates") or []}
    for number, entry in enumerate(new.get("schedulingGates") or []):
        if entry.get("name") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{entry.get('name')}'"
            report.forbidden(f"spec.schedulingGates[{number}].name", why)


def _tolerations(report: Report, new: Obj, before: Obj) -> None:
    """Tolerations may come, and their times may change; none may go."""
    kept = [_untimed(entry) for entry in new.get("tolerations") or []]
    if any(_untimed(entry) not in kept for entry in before.get("tolerations") or []):
        report.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _untimed(toleration: Obj) -> Obj:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _comparable(new: Obj, before: Obj) -> Obj:
    """The new spec with the old values in the fields that may change."""
    result = deepcopy(new)
    for name in ("containers", "initContainers"):
        for one, other in zip(result.get(name) or [], before.get(name) or [], strict=False):
            if other.get("image") is not None:
                one["image"] = other["image"]
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _restore(result, before, name)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        _restore(result, before, "terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        _narrowed(result, before)
    return result


def _restore(spec: Obj, before: Obj, name: str) -> None:
    if name in before:
        spec[name] = before[name]
    else:
        spec.pop(name, None)


def _narrowed(spec: Obj, before: Obj) -> None:
    """A gated pod may be told more narrowly where to run: more node selectors, and terms of node affinity."""
    had = before.get("nodeSelector") or {}
    wanted = spec.get("nodeSelector") or {}
    if all(wanted.get(key) == value for key, value in had.items()):
        _restore(spec, before, "nodeSelector")
    if _narrower(spec.get("affinity") or {}, before.get("affinity") or {}):
        _restore(spec, before, "affinity")


def _narrower(new: Obj, before: Obj) -> bool:
    if {**new, "nodeAffinity": None} != {**before, "nodeAffinity": None}:
        return False
    wanted, had = (new.get("nodeAffinity") or {}).get(_REQUIRED), (before.get("nodeAffinity") or {}).get(_REQUIRED)
    if had is None:
        return True
    if wanted is None or len(wanted.get("nodeSelectorTerms") or []) != len(had.get("nodeSelectorTerms") or []):
        return False
    return all(
        entry in (one.get(field) or [])
        for one, other in zip(wanted["nodeSelectorTerms"], had["nodeSelectorTerms"], strict=True)
        for field in ("matchExpressions", "matchFields")
        for entry in other.get(field) or []
    )
