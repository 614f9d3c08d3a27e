"""The cache of one kind: objects by name and by UID, and indexes that are kept with every change.

Objects are frozen, so readers need no copies. Only a reflector writes. A name that comes back with another UID is another
object: it shows as a deletion and an addition, so that nothing can hide behind a name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from regroup.kube.meta import HasMeta

T = TypeVar("T", bound=HasMeta)

Indexer = Callable[[T], Iterable[str]]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one object: added (``old`` is None), changed, or deleted (``new`` is None, ``old`` is its last state)."""

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The newest there is: ``new``, or ``old`` for a deletion."""
        latest = self.new if self.new is not None else self.old
        if latest is None:
            raise ValueError("a change has an object before or after it")
        return latest


class Store(Generic[T]):
    """Objects of one kind."""

    def __init__(self, *, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._uids: dict[str, Key] = {}
        self._indexers: dict[str, Indexer[T]] = {}
        self._indexes: dict[str, dict[str, set[Key]]] = {}
        for name, function in (indexers or {}).items():
            self.add_indexer(name, function)

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get((namespace, name))

    def by_uid(self, uid: str) -> T | None:
        key = self._uids.get(uid)
        return self._objects.get(key) if key is not None else None

    def index(self, name: str, value: str) -> tuple[T, ...]:
        """Objects for which the indexer ``name`` gives ``value``, by namespace and name. Raises ``KeyError``."""
        keys = self._indexes[name].get(value)
        return tuple(self._objects[key] for key in sorted(keys)) if keys else ()

    def index_values(self, name: str) -> Iterable[str]:
        """The values that the index ``name`` has now."""
        return tuple(self._indexes[name])

    def values(self) -> Iterable[T]:
        """All objects as they are now."""
        return tuple(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def add_indexer(self, name: str, function: Indexer[T]) -> None:
        """Keep another index; may come when objects are there already. Raises ``ValueError`` for a name with another function."""
        known = self._indexers.get(name)
        if known is function:
            return
        if known is not None:
            raise ValueError(f"index {name!r} is taken by another function")
        self._indexers[name] = function
        index: dict[str, set[Key]] = {}
        for key, obj in self._objects.items():
            for value in function(obj):
                index.setdefault(value, set()).add(key)
        self._indexes[name] = index

    def upsert(self, obj: T) -> list[Change[T]]:
        """Put ``obj`` in. Nothing changes when it is there with the same version; a new UID is a deletion and an addition."""
        key = (obj.metadata.namespace, obj.metadata.name)
        old = self._objects.get(key)
        if old is None:
            self._put(key, obj)
            return [Change(None, obj)]
        if old.metadata.uid != obj.metadata.uid:
            self._drop(key, old)
            self._put(key, obj)
            return [Change(old, None), Change(None, obj)]
        version = obj.metadata.resource_version
        if version and version == old.metadata.resource_version:
            return []
        self._move(key, old, obj)
        return [Change(old, obj)]

    def remove(self, obj: T) -> list[Change[T]]:
        """Take out the object of that name. ``obj`` is its last state; another UID in its place stays."""
        key = (obj.metadata.namespace, obj.metadata.name)
        old = self._objects.get(key)
        if old is None or (obj.metadata.uid and old.metadata.uid != obj.metadata.uid):
            return []
        self._drop(key, old)
        return [Change(obj, None)]

    def replace(self, objects: Iterable[T]) -> list[Change[T]]:
        """Make the store hold exactly ``objects``: what is missing among them is deleted."""
        changes: list[Change[T]] = []
        seen: set[Key] = set()
        for obj in objects:
            seen.add((obj.metadata.namespace, obj.metadata.name))
            changes += self.upsert(obj)
        for key in [key for key in self._objects if key not in seen]:
            old = self._objects[key]
            self._drop(key, old)
            changes.append(Change(old, None))
        return changes

    def _put(self, key: Key, obj: T) -> None:
        self._objects[key] = obj
        self._uids[obj.metadata.uid] = key
        for name, function in self._indexers.items():
            index = self._indexes[name]
            for value in function(obj):
                index.setdefault(value, set()).add(key)

    def _drop(self, key: Key, obj: T) -> None:
        del self._objects[key]
        self._uids.pop(obj.metadata.uid, None)
        for name, function in self._indexers.items():
            for value in function(obj):
                self._discard(name, value, key)

    def _move(self, key: Key, old: T, new: T) -> None:
        self._objects[key] = new
        for name, function in self._indexers.items():
            before, after = set(function(old)), set(function(new))
            if before != after:
                for value in before - after:
                    self._discard(name, value, key)
                index = self._indexes[name]
                for value in after - before:
                    index.setdefault(value, set()).add(key)

    def _discard(self, name: str, value: str, key: Key) -> None:
        index = self._indexes[name]
        keys = index.get(value)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del index[value]
