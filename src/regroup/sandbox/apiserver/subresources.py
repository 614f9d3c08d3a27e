"""Subresources with rules of their own: scale, binding, eviction, log, finalize."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from regroup.kube.resources import POD_DISRUPTION_BUDGETS
from regroup.runtime.clock import timestamp
from regroup.sandbox.apiserver import failures, forms, patching
from regroup.sandbox.apiserver.bodies import read_body
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.storage import Storage, Stored
from regroup.sandbox.apiserver.writing import WriteContext, Writer
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.selectors import from_object
from regroup.wire.transport import Request, Response

Obj = dict[str, Any]

SCALES = Resource("autoscaling", "v1", "scale", "Scale")


class Logs(Protocol):
    """Who has the logs of containers."""

    def read(self, uid: str, container: str, *, previous: bool = False, timestamps: bool = False) -> list[str] | None: ...


def get_scale(served: Served, stored: Stored) -> Response:
    """``autoscaling/v1`` Scale of an object."""
    return Response(200, forms.JSON, codec.encode(_scale(served, stored.obj)))


async def set_scale(writer: Writer, context: WriteContext, stored: Stored, request: Request) -> Response:
    """Write the replicas through the scale subresource."""
    served = context.served
    scale = _scale(served, stored.obj)
    if request.method == "PUT":
        wanted = read_body(request, SCALES, strict=False)
    else:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip()
        patch = patching.decode_body(request.body)
        known = {patching.MERGE_PATCH, patching.JSON_PATCH, patching.STRATEGIC_PATCH}
        if content_type not in known:
            raise failures.unsupported_media_type(sorted(known))
        wanted = patching.patched(served.definition, content_type, scale, patch, schema={})
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    if version and version != stored.obj["metadata"]["resourceVersion"]:
        raise failures.stale(served.resource, context.target.name)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        message = f'Scale.autoscaling "{context.target.name}" is invalid: spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0'
        raise failures.Failure(422, "Invalid", message)
    assert served.definition.scale is not None  # noqa: S101 - the caller has looked
    new = _with(stored.obj, served.definition.scale[0], replicas)
    written = await writer.update(context.main(), new)
    return Response(200, forms.JSON, codec.encode(_scale(served, written.stored.obj)))


def bind(writer: Writer, context: WriteContext, stored: Stored, body: Obj, now: datetime) -> Response:
    """Put a pod on a node, as a scheduler asks."""
    pod, served = stored.obj, context.served
    name, uid = context.target.name, (body.get("metadata") or {}).get("uid")
    if uid and uid != pod["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}"
        raise failures.conflict(served.resource, name, why)
    spec = pod.get("spec") or {}
    if pod["metadata"].get("deletionTimestamp"):
        raise failures.conflict(served.resource, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise failures.conflict(served.resource, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise failures.conflict(served.resource, name, f"pod {name} has non-empty .spec.schedulingGates")
    node = (body.get("target") or {}).get("name", "")
    if not node:
        raise failures.bad_request("target.name: Required value")
    status = dict(pod.get("status") or {})
    kept = [condition for condition in status.get("conditions") or [] if condition.get("type") != "PodScheduled"]
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    status["conditions"] = [*kept, condition]
    writer.store(served, {**pod, "spec": {**spec, "nodeName": node}, "status": status})
    return Response(201, forms.JSON, codec.encode(_success()))


def evict(writer: Writer, context: WriteContext, stored: Stored, body: Obj, storage: Storage) -> Response:
    """Delete a pod when its PodDisruptionBudgets allow it. Raises ``Failure`` (429) when they do not."""
    pod = stored.obj
    options = dict(body.get("deleteOptions") or {})
    status = pod.get("status") or {}
    if status.get("phase") not in {"Failed", "Succeeded", "Pending"} and not pod["metadata"].get("deletionTimestamp"):
        for budget in storage.items(POD_DISRUPTION_BUDGETS, context.target.namespace):
            if not from_object((budget.obj.get("spec") or {}).get("selector")).matches(pod["metadata"].get("labels")):
                continue
            allowed = (budget.obj.get("status") or {}).get("disruptionsAllowed", 0)
            if allowed <= 0:
                name = budget.obj["metadata"]["name"]
                cause = {
                    "reason": "DisruptionBudget",
                    "message": f"The disruption budget {name} does not allow evicting pods currently",
                }
                raise failures.Failure(
                    429,
                    "TooManyRequests",
                    "Cannot evict pod as it would violate the pod's disruption budget.",
                    details={"causes": [cause]},
                )
            _count_disruption(storage, budget, context.target.name, pod)
    writer.delete(context.main(), options)
    return Response(201, forms.JSON, codec.encode(_success()))


def read_log(stored: Stored, query: Mapping[str, str], logs: Logs | None) -> Response:
    """Lines of a container as text. Raises ``Failure`` (400) when it is not named or has not run."""
    pod = stored.obj
    name = pod["metadata"]["name"]
    spec = pod.get("spec") or {}
    containers = [entry["name"] for entry in spec.get("containers") or []]
    everything = [*containers, *(entry["name"] for entry in spec.get("initContainers") or [])]
    container = query.get("container", "")
    if not container:
        if len(containers) != 1:
            raise failures.bad_request(
                f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
            )
        container = containers[0]
    if container not in everything:
        raise failures.bad_request(f"container {container} is not valid for pod {name}")
    previous = query.get("previous") == "true"
    lines = (
        logs.read(pod["metadata"]["uid"], container, previous=previous, timestamps=query.get("timestamps") == "true")
        if logs
        else None
    )
    if lines is None:
        if previous:
            raise failures.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        raise failures.bad_request(f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating')
    if query.get("tailLines", "").isdecimal():
        count = int(query["tailLines"])
        lines = lines[-count:] if count else []
    text = "".join(f"{line}\n" for line in lines)
    return Response(200, {"content-type": "text/plain"}, text.encode())


def finalize(writer: Writer, context: WriteContext, stored: Stored, body: Obj) -> Response:
    """Set a namespace's own finalizers; it goes when none is left and it is Terminating."""
    spec = {**(stored.obj.get("spec") or {}), "finalizers": (body.get("spec") or {}).get("finalizers") or []}
    new = {**stored.obj, "spec": spec}
    if not spec["finalizers"]:
        new["spec"] = {key: value for key, value in spec.items() if key != "finalizers"}
    if new["metadata"].get("deletionTimestamp") and not spec["finalizers"]:
        written = writer.store(context.served, new)
        return forms.PlainForm().object(context.served, written.stored)
    written = writer.store(context.served, new)
    return forms.PlainForm().object(context.served, written.stored)


def _count_disruption(storage: Storage, budget: Stored, pod_name: str, pod: Obj) -> None:
    status = dict(budget.obj.get("status") or {})
    status["disruptionsAllowed"] = status.get("disruptionsAllowed", 0) - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: pod["metadata"]["creationTimestamp"]}
    meta = budget.obj["metadata"]
    storage.put(
        POD_DISRUPTION_BUDGETS, (meta["namespace"], meta["name"]), {**budget.obj, "metadata": dict(meta), "status": status}
    )


def _scale(served: Served, obj: Obj) -> Obj:
    definition = served.definition
    assert definition.scale is not None  # noqa: S101 - callers have looked
    spec_path, status_path, selector_path = definition.scale
    meta = obj["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Obj = {"replicas": _at(obj, status_path) or 0}
    selector = _at(obj, selector_path) if selector_path else _selector_text(obj)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in names if name in meta},
        "spec": {"replicas": _at(obj, spec_path) or 0},
        "status": status,
    }


def _selector_text(obj: Obj) -> str:
    selector = from_object((obj.get("spec") or {}).get("selector"))
    return ",".join(
        f"{requirement.key}={requirement.values[0]}" for requirement in selector.requirements if requirement.operator == "In"
    )


def _at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _with(obj: Obj, path: str, value: Any) -> Obj:
    head, _, rest = path.strip(".").partition(".")
    if not rest:
        return {**obj, head: value}
    return {**obj, head: _with(obj.get(head) or {}, rest, value)}


def _success() -> Obj:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
