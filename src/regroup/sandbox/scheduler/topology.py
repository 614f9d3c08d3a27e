"""Counts of pods over the values of a node label, kept up to date as pods come and go, so that no placement looks at all pods.

Two counts for each term: how many pods it *means*, and how many pods *carry* it as required anti-affinity (which keeps others
away). Terms are found from a pod by a label that they need, so that a thousand groups with a term each cost a lookup.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping

from regroup.sandbox.scheduler.facts import PodFacts
from regroup.sandbox.scheduler.matching import Term

Hint = tuple[str, str | None] | None
KEPT_TERMS = 4096
"""Terms whose counts are kept; the one that was not asked for longest goes first."""


class _Hinted:
    """Terms by the label that a pod must have to be meant."""

    def __init__(self) -> None:
        self._terms: dict[Hint, dict[Term, None]] = {}

    def add(self, term: Term) -> None:
        self._terms.setdefault(term.hint, {})[term] = None

    def discard(self, term: Term) -> None:
        terms = self._terms.get(term.hint)
        if terms is not None:
            terms.pop(term, None)
            if not terms:
                del self._terms[term.hint]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[Term]:
        yield from self._terms.get(None, ())
        for pair in labels.items():
            yield from self._terms.get(pair, ())
            yield from self._terms.get((pair[0], None), ())


class TopologyCounts:
    """The counts over placed pods. Told of every placement by the cluster's state; asks nobody."""

    def __init__(self) -> None:
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self._meant: OrderedDict[Term, Counter[str]] = OrderedDict()
        self._meant_index = _Hinted()
        self._carried: dict[Term, Counter[str]] = {}
        self._carried_index = _Hinted()

    def add(self, pod: PodFacts, node_labels: Mapping[str, str]) -> None:
        """``pod`` now runs on a node with these labels."""
        self._change(pod, node_labels, 1)

    def remove(self, pod: PodFacts, node_labels: Mapping[str, str]) -> None:
        """``pod`` no longer runs there."""
        self._change(pod, node_labels, -1)

    def forget_counts(self) -> None:
        """Node or namespace labels have changed: count anew when asked. Anti-affinity is added again by the caller."""
        self._meant.clear()
        self._meant_index = _Hinted()
        self._carried.clear()
        self._carried_index = _Hinted()

    def meant(self, term: Term, placed: Iterable[tuple[PodFacts, Mapping[str, str]]]) -> Counter[str]:
        """Pods that ``term`` means by value of its node label. ``placed`` is only read the first time."""
        counts = self._meant.get(term)
        if counts is None:
            counts = Counter()
            for pod, node_labels in placed:
                value = node_labels.get(term.topology_key)
                if value is not None and self.means(term, pod):
                    counts[value] += 1
            self._meant[term] = counts
            self._meant_index.add(term)
            if len(self._meant) > KEPT_TERMS:
                oldest, _ = self._meant.popitem(last=False)
                self._meant_index.discard(oldest)
        else:
            self._meant.move_to_end(term)
        return counts

    def forbidden(self, pod: PodFacts) -> dict[str, set[str]]:
        """Values of node labels that the anti-affinity of placed pods keeps ``pod`` away from."""
        found: dict[str, set[str]] = {}
        for term in self._carried_index.candidates(pod.labels):
            if self.means(term, pod):
                found.setdefault(term.topology_key, set()).update(self._carried[term])
        return found

    def means(self, term: Term, pod: PodFacts) -> bool:
        """Whether every matcher of ``term`` means ``pod``."""
        return all(
            matcher.holds(namespace=pod.namespace, labels=pod.labels, namespace_labels=self.namespace_labels)
            for matcher in term.matchers
        )

    def _change(self, pod: PodFacts, node_labels: Mapping[str, str], by: int) -> None:
        for term in self._meant_index.candidates(pod.labels):
            value = node_labels.get(term.topology_key)
            if value is not None and self.means(term, pod):
                _count(self._meant[term], value, by)
        for term in pod.anti_affinity:
            value = node_labels.get(term.topology_key)
            if value is None:
                continue
            counts = self._carried.setdefault(term, Counter())
            _count(counts, value, by)
            if counts:
                self._carried_index.add(term)
            else:
                del self._carried[term]
                self._carried_index.discard(term)


def _count(counts: Counter[str], value: str, by: int) -> None:
    counts[value] += by
    if counts[value] <= 0:
        del counts[value]
