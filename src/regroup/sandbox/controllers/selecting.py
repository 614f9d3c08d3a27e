"""Who selects a pod, and whom a selector selects, without asking every selector about every pod. Pure.

A cluster's hundreds of Services select by equal values of the same few label names, so the values lead to them. What a selector
asks beside equal values is for whoever holds it: these are candidates.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from regroup.kube.meta import HasMeta
from regroup.runtime.store import Store

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=HasMeta)

LABELS = "labels"
"""Index: each label with its value, in its namespace."""

_Names = tuple[str, ...]


def by_labels(obj: HasMeta) -> Iterable[str]:
    """Index function: one value for each label."""
    meta = obj.metadata
    return [_text(meta.namespace, name, value) for name, value in meta.labels.items()]


def equal_values(selector: Mapping[str, Any]) -> Mapping[str, str]:
    """The values that a selector of an object asks for by ``matchLabels``."""
    wanted = selector.get("matchLabels")
    return {str(name): str(value) for name, value in wanted.items()} if isinstance(wanted, Mapping) else {}


def candidates(store: Store[T], namespace: str, wanted: Mapping[str, str], *, otherwise: str) -> tuple[T, ...]:
    """Objects of ``store`` that may have the labels ``wanted``: those of its rarest label. ``otherwise``: the index by namespace,
    for a selector that names no value."""
    values = [_text(namespace, name, value) for name, value in wanted.items()]
    if not values:
        return store.index(otherwise, namespace)
    return store.index(LABELS, min(values, key=lambda value: store.index_size(LABELS, value)))


class Selectors(Generic[K]):
    """Holders of selectors by the values that they ask for."""

    def __init__(self) -> None:
        self._held: dict[K, tuple[str, _Names, tuple[str, ...]]] = {}
        self._tables: dict[str, dict[_Names, dict[tuple[str, ...], dict[K, None]]]] = {}
        """By namespace, by the label names that are asked for, by their values."""

    def put(self, key: K, *, namespace: str, wanted: Mapping[str, str]) -> None:
        """``key`` selects objects of ``namespace`` with the labels ``wanted``; without any it may select all of them."""
        self.drop(key)
        names = tuple(sorted(wanted))
        place = (namespace, names, tuple(wanted[name] for name in names))
        self._held[key] = place
        self._tables.setdefault(namespace, {}).setdefault(names, {}).setdefault(place[2], {})[key] = None

    def drop(self, key: K) -> None:
        """``key`` selects nothing any more."""
        place = self._held.pop(key, None)
        if place is None:
            return
        namespace, names, values = place
        by_names = self._tables[namespace]
        by_values = by_names[names]
        del by_values[values][key]
        if not by_values[values]:
            del by_values[values]
        if not by_values:
            del by_names[names]
        if not by_names:
            del self._tables[namespace]

    def of(self, namespace: str, labels: Mapping[str, str]) -> Iterable[K]:
        """Who may select an object of ``namespace`` with these labels."""
        for names, by_values in self._tables.get(namespace, {}).items():
            values = tuple(labels[name] for name in names if name in labels)
            if len(values) == len(names):
                yield from by_values.get(values, ())


def _text(namespace: str, name: str, value: str) -> str:
    return f"{namespace}/{name}={value}"
