"""The rights that the operator has: the verbs that it uses on the kinds that it uses, and no more.

Three parts: what it does to workloads (in all namespaces, or in chosen ones), what has no namespace, and what it keeps for
itself in its own namespace.
"""

from collections.abc import Sequence
from typing import Any

from regroup.leaderworkerset.objects.gang import Provider

Rule = dict[str, Any]


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], *, names: Sequence[str] = ()) -> Rule:
    rule: Rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = list(names)
    return rule


_READ = ("get", "list", "watch")


def workload_rules(provider: Provider = Provider.NONE) -> list[Rule]:
    """What the operator does in the namespaces whose groups it keeps; ``provider`` schedules gangs."""
    return [
        *_gang_rules(provider),
        _rule("leaderworkerset.x-k8s.io", ["leaderworkersets"], [*_READ, "patch", "update"]),
        _rule("leaderworkerset.x-k8s.io", ["leaderworkersets/status"], ["get", "patch", "update"]),
        # Owner references that block their owner's deletion need this where OwnerReferencesPermissionEnforcement is on.
        _rule("leaderworkerset.x-k8s.io", ["leaderworkersets/finalizers"], ["update"]),
        *_ome_rules(),
        _rule("", ["pods"], [*_READ, "create", "patch", "update", "delete", "deletecollection"]),
        _rule("", ["pods/status"], ["patch"]),
        _rule("", ["pods/finalizers"], ["update"]),
        # Whether a namespace is being deleted: retained groups then go as well.
        _rule("", ["namespaces"], ["get"]),
        _rule("", ["services"], [*_READ, "create", "patch", "update", "delete"]),
        _rule("apps", ["statefulsets"], [*_READ, "create", "patch", "update", "delete"]),
        _rule("apps", ["statefulsets/finalizers"], ["update"]),
        # Leaders of Hash groups: the Deployment is ours, its ReplicaSets tell whose a leader is, and one note on them is mended.
        _rule("apps", ["deployments"], [*_READ, "create", "patch"]),
        _rule("apps", ["replicasets"], [*_READ, "patch"]),
        _rule("apps", ["controllerrevisions"], [*_READ, "create", "patch", "update", "delete"]),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
    ]


def _ome_rules() -> list[Rule]:
    """What OMENative mode needs beside what both APIs do: it makes pods itself, and reads who routes to them."""
    return [
        _rule("ome.io", ["inferenceservices", "servingruntimes", "basemodels"], _READ),
        _rule("ome.io", ["inferenceservices/status", "inferencereplicas/status"], ["patch"]),
        _rule("ome.io", ["inferenceservices/finalizers", "inferencereplicas/finalizers"], ["update"]),
        _rule("ome.io", ["inferencereplicas"], [*_READ, "create", "patch", "delete"]),
        _rule("discovery.k8s.io", ["endpointslices"], _READ),
        _rule("policy", ["poddisruptionbudgets"], [*_READ, "create", "patch", "delete"]),
        _rule("scheduling.x-k8s.io", ["podgroups"], [*_READ, "create", "delete"]),
    ]


def _gang_rules(provider: Provider) -> list[Rule]:
    verbs = [*_READ, "create", "patch"]
    match provider:
        case Provider.VOLCANO:
            return [_rule("scheduling.volcano.sh", ["podgroups"], verbs)]
        case Provider.KUBERNETES:
            return [
                _rule("scheduling.k8s.io", ["workloads"], verbs),
                _rule("scheduling.k8s.io", ["podgroups"], [*verbs, "delete"]),
            ]
        case Provider.NONE:
            return []


def cluster_rules(*, webhooks: Sequence[str]) -> list[Rule]:
    """What has no namespace: nodes, the cluster's runtimes and models (read), and the CA bundle of our own webhook
    configurations."""
    return [
        _rule("", ["nodes"], _READ),
        _rule("ome.io", ["clusterservingruntimes", "clusterbasemodels"], _READ),
        _rule(
            "admissionregistration.k8s.io",
            ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            ["get", "patch", "update"],
            names=webhooks,
        ),
        # A create cannot be limited by name: it serves `regroup run --webhook-url`, which registers its own webhooks.
        _rule("admissionregistration.k8s.io", ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"], ["create"]),
    ]


def home_rules(*, lease: str, secret: str, config_map: str) -> list[Rule]:
    """What the operator keeps for itself in its own namespace: one Lease, one Secret; and the settings that it reads there."""
    return [
        _rule("", ["configmaps"], _READ, names=[config_map]),
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], names=[lease]),
        _rule("", ["secrets"], ["create"]),
        _rule("", ["secrets"], ["get", "update"], names=[secret]),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
    ]
