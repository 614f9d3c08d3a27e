"""From a merged component to the pod templates of its runners (spec/omenative.md 1.1.1, 1.3, 1.4). Pure.

A component is a pod spec with more beside it: the pod spec's fields are taken by name, so that nothing else ever gets into a pod.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from regroup.omenative.api.types import BaseModel, Component, RuntimeSpec
from regroup.omenative.keys import DEFAULT_RUNNER, DEPLOYMENT_MODE, LEADER, MAIN_CONTAINER, WORKER
from regroup.omenative.objects.templates import main_container
from regroup.omenative.service.merge import merge
from regroup.wire.codec import parse_quantity

Object = dict[str, Any]

_POD_FIELDS = frozenset(
    {
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "os",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    }
)
"""``hostname`` and ``subdomain`` are the operator's (2.4)."""
_OF_ONE_POD = frozenset({"containers", "initContainers", "volumes"})
"""What a multi-pod component's own pod spec does not pass on to its leader and workers."""
_MODEL_VOLUME = "ome-model"
_MODEL_PATH = "MODEL_PATH"
_PARALLELISM_SIZE = "PARALLELISM_SIZE"
_READY = "Ready"


class NoContainer(ValueError):
    """A runner has no container to run. The message names the field."""


def runners(
    component: Mapping[str, Any], view: Component, *, path: str, runtime: RuntimeSpec, model: BaseModel | None
) -> list[Object]:
    """``spec.runners`` of the InferenceReplica. ``path`` is where the component stands. Raises ``NoContainer``."""
    metadata = _metadata(view)
    defaults = _defaults(runtime)
    own = merge(defaults, _pod_fields(component))
    if view.leader is None or view.worker is None:
        spec = _with_parallelism(_pod_spec(own, view.runner, config=view.config, path=path), pods=1)
        return [{"name": DEFAULT_RUNNER, "size": 1, "template": _template(metadata, spec, model)}]
    workers = view.worker.get("size") or 1
    shared = {key: value for key, value in own.items() if key not in _OF_ONE_POD}
    made = []
    for name, part in ((LEADER, view.leader), (WORKER, view.worker)):
        spec = _pod_spec(merge(shared, _pod_fields(part)), _container(part.get("runner")), config=None, path=f"{path}.{name}")
        spec = _with_parallelism(spec, pods=1 + workers)
        made.append({"name": name, "size": workers if name == WORKER else 1, "template": _template(metadata, spec, model)})
    return made


def _pod_fields(component: Mapping[str, Any]) -> Object:
    return {key: value for key, value in component.items() if key in _POD_FIELDS and value is not None}


def _defaults(runtime: RuntimeSpec) -> Object:
    fields: Object = {"nodeSelector": runtime.node_selector, "schedulerName": runtime.scheduler_name}
    return {key: value for key, value in fields.items() if value}


def _container(value: Any) -> Object | None:
    return value if isinstance(value, dict) else None


def _pod_spec(spec: Object, runner: Object | None, *, config: Mapping[str, str] | None, path: str) -> Object:
    """``spec`` with the runner as its main container, the first in the list."""
    listed = list(spec.get("containers") or ())
    if runner is not None:
        name = runner.get("name") or MAIN_CONTAINER
        same = next((one for one in listed if isinstance(one, Mapping) and one.get("name") == name), {})
        others = [one for one in listed if one is not same]
        listed = [{**merge(same, runner), "name": name}, *others]
    spec = {**spec, "containers": listed}
    main = main_container(spec)
    if main is None:
        raise NoContainer(f"{path}: no container: set {path}.runner, or name a runtime that has one for it")
    if config:
        # A router's config are variables; one that the container sets itself is left alone.
        known = {one.get("name") for one in main.get("env") or () if isinstance(one, Mapping)}
        added = [{"name": key, "value": value} for key, value in sorted(config.items()) if key not in known]
        spec = _with_main(spec, main, {**main, "env": [*(main.get("env") or ()), *added]})
    return spec


def _with_main(spec: Object, main: Object, changed: Object) -> Object:
    return {**spec, "containers": [changed if one is main else one for one in spec["containers"]]}


def _metadata(view: Component) -> Object:
    annotations = {key: value for key, value in (view.annotations or {}).items() if key != DEPLOYMENT_MODE}
    parts: Object = {"labels": dict(view.labels or {}), "annotations": annotations}
    return {key: value for key, value in parts.items() if value}


def _template(metadata: Object, spec: Object, model: BaseModel | None) -> Object:
    made = _with_model(spec, model) if model is not None else spec
    return {"metadata": metadata, "spec": made} if metadata else {"spec": made}


def _with_parallelism(spec: Object, *, pods: int) -> Object:
    """``spec`` with PARALLELISM_SIZE, the GPUs of a whole Instance, where its main container asks for GPUs (2.3)."""
    main = main_container(spec)
    gpus = _gpus(main) if main is not None else 0
    if main is None or not gpus:
        return spec
    variable = {"name": _PARALLELISM_SIZE, "value": str(gpus * pods)}
    return _with_main(spec, main, {**main, "env": _and(main.get("env"), variable, key="name")})


def _gpus(container: Mapping[str, Any]) -> int:
    """GPUs of any vendor that a container may use: ``nvidia.com/gpu``, ``amd.com/gpu`` and the like."""
    limits = (container.get("resources") or {}).get("limits")
    total = 0
    for name, amount in limits.items() if isinstance(limits, Mapping) else ():
        if str(name).endswith("/gpu"):
            with suppress(ValueError):
                total += int(parse_quantity(amount))
    return total


def _with_model(spec: Object, model: BaseModel) -> Object:
    """``spec`` on nodes that have the model, which it finds at MODEL_PATH (1.4).

    A model without ``storageUri`` is not brought to any node, so none is asked for; one without ``path`` is not mounted.
    """
    storage = model.spec.storage
    if storage is None:
        return spec
    if storage.storage_uri:
        spec = {**spec, "nodeSelector": {**(spec.get("nodeSelector") or {}), model.node_label: _READY}}
    main = main_container(spec)
    if not storage.path or main is None:
        return spec
    changed = {
        **main,
        "env": _and(main.get("env"), {"name": _MODEL_PATH, "value": storage.path}, key="name"),
        "volumeMounts": _and(
            main.get("volumeMounts"), {"name": _MODEL_VOLUME, "mountPath": storage.path, "readOnly": True}, key="mountPath"
        ),
    }
    spec = _with_main(spec, main, changed)
    return {**spec, "volumes": _and(spec.get("volumes"), {"name": _MODEL_VOLUME, "hostPath": {"path": storage.path}}, key="name")}


def _and(listed: Sequence[Any] | None, item: Object, *, key: str) -> list[Any]:
    """``listed`` and ``item``, unless it has one of that key already."""
    have = list(listed or ())
    known = any(isinstance(one, Mapping) and one.get(key) == item[key] for one in have)
    return have if known else [item, *have]
