"""Where a pod goes: filters in kube-scheduler's order with its texts, then scores. Pure over a ``ClusterState``, deterministic.

There is no preemption: nothing in the sandbox gives pods different priorities by itself.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from regroup.kube.node import Taint
from regroup.sandbox.scheduler.facts import NodeWishes, PodFacts, Spread
from regroup.sandbox.scheduler.matching import node_term_holds, untolerated
from regroup.sandbox.scheduler.requests import ASSUMED_CPU, ASSUMED_MEMORY, PODS
from regroup.sandbox.scheduler.state import ClusterState, NodeState

HARD = frozenset(("NoSchedule", "NoExecute"))
SOFT = frozenset(("PreferNoSchedule",))

UNSCHEDULABLE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
REFUSED = "node(s) refused the pod by sandbox fault"
TOO_MANY_PODS = "Too many pods"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one node will not do. ``final``: no removal of other pods could change it."""

    reasons: tuple[str, ...]
    final: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer for one pod: ``node``, or the sentence why there is none."""

    node: str | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class _PodView:
    """What is looked up once for a pod, before its look over the nodes."""

    affinity: tuple[tuple[str, Counter[str]], ...]
    first_of_its_kind: bool
    """No pod satisfies its affinity, but it would itself: the first one may go anywhere the labels exist."""
    anti_affinity: tuple[tuple[str, Counter[str]], ...]
    forbidden: Mapping[str, set[str]]
    spread: tuple[tuple[Spread, Counter[str], int], ...]


def place(pod: PodFacts, state: ClusterState) -> Placement:
    """The best node for ``pod``, or why none will do."""
    if not state.nodes:
        return Placement(None, "no nodes available to schedule pods")
    wishes = _node_answers(pod.wishes, state)
    view = _look(pod, state, wishes)
    refusals: list[Refusal] = []
    feasible: list[NodeState] = []
    for node in state.nodes.values():
        refusal = filter_node(pod, node, wishes[node.name], view)
        if refusal is None:
            feasible.append(node)
        else:
            refusals.append(refusal)
    if not feasible:
        return Placement(None, _explain(refusals))
    if len(feasible) == 1:
        return Placement(feasible[0].name)
    return Placement(_best(pod, feasible, state))


def filter_node(pod: PodFacts, node: NodeState, wish: str | None, view: _PodView) -> Refusal | None:
    """Why ``pod`` cannot go to ``node``, by the first filter that refuses; None when it can."""
    if pod.key in node.refused:
        return Refusal((REFUSED,), final=True)
    if wish is not None:
        return Refusal((wish,), final=True)
    if pod.ports and _ports_collide(pod, node):
        return Refusal((PORTS,))
    short = _short_of(pod, node)
    if short is not None:
        return short
    for spread, counts, least in view.spread:
        value = node.labels.get(spread.term.topology_key)
        if value is None:
            return Refusal((SPREAD_LABEL,), final=True)
        if counts[value] + spread.counts_itself - least > spread.max_skew:
            return Refusal((SPREAD,))
    return _apart(node, view)


def _apart(node: NodeState, view: _PodView) -> Refusal | None:
    labels = node.labels
    for key, counts in view.affinity:
        value = labels.get(key)
        if value is None or (not counts[value] and not view.first_of_its_kind):
            return Refusal((AFFINITY,), final=True)
    for key, counts in view.anti_affinity:
        value = labels.get(key)
        if value is not None and counts[value]:
            return Refusal((ANTI_AFFINITY,))
    for key, values in view.forbidden.items():
        if labels.get(key) in values:
            return Refusal((EXISTING_ANTI_AFFINITY,))
    return None


def _node_answers(wishes: NodeWishes, state: ClusterState) -> dict[str, str | None]:
    answers = state.fitting.get(wishes)
    if answers is None:
        answers = {name: _wish(wishes, node) for name, node in state.nodes.items()}
        state.fitting[wishes] = answers
    return answers


_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def _wish(wishes: NodeWishes, node: NodeState) -> str | None:
    """Why a pod with these wishes cannot go to ``node`` whatever runs there, or None."""
    tolerations = wishes.tolerations
    if node.node.spec.unschedulable and not any(entry.tolerates(_CORDONED) for entry in tolerations):
        return UNSCHEDULABLE
    if untolerated(node.node.taints, tolerations, effects=HARD):
        return TAINTED
    if not all(node.labels.get(key) == value for key, value in wishes.node_selector):
        return NODE_AFFINITY
    required = wishes.affinity.required if wishes.affinity else None
    if required is not None and not any(
        node_term_holds(term, name=node.name, labels=node.labels) for term in required.node_selector_terms
    ):
        return NODE_AFFINITY
    return None


def _look(pod: PodFacts, state: ClusterState, wishes: Mapping[str, str | None]) -> _PodView:
    topology = state.topology
    affinity = tuple((term.topology_key, topology.meant(term, state.placed())) for term in pod.affinity)
    first = bool(affinity) and not any(counts for _, counts in affinity) and topology.means(pod.affinity[0], pod)
    spread = []
    for constraint in pod.spread:
        if constraint.required:
            counts = topology.meant(constraint.term, state.placed())
            spread.append((constraint, counts, _least(constraint.term.topology_key, counts, state, wishes)))
    return _PodView(
        affinity=affinity,
        first_of_its_kind=first,
        anti_affinity=tuple((term.topology_key, topology.meant(term, state.placed())) for term in pod.anti_affinity),
        forbidden=topology.forbidden(pod),
        spread=tuple(spread),
    )


def _least(key: str, counts: Counter[str], state: ClusterState, wishes: Mapping[str, str | None]) -> int:
    """The smallest count over the domains that the pod's own node affinity lets it into (taints do not matter here)."""
    domains = {node.labels[key] for name, node in state.nodes.items() if key in node.labels and wishes[name] != NODE_AFFINITY}
    return min((counts[value] for value in domains), default=0)


def _ports_collide(pod: PodFacts, node: NodeState) -> bool:
    for ip, protocol, port in pod.ports:
        for other_ip, other_protocol, other_port in node.ports:
            if port == other_port and protocol == other_protocol and ("" in {ip, other_ip} or ip == other_ip):
                return True
    return False


def _short_of(pod: PodFacts, node: NodeState) -> Refusal | None:
    allocatable, taken = node.allocatable, node.taken
    short = [name for name, amount in pod.requests.items() if amount > allocatable.get(name, 0) - taken.get(name, 0)]
    if not short:
        return None
    texts = tuple(TOO_MANY_PODS if name == PODS else f"Insufficient {name}" for name in sorted(short))
    return Refusal(texts, final=any(pod.requests[name] > allocatable.get(name, 0) for name in short))


def _explain(refusals: list[Refusal]) -> str:
    """kube-scheduler's sentence: each reason with its number of nodes, in the order of the texts."""
    tally = Counter(reason for refusal in refusals for reason in refusal.reasons)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in tally.items()))
    return _sentence(len(refusals), listed, final=sum(refusal.final for refusal in refusals))


def refused_by_claim(problem: str, nodes: int) -> str:
    """The sentence for a pod that no node is asked for, because of its claims."""
    return _sentence(nodes, problem, final=nodes)


def _sentence(nodes: int, why: str, *, final: int) -> str:
    """``final``: nodes where no removal of pods would help."""
    outlook = []
    if nodes - final:
        outlook.append(f"{nodes - final} No preemption victims found for incoming pod")
    if final:
        outlook.append(f"{final} Preemption is not helpful for scheduling")
    return (
        f"0/{nodes} nodes are available: {why}. no new claims to deallocate, "
        f"preemption: 0/{nodes} nodes are available: {', '.join(sorted(outlook))}."
    )


def _best(pod: PodFacts, feasible: list[NodeState], state: ClusterState) -> str:
    """The node with the highest score; the one with fewer pods, then the lower name, on a tie."""
    wanted = [(term.topology_key, state.topology.meant(term, state.placed()), weight) for term, weight in pod.preferred]
    spread = [
        (entry.term.topology_key, state.topology.meant(entry.term, state.placed())) for entry in pod.spread if not entry.required
    ]
    best: tuple[float, int, str] | None = None
    for node in feasible:
        points = score_node(pod, node)
        for key, counts, weight in wanted:
            points += 2.0 * weight * counts[node.labels.get(key, "")]
        for key, counts in spread:
            points -= 2.0 * counts[node.labels.get(key, "")]
        rank = (-points, len(node.pods), node.name)
        if best is None or rank < best:
            best = rank
    assert best is not None  # noqa: S101 - feasible is never empty
    return best[2]


def score_node(pod: PodFacts, node: NodeState) -> float:
    """Higher is better: room left in percent, preferred node affinity, and soft taints against it."""
    points = (_free(pod, node, "cpu", ASSUMED_CPU) + _free(pod, node, "memory", ASSUMED_MEMORY)) / 2
    preferred = (pod.wishes.affinity.preferred if pod.wishes.affinity else None) or ()
    for entry in preferred:
        if node_term_holds(entry.preference, name=node.name, labels=node.labels):
            points += 2.0 * entry.weight
    if node.node.taints and untolerated(node.node.taints, pod.wishes.tolerations, effects=SOFT):
        points -= 300.0
    return points


def _free(pod: PodFacts, node: NodeState, name: str, assumed: int) -> float:
    total = node.allocatable.get(name, 0)
    if not total:
        return 0.0
    taken = max(node.taken.get(name, 0), assumed * len(node.pods)) + pod.requests.get(name, assumed)
    return max(0.0, 100.0 * (total - taken) / total)
