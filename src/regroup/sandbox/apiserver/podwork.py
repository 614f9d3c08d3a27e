"""What schedulers and people do to pods through subresources: binding and eviction. And the last word on a namespace."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from regroup.kube.resources import NODES, POD_DISRUPTION_BUDGETS
from regroup.runtime.clock import timestamp
from regroup.sandbox.apiserver import failures, forms, objects
from regroup.sandbox.apiserver.deleting import Deleter
from regroup.sandbox.apiserver.routing import Target
from regroup.sandbox.apiserver.storage import Storage, Stored
from regroup.sandbox.apiserver.writing import WriteContext, Writer
from regroup.sandbox.fieldmanager.manager import update
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.selectors import from_object
from regroup.wire.transport import Response

Obj = dict[str, Any]

BINDINGS = Resource("", "v1", "bindings", "Binding")
EVICTIONS = Resource("policy", "v1", "evictions", "Eviction")
NOT_SIMULATED = frozenset({"attach", "ephemeralcontainers", "exec", "portforward", "proxy", "resize"})
"""Subresources of pods that need a real container."""
_UNGUARDED = frozenset({"Pending", "Succeeded", "Failed"})
"""Phases of pods that a disruption budget does not protect."""
_TOPOLOGY = frozenset({"topology.kubernetes.io/region", "topology.kubernetes.io/zone"})


def not_simulated(target: Target) -> failures.Failure:
    """501: what is asked for cannot be had of containers that are only simulated, and what there is instead."""
    what = target.subresource.partition("/")[0]
    pod = f"{target.namespace}/{target.name}"
    why = f"the containers of the sandbox are simulated, no process runs in pod {pod}: it has no {what}"
    instead = f"kubectl logs and `regroup fault crash {pod}` do work"
    return failures.Failure(501, "NotImplemented", f"{why} ({instead})", details={"name": target.name, "kind": "pods"})


def topology_labels(storage: Storage, node: str) -> Obj:
    """The labels that a pod takes over from its node, as the admission plugin PodTopologyLabels has them."""
    stored = storage.get(NODES, ("", node))
    labels = ((stored.obj["metadata"].get("labels") if stored is not None else None) or {}).items()
    return {key: value for key, value in labels if key in _TOPOLOGY}


def bind(writer: Writer, context: WriteContext, stored: Stored, body: Obj, *, storage: Storage, now: datetime) -> Response:
    """Put a pod on a node, as a scheduler asks. Raises ``Failure``."""
    pod, served, name = stored.obj, context.served, context.target.name
    meta, wanted = pod["metadata"], body.get("metadata") or {}
    spec = pod.get("spec") or {}
    node = (body.get("target") or {}).get("name", "")
    if not node:
        raise failures.internal("target.name: Required value")
    if wanted.get("uid"):
        objects.check_uid(served.definition, {"metadata": {"uid": wanted["uid"]}}, pod)
    if meta.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        why = ""
    if why:
        raise failures.conflict(served.resource, name, why, kind="pods/binding")
    if context.dry_run:
        return _done()
    added = {
        "labels": {**(wanted.get("labels") or {}), **topology_labels(storage, node)},
        "annotations": wanted.get("annotations"),
    }
    meta = {**meta, **{field: {**(meta.get(field) or {}), **entries} for field, entries in added.items() if entries}}
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    status = _with_condition(pod.get("status") or {}, condition)
    writer.store(served, {**pod, "metadata": meta, "spec": {**spec, "nodeName": node}, "status": status})
    return _done()


async def evict(
    deleter: Deleter, writer: Writer, context: WriteContext, stored: Stored, body: Obj, *, storage: Storage, now: datetime
) -> Response:
    """Delete a pod when its disruption budgets allow it. Raises ``Failure`` (429) when they do not."""
    pod, served = stored.obj, context.served
    if (body.get("metadata") or {}).get("name") != context.target.name:
        raise failures.bad_request("name in URL does not match name in Eviction object")
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


def finalize(writer: Writer, context: WriteContext, stored: Stored, body: Obj, *, now: datetime) -> Response:
    """Set a namespace's own finalizers; when none is left and it is going, it goes. Raises ``Failure``."""
    meta, wanted = stored.obj["metadata"], body.get("metadata") or {}
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != meta["resourceVersion"]:
        raise failures.stale(context.served.resource, context.target.name)
    spec = {key: value for key, value in (stored.obj.get("spec") or {}).items() if key != "finalizers"}
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    if finalizers:
        spec["finalizers"] = finalizers
    new: Obj = {**stored.obj, "spec": spec}
    schema, manager = context.served.definition.schema, context.options.manager
    new = update(stored.obj, new, manager=manager, subresource="finalize", now=timestamp(now), schema=schema)
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
        if _unready_may_go(pod, budget.obj):
            continue
        if status.get("observedGeneration", 0) < meta.get("generation", 0):
            raise _guarded(f"The disruption budget {meta['name']} is still being processed by the server.", retry_after=10)
        if status.get("disruptionsAllowed", 0) <= 0:
            healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            raise _guarded(f"The disruption budget {meta['name']} needs {wanted} healthy pods and has {healthy} currently")
        if dry_run:
            continue
        status["disruptionsAllowed"] -= 1
        if not status["disruptionsAllowed"]:
            status = _with_condition(status, _used_up(status, now=now))
        status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: timestamp(now)}
        storage.put(POD_DISRUPTION_BUDGETS, (namespace, meta["name"]), {**budget.obj, "metadata": dict(meta), "status": status})


def _unready_may_go(pod: Obj, budget: Obj) -> bool:
    """Whether a pod that is not ready may go whatever the budget has left: always by ``AlwaysAllow``, else when the application
    has the healthy pods that it needs."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    if any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    return bool(0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0))


def _guarded(message: str, *, retry_after: int | None = None) -> failures.Failure:
    details: Obj = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
    why = "Cannot evict pod as it would violate the pod's disruption budget."
    return failures.Failure(429, "TooManyRequests", why, details=details, retry_after=retry_after)


def _used_up(status: Obj, *, now: datetime) -> Obj:
    """The condition of a budget whose last disruption was just taken."""
    return {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": timestamp(now),
        "reason": "InsufficientPods",
        "message": "",
    }


def _with_condition(status: Obj, condition: Obj) -> Obj:
    kept = [entry for entry in status.get("conditions") or [] if entry.get("type") != condition["type"]]
    return {**status, "conditions": [*kept, condition]}


def _done() -> Response:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(201, forms.JSON, codec.encode(body))
