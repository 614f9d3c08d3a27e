"""Defaults of the built-in types, as an API server sets them: one rule a type, wherever the type is used. Pure."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

Obj = dict[str, Any]

_FILE_MODE = 0o644
_RBAC = "rbac.authorization.k8s.io"


def _setter(values: Mapping[str, Any]) -> Callable[[Obj], None]:
    def fill(obj: Obj) -> None:
        for name, value in values.items():
            if not obj.get(name):
                obj[name] = dict(value) if isinstance(value, dict) else value

    return fill


def _unset(values: Mapping[str, Any]) -> Callable[[Obj], None]:
    """As ``_setter``, for fields in which zero is a value of its own."""

    def fill(obj: Obj) -> None:
        for name, value in values.items():
            if obj.get(name) is None:
                obj[name] = dict(value) if isinstance(value, dict) else value

    return fill


def pull_policy(image: str) -> str:
    """``Always`` for ``latest`` and for images without tag and digest."""
    if not image:
        return "IfNotPresent"
    name, _, digest = image.partition("@")
    tag = name.rsplit("/", 1)[-1].partition(":")[2]
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _container(obj: Obj) -> None:
    if not obj.get("imagePullPolicy"):
        obj["imagePullPolicy"] = pull_policy(obj.get("image") or "")
    if not obj.get("terminationMessagePath"):
        obj["terminationMessagePath"] = "/dev/termination-log"
    if not obj.get("terminationMessagePolicy"):
        obj["terminationMessagePolicy"] = "File"


def _pod(obj: Obj) -> None:
    spec = obj["spec"]
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    for container in containers:
        resources = container.get("resources") or {}
        limits = resources.get("limits")
        if limits:
            resources["requests"] = {**limits, **(resources.get("requests") or {})}
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for container in containers:
            for port in container.get("ports") or []:
                port.setdefault("hostPort", port["containerPort"])


def _pod_spec(obj: Obj) -> None:
    _setter({"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"})(obj)
    _unset({"securityContext": {}, "terminationGracePeriodSeconds": 30})(obj)
    # The old name of the field is kept in step with the new one.
    account = obj.get("serviceAccountName") or obj.get("serviceAccount")
    if account:
        obj["serviceAccountName"] = obj["serviceAccount"] = account


def _volume(obj: Obj) -> None:
    if not any(key != "name" for key in obj):
        obj["emptyDir"] = {}


def _image_volume(obj: Obj) -> None:
    if not obj.get("pullPolicy"):
        obj["pullPolicy"] = pull_policy(obj.get("reference") or "")


def _service(obj: Obj) -> None:
    spec = obj["spec"]
    _setter({"sessionAffinity": "None", "type": "ClusterIP"})(spec)
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
        if client is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    for port in spec.get("ports") or []:
        _setter({"protocol": "TCP"})(port)
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    kind = spec["type"]
    if kind in {"NodePort", "LoadBalancer"} or (kind == "ClusterIP" and spec.get("externalIPs")):
        _setter({"externalTrafficPolicy": "Cluster"})(spec)
    if kind in {"ClusterIP", "NodePort", "LoadBalancer"}:
        _unset({"internalTrafficPolicy": "Cluster"})(spec)
    if kind == "LoadBalancer":
        _unset({"allocateLoadBalancerNodePorts": True})(spec)


def _secret(obj: Obj) -> None:
    # Text that was given plain is written into the data and not kept.
    for key, value in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    _setter({"type": "Opaque"})(obj)


def _namespace(obj: Obj) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _both_forms(one: str, many: str, value: Callable[[str], Any], text: Callable[[Any], str]) -> Callable[[Obj], None]:
    """A field that was single once, beside its list: each follows the other, and the single one is right when they differ."""

    def fill(obj: Obj) -> None:
        single, listed = obj.get(one), obj.get(many)
        if single and (not listed or text(listed[0]) != single):
            obj[many] = [value(single)]
        elif listed and not single:
            obj[one] = text(listed[0])

    return fill


def _node_status(obj: Obj) -> None:
    if obj.get("capacity") and not obj.get("allocatable"):
        obj["allocatable"] = dict(obj["capacity"])


def _stateful_set(obj: Obj) -> None:
    spec = obj["spec"]
    _setter({"podManagementPolicy": "OrderedReady"})(spec)
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        # A server of 1.36 drops maxUnavailable unless its feature is on; here it is kept when it is asked for, and not filled in.
        _unset({"partition": 0})(strategy["rollingUpdate"])
    _setter({"whenDeleted": "Retain", "whenScaled": "Retain"})(spec.setdefault("persistentVolumeClaimRetentionPolicy", {}))
    for claim in spec.get("volumeClaimTemplates") or []:
        claim |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    _unset({"replicas": 1, "revisionHistoryLimit": 10})(spec)


def _deployment(obj: Obj) -> None:
    spec = obj["spec"]
    strategy = spec["strategy"]
    _setter({"type": "RollingUpdate"})(strategy)
    if strategy["type"] == "RollingUpdate":
        _unset({"maxUnavailable": "25%", "maxSurge": "25%"})(strategy.setdefault("rollingUpdate", {}))
    _unset({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})(spec)


def _replica_set(obj: Obj) -> None:
    _unset({"replicas": 1})(obj["spec"])


def _webhook(obj: Obj) -> None:
    _unset(
        {
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": 10,
        }
    )(obj)


def _mutating_webhook(obj: Obj) -> None:
    _webhook(obj)
    _unset({"reinvocationPolicy": "Never"})(obj)


def _rule(obj: Obj) -> None:
    _unset({"scope": "*"})(obj)


def _crd(obj: Obj) -> None:
    spec = obj["spec"]
    names = spec["names"]
    kind = names.get("kind") or ""
    if kind:
        _setter({"singular": kind.lower(), "listKind": f"{kind}List"})(names)
    _unset({"conversion": {"strategy": "None"}})(spec)
    status = obj.get("status") or {}
    if not status.get("storedVersions"):
        stored = [version["name"] for version in spec.get("versions") or [] if version.get("storage") and version.get("name")]
        obj["status"] = {**status, "storedVersions": stored[:1] or None}


def _subject(obj: Obj) -> None:
    if not obj.get("apiGroup") and obj.get("kind") in {"User", "Group"}:
        obj["apiGroup"] = _RBAC


def _role_ref(obj: Obj) -> None:
    _setter({"apiGroup": _RBAC})(obj)


RULES: Mapping[str, Callable[[Obj], None]] = {
    "Pod": _pod,
    "PodSpec": _pod_spec,
    "Container": _container,
    "EphemeralContainer": _container,
    "Probe": _setter({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
    "HTTPGetAction": _setter({"path": "/", "scheme": "HTTP"}),
    "GRPCAction": _unset({"service": ""}),
    "ObjectFieldSelector": _setter({"apiVersion": "v1"}),
    "Volume": _volume,
    "SecretVolumeSource": _unset({"defaultMode": _FILE_MODE}),
    "ConfigMapVolumeSource": _unset({"defaultMode": _FILE_MODE}),
    "DownwardAPIVolumeSource": _unset({"defaultMode": _FILE_MODE}),
    "ProjectedVolumeSource": _unset({"defaultMode": _FILE_MODE}),
    "ServiceAccountTokenProjection": _unset({"expirationSeconds": 3600}),
    "HostPathVolumeSource": _unset({"type": ""}),
    "ImageVolumeSource": _image_volume,
    "AzureDiskVolumeSource": _unset({"readOnly": False}),
    "PersistentVolumeClaimSpec": _unset({"volumeMode": "Filesystem"}),
    "PersistentVolumeClaimStatus": _setter({"phase": "Pending"}),
    "Service": _service,
    "Secret": _secret,
    "Namespace": _namespace,
    "NamespaceStatus": _setter({"phase": "Active"}),
    "NodeStatus": _node_status,
    "NodeSpec": _both_forms("podCIDR", "podCIDRs", lambda text: text, str),
    "PodStatus": _both_forms("podIP", "podIPs", lambda text: {"ip": text}, lambda entry: str(entry.get("ip") or "")),
    "EndpointPort": _unset({"name": "", "protocol": "TCP"}),
    "StatefulSet": _stateful_set,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "ValidatingWebhook": _webhook,
    "MutatingWebhook": _mutating_webhook,
    "RuleWithOperations": _rule,
    "ServiceReference": _unset({"port": 443}),
    "CustomResourceDefinition": _crd,
    "Subject": _subject,
    "RoleRef": _role_ref,
    "PriorityClass": _unset({"preemptionPolicy": "PreemptLowerPriority"}),
}
"""By the name of the type."""
