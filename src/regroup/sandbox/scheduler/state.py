"""Who runs where: nodes, what is free on them, and the pods placed on them, bound or only assumed so far.

Changed only through its methods, by one scheduler; placements read it. Knows no client and no clock.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from regroup.sandbox.scheduler.facts import NodeWishes, PodFacts
from regroup.sandbox.scheduler.requests import Amounts, amounts
from regroup.sandbox.scheduler.topology import TopologyCounts
from regroup.sandbox.scheduler.views import SchedulerNode


@dataclass(slots=True)
class NodeState:
    """One node with what its pods take of it."""

    node: SchedulerNode
    labels: Mapping[str, str]
    refused: frozenset[str]
    allocatable: Amounts
    taken: Amounts = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    ports: dict[tuple[str, str, int], int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def take(self, pod: PodFacts, *, by: int) -> None:
        """Add (``by`` 1) or give back (``by`` -1) what ``pod`` takes."""
        for name, amount in pod.requests.items():
            self.taken[name] = self.taken.get(name, 0) + by * amount
        for port in pod.ports:
            self.ports[port] = self.ports.get(port, 0) + by
            if not self.ports[port]:
                del self.ports[port]


class ClusterState:
    """All nodes and all placed pods."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeState] = {}
        """By name, in the order of names, so that every look over them is deterministic."""
        self.topology = TopologyCounts()
        self.fitting: dict[NodeWishes, dict[str, str | None]] = {}
        """Answers of the filters that look at nodes alone, until a node changes."""
        self._where: dict[str, str] = {}
        self._waiting: dict[str, dict[str, PodFacts]] = {}

    def set_node(self, node: SchedulerNode) -> bool:
        """Take in a node, new or changed. False when nothing that placements rest on has changed (a heartbeat)."""
        name = node.metadata.name
        known = self.nodes.get(name)
        fresh = NodeState(node, dict(node.metadata.labels), node.refused_pods, amounts(node.allocatable))
        if known is None:
            self.nodes[name] = fresh
            self.nodes = dict(sorted(self.nodes.items()))
            for pod in self._waiting.pop(name, {}).values():
                self._place(pod, fresh)
        elif _same(known, fresh):
            known.node = node
            return False
        else:
            fresh.taken, fresh.pods, fresh.ports = known.taken, known.pods, known.ports
            self.nodes[name] = fresh
            if fresh.labels != known.labels:
                self.recount()
        self.fitting.clear()
        return True

    def remove_node(self, name: str) -> None:
        """The node is gone; its pods hold nothing until it is back or they are."""
        known = self.nodes.pop(name, None)
        if known is not None:
            for pod in known.pods.values():
                self.topology.remove(pod, known.labels)
            if known.pods:
                self._waiting[name] = known.pods
            self.fitting.clear()

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Labels of a namespace, None when it is gone."""
        known = self.topology.namespace_labels.get(name)
        if labels is None:
            self.topology.namespace_labels.pop(name, None)
        else:
            self.topology.namespace_labels[name] = dict(labels)
        if (known or {}) != (labels or {}):
            self.recount()

    def add_pod(self, pod: PodFacts, node_name: str) -> None:
        """``pod`` holds its place on the node from now on (idempotent)."""
        if self._where.get(pod.uid) == node_name:
            known = self._holder(node_name).get(pod.uid)
            if known == pod:
                return
        self.remove_pod(pod.uid)
        self._where[pod.uid] = node_name
        node = self.nodes.get(node_name)
        if node is None:
            self._waiting.setdefault(node_name, {})[pod.uid] = pod
        else:
            self._place(pod, node)

    def remove_pod(self, uid: str) -> bool:
        """The pod holds nothing any more. False if it held nothing."""
        node_name = self._where.pop(uid, None)
        if node_name is None:
            return False
        pod = self._holder(node_name).pop(uid, None)
        node = self.nodes.get(node_name)
        if node is not None and pod is not None:
            node.take(pod, by=-1)
            self.topology.remove(pod, node.labels)
        elif not self._waiting.get(node_name):
            self._waiting.pop(node_name, None)
        return True

    def placed(self) -> Iterator[tuple[PodFacts, Mapping[str, str]]]:
        """Every placed pod with the labels of its node."""
        for node in self.nodes.values():
            for pod in node.pods.values():
                yield pod, node.labels

    def recount(self) -> None:
        """Drop the counts over node labels, and count anti-affinity anew."""
        self.topology.forget_counts()
        for pod, labels in self.placed():
            self.topology.add(pod, labels)

    def _holder(self, node_name: str) -> dict[str, PodFacts]:
        node = self.nodes.get(node_name)
        return node.pods if node is not None else self._waiting.get(node_name, {})

    def _place(self, pod: PodFacts, node: NodeState) -> None:
        node.pods[pod.uid] = pod
        node.take(pod, by=1)
        self.topology.add(pod, node.labels)


def _same(known: NodeState, fresh: NodeState) -> bool:
    return (
        known.labels == fresh.labels
        and known.refused == fresh.refused
        and known.allocatable == fresh.allocatable
        and known.node.spec == fresh.node.spec
    )
