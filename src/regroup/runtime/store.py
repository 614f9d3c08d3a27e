"""The cache of one kind: objects by name and by UID, and indexes that are kept with every change.

Objects are frozen, so readers need no copies. Only a reflector writes. A name that comes back with another UID is another
object: it shows as a deletion and an addition, so that nothing can hide behind a name. A whole new list is prepared beside the
old one, in steps that leave others their turn, and takes its place at once: no reader ever sees a mix of the two.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """What a store holds: objects, and how many values each of its indexes has."""

    objects: int
    indexes: Mapping[str, int]


class Store(Generic[T]):
    """Objects of one kind."""

    def __init__(self, *, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self._indexers: dict[str, Indexer[T]] = {}
        self._tables: _Tables[T] = _Tables(self._indexers)
        for name, function in (indexers or {}).items():
            self.add_indexer(name, function)

    def get(self, namespace: str, name: str) -> T | None:
        return self._tables.objects.get((namespace, name))

    def by_uid(self, uid: str) -> T | None:
        key = self._tables.uids.get(uid)
        return self._tables.objects.get(key) if key is not None else None

    def index(self, name: str, value: str) -> tuple[T, ...]:
        """Objects for which the indexer ``name`` gives ``value``, by namespace and name. Raises ``KeyError``."""
        keys = self._tables.indexes[name].get(value)
        return tuple(self._tables.objects[key] for key in sorted(keys)) if keys else ()

    def index_size(self, name: str, value: str) -> int:
        """How many objects ``index`` would give."""
        return len(self._tables.indexes[name].get(value, ()))

    def index_values(self, name: str) -> Iterable[str]:
        """The values that the index ``name`` has now."""
        return tuple(self._tables.indexes[name])

    def values(self) -> Iterable[T]:
        """All objects as they are now."""
        return tuple(self._tables.objects.values())

    def __len__(self) -> int:
        return len(self._tables.objects)

    def add_indexer(self, name: str, function: Indexer[T]) -> None:
        """Keep another index; may come when objects are there already. Raises ``ValueError`` for a name with another function."""
        known = self._indexers.get(name)
        if known is function:
            return
        if known is not None:
            raise ValueError(f"index {name!r} is taken by another function")
        self._tables.build_index(name, function)
        self._indexers[name] = function

    def upsert(self, obj: T) -> list[Change[T]]:
        """Put ``obj`` in. Nothing changes when it is there with the same version; a new UID is a deletion and an addition.

        What an indexer raises is raised before anything has changed.
        """
        old = self._tables.objects.get(_key(obj))
        if old is None:
            self._tables.put(obj)
            return [Change(None, obj)]
        if old.metadata.uid != obj.metadata.uid:
            self._tables.swap(old, obj)
            return [Change(old, None), Change(None, obj)]
        if _same_version(old, obj):
            return []
        self._tables.swap(old, obj)
        return [Change(old, obj)]

    def remove(self, obj: T) -> list[Change[T]]:
        """Take out the object of that name. ``obj`` is its last state; another UID in its place stays."""
        old = self._tables.objects.get(_key(obj))
        if old is None or (obj.metadata.uid and old.metadata.uid != obj.metadata.uid):
            return []
        self._tables.drop(old)
        return [Change(obj, None)]

    def replace(self, objects: Iterable[T]) -> list[Change[T]]:
        """Make the store hold exactly ``objects``: what is missing among them is deleted. Deletions come first."""
        replacement = self.replacement()
        for obj in objects:
            replacement.add(obj)
        return list(replacement.commit())

    def replacement(self) -> "Replacement[T]":
        """A new content to fill and commit. Until then this store is as it was; nobody else may write to it meanwhile."""
        return Replacement(self)

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(len(self), {name: len(index) for name, index in self._tables.indexes.items()})


class Replacement(Generic[T]):
    """The content that a store is to have next. Made by ``Store.replacement``; dropping it changes nothing."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._before = store._tables  # noqa: SLF001 - the two are one thing in two steps
        self._after: _Tables[T] = _Tables(store._indexers)  # noqa: SLF001
        self._missing = dict.fromkeys(self._before.objects)
        """Names of the store that have not come up."""
        self._different: dict[Key, bool] = {}
        """Names that do not hold what they held; True where it is another object altogether."""

    def add(self, obj: T) -> None:
        """``obj`` is part of the new content. What an indexer raises is raised before anything has changed."""
        key = _key(obj)
        old = self._before.objects.get(key)
        another = old is None or old.metadata.uid != obj.metadata.uid
        same = old is not None and not another and (old is obj or _same_version(old, obj))
        if old is not None and same:
            obj = old  # the same thing stays the same object, and its twin's memory is free at once
        earlier = self._after.objects.get(key)
        if earlier is None:
            self._after.put(obj)
        else:
            self._after.swap(earlier, obj)
        self._missing.pop(key, None)
        if same:
            self._different.pop(key, None)
        else:
            self._different[key] = another

    def keep(self, namespace: str, name: str) -> None:
        """What the store has under that name, if anything, is part of the new content."""
        old = self._before.objects.get((namespace, name))
        if old is not None:
            self.add(old)

    def remove(self, namespace: str, name: str) -> None:
        """The object of that name is not part of the new content after all."""
        key = (namespace, name)
        obj = self._after.objects.get(key)
        if obj is not None:
            self._after.drop(obj)
            self._different.pop(key, None)
            if key in self._before.objects:
                self._missing[key] = None

    def commit(self) -> Iterator[Change[T]]:
        """Put the new content in the store's place, at once; what is different comes one by one: deletions, then the rest.

        Telling 20,000 changes takes longer than the swap, so whoever tells them can let others have their turn in between. All
        must be told before the store is written to again.
        """
        for name, function in self._store._indexers.items():  # noqa: SLF001
            if name not in self._after.indexes:
                self._after.build_index(name, function)  # came while this was being filled
        self._store._tables = self._after  # noqa: SLF001
        return self._changes()

    def _changes(self) -> Iterator[Change[T]]:
        before, after = self._before.objects, self._after.objects
        for key in self._missing:
            yield Change(before.pop(key), None)
            self._before.let_go()
        for key, another in self._different.items():
            if another and key in before:
                yield Change(before.pop(key), None)
        for key in self._different:
            yield Change(before.pop(key, None), after[key])
            self._before.let_go()


class UnionStore(Store[T]):
    """Several stores of disjoint namespaces, read as one. Each is written by its own reflector, never through this."""

    def __init__(self, parts: Sequence[Store[T]], *, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self._parts = tuple(parts)
        super().__init__(indexers=indexers)

    def get(self, namespace: str, name: str) -> T | None:
        return next((obj for part in self._parts if (obj := part.get(namespace, name)) is not None), None)

    def by_uid(self, uid: str) -> T | None:
        return next((obj for part in self._parts if (obj := part.by_uid(uid)) is not None), None)

    def index(self, name: str, value: str) -> tuple[T, ...]:
        found = [obj for part in self._parts for obj in part.index(name, value)]
        return tuple(sorted(found, key=_key))

    def index_size(self, name: str, value: str) -> int:
        return sum(part.index_size(name, value) for part in self._parts)

    def index_values(self, name: str) -> Iterable[str]:
        return tuple(dict.fromkeys(value for part in self._parts for value in part.index_values(name)))

    def values(self) -> Iterable[T]:
        return tuple(obj for part in self._parts for obj in part.values())

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def add_indexer(self, name: str, function: Indexer[T]) -> None:
        for part in self._parts:
            part.add_indexer(name, function)

    def upsert(self, obj: T) -> list[Change[T]]:
        raise TypeError("a union of stores is only read")

    def remove(self, obj: T) -> list[Change[T]]:
        raise TypeError("a union of stores is only read")

    def replacement(self) -> Replacement[T]:
        raise TypeError("a union of stores is only read")

    def statistics(self) -> StoreStatistics:
        parts = [part.statistics() for part in self._parts]
        names = dict.fromkeys(name for part in parts for name in part.indexes)
        return StoreStatistics(len(self), {name: len(tuple(self.index_values(name))) for name in names})


class _Tables(Generic[T]):
    """Objects by key, keys by UID, and the indexes. ``indexers`` belongs to the store, which may add to it."""

    __slots__ = ("_indexers", "indexes", "objects", "uids")

    def __init__(self, indexers: Mapping[str, Indexer[T]]) -> None:
        self._indexers = indexers
        self.objects: dict[Key, T] = {}
        self.uids: dict[str, Key] = {}
        self.indexes: dict[str, dict[str, set[Key]]] = {name: {} for name in indexers}

    def build_index(self, name: str, function: Indexer[T]) -> None:
        """Make the index ``name`` from all objects."""
        index: dict[str, set[Key]] = {}
        for key, obj in self.objects.items():
            for value in function(obj):
                index.setdefault(value, set()).add(key)
        self.indexes[name] = index

    def put(self, obj: T) -> None:
        values = [(index, tuple(self._indexers[name](obj))) for name, index in self.indexes.items()]
        obj.metadata.share(None)
        key = _key(obj)
        self.objects[key] = obj
        if obj.metadata.uid:
            self.uids[obj.metadata.uid] = key
        for index, entries in values:
            for value in entries:
                index.setdefault(value, set()).add(key)

    def drop(self, obj: T) -> None:
        key = _key(obj)
        del self.objects[key]
        if self.uids.get(obj.metadata.uid) == key:
            del self.uids[obj.metadata.uid]
        for name, index in self.indexes.items():
            for value in self._indexers[name](obj):
                _discard(index, value, key)

    def let_go(self) -> None:
        """Free a little of tables that nobody reads any more: freeing all of it at once would hold up the loop."""
        if self.uids:
            self.uids.popitem()
        for index in self.indexes.values():
            if index:
                index.popitem()

    def swap(self, old: T, new: T) -> None:
        """Put ``new`` in the place of ``old``, which has the same name."""
        new.metadata.share(old.metadata)
        functions = [(index, self._indexers[name]) for name, index in self.indexes.items()]
        values = [(index, tuple(function(old)), tuple(function(new))) for index, function in functions]
        key = _key(new)
        self.objects[key] = new
        if old.metadata.uid != new.metadata.uid:
            if self.uids.get(old.metadata.uid) == key:
                del self.uids[old.metadata.uid]
            if new.metadata.uid:
                self.uids[new.metadata.uid] = key
        for index, before, after in values:
            if before == after:
                continue
            for value in before:
                _discard(index, value, key)
            for value in after:
                index.setdefault(value, set()).add(key)


def _key(obj: HasMeta) -> Key:
    meta = obj.metadata
    return (meta.namespace, meta.name)


def _same_version(left: HasMeta, right: HasMeta) -> bool:
    version = left.metadata.resource_version
    return bool(version) and version == right.metadata.resource_version


def _discard(index: dict[str, set[Key]], value: str, key: Key) -> None:
    keys = index.get(value)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[value]
