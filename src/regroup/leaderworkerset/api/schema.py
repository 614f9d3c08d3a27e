"""The CustomResourceDefinition of LeaderWorkerSet: every field of v1 with its type, limits, default and meaning
(spec/leaderworkerset.md 2). Pure.

Pod templates are open: the fields that people get wrong most are typed, everything else passes and is checked when pods are made.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.kube.schema import Schema, array_of, integer, obj, open_object, string
from regroup.leaderworkerset.api import types
from regroup.leaderworkerset.api.template_schema import claim_template, pod_template
from regroup.leaderworkerset.keys import GROUP, LEADERWORKERSETS

_SHORT_NAME = "lws"


def crd() -> dict[str, Any]:
    """The object to apply."""
    resource = LEADERWORKERSETS
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.hpaPodSelector",
            },
        },
        "additionalPrinterColumns": [
            _column("Ready", "integer", ".status.readyReplicas", "Groups of which every pod is ready"),
            _column("Desired", "integer", ".spec.replicas", "Groups wanted"),
            _column("Up-to-date", "integer", ".status.updatedReplicas", "Groups at the newest template"),
            _column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [_SHORT_NAME],
            },
            "versions": [version],
        },
    }


def _column(name: str, kind: str, path: str, description: str) -> dict[str, str]:
    return {"name": name, "type": kind, "jsonPath": path, "description": description}


def _schema() -> Schema:
    return obj(
        "LeaderWorkerSet keeps groups of pods, each of one leader and its workers, healthy as groups.",
        {
            "apiVersion": string("Version of the API that this object is written for."),
            "kind": string("LeaderWorkerSet."),
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
    )


def _spec() -> Schema:
    return obj(
        "What is wanted.",
        {
            "replicas": integer(
                "Number of groups. Each group is one leader and size - 1 workers.", minimum=0, maximum=1_000_000, default=1
            ),
            "leaderWorkerTemplate": _leader_worker_template(),
            "rolloutStrategy": _rollout_strategy(),
            "startupPolicy": string(
                "When the workers of a group are created: as soon as their leader exists (LeaderCreated), or when it is ready "
                "(LeaderReady).",
                enum=(types.LEADER_CREATED, types.LEADER_READY),
                default=types.LEADER_CREATED,
            ),
            "networkConfig": obj(
                "How the pods find each other by name.",
                {
                    "subdomainPolicy": string(
                        "One headless Service for all groups (Shared), or one for each group (UniquePerReplica).",
                        enum=(types.SHARED, types.UNIQUE_PER_REPLICA),
                    )
                },
                required=("subdomainPolicy",),
            ),
            "groupIdentity": string(
                "Whether groups have fixed numbers and names (Ordinal) or are interchangeable and named by a drawn key (Hash). "
                "Cannot be changed.",
                enum=(types.ORDINAL, types.HASH),
                default=types.ORDINAL,
            ),
            "groupReplacementPolicy": string(
                "Whether a replacement group starts when the pods of the old one are gone (PostTermination) or at once "
                "(Immediate, only with groupIdentity Hash).",
                enum=(types.IMMEDIATE, types.POST_TERMINATION),
                default=types.POST_TERMINATION,
            ),
            "podTerminationPolicy": string(
                "Whether workers end after their leader (Default) or together with it (Parallel). Cannot be changed.",
                enum=(types.DEFAULT_TERMINATION, types.PARALLEL),
                default=types.DEFAULT_TERMINATION,
            ),
            "scheduling": _scheduling(),
        },
        required=("leaderWorkerTemplate",),
    )


def _leader_worker_template() -> Schema:
    return obj(
        "What a group is made of, and what happens when a part of it fails.",
        {
            "leaderTemplate": pod_template("Template of the leader pods; workerTemplate is used where it is not set."),
            "workerTemplate": pod_template("Template of the worker pods."),
            "size": integer("Number of pods in a group, leader included.", minimum=1, default=1),
            "restartPolicy": string(
                "What a failed pod leads to. RecreateGroupOnPodRestart: its whole group is deleted and created anew. "
                "RecreateGroupAfterStart: the same, but only when no pod of the group is pending. None: only that pod is "
                "replaced. Default is a deprecated name of None.",
                enum=(types.DEPRECATED_DEFAULT, types.ON_POD_RESTART, types.AFTER_START, types.NONE),
                default=types.ON_POD_RESTART,
            ),
            "maxGroupRestarts": integer(
                "How many times each group may be recreated automatically, for each revision of the template. Unset: without "
                "limit; 0: never. A group that used them up is terminated and retained until it is recovered by hand. Not with "
                "restartPolicy None.",
                minimum=0,
            ),
            "restartBackoff": obj(
                "Spaces out recreations: a group must have existed for min(baseSeconds * 2^restarts, capSeconds) before it is "
                "recreated. Not with restartPolicy None.",
                {
                    "baseSeconds": integer("Delay before the first recreation.", minimum=1, default=types.BACKOFF_BASE),
                    "capSeconds": integer("Longest delay.", minimum=1, default=types.BACKOFF_CAP),
                },
            ),
            "subGroupPolicy": obj(
                "Divides each group into subgroups. Cannot be added or removed.",
                {
                    "subGroupPolicyType": string(
                        "Whether the leader belongs to the first subgroup (LeaderWorker) or to none (LeaderExcluded).",
                        enum=(types.LEADER_WORKER, types.LEADER_EXCLUDED),
                        default=types.LEADER_WORKER,
                    ),
                    "subGroupSize": integer(
                        "Number of pods in a subgroup; size or size - 1 must be divisible by it. Cannot be changed.", minimum=1
                    ),
                },
            ),
            "volumeClaimTemplates": array_of(
                "Claims that each pod gets for itself, as in a StatefulSet. Not with groupIdentity Hash.",
                claim_template("A PersistentVolumeClaim to be made for each pod."),
            ),
            "persistentVolumeClaimRetentionPolicy": obj(
                "What becomes of the claims that were made from volumeClaimTemplates.",
                {
                    "whenDeleted": string("When the set is deleted.", enum=("Retain", "Delete")),
                    "whenScaled": string("When the set is scaled down.", enum=("Retain", "Delete")),
                },
            ),
        },
        required=("workerTemplate",),
    )


def _rollout_strategy() -> Schema:
    int_or_percent: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    return obj(
        "How a change of the template reaches the groups.",
        {
            "type": string("RollingUpdate: some groups at a time.", enum=(types.ROLLING_UPDATE,), default=types.ROLLING_UPDATE),
            "rollingUpdateConfiguration": obj(
                "Limits of a rolling update.",
                {
                    "partition": integer("Groups with a lower index keep the old template.", minimum=0, default=0),
                    "maxUnavailable": {
                        **int_or_percent,
                        "description": "Groups that may be unavailable at a time, as a number or a percentage of replicas.",
                        "default": 1,
                    },
                    "maxSurge": {
                        **int_or_percent,
                        "description": "Groups that may exist beyond replicas, as a number or a percentage of replicas.",
                        "default": 0,
                    },
                },
            ),
        },
    )


def _scheduling() -> Schema:
    claims = {
        **array_of(
            "Resource claims of the pods.",
            open_object("A resource claim.", properties={"name": string("Name of the claim.")}, required=("name",)),
        ),
        "maxItems": 4,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    part: Mapping[str, Schema] = {
        "schedulingPolicy": open_object("How the pods of this level are scheduled together."),
        "schedulingConstraints": open_object("Where they may be placed."),
        "disruptionMode": open_object("Whether they are disrupted one by one (single) or all together (all)."),
    }
    role = {**part, "resourceClaims": claims}
    replica = {
        **part,
        "leader": obj("Scheduling of the leaders.", role),
        "worker": obj("Scheduling of the workers.", role),
    }
    return obj(
        "Scheduling of groups as gangs, at exactly one level. Cannot be added, removed or reshaped.",
        {**part, "replica": obj("Scheduling of each group.", replica)},
    )


def _status() -> Schema:
    return obj(
        "What was last observed.",
        {
            "conditions": {
                **array_of("Available, Progressing, UpdateInProgress and Degraded.", _condition()),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            "readyReplicas": integer("Groups of which every pod is ready."),
            "updatedReplicas": integer("Groups at the newest revision of the template."),
            "replicas": integer("Groups that exist."),
            "hpaPodSelector": string("Selects the leader pods, for autoscalers."),
            "observedGeneration": integer("Generation of the spec that this status speaks of.", width=64),
        },
    )


def _condition() -> Schema:
    required: Sequence[str] = ("lastTransitionTime", "message", "reason", "status", "type")
    return obj(
        "One aspect of the state.",
        {
            "type": {**string("Which aspect."), "maxLength": 316},
            "status": string("True, False or Unknown.", enum=("True", "False", "Unknown")),
            "reason": {**string("Why, in one word."), "minLength": 1, "maxLength": 1024},
            "message": {**string("Why, for a person."), "maxLength": 32768},
            "lastTransitionTime": {**string("When status last changed."), "format": "date-time"},
            "observedGeneration": integer("Generation of the spec that it was set for.", width=64, minimum=0),
        },
        required=required,
    )
