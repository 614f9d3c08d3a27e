"""Selectors in the shape that the scheduler asks them: hashable, so that equal terms of many pods are one. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regroup.kube.meta import ObjectMeta
from regroup.kube.node import Taint
from regroup.sandbox.scheduler.views import NodeTerm, PodTerm, Requirement, Selector, Toleration


@dataclass(frozen=True, slots=True)
class Match:
    """One requirement on labels: ``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, ``Gt``, ``Lt``."""

    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether ``labels`` satisfy it. An unknown operator is satisfied by nothing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        try:
            number, bound = int(value), int(next(iter(self.values)))
        except (ValueError, StopIteration):
            return False
        return number > bound if self.operator == "Gt" else number < bound


Matches = tuple[Match, ...]


def holds(matches: Iterable[Match], labels: Mapping[str, str]) -> bool:
    """Whether every requirement holds."""
    return all(match.holds(labels) for match in matches)


def from_requirements(requirements: Iterable[Requirement]) -> Matches:
    """Requirements of the API in a fixed order."""
    found = [Match(entry.key, entry.operator, frozenset(entry.values or ())) for entry in requirements]
    return tuple(sorted(found, key=lambda match: (match.key, match.operator, sorted(match.values))))


def from_selector(selector: Selector) -> Matches:
    """A label selector; an empty one has no requirement and so selects everything."""
    equal = [Requirement(key=key, operator="In", values=(value,)) for key, value in (selector.match_labels or {}).items()]
    return from_requirements([*equal, *(selector.match_expressions or ())])


def node_term_holds(term: NodeTerm, *, name: str, labels: Mapping[str, str]) -> bool:
    """A term of node affinity: all of its expressions; a term without any selects nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return holds(from_requirements(term.match_expressions or ()), labels) and holds(
        from_requirements(term.match_fields or ()), fields
    )


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration], *, effects: frozenset[str]) -> Taint | None:
    """The first taint with one of ``effects`` that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


@dataclass(frozen=True, slots=True)
class PodMatcher:
    """Which pods a term of pod affinity speaks of."""

    labels: Matches | None
    """None selects no pod (a term without a label selector)."""
    namespaces: frozenset[str]
    namespace_labels: Matches | None
    """None selects no further namespace; without a requirement it selects all."""

    def holds(self, *, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether the pod with these labels in this namespace is meant."""
        if self.labels is None or not self._in_namespace(namespace, namespace_labels):
            return False
        return holds(self.labels, labels)

    def _in_namespace(self, namespace: str, namespace_labels: Mapping[str, Mapping[str, str]]) -> bool:
        if namespace in self.namespaces:
            return True
        return self.namespace_labels is not None and holds(self.namespace_labels, namespace_labels.get(namespace, {}))


@dataclass(frozen=True, slots=True)
class Term:
    """Pods that all of ``matchers`` mean, counted by the value of a node label."""

    topology_key: str
    matchers: tuple[PodMatcher, ...]

    @property
    def hint(self) -> tuple[str, str | None] | None:
        """A label that every meant pod must have: its key, and its value if only one will do. None if there is no such label."""
        found: tuple[str, str | None] | None = None
        for matcher in self.matchers:
            for match in matcher.labels or ():
                if match.operator == "In" and len(match.values) == 1:
                    return match.key, next(iter(match.values))
                if match.operator in {"In", "Exists"}:
                    found = found or (match.key, None)
        return found


def pod_matcher(term: PodTerm, owner: ObjectMeta) -> PodMatcher:
    """The matcher of a term of the pod ``owner``: its own namespace when the term names none; ``matchLabelKeys`` filled in."""
    named = frozenset(term.namespaces or ())
    if not named and term.namespace_selector is None:
        named = frozenset((owner.namespace,))
    beyond = None if term.namespace_selector is None else from_selector(term.namespace_selector)
    if term.label_selector is None:
        return PodMatcher(None, named, beyond)
    extra = [*_label_keys(term.match_label_keys, "In", owner), *_label_keys(term.mismatch_label_keys, "NotIn", owner)]
    return PodMatcher((*from_selector(term.label_selector), *extra), named, beyond)


def _label_keys(keys: Sequence[str] | None, operator: str, owner: ObjectMeta) -> Matches:
    labels = owner.labels
    return tuple(Match(key, operator, frozenset((labels[key],))) for key in sorted(keys or ()) if key in labels)
