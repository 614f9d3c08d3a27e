"""The built-in kinds, all together: names and what each one's own modules say of it. Pure."""

from functools import partial
from typing import Any

from regroup.kube import resources as kube
from regroup.sandbox.kinds import columns, event_columns, pod_columns, prepare
from regroup.sandbox.kinds.builder import REPLICAS, built_in
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.kinds.events import core_field
from regroup.sandbox.kinds.validation import claims, core, crd, event, network, pods, rbac, webhooks, workloads
from regroup.wire.resource import Resource

Obj = dict[str, Any]

CORE_EVENTS = Resource("", "v1", "events", "Event")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
_RBAC = "rbac.authorization.k8s.io"
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
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)

BUILTINS: tuple[KindDefinition, ...] = (
    built_in(
        kube.PODS,
        short_names=("po",),
        categories=_ALL,
        status=True,
        generation=True,
        columns=pod_columns.COLUMNS,
        row_conditions=pod_columns.row_conditions,
        prepare=prepare.pod,
        fields=_POD_FIELDS,
        validate=pods.validate,
        warnings=pods.warnings,
    ),
    built_in(
        kube.NODES,
        short_names=("no",),
        status=True,
        status_on_create=True,
        columns=columns.NODES,
        prepare=prepare.node,
        fields=("spec.unschedulable",),
        validate=core.node,
    ),
    built_in(
        kube.NAMESPACES,
        short_names=("ns",),
        status=True,
        columns=columns.NAMESPACES,
        prepare=prepare.namespace,
        fields=("status.phase",),
        validate=core.namespace,
    ),
    built_in(
        kube.SERVICES,
        short_names=("svc",),
        categories=_ALL,
        status=True,
        columns=columns.SERVICES,
        prepare=prepare.service,
        fields=("spec.clusterIP", "spec.type"),
        validate=network.service,
    ),
    built_in(kube.CONFIGMAPS, short_names=("cm",), columns=columns.CONFIGMAPS, validate=core.config_map),
    built_in(kube.SECRETS, columns=columns.SECRETS, fields=("type",), validate=core.secret),
    built_in(SERVICE_ACCOUNTS, short_names=("sa",), validate=core.plain),
    built_in(CLAIMS, short_names=("pvc",), status=True, columns=columns.CLAIMS, validate=claims.claim),
    built_in(
        CORE_EVENTS,
        short_names=("ev",),
        columns=event_columns.COLUMNS,
        field_selectors={path: partial(core_field, path) for path in _EVENT_FIELDS},
        validate=event.core,
    ),
    built_in(
        kube.EVENTS,
        short_names=("ev",),
        columns=event_columns.COLUMNS,
        fields=(
            "reason",
            "type",
            "regarding.kind",
            "regarding.name",
            "regarding.namespace",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
        ),
        validate=event.event,
    ),
    built_in(
        kube.STATEFULSETS,
        short_names=("sts",),
        categories=_ALL,
        status=True,
        scale=REPLICAS,
        generation=True,
        columns=columns.STATEFULSETS,
        validate=workloads.stateful_set,
        warnings=pods.template_warnings,
    ),
    built_in(
        kube.DEPLOYMENTS,
        short_names=("deploy",),
        categories=_ALL,
        status=True,
        scale=REPLICAS,
        generation=True,
        columns=columns.DEPLOYMENTS,
        validate=workloads.deployment,
        warnings=pods.template_warnings,
    ),
    built_in(
        kube.REPLICASETS,
        short_names=("rs",),
        categories=_ALL,
        status=True,
        scale=REPLICAS,
        generation=True,
        columns=columns.REPLICASETS,
        validate=workloads.replica_set,
        warnings=pods.template_warnings,
    ),
    built_in(kube.CONTROLLER_REVISIONS, columns=columns.CONTROLLER_REVISIONS, validate=workloads.controller_revision),
    built_in(kube.ENDPOINT_SLICES, generation=True, columns=columns.ENDPOINT_SLICES, validate=network.endpoint_slice),
    built_in(kube.LEASES, columns=columns.LEASES, validate=core.lease),
    built_in(
        kube.POD_DISRUPTION_BUDGETS,
        short_names=("pdb",),
        status=True,
        generation=True,
        columns=columns.POD_DISRUPTION_BUDGETS,
        validate=workloads.disruption_budget,
    ),
    built_in(
        PRIORITY_CLASSES,
        short_names=("pc",),
        generation=True,
        columns=columns.PRIORITY_CLASSES,
        validate=workloads.priority_class,
    ),
    built_in(
        kube.CRDS,
        short_names=("crd", "crds"),
        categories=_EXTENSIONS,
        status=True,
        generation=True,
        columns=columns.CRDS,
        validate=crd.validate,
        warnings=crd.warnings,
    ),
    built_in(
        kube.MUTATING_WEBHOOKS,
        categories=_EXTENSIONS,
        generation=True,
        columns=columns.WEBHOOK_CONFIGURATIONS,
        validate=webhooks.configuration,
    ),
    built_in(
        kube.VALIDATING_WEBHOOKS,
        categories=_EXTENSIONS,
        generation=True,
        columns=columns.WEBHOOK_CONFIGURATIONS,
        validate=webhooks.configuration,
    ),
    built_in(Resource(_RBAC, "v1", "roles", "Role"), columns=columns.ROLES, validate=rbac.role),
    built_in(Resource(_RBAC, "v1", "rolebindings", "RoleBinding"), columns=columns.ROLE_BINDINGS, validate=rbac.binding),
    built_in(Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False), columns=columns.ROLES, validate=rbac.role),
    built_in(
        Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        columns=columns.ROLE_BINDINGS,
        validate=rbac.binding,
    ),
)
"""Every built-in kind."""
