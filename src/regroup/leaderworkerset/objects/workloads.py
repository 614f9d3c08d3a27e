"""The objects that the operator creates for a LeaderWorkerSet (spec/leaderworkerset.md 3.1-3.5). Pure.

Each function returns the whole object as it is to be written, with only the fields that we own. Operator keys win over user
keys; labels and annotations that only mean something on the LeaderWorkerSet itself are not copied down.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from regroup.kube.canonical import canonical, covers
from regroup.kube.meta import HasMeta, owner_reference
from regroup.kube.pod import Pod
from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import HASH, UNIQUE_PER_REPLICA, LeaderWorkerSet, Template
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects import gang
from regroup.leaderworkerset.objects.environment import leader_address, requests_tpus
from regroup.leaderworkerset.objects.revision import Data, revision_name
from regroup.leaderworkerset.objects.rollout import Strategy, max_unavailable_of_set

Object = dict[str, Any]

_NOT_COPIED = frozenset({keys.RESTART_COUNTS, keys.AFTER_START_EXPERIMENT, "kubectl.kubernetes.io/last-applied-configuration"})
_NOT_COPIED_PREFIXES = (keys.OWN_PREFIX, "kopf.zalando.org/", "kopf.dev/", "deployment.kubernetes.io/")
_PLACED_BY = (keys.WORKLOAD_SCHEDULING, keys.WORKLOAD_NAME)
_FIRST_WORKER = 1


def leader_set(lws: LeaderWorkerSet, *, revision: str, replicas: int, partition: int, workload: str = "") -> Object:
    """The StatefulSet of the leaders (Ordinal), to be applied. ``replicas`` and ``partition`` come from the rollout (6.2);
    ``workload``: the name of the one that they are placed by, unless it is ours (3.6)."""
    config = lws.spec.rollout_strategy.rolling_update
    strategy = Strategy(partition=config.partition, max_unavailable=config.max_unavailable, max_surge=config.max_surge)
    unavailable = max_unavailable_of_set(replicas=lws.spec.replicas, strategy=strategy)
    spec: Object = {
        "replicas": replicas,
        "serviceName": lws.name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": _leader_selector(lws)},
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"partition": partition, "maxUnavailable": unavailable},
        },
        "template": _leader_template(lws, revision=revision, workload=workload),
        **_storage(lws),
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": _leader_metadata(lws, revision=revision), "spec": spec}


def leader_deployment(lws: LeaderWorkerSet, *, revision: str, workload: str = "") -> Object:
    """The Deployment of the leaders (Hash), to be applied."""
    config = lws.spec.rollout_strategy.rolling_update
    template = _leader_template(lws, revision=revision, workload=workload)
    template["metadata"]["annotations"][keys.GROUP_IDENTITY] = HASH
    template["spec"] = {**template["spec"], "subdomain": lws.name}
    if lws.template.size > 1:
        gates = [gate for gate in template["spec"].get("readinessGates") or () if gate.get("conditionType") != keys.GROUP_READY]
        template["spec"]["readinessGates"] = [*gates, {"conditionType": keys.GROUP_READY}]
    spec: Object = {
        "replicas": lws.spec.replicas,
        "selector": {"matchLabels": _leader_selector(lws)},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {
                # Nothing and nothing, which is fine for 0 replicas here, is refused by a Deployment whatever its replicas.
                "maxUnavailable": config.max_unavailable if _any(config.max_unavailable, config.max_surge) else 1,
                "maxSurge": config.max_surge,
            },
        },
        "template": template,
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _leader_metadata(lws, revision=revision), "spec": spec}


def worker_set_name(leader: Pod) -> str:
    """The worker set of ``leader``: its host name, which is its own name in Ordinal."""
    return leader.spec.hostname or leader.metadata.name


def worker_set(lws: LeaderWorkerSet, *, leader: Pod, topology_value: str | None = None) -> Object:
    """The StatefulSet of one group's workers. ``lws`` is at the group's own revision (``revision.restore``).

    ``topology_value`` is the value of the exclusive-topology label on the leader's node. Under restartPolicy None in Ordinal
    mode the set belongs to the LeaderWorkerSet, so that it outlives its leader (5.3); then it names no incarnation either.
    """
    labels = {keys.NAME: lws.name} | {
        key: leader.metadata.labels.get(key, "") for key in (keys.GROUP_INDEX, keys.GROUP_KEY, keys.REVISION)
    }
    outlives = outlives_leader(lws)
    template = _pod_template(
        lws.template.worker_template,
        labels=labels if outlives else {**labels, keys.LEADER_UID: leader.metadata.uid},
        annotations=_worker_annotations(lws, leader),
    )
    topology = lws.metadata.annotations.get(keys.EXCLUSIVE_TOPOLOGY)
    if topology and topology_value is not None:
        selector = template["spec"].get("nodeSelector") or {}
        template["spec"] = {**template["spec"], "nodeSelector": {**selector, topology: topology_value}}
    spec: Object = {
        "replicas": lws.template.size - 1,
        "ordinals": {"start": _FIRST_WORKER},
        "serviceName": leader.spec.subdomain or lws.name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {key: labels[key] for key in (keys.GROUP_INDEX, keys.NAME, keys.GROUP_KEY)}},
        "template": template,
        **_storage(lws),
    }
    metadata = {
        "name": worker_set_name(leader),
        "namespace": lws.namespace,
        "labels": {**_user_labels(lws), **labels, keys.ROLE: keys.WORKER},
        "annotations": _user_annotations(lws),
        "ownerReferences": [_owned_by_lws(lws) if outlives else _owned_by_pod(leader)],
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def outlives_leader(lws: LeaderWorkerSet) -> bool:
    """Whether workers stay when their leader is lost: policy None, Ordinal (5.3)."""
    return not lws.template.recreates and not lws.hash_mode


def worker_set_drift(live: StatefulSet, wanted: Object) -> tuple[str, ...]:
    """The fields of a worker set that somebody changed by hand (Q30), of those that can be put back.

    Compared is what we set: sets made by the Go controller, which know no incarnation, and fields that the server fills in are
    no drift.
    """
    drift = []
    if live.spec.replicas is None or live.spec.replicas != wanted["spec"]["replicas"]:
        drift.append("spec.replicas")
    template = msgspec.json.decode(live.spec.template) if live.spec.template else {}
    have, want = canonical(template), canonical(wanted["spec"]["template"])
    if keys.LEADER_UID not in (have.get("metadata") or {}).get("labels", {}):
        want["metadata"]["labels"].pop(keys.LEADER_UID, None)
    if not covers(have, want):
        drift.append("spec.template")
    return tuple(drift)


def shared_service(lws: LeaderWorkerSet) -> Object:
    """The headless Service of all groups (subdomainPolicy Shared)."""
    return _headless(lws, name=lws.name, owner=_owned_by_lws(lws), selector={keys.NAME: lws.name})


def replica_service_name(leader: Pod) -> str:
    """The per-replica Service of ``leader``: what admission made its subdomain."""
    return leader.spec.subdomain or leader.metadata.name


def replica_service(lws: LeaderWorkerSet, *, leader: Pod) -> Object:
    """The headless Service of one group (subdomainPolicy UniquePerReplica)."""
    selector = {keys.NAME: lws.name, keys.GROUP_INDEX: leader.metadata.labels.get(keys.GROUP_INDEX, "")}
    return _headless(lws, name=replica_service_name(leader), owner=_owned_by_pod(leader), selector=selector)


def revision_object(lws: LeaderWorkerSet, *, data: Data, key: str, number: int) -> Object:
    """The ControllerRevision that stores ``data`` (``revision.revision_data``) under ``key``."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision_name(lws.name, key=key, number=number),
            "namespace": lws.namespace,
            "labels": {keys.NAME: lws.name, keys.REVISION: key},
            "ownerReferences": [_owned_by_lws(lws)],
        },
        "data": data,
        "revision": number,
    }


def hpa_selector(lws_name: str) -> str:
    """``status.hpaPodSelector``: leaders only, because a group is one replica."""
    return f"{keys.NAME}={lws_name},{keys.WORKER_INDEX}={keys.LEADER_INDEX}"


def _any(*limits: int | str) -> bool:
    return any(limit not in {0, "0%"} for limit in limits)


def _leader_selector(lws: LeaderWorkerSet) -> dict[str, str]:
    return {keys.NAME: lws.name, keys.WORKER_INDEX: keys.LEADER_INDEX}


def _leader_metadata(lws: LeaderWorkerSet, *, revision: str) -> Object:
    return {
        "name": lws.name,
        "namespace": lws.namespace,
        "labels": {**_user_labels(lws), keys.NAME: lws.name, keys.REVISION: revision, keys.ROLE: keys.LEADER},
        "annotations": {**_user_annotations(lws), keys.REPLICAS: str(lws.spec.replicas)},
        "ownerReferences": [_owned_by_lws(lws)],
    }


def _leader_template(lws: LeaderWorkerSet, *, revision: str, workload: str) -> Template:
    annotations = _group_annotations(lws) | gang.template_annotations(lws, workload=workload)
    if lws.spec.subdomain_policy == UNIQUE_PER_REPLICA:
        annotations[keys.SUBDOMAIN_POLICY] = UNIQUE_PER_REPLICA
    if lws.parallel:
        annotations[keys.POD_TERMINATION_POLICY] = lws.spec.pod_termination_policy
    labels = {**_leader_selector(lws), keys.REVISION: revision}
    return _pod_template(lws.template.effective_leader_template, labels=labels, annotations=annotations)


def _worker_annotations(lws: LeaderWorkerSet, leader: Pod) -> dict[str, str]:
    host, subdomain = worker_set_name(leader), leader.spec.subdomain or lws.name
    annotations = {
        **_group_annotations(lws),
        # Workers are placed with their leader, whoever named its Workload.
        **{key: leader.metadata.annotations[key] for key in _PLACED_BY if key in leader.metadata.annotations},
        keys.LEADER_NAME: leader.metadata.name,
        keys.LEADER_ADDRESS: leader_address(host, subdomain=subdomain, namespace=lws.namespace),
    }
    if lws.hash_mode:
        annotations[keys.GROUP_IDENTITY] = HASH
    if requests_tpus(lws.template.effective_leader_template.get("spec") or {}):
        annotations[keys.LEADER_REQUESTS_TPUS] = "true"
    return annotations


def _group_annotations(lws: LeaderWorkerSet) -> dict[str, str]:
    """What every pod of a group carries, for its admission."""
    annotations = {keys.SIZE: str(lws.template.size)}
    policy = lws.template.sub_group_policy
    wanted = [keys.EXCLUSIVE_TOPOLOGY]
    if policy is not None:
        annotations[keys.SUBGROUP_POLICY_TYPE] = policy.type
        annotations[keys.SUBGROUP_SIZE] = str(policy.size)
        wanted.append(keys.SUBGROUP_EXCLUSIVE_TOPOLOGY)
    for key in wanted:
        if lws.metadata.annotations.get(key):
            annotations[key] = lws.metadata.annotations[key]
    return annotations


def _pod_template(template: Template, *, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Template:
    """The user's template under our labels and annotations; reserved keys that the user set are dropped (C112)."""
    metadata = template.get("metadata") or {}
    ours: Object = {
        "labels": {**_without(metadata.get("labels"), keys.RESERVED_POD_LABELS), **labels},
        "annotations": {**_without(metadata.get("annotations"), keys.RESERVED_POD_ANNOTATIONS), **annotations},
    }
    if metadata.get("finalizers"):
        ours["finalizers"] = metadata["finalizers"]
    return {"metadata": ours, "spec": template.get("spec") or {}}


def _storage(lws: LeaderWorkerSet) -> Object:
    fields: Object = {}
    if lws.template.volume_claim_templates:
        fields["volumeClaimTemplates"] = list(lws.template.volume_claim_templates)
    if lws.template.persistent_volume_claim_retention_policy:
        fields["persistentVolumeClaimRetentionPolicy"] = lws.template.persistent_volume_claim_retention_policy
    return fields


def _headless(lws: LeaderWorkerSet, *, name: str, owner: Object, selector: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": lws.namespace,
            "labels": {keys.NAME: lws.name},
            "ownerReferences": [owner],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector)},
    }


def _user_labels(lws: LeaderWorkerSet) -> dict[str, str]:
    return _without(lws.metadata.labels, keys.RESERVED_POD_LABELS)


def _user_annotations(lws: LeaderWorkerSet) -> dict[str, str]:
    kept = _without(lws.metadata.annotations, _NOT_COPIED)
    return {key: value for key, value in kept.items() if not key.startswith(_NOT_COPIED_PREFIXES)}


def _without(values: Mapping[str, str] | None, excluded: Iterable[str]) -> dict[str, str]:
    return {key: value for key, value in (values or {}).items() if key not in excluded}


def _owned_by_lws(lws: LeaderWorkerSet) -> Object:
    return owner_reference(lws, api_version=LEADERWORKERSETS.api_version, kind=LEADERWORKERSETS.kind)


def _owned_by_pod(leader: HasMeta) -> Object:
    return owner_reference(leader, api_version="v1", kind="Pod")
