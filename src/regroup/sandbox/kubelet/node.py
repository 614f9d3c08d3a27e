"""A simulated node as the API has it: its object, its status, and the Lease that says it lives. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from regroup.kube.meta import Condition
from regroup.runtime.clock import micro_timestamp, timestamp

LEASE_NAMESPACE = "kube-node-lease"
VERSION = "v1.36.3"

DEFAULT_CAPACITY: Mapping[str, str] = {
    "cpu": "64",
    "memory": "512Gi",
    "ephemeral-storage": "1Ti",
    "pods": "110",
    "nvidia.com/gpu": "8",
    "google.com/tpu": "4",
}

CONDITIONS: Mapping[str, tuple[str, str, str]] = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node to simulate."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=lambda: DEFAULT_CAPACITY)
    taints: Sequence[Mapping[str, str]] = ()
    address: str = "172.18.0.2"


def default_nodes(count: int, *, capacity: Mapping[str, str] | None = None, zones: int = 2) -> tuple[SimulatedNode, ...]:
    """``count`` equal nodes, ``node-0`` and on, spread over ``zones`` zones; ``capacity`` adds to the default one."""
    return tuple(
        SimulatedNode(
            name=f"node-{index}",
            labels={
                "topology.kubernetes.io/region": "sandbox",
                "topology.kubernetes.io/zone": f"zone-{'abcdefgh'[index % zones]}",
            },
            capacity={**DEFAULT_CAPACITY, **(capacity or {})},
            address=f"172.18.{(index + 2) // 256}.{(index + 2) % 256}",
        )
        for index in range(count)
    )


def node_object(node: SimulatedNode) -> dict[str, Any]:
    """The Node as its kubelet registers it."""
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    }
    spec: dict[str, Any] = {"providerID": f"sandbox://{node.name}"}
    if node.taints:
        spec["taints"] = [dict(taint) for taint in node.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {**labels, **node.labels}},
        "spec": spec,
    }


def node_status(node: SimulatedNode, *, known: Mapping[str, Condition], now: datetime) -> dict[str, Any]:
    """The whole ``status`` of a node that is well. Conditions that keep their status keep their time."""
    return {
        "capacity": dict(node.capacity),
        "allocatable": dict(node.capacity),
        "addresses": [{"type": "InternalIP", "address": node.address}, {"type": "Hostname", "address": node.name}],
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "Regroup sandbox",
            "kernelVersion": "simulated",
            "containerRuntimeVersion": "sandbox://1.0",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
            "machineID": node.name,
            "systemUUID": node.name,
            "bootID": node.name,
        },
        "conditions": [_condition(kind, facts, known.get(kind), now) for kind, facts in CONDITIONS.items()],
    }


def _condition(kind: str, facts: tuple[str, str, str], known: Condition | None, now: datetime) -> dict[str, Any]:
    status, reason, message = facts
    kept = known.last_transition_time if known is not None and known.status == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": timestamp(now),
        "lastTransitionTime": timestamp(kept or now),
    }


def well(known: Mapping[str, Condition]) -> bool:
    """Whether the API's conditions say what a healthy kubelet says."""
    return all(kind in known and known[kind].status == facts[0] for kind, facts in CONDITIONS.items())


def lease_object(node: SimulatedNode, *, node_uid: str, duration: int, now: datetime) -> dict[str, Any]:
    """The node's Lease, renewed at ``now``."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node.name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node_uid}],
        },
        "spec": {"holderIdentity": node.name, "leaseDurationSeconds": duration, "renewTime": micro_timestamp(now)},
    }
