"""What schedulers and people do to pods through subresources: binding and eviction. And the last word on a namespace."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from regroup.kube.resources import POD_DISRUPTION_BUDGETS
from regroup.runtime.clock import timestamp
from regroup.sandbox.apiserver import failures, forms
from regroup.sandbox.apiserver.deleting import Deleter
from regroup.sandbox.apiserver.storage import Storage, Stored
from regroup.sandbox.apiserver.writing import WriteContext, Writer
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.selectors import from_object
from regroup.wire.transport import Response

Obj = dict[str, Any]

BINDINGS = Resource("", "v1", "bindings", "Binding")
EVICTIONS = Resource("policy", "v1", "evictions", "Eviction")
_UNGUARDED = frozenset({"Pending", "Succeeded", "Failed"})
"""Phases of pods that a disruption budget does not protect."""


def bind(writer: Writer, context: WriteContext, stored: Stored, body: Obj, *, now: datetime) -> Response:
    """Put a pod on a node, as a scheduler asks. Raises ``Failure``."""
    pod, served, name = stored.obj, context.served, context.target.name
    meta, wanted = pod["metadata"], body.get("metadata") or {}
    spec = pod.get("spec") or {}
    if wanted.get("uid") and wanted["uid"] != meta["uid"]:
        why = f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: {meta['uid']}"
    elif meta.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        why = ""
    if why:
        raise failures.conflict(served.resource, name, why, kind="pods/binding")
    node = (body.get("target") or {}).get("name", "")
    if not node:
        raise failures.bad_request("target.name: Required value")
    if context.dry_run:
        return _done()
    meta = {
        **meta,
        **{field: {**(meta.get(field) or {}), **wanted[field]} for field in ("labels", "annotations") if wanted.get(field)},
    }
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    status = _with_condition(pod.get("status") or {}, condition)
    writer.store(served, {**pod, "metadata": meta, "spec": {**spec, "nodeName": node}, "status": status})
    return _done()


async def evict(
    deleter: Deleter, writer: Writer, context: WriteContext, stored: Stored, body: Obj, *, storage: Storage, now: datetime
) -> Response:
    """Delete a pod when its disruption budgets allow it. Raises ``Failure`` (429) when they do not."""
    pod, served = stored.obj, context.served
    options: Mapping[str, Any] = {**(body.get("deleteOptions") or {})}
    if context.dry_run:
        options = {**options, "dryRun": ["All"]}
    status = pod.get("status") or {}
    if status.get("phase") not in _UNGUARDED and not pod["metadata"].get("deletionTimestamp"):
        _spend(storage, context.target.namespace, pod, now=now, dry_run=bool(options.get("dryRun")))
    if not options.get("dryRun"):
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(now),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        writer.store(served, {**pod, "status": _with_condition(status, condition)})
    await deleter.delete(served, context.main().target, options, warnings=context.warnings)
    return _done()


def finalize(writer: Writer, context: WriteContext, stored: Stored, body: Obj) -> Response:
    """Set a namespace's own finalizers; when none is left and it is going, it goes. Raises ``Failure``."""
    meta, wanted = stored.obj["metadata"], body.get("metadata") or {}
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != meta["resourceVersion"]:
        raise failures.stale(context.served.resource, context.target.name)
    spec = {key: value for key, value in (stored.obj.get("spec") or {}).items() if key != "finalizers"}
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    if finalizers:
        spec["finalizers"] = finalizers
    new = {**stored.obj, "spec": spec}
    going = bool(meta.get("deletionTimestamp")) and not finalizers and not meta.get("finalizers")
    if going:
        stored = writer.remove(context.served, ("", context.target.name), new).stored
    elif new != stored.obj:
        stored = writer.store(context.served, new).stored
    return forms.PlainForm().object(context.served, stored)


def _spend(storage: Storage, namespace: str, pod: Obj, *, now: datetime, dry_run: bool) -> None:
    """Take one disruption from the budget of the pod, if it has one. Raises ``Failure``."""
    labels = pod["metadata"].get("labels")
    budgets = [
        budget
        for budget in storage.items(POD_DISRUPTION_BUDGETS, namespace)
        if from_object((budget.obj.get("spec") or {}).get("selector")).matches(labels)
    ]
    if len(budgets) > 1:
        raise failures.internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    for budget in budgets:
        meta, status = budget.obj["metadata"], dict(budget.obj.get("status") or {})
        if status.get("disruptionsAllowed", 0) <= 0:
            healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            message = f"The disruption budget {meta['name']} needs {wanted} healthy pods and has {healthy} currently"
            raise failures.Failure(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
                details={"causes": [{"reason": "DisruptionBudget", "message": message}]},
            )
        if dry_run:
            continue
        status["disruptionsAllowed"] -= 1
        status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: timestamp(now)}
        storage.put(POD_DISRUPTION_BUDGETS, (namespace, meta["name"]), {**budget.obj, "metadata": dict(meta), "status": status})


def _with_condition(status: Obj, condition: Obj) -> Obj:
    kept = [entry for entry in status.get("conditions") or [] if entry.get("type") != condition["type"]]
    return {**status, "conditions": [*kept, condition]}


def _done() -> Response:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(201, forms.JSON, codec.encode(body))
