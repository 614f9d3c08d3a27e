"""What is made for Instances: their pods, PodGroups and stored revisions (spec/omenative.md 2.1-2.4, 2.6). Pure.

Each function returns the whole object as it is created. What stands in front of the pods is in ``exposure``.
"""

from collections.abc import Mapping
from typing import Any

from regroup.kube.meta import owner_reference
from regroup.omenative import keys, names
from regroup.omenative.api.replica import InferenceReplica, Runner
from regroup.omenative.keys import INFERENCE_REPLICAS, LEADER, POD_GROUPS, WORKER
from regroup.omenative.objects.environment import with_environment
from regroup.omenative.objects.revision import pairing_protocol, runner, runners
from regroup.omenative.outcome import CreatePod
from regroup.omenative.view import Revision

Object = dict[str, Any]

PREFERRED = "Preferred"
REQUIRED = "Required"
_HOSTNAME = "kubernetes.io/hostname"
_RESERVED_LABELS = frozenset(
    {
        keys.SERVICE,
        keys.COMPONENT,
        keys.MANAGED_BY,
        keys.INSTANCE_INDEX,
        keys.INCARNATION,
        keys.RUNNER,
        keys.POD_ORDINAL,
        keys.REVISION_HASH,
        keys.PAIRING_PROTOCOL,
        keys.POD_GROUP,
    }
)
"""What a user's template cannot set."""


class RunnerUnknown(ValueError):
    """A pod is wanted of a runner that its revision does not have."""


def component_labels(replica: InferenceReplica) -> dict[str, str]:
    """What all pods of the component carry, and nothing else does."""
    return {
        keys.SERVICE: replica.service_name,
        keys.COMPONENT: replica.spec.component,
        keys.MANAGED_BY: keys.OMENATIVE,
    }


def component_selector(replica: InferenceReplica) -> str:
    """``status.labelSelector``: the same as text, keys in order."""
    return ",".join(f"{key}={value}" for key, value in sorted(component_labels(replica).items()))


def pod(replica: InferenceReplica, revision: Revision, create: CreatePod, *, termination_grace: int | None = None) -> Object:
    """The pod that ``create`` asks for, made from the stored ``revision``.

    ``termination_grace`` (seconds) is what the cluster gives pods whose template says nothing. Raises ``RunnerUnknown``.
    """
    found = runner(revision, create.runner)
    if found is None:
        raise RunnerUnknown(f"revision {revision.name} has no runner {create.runner}")
    all_runners = runners(revision)
    multi_pod = any(one.name == LEADER for one in all_runners)
    metadata, spec = found.template.get("metadata") or {}, dict(found.template.get("spec") or {})
    labels = {
        **_without_reserved(_copied(replica, replica.metadata.labels, listed=keys.INHERITED_LABELS)),
        **_without_reserved(metadata.get("labels")),
        **component_labels(replica),
        keys.INSTANCE_INDEX: str(create.index),
        keys.INCARNATION: str(create.incarnation),
        keys.RUNNER: create.runner,
        keys.POD_ORDINAL: str(create.ordinal),
        keys.REVISION_HASH: revision.hash,
    }
    if pairing_protocol(revision):
        labels[keys.PAIRING_PROTOCOL] = pairing_protocol(revision)
    if multi_pod:
        labels[keys.POD_GROUP] = names.instance_name(replica.name, create.index)
    spec["hostname"] = create.name
    spec["subdomain"] = names.headless_service(replica.name)
    spec.setdefault("restartPolicy", "Always")
    if termination_grace is not None:
        spec.setdefault("terminationGracePeriodSeconds", termination_grace)
    gates = [gate for gate in spec.get("readinessGates") or () if gate.get("conditionType") != keys.SERVING_GATE]
    spec["readinessGates"] = [*gates, {"conditionType": keys.SERVING_GATE}]
    spec = with_environment(spec, replica=replica, runners=all_runners, create=create)
    spec = _placed(spec, replica, runner=found, create=create, labels=labels)
    made: Object = {
        "name": create.name,
        "namespace": replica.namespace,
        "labels": labels,
        "annotations": {
            **_copied(replica, replica.metadata.annotations, listed=keys.EXCLUDED_ANNOTATIONS),
            **(metadata.get("annotations") or {}),
        },
        "ownerReferences": [_owner(replica)],
    }
    if metadata.get("finalizers"):
        made["finalizers"] = list(metadata["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


def pod_group(replica: InferenceReplica, *, index: int, min_member: int, timeout: int) -> Object:
    """The PodGroup of an Instance: its pods are scheduled together within ``timeout`` seconds, or not at all."""
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": names.instance_name(replica.name, index),
            "namespace": replica.namespace,
            "labels": {**component_labels(replica), keys.INSTANCE_INDEX: str(index)},
            "ownerReferences": [_owner(replica)],
        },
        "spec": {"minMember": min_member, "scheduleTimeoutSeconds": timeout},
    }


def revision_object(replica: InferenceReplica, revision: Revision) -> Object:
    """The ControllerRevision that stores ``revision``."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision.name,
            "namespace": replica.namespace,
            "labels": {**component_labels(replica), keys.REVISION_HASH: revision.hash},
            "ownerReferences": [_owner(replica)],
        },
        "data": dict(revision.data),
        "revision": revision.number,
    }


def _placed(spec: Object, replica: InferenceReplica, *, runner: Runner, create: CreatePod, labels: Mapping[str, str]) -> Object:
    """``spec`` with what the component's topology and the Instance's history say of the node."""
    wanted = replica.spec
    if runner.name == WORKER and wanted.topology_key:
        instance = {key: labels[key] for key in (*component_labels(replica), keys.INSTANCE_INDEX, keys.INCARNATION)}
        term = {
            "labelSelector": {"matchLabels": {**instance, keys.RUNNER: LEADER}},
            "topologyKey": wanted.topology_key,
        }
        spec = _with_term(spec, "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution", term)
    if runner.name != WORKER and (wanted.topology_spread or wanted.topology_spread_key):
        constraint = {
            "maxSkew": 1,
            "topologyKey": wanted.topology_spread_key or _HOSTNAME,
            "whenUnsatisfiable": "DoNotSchedule" if wanted.topology_spread == REQUIRED else "ScheduleAnyway",
            "labelSelector": {"matchLabels": {**component_labels(replica), keys.RUNNER: runner.name}},
        }
        spec = {**spec, "topologySpreadConstraints": [*(spec.get("topologySpreadConstraints") or ()), constraint]}
    if create.avoid_nodes:
        spec = _avoiding(spec, create)
    return spec


def _avoiding(spec: Object, create: CreatePod) -> Object:
    """Nodes are excluded in every term: terms are alternatives."""
    expression = {"key": _HOSTNAME, "operator": "NotIn", "values": list(create.avoid_nodes)}
    affinity = dict(spec.get("affinity") or {})
    node = dict(affinity.get("nodeAffinity") or {})
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    excluded = [{**term, "matchExpressions": [*(term.get("matchExpressions") or ()), expression]} for term in terms]
    node["requiredDuringSchedulingIgnoredDuringExecution"] = {**required, "nodeSelectorTerms": excluded}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node}}


def _with_term(spec: Object, kind: str, when: str, term: Object) -> Object:
    affinity = dict(spec.get("affinity") or {})
    part = dict(affinity.get(kind) or {})
    part[when] = [*(part.get(when) or ()), term]
    return {**spec, "affinity": {**affinity, kind: part}}


def _copied(replica: InferenceReplica, values: Mapping[str, str], *, listed: str) -> dict[str, str]:
    """What the replica has from its service, by the list in its annotation ``listed``."""
    names = replica.metadata.annotations.get(listed, "").split(",")
    return {key: values[key] for key in names if key in values}


def _without_reserved(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (labels or {}).items() if key not in _RESERVED_LABELS}


def _owner(replica: InferenceReplica) -> Object:
    return owner_reference(replica, api_version=INFERENCE_REPLICAS.api_version, kind=INFERENCE_REPLICAS.kind)
