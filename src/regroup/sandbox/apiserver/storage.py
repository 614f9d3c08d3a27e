"""Objects, one version counter over all of them, and the recent events that watches resume from.

Stored objects are never changed in place: a write replaces them. Each version is encoded once; lists and watches send it so.
"""

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from regroup.wire import codec
from regroup.wire.resource import Resource

Obj = dict[str, Any]
Key = tuple[str, str]
EventType = Literal["ADDED", "MODIFIED", "DELETED"]

EVENTS_KEPT = 20_000
"""Events of one resource that watches can resume from, at most; older versions are gone (410)."""
BYTES_KEPT = 16 * 1024 * 1024
"""Encoded bytes of those events, at most: what bounds the memory of a sandbox that runs for days."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object."""

    obj: Obj
    version: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """One write. ``previous`` is what was there before, for watches that select."""

    type: EventType
    stored: Stored
    previous: Stored | None


@dataclass(slots=True)
class _Table:
    """One resource."""

    objects: dict[Key, Stored] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    """Sorted; the order of lists."""
    events: deque[Event] = field(default_factory=deque)
    size: int = 0
    """Encoded bytes of ``events``."""
    oldest: int = 0
    """Events up to this version may be missing."""
    listeners: list[Callable[[Event], None]] = field(default_factory=list)


class Journal(Protocol):
    """Where writes are kept beyond the process."""

    def record(self, resource: Resource, key: Key, stored: Stored | None, version: int) -> None:
        """Keep one write; None for a deletion. Must be durable against a crash of the process when it returns."""
        ...


class Storage:
    """All objects of a cluster. Reads and writes are synchronous, so each is atomic on the loop."""

    def __init__(self, *, journal: Journal | None = None) -> None:
        self._tables: dict[tuple[str, str], _Table] = {}
        self._journal = journal
        self.version = 0

    def get(self, resource: Resource, key: Key) -> Stored | None:
        return self._table(resource).objects.get(key)

    def items(self, resource: Resource, namespace: str = "") -> Iterator[Stored]:
        """Objects in order of namespace and name, of one namespace or of all."""
        table = self._table(resource)
        if not namespace:
            for key in table.keys:
                yield table.objects[key]
            return
        position = bisect.bisect_left(table.keys, (namespace, ""))
        while position < len(table.keys) and table.keys[position][0] == namespace:
            yield table.objects[table.keys[position]]
            position += 1

    def count(self, resource: Resource) -> int:
        return len(self._table(resource).objects)

    def put(self, resource: Resource, key: Key, obj: Obj) -> Stored:
        """Store a version of an object; its ``metadata.resourceVersion`` is set here."""
        table = self._table(resource)
        previous = table.objects.get(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        stored = Stored(obj, self.version, codec.encode(obj))
        if self._journal is not None:
            self._journal.record(resource, key, stored, self.version)
        table.objects[key] = stored
        if previous is None:
            bisect.insort(table.keys, key)
        self._tell(table, Event("ADDED" if previous is None else "MODIFIED", stored, previous))
        return stored

    def remove(self, resource: Resource, key: Key) -> Stored:
        """Take an object out; its last state carries the version of the deletion. Raises ``KeyError``."""
        table = self._table(resource)
        previous = table.objects[key]
        self.version += 1
        obj = {**previous.obj, "metadata": {**previous.obj["metadata"], "resourceVersion": str(self.version)}}
        stored = Stored(obj, self.version, codec.encode(obj))
        if self._journal is not None:
            self._journal.record(resource, key, None, self.version)
        del table.objects[key]
        del table.keys[bisect.bisect_left(table.keys, key)]
        self._tell(table, Event("DELETED", stored, previous))
        return stored

    def restore(self, entries: Iterable[tuple[Resource, Key, Obj]], *, version: int) -> None:
        """Fill an empty storage with what a journal kept. Watches start at ``version``."""
        for resource, key, obj in entries:
            table = self._table(resource)
            table.objects[key] = Stored(obj, int(obj["metadata"]["resourceVersion"]), codec.encode(obj))
        self.version = version
        for table in self._tables.values():
            table.keys = sorted(table.objects)
            table.oldest = version

    def events_after(self, resource: Resource, version: int) -> list[Event] | None:
        """Events after ``version`` in order, or None when some of them are gone."""
        table = self._table(resource)
        if version < table.oldest:
            return None
        return [event for event in table.events if event.stored.version > version]

    def oldest(self, resource: Resource) -> int:
        return self._table(resource).oldest

    def forget_events(self, resource: Resource) -> None:
        """Drop the events that watches resume from, as compaction does."""
        table = self._table(resource)
        table.events.clear()
        table.size = 0
        table.oldest = self.version

    def listen(self, resource: Resource, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``listener`` for each event from now on; the result ends it."""
        listeners = self._table(resource).listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def _tell(self, table: _Table, event: Event) -> None:
        table.events.append(event)
        table.size += len(event.stored.data)
        while len(table.events) > EVENTS_KEPT or table.size > BYTES_KEPT:
            gone = table.events.popleft().stored
            table.size -= len(gone.data)
            table.oldest = gone.version
        for listener in tuple(table.listeners):
            listener(event)

    def _table(self, resource: Resource) -> _Table:
        # All versions of a kind are one table.
        return self._tables.setdefault((resource.group, resource.plural), _Table())
