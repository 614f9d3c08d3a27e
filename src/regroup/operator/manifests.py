"""Everything that a cluster needs to run Regroup, as objects to apply. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regroup.leaderworkerset.api import schema as lws_schema
from regroup.leaderworkerset.objects.gang import Provider
from regroup.omenative.api import schema as ome_schema
from regroup.omenative.configuration.chart import config_map
from regroup.omenative.configuration.config import CONFIG_MAP
from regroup.operator import rbac
from regroup.operator import webhooks as api_webhooks
from regroup.operator.config import LEASE, NAMESPACE, SECRET, SERVICE, SERVICE_ACCOUNT
from regroup.operator.webhooks import WEBHOOK_CONFIGURATION

Manifest = dict[str, Any]

LABELS = {"app.kubernetes.io/name": "regroup", "app.kubernetes.io/part-of": "regroup"}
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, kw_only=True)
class ManifestOptions:
    """How Regroup is to be installed."""

    namespace: str = NAMESPACE
    image: str = "regroup-operator:latest"
    replicas: int = 2
    namespaces: Sequence[str] = ()
    """Keep only these namespaces, with Roles in each; none means all, with a ClusterRole."""
    webhook_url: str = ""
    """Webhooks by URL in place of a Service, for an operator that runs outside the cluster."""
    ca_bundle: bytes = b""
    scheduler_provider: Provider = Provider.NONE
    """Who schedules gangs; the operator gets the rights on its objects."""


def crds(_: ManifestOptions) -> list[Manifest]:
    """The resources that Regroup serves."""
    return [lws_schema.crd(), *ome_schema.crds()]


def namespace(options: ManifestOptions) -> list[Manifest]:
    """The operator's own namespace, under the restricted Pod Security standard."""
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace, "labels": labels}}]


def roles(options: ManifestOptions) -> list[Manifest]:
    """The ServiceAccount and its rights (``operator/rbac.py``)."""
    webhooks = [WEBHOOK_CONFIGURATION]
    result: list[Manifest] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(SERVICE_ACCOUNT, options.namespace)},
        *_cluster_role(SERVICE_ACCOUNT, rbac.cluster_rules(webhooks=webhooks), options),
        *_role(SERVICE_ACCOUNT, options.namespace, rbac.home_rules(lease=LEASE, secret=SECRET, config_map=CONFIG_MAP), options),
    ]
    if not options.namespaces:
        return [*result, *_cluster_role(f"{SERVICE_ACCOUNT}-workloads", rbac.workload_rules(options.scheduler_provider), options)]
    for name in options.namespaces:
        result += _role(f"{SERVICE_ACCOUNT}-workloads", name, rbac.workload_rules(options.scheduler_provider), options)
    return result


def settings(options: ManifestOptions) -> list[Manifest]:
    """The ConfigMap of OMENative mode, with the chart's defaults."""
    return [config_map(namespace=options.namespace, labels=dict(LABELS))]


def webhooks(options: ManifestOptions) -> list[Manifest]:
    """The Service in front of the webhooks and their configurations; the operator itself puts the CA bundle in."""
    configurations = api_webhooks.configurations(
        service=None if options.webhook_url else (options.namespace, SERVICE),
        url=options.webhook_url or None,
        ca_bundle=options.ca_bundle,
        namespaces=options.namespaces,
    )
    if options.webhook_url:
        return configurations
    service: Manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(SERVICE, options.namespace),
        "spec": {"selector": dict(LABELS), "ports": [{"name": "https", "port": 443, "targetPort": "webhook"}]},
    }
    return [service, *configurations]


def deployment(options: ManifestOptions) -> list[Manifest]:
    """The operator's Deployment: two replicas, of which one leads and both answer webhooks."""
    args = ["run", "--log-format", "json", "--webhook-port", "9443", "--metrics-port", "8080"]
    if options.namespaces:
        args += ["--namespaces", ",".join(options.namespaces)]
    if options.scheduler_provider is not Provider.NONE:
        args += ["--scheduler-provider", str(options.scheduler_provider)]
    container: Manifest = {
        "name": "regroup",
        "image": options.image,
        "args": args,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "ports": [{"name": "webhook", "containerPort": 9443}, {"name": "metrics", "containerPort": 8080}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "initialDelaySeconds": 15, "periodSeconds": 20},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # The serving certificate passes through a file on its way into the TLS library.
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a path in the container
    }
    template: Manifest = {
        "metadata": {"labels": dict(LABELS)},
        "spec": {
            "serviceAccountName": SERVICE_ACCOUNT,
            "terminationGracePeriodSeconds": 15,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
        },
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _meta("regroup", options.namespace),
            "spec": {"replicas": options.replicas, "selector": {"matchLabels": dict(LABELS)}, "template": template},
        }
    ]


PARTS: dict[str, Callable[[ManifestOptions], list[Manifest]]] = {
    "crds": crds,
    "namespace": namespace,
    "rbac": roles,
    "config": settings,
    "webhooks": webhooks,
    "deployment": deployment,
}
"""The parts by name, in the order in which they have to be applied."""


def manifests(options: ManifestOptions, *, only: Sequence[str] = ()) -> list[Manifest]:
    """The objects of the named parts, or of all, in the order to apply them. Raises ``KeyError`` for an unknown part."""
    return [manifest for name in (only or PARTS) for manifest in PARTS[name](options)]


def _meta(name: str, namespace: str | None) -> Manifest:
    meta: Manifest = {"name": name, "labels": dict(LABELS)}
    if namespace is not None:
        meta["namespace"] = namespace
    return meta


def _subject(options: ManifestOptions) -> list[Manifest]:
    return [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": options.namespace}]


def _cluster_role(name: str, rules: list[rbac.Rule], options: ManifestOptions) -> list[Manifest]:
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": _meta(name, None), "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": _meta(name, None),
            "roleRef": reference,
            "subjects": _subject(options),
        },
    ]


def _role(name: str, namespace: str, rules: list[rbac.Rule], options: ManifestOptions) -> list[Manifest]:
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": name}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": _meta(name, namespace), "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": _meta(name, namespace),
            "roleRef": reference,
            "subjects": _subject(options),
        },
    ]
