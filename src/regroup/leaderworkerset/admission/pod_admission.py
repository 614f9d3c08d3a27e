"""What admission writes on a pod of ours: labels, names, affinity, gate, environment (spec/leaderworkerset.md 3.8). Pure.

Must not know the LeaderWorkerSet: when a pod is admitted, everything it needs is on the pod.
"""

import copy
from typing import Any

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import HASH, LEADER_EXCLUDED, UNIQUE_PER_REPLICA
from regroup.leaderworkerset.objects import gang
from regroup.leaderworkerset.objects.affinity import add_exclusive_affinity
from regroup.leaderworkerset.objects.environment import add_lws_variables, add_tpu_variables, requests_tpus
from regroup.leaderworkerset.objects.gang import Provider
from regroup.leaderworkerset.objects.identity import (
    group_key,
    hash_host_name,
    parent_and_ordinal,
    sha1_hex,
    subgroup_index,
    subgroup_key,
)

Pod = dict[str, Any]

_WORKLOADS = frozenset({"StatefulSet", "ReplicaSet"})
_TPU_HOSTS = 10_000
"""Hosts that are named in one variable at most: more names than that are no object that an API server stores."""
_DIGITS = 10
"""Of a number in an annotation: what fits into 31 bits has no more."""


class PodRefused(ValueError):
    """The pod carries our label but cannot be a member; the message says why."""


def mutate_pod(pod: Pod, *, namespace: str, random_key: str, provider: Provider = Provider.NONE) -> Pod:
    """The pod as it is to be admitted: labels, host name, subdomain, affinity, gate, PodGroup, environment.

    ``random_key`` is used only for a Hash leader that has no key yet. A pod without our ``name`` label comes back as it is; a pod
    that went through here already comes back equal (B15). Raises ``PodRefused``.
    """
    metadata = pod.get("metadata") or {}
    if keys.NAME not in (metadata.get("labels") or {}):
        return pod
    pod = _copy(pod)
    metadata = pod["metadata"]
    labels, annotations = metadata["labels"], metadata.get("annotations") or {}
    size = _number(annotations, keys.SIZE)
    spec = pod.setdefault("spec", {})
    if labels.get(keys.WORKER_INDEX) == keys.LEADER_INDEX and keys.LEADER_NAME not in annotations:
        _leader(pod, namespace=namespace, random_key=random_key)
    else:
        _worker(metadata, size=size)
    _subgroup_affinity(spec, labels, annotations)
    _join_pod_group(metadata, spec, provider)
    if size > _TPU_HOSTS and requests_tpus(spec):
        raise PodRefused(
            f"metadata.annotations[{keys.SIZE}]: Invalid value: {str(size)!r}: the pods of a group that requests TPUs are told "
            f"the names of all its hosts, at most {_TPU_HOSTS}"
        )
    add_tpu_variables(pod, size=size)
    add_lws_variables(pod, namespace=namespace)
    return pod


def _copy(pod: Pod) -> Pod:
    """A copy as deep as what is changed here: labels, annotations, the lists of containers and their variables, affinity. What
    the server keeps of who wrote which field is the largest part of a pod, and nobody's business here."""
    spec = dict(pod.get("spec") or {})
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [dict(container) for container in spec[kind]]
    if "affinity" in spec:
        spec["affinity"] = copy.deepcopy(spec["affinity"])
    metadata = dict(pod["metadata"])
    for part in ("labels", "annotations"):
        if metadata.get(part) is not None:
            metadata[part] = dict(metadata[part])
    return {**pod, "metadata": metadata, "spec": spec}


def _leader(pod: Pod, *, namespace: str, random_key: str) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    labels, annotations = metadata["labels"], metadata.get("annotations") or {}
    hash_mode = annotations.get(keys.GROUP_IDENTITY) == HASH
    name = metadata.get("name") or ""
    if hash_mode:
        key = labels.get(keys.GROUP_KEY) or sha1_hex(f"{namespace}/{random_key}")
        labels[keys.GROUP_INDEX] = labels[keys.GROUP_KEY] = key
        spec["hostname"] = spec.get("hostname") or hash_host_name(labels[keys.NAME], key)
        own_name = spec["hostname"]
    else:
        place = parent_and_ordinal(name)
        if place is None:
            raise PodRefused(f"metadata.name: Invalid value: {name!r}: the name of a leader pod must end with its group's index")
        labels[keys.GROUP_INDEX] = str(place[1])
        labels[keys.GROUP_KEY] = group_key(namespace, name)
        own_name = name
    if annotations.get(keys.SUBDOMAIN_POLICY) == UNIQUE_PER_REPLICA:
        spec["subdomain"] = own_name
    topology = annotations.get(keys.EXCLUSIVE_TOPOLOGY)
    if topology:
        add_exclusive_affinity(spec, topology_key=topology, label=keys.GROUP_KEY, value=labels[keys.GROUP_KEY])
    if keys.SUBGROUP_SIZE in annotations and annotations.get(keys.SUBGROUP_POLICY_TYPE) != LEADER_EXCLUDED:
        labels[keys.SUBGROUP_INDEX] = "0"
        labels[keys.SUBGROUP_KEY] = subgroup_key(labels[keys.GROUP_KEY] if hash_mode else name, 0)
    if _made_by_a_workload(metadata):
        _hold(metadata, spec, hash_mode=hash_mode)


def _hold(metadata: dict[str, Any], spec: dict[str, Any], *, hash_mode: bool) -> None:
    """Every leader waits behind our gate until its group may start (4.3); only a workload's pod, because nobody would ever
    admit another."""
    gates = spec.get("schedulingGates") or []
    if all(gate.get("name") != keys.GATE for gate in gates):
        spec["schedulingGates"] = [*gates, {"name": keys.GATE}]
    if hash_mode:
        metadata.setdefault("annotations", {}).setdefault(keys.POD_DELETION_COST, keys.GATED_DELETION_COST)


def _worker(metadata: dict[str, Any], *, size: int) -> None:
    labels, annotations = metadata["labels"], metadata.get("annotations") or {}
    name = metadata.get("name") or ""
    place = parent_and_ordinal(name)
    if place is None:
        raise PodRefused(f"metadata.name: Invalid value: {name!r}: the name of a worker pod must end with its index in the group")
    labels[keys.WORKER_INDEX] = str(place[1])
    if keys.SUBGROUP_SIZE not in annotations:
        return
    subgroup_size = _number(annotations, keys.SUBGROUP_SIZE)
    index = subgroup_index(place[1], size=size, subgroup_size=subgroup_size)
    hash_mode = annotations.get(keys.GROUP_IDENTITY) == HASH
    parent = labels.get(keys.GROUP_KEY, "") if hash_mode else annotations.get(keys.LEADER_NAME, place[0])
    labels[keys.SUBGROUP_INDEX] = str(index)
    labels[keys.SUBGROUP_KEY] = subgroup_key(parent, index)


def _subgroup_affinity(spec: dict[str, Any], labels: dict[str, str], annotations: dict[str, str]) -> None:
    topology = annotations.get(keys.SUBGROUP_EXCLUSIVE_TOPOLOGY)
    if topology and keys.SUBGROUP_KEY in labels:
        add_exclusive_affinity(spec, topology_key=topology, label=keys.SUBGROUP_KEY, value=labels[keys.SUBGROUP_KEY])


def _join_pod_group(metadata: dict[str, Any], spec: dict[str, Any], provider: Provider) -> None:
    """Name the PodGroup that the pod is placed with (3.6, 3.8 step 4). Without a provider nobody would make one."""
    labels, annotations = metadata["labels"], metadata.get("annotations") or {}
    if provider is Provider.VOLCANO:
        group, revision = labels.get(keys.GROUP_INDEX, ""), labels.get(keys.REVISION, "")
        metadata.setdefault("annotations", {})[gang.GROUP_NAME] = gang.volcano_name(
            labels[keys.NAME], group=group, revision=revision
        )
    elif provider is Provider.KUBERNETES and (name := gang.native_name(labels, annotations)):
        spec["schedulingGroup"] = {"podGroupName": name}


def _number(annotations: dict[str, str], key: str) -> int:
    value = annotations.get(key)
    if value is None:
        raise PodRefused(f"metadata.annotations[{key}]: Required value: pods of a LeaderWorkerSet carry it")
    if not value.isdecimal() or not value.isascii() or len(value) > _DIGITS or int(value) < 1:
        rule = f"must be a whole number of at least 1, of at most {_DIGITS} digits"
        raise PodRefused(f"metadata.annotations[{key}]: Invalid value: {value[:64]!r}: {rule}")
    return int(value)


def _made_by_a_workload(metadata: dict[str, Any]) -> bool:
    owners = metadata.get("ownerReferences") or []
    return any(owner.get("controller") and owner.get("kind") in _WORKLOADS for owner in owners)
