"""The built-in kinds, all together. Each kind's own file says what is special about it."""

from functools import partial
from typing import Any

from regroup.kube import resources as kube
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.kinds.events import core_field
from regroup.wire.resource import Resource

Obj = dict[str, Any]

CORE_EVENTS = Resource("", "v1", "events", "Event")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
_RBAC = "rbac.authorization.k8s.io"


def _path(path: str, obj: Obj) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _fields(*paths: str) -> dict[str, Any]:
    return {path: partial(_path, path) for path in paths}


_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

BUILTINS: tuple[KindDefinition, ...] = (
    KindDefinition(
        resource=kube.PODS,
        singular="pod",
        short_names=("po",),
        categories=("all",),
        field_selectors=_fields(
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
            "status.phase", "status.podIP", "status.nominatedNodeName",
        ),
    ),
    KindDefinition(resource=kube.NODES, singular="node", short_names=("no",), generation=False, field_selectors=_fields("spec.unschedulable")),
    KindDefinition(resource=kube.NAMESPACES, singular="namespace", short_names=("ns",), generation=False, field_selectors=_fields("status.phase")),
    KindDefinition(
        resource=kube.SERVICES, singular="service", short_names=("svc",), categories=("all",), generation=False,
        field_selectors=_fields("spec.clusterIP", "spec.type"),
    ),
    KindDefinition(resource=kube.CONFIGMAPS, singular="configmap", short_names=("cm",), status=False, generation=False),
    KindDefinition(resource=kube.SECRETS, singular="secret", status=False, generation=False, field_selectors=_fields("type")),
    KindDefinition(resource=SERVICE_ACCOUNTS, singular="serviceaccount", short_names=("sa",), status=False, generation=False),
    KindDefinition(resource=CLAIMS, singular="persistentvolumeclaim", short_names=("pvc",), generation=False),
    KindDefinition(resource=VOLUMES, singular="persistentvolume", short_names=("pv",), generation=False),
    KindDefinition(
        resource=CORE_EVENTS, singular="event", short_names=("ev",), status=False, generation=False,
        field_selectors={path: partial(core_field, path) for path in _EVENT_FIELDS},
    ),
    KindDefinition(
        resource=kube.EVENTS, singular="event", short_names=("ev",), status=False, generation=False,
        field_selectors=_fields("reason", "type", "regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid", "reportingController"),
    ),
    KindDefinition(
        resource=kube.STATEFULSETS, singular="statefulset", short_names=("sts",), categories=("all",),
        scale=(".spec.replicas", ".status.replicas", ""),
    ),
    KindDefinition(
        resource=kube.DEPLOYMENTS, singular="deployment", short_names=("deploy",), categories=("all",),
        scale=(".spec.replicas", ".status.replicas", ""),
    ),
    KindDefinition(
        resource=kube.REPLICASETS, singular="replicaset", short_names=("rs",), categories=("all",),
        scale=(".spec.replicas", ".status.replicas", ""),
        field_selectors=_fields("status.replicas"),
    ),
    KindDefinition(resource=kube.CONTROLLER_REVISIONS, singular="controllerrevision", status=False, generation=False),
    KindDefinition(resource=kube.ENDPOINT_SLICES, singular="endpointslice", status=False),
    KindDefinition(resource=kube.LEASES, singular="lease", status=False, generation=False),
    KindDefinition(resource=kube.POD_DISRUPTION_BUDGETS, singular="poddisruptionbudget", short_names=("pdb",)),
    KindDefinition(resource=PRIORITY_CLASSES, singular="priorityclass", short_names=("pc",), status=False),
    KindDefinition(resource=kube.CRDS, singular="customresourcedefinition", short_names=("crd", "crds"), categories=("api-extensions",)),
    KindDefinition(
        resource=kube.MUTATING_WEBHOOKS, singular="mutatingwebhookconfiguration", categories=("api-extensions",), status=False
    ),
    KindDefinition(
        resource=kube.VALIDATING_WEBHOOKS, singular="validatingwebhookconfiguration", categories=("api-extensions",), status=False
    ),
    *(
        KindDefinition(
            resource=Resource(_RBAC, "v1", plural, kind, namespaced=namespaced),
            singular=kind.lower(),
            status=False,
            generation=False,
        )
        for plural, kind, namespaced in (
            ("roles", "Role", True),
            ("rolebindings", "RoleBinding", True),
            ("clusterroles", "ClusterRole", False),
            ("clusterrolebindings", "ClusterRoleBinding", False),
        )
    ),
)
"""Every built-in kind."""
