"""A pod as a placement weighs it: computed once from its view, hashable where pods repeat each other. Pure."""

from dataclasses import dataclass

from regroup.sandbox.scheduler.matching import Match, Matches, PodMatcher, Term, from_selector, holds, pod_matcher
from regroup.sandbox.scheduler.requests import Amounts, host_ports, requested
from regroup.sandbox.scheduler.views import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    SchedulerPod,
    SpreadConstraint,
    Toleration,
)


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint: ``max_skew`` over the counts of ``term``."""

    term: Term
    max_skew: int
    required: bool
    counts_itself: bool


@dataclass(frozen=True, slots=True)
class NodeWishes:
    """What a pod says of nodes alone. Equal for all pods of a template, so that its answer is kept for each node."""

    node_selector: tuple[tuple[str, str], ...]
    affinity: NodeAffinity | None
    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod."""

    uid: str
    namespace: str
    name: str
    labels: dict[str, str]
    priority: int
    requests: Amounts
    ports: tuple[tuple[str, str, int], ...]
    wishes: NodeWishes
    affinity: tuple[Term, ...]
    """Required: each with the matchers of all required terms, because one pod must satisfy all of them to count."""
    anti_affinity: tuple[Term, ...]
    preferred: tuple[tuple[Term, int], ...]
    """Preferred pod affinity with its weight; anti-affinity has a negative one."""
    spread: tuple[Spread, ...]

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def facts(pod: SchedulerPod) -> PodFacts:
    """The facts of ``pod``. Raises ``ValueError`` for a quantity that is none."""
    spec, meta = pod.spec, pod.metadata
    affinity = spec.affinity or Affinity()
    wanted, unwanted = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    required = [(term.topology_key, pod_matcher(term, meta)) for term in wanted.required or ()]
    together = tuple(matcher for _, matcher in required)
    preferred = [(entry.pod_affinity_term, entry.weight) for entry in wanted.preferred or ()]
    preferred += [(entry.pod_affinity_term, -entry.weight) for entry in unwanted.preferred or ()]
    return PodFacts(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        labels=dict(meta.labels),
        priority=spec.priority or 0,
        requests=requested(spec),
        ports=host_ports((*spec.containers, *(spec.init_containers or ()))),
        wishes=NodeWishes(
            tuple(sorted((spec.node_selector or {}).items())), affinity.node_affinity, tuple(spec.tolerations or ())
        ),
        affinity=tuple(Term(key, together) for key, _ in required),
        anti_affinity=tuple(Term(term.topology_key, (pod_matcher(term, meta),)) for term in unwanted.required or ()),
        preferred=tuple((Term(term.topology_key, (pod_matcher(term, meta),)), weight) for term, weight in preferred),
        spread=tuple(_spread(entry, pod) for entry in spec.topology_spread_constraints or ()),
    )


def _spread(constraint: SpreadConstraint, pod: SchedulerPod) -> Spread:
    labels = pod.metadata.labels
    selected: Matches | None = None
    if constraint.label_selector is not None:
        keys = sorted(constraint.match_label_keys or ())
        extra = (Match(key, "In", frozenset((labels[key],))) for key in keys if key in labels)
        selected = (*from_selector(constraint.label_selector), *extra)
    matcher = PodMatcher(selected, frozenset((pod.metadata.namespace,)), None)
    return Spread(
        term=Term(constraint.topology_key, (matcher,)),
        max_skew=constraint.max_skew,
        required=constraint.when_unsatisfiable == "DoNotSchedule",
        counts_itself=selected is not None and holds(selected, labels),
    )
