"""How fast the pods of lost nodes are told to go, zone by zone, as kube-controller-manager has it. Pure.

One node after the other: when many are lost at once the fault may lie in the network, and a zone that is emptied is a load for
the others. The fewer nodes of a zone are left, the less is done.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from regroup.kube.node import Node

_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_FEW = 2
"""So many lost nodes are no disruption of a zone, however small it is."""


class State(Enum):
    """Of a zone."""

    NORMAL = auto()
    PARTIAL = auto()
    FULL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRates:
    """Nodes a second, by the names of kube-controller-manager's options."""

    node_eviction_rate: float = 0.1
    secondary_node_eviction_rate: float = 0.01
    """In a large zone that is partially lost; in a small one nothing is done then."""
    unhealthy_zone_threshold: float = 0.55
    """Share of lost nodes from which a zone is partially lost."""
    large_cluster_size_threshold: int = 50
    """Nodes of a zone above which it is large."""


def zone_of(node: Node) -> tuple[str, str]:
    """Region and zone of a node; nodes that say nothing are in one zone."""
    labels = node.metadata.labels
    return _first(labels, _REGION), _first(labels, _ZONE)


def state_of(ready: Sequence[bool], rates: EvictionRates) -> State:
    """The state of a zone whose nodes are ready or not."""
    lost = sum(not one for one in ready)
    if lost and lost == len(ready):
        return State.FULL
    if lost > _FEW and lost / len(ready) >= rates.unhealthy_zone_threshold:
        return State.PARTIAL
    return State.NORMAL


def spacing(nodes: Iterable[tuple[Node, bool]], zone: tuple[str, str], rates: EvictionRates) -> float | None:
    """Seconds between two nodes of ``zone`` whose pods are told to go. None: they stay, for as long as ``nodes``, each with
    whether it is ready, are as they are. When no node of any zone is ready the fault is more likely ours."""
    zones: dict[tuple[str, str], list[bool]] = {}
    for node, ready in nodes:
        zones.setdefault(zone_of(node), []).append(ready)
    states = {key: state_of(ready, rates) for key, ready in zones.items()}
    if all(state is State.FULL for state in states.values()):
        return None
    if states.get(zone) is not State.PARTIAL:
        return 1 / rates.node_eviction_rate
    return 1 / rates.secondary_node_eviction_rate if len(zones[zone]) > rates.large_cluster_size_threshold else None


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if name in labels), "")
