"""Environment variables that tell a container its place in the group (spec/leaderworkerset.md 2.10). Pure.

The functions that add variables change the pod that they are given, in place.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import LEADER_EXCLUDED
from regroup.leaderworkerset.objects.identity import parent_and_ordinal, subgroup_index

Container = dict[str, Any]

LEADER_ADDRESS = "LWS_LEADER_ADDRESS"
GROUP_SIZE = "LWS_GROUP_SIZE"
WORKER_INDEX = "LWS_WORKER_INDEX"

TPU = "google.com/tpu"
TPU_HOSTNAMES = "TPU_WORKER_HOSTNAMES"
TPU_WORKER_ID = "TPU_WORKER_ID"
TPU_NAME = "TPU_NAME"
TPU_ADDRESSES = "TPU_PROCESS_ADDRESSES"
TPU_PORT = "TPU_PROCESS_PORT"
TPU_FIRST_PORT = 8476


def leader_address(host: str, *, subdomain: str, namespace: str) -> str:
    """The leader's DNS name inside the cluster's domain."""
    return f"{host}.{subdomain}.{namespace}"


def add_lws_variables(pod: dict[str, Any], *, namespace: str) -> None:
    """Put the three LWS variables first in every container, so that later ones can refer to them; the user's own of these names
    give way."""
    metadata, spec = pod["metadata"], pod["spec"]
    labels, annotations = metadata["labels"], metadata.get("annotations") or {}
    address = annotations.get(keys.LEADER_ADDRESS)
    if not address:
        host = spec.get("hostname") or f"{labels[keys.NAME]}-{labels.get(keys.GROUP_INDEX, '')}"
        address = leader_address(host, subdomain=spec.get("subdomain") or labels[keys.NAME], namespace=namespace)
    values = {
        LEADER_ADDRESS: address,
        GROUP_SIZE: annotations.get(keys.SIZE, ""),
        WORKER_INDEX: labels.get(keys.WORKER_INDEX, ""),
    }
    first = [{"name": name, "value": value} for name, value in values.items()]
    for container in _containers(spec):
        container["env"] = [*first, *(entry for entry in container.get("env") or [] if entry.get("name") not in values)]


def requests_tpus(spec: dict[str, Any]) -> bool:
    """Whether any container of a pod spec asks for TPUs."""
    return any(_wants_tpu(container) for container in _containers(spec))


def add_tpu_variables(pod: dict[str, Any], *, size: int) -> None:
    """Append the TPU variables to the containers that request TPUs, unless the user set host names or the id himself.

    Every host appears once for each of its TPU containers; all pods are taken to have as many as this one.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    containers = [container for container in _containers(spec) if _wants_tpu(container)]
    if not containers or _variables(containers[0]).keys() & {TPU_HOSTNAMES, TPU_WORKER_ID}:
        return
    own_index = int(metadata["labels"][keys.WORKER_INDEX])
    workers = _tpu_workers(metadata, own_index=own_index, size=size)
    if own_index not in workers:
        return  # surplus: its set was made larger than the group
    leader, subdomain = _leader_name(pod), spec.get("subdomain") or ""
    hosts = [f"{leader}.{subdomain}" if index == 0 else f"{leader}-{index}.{subdomain}" for index in workers]
    ports = [_variables(container).get(TPU_PORT) or str(TPU_FIRST_PORT + place) for place, container in enumerate(containers)]
    hostnames = ",".join(host for host in hosts for _ in ports)
    addresses = ",".join(f"{host}:{port}" for host in hosts for port in ports)
    first_id = workers.index(own_index) * len(containers)
    for place, container in enumerate(containers):
        values = {
            TPU_HOSTNAMES: hostnames,
            TPU_WORKER_ID: str(first_id + place),
            TPU_NAME: leader,
            TPU_ADDRESSES: addresses,
        }
        if TPU_PORT not in _variables(container):
            values[TPU_PORT] = ports[place]
        container["env"] = [*(container.get("env") or []), *({"name": name, "value": value} for name, value in values.items())]


def _tpu_workers(metadata: dict[str, Any], *, own_index: int, size: int) -> Sequence[int]:
    """Worker indexes that take part: the whole group, or this pod's subgroup; the leader only if it requests TPUs."""
    labels, annotations = metadata["labels"], metadata.get("annotations") or {}
    with_leader = own_index == 0 or annotations.get(keys.LEADER_REQUESTS_TPUS) == "true"
    members = range(0 if with_leader else 1, size)
    if keys.SUBGROUP_SIZE not in annotations:
        return members
    own = labels.get(keys.SUBGROUP_INDEX)
    if own is None:
        return [own_index]  # a leader outside of all subgroups
    subgroup_size = int(annotations[keys.SUBGROUP_SIZE])
    excluded = annotations.get(keys.SUBGROUP_POLICY_TYPE) == LEADER_EXCLUDED
    return [index for index in members if _subgroup(index, size=size, subgroup_size=subgroup_size, excluded=excluded) == own]


def _subgroup(index: int, *, size: int, subgroup_size: int, excluded: bool) -> str:
    if index == 0:
        return "" if excluded else "0"
    return str(subgroup_index(index, size=size, subgroup_size=subgroup_size))


def _leader_name(pod: dict[str, Any]) -> str:
    """The host name that the group's host names start with: the leader's pod name, or its host name in Hash mode."""
    name = pod["metadata"].get("name") or ""
    if pod["metadata"]["labels"][keys.WORKER_INDEX] == keys.LEADER_INDEX:
        return pod["spec"].get("hostname") or name
    place = parent_and_ordinal(name)
    return place[0] if place else name


def _containers(spec: dict[str, Any]) -> Iterator[Container]:
    """Regular containers first, then init containers."""
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _variables(container: Container) -> dict[str, str]:
    return {entry.get("name", ""): entry.get("value", "") for entry in container.get("env") or ()}


def _wants_tpu(container: Container) -> bool:
    resources = container.get("resources") or {}
    asked = (resources.get("limits") or {}).get(TPU) or (resources.get("requests") or {}).get(TPU) or 0
    return str(asked) != "0"
