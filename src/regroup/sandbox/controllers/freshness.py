"""Own last writes that the cache must show before a controller acts again: a stale cache never leads to a second creation.

In a pass on a cache that lacks a pod which this controller has just made, the pod would be made again; on one that still shows a
pod which it has just deleted, another would be chosen in its place.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from regroup.kube.meta import HasMeta, ObjectMeta
from regroup.runtime.clock import Clock
from regroup.runtime.store import Change

K = TypeVar("K")
T = TypeVar("T", bound=HasMeta)

PATIENCE = 10.0
"""Seconds after which a write is taken for seen: the object was gone before the cache could show it."""
LOOK_AGAIN = 0.5


@dataclass(slots=True)
class _Awaited:
    """What one key waits for, by UID, with the time of the write."""

    created: dict[str, tuple[int, float]] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)


class Freshness(Generic[K]):
    """The writes of one controller, by key."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._awaited: dict[K, _Awaited] = {}

    def created(self, key: K, meta: ObjectMeta) -> None:
        """An object was created or changed: its version, as the server answered, has to show."""
        entry = self._awaited.setdefault(key, _Awaited())
        entry.created[meta.uid] = (_version(meta), self._clock.monotonic())

    def deleted(self, key: K, meta: ObjectMeta) -> None:
        """A deletion was accepted: the object has to be gone or terminating."""
        self._awaited.setdefault(key, _Awaited()).deleted[meta.uid] = self._clock.monotonic()

    def seen(self, key: K, change: Change[T]) -> None:
        """The cache has changed by this much. Needed for objects that come and go between two passes."""
        entry = self._awaited.get(key)
        if entry is None:
            return
        if change.new is not None:
            meta = change.new.metadata
            if meta.uid in entry.created and _version(meta) >= entry.created[meta.uid][0]:
                del entry.created[meta.uid]
            if meta.deleting:
                entry.deleted.pop(meta.uid, None)
        elif change.old is not None:
            entry.created.pop(change.old.metadata.uid, None)
            entry.deleted.pop(change.old.metadata.uid, None)

    def behind(self, key: K, *stores: Callable[[str], HasMeta | None]) -> float | None:
        """None when the cache shows everything; else seconds after which to look again, should no event come.

        ``stores``: how the caches are asked for an object by UID.
        """
        entry = self._awaited.get(key)
        if entry is None:
            return None

        def by_uid(uid: str) -> HasMeta | None:
            return next((found for store in stores if (found := store(uid)) is not None), None)

        oldest = self._clock.monotonic() - PATIENCE
        for uid, (version, at) in list(entry.created.items()):
            found = by_uid(uid)
            if at < oldest or (found is not None and _version(found.metadata) >= version):
                del entry.created[uid]
        for uid, at in list(entry.deleted.items()):
            found = by_uid(uid)
            if at < oldest or found is None or found.metadata.deleting:
                del entry.deleted[uid]
        if entry.created or entry.deleted:
            return LOOK_AGAIN
        del self._awaited[key]
        return None

    def forget(self, key: K) -> None:
        """The owner is gone."""
        self._awaited.pop(key, None)


def _version(meta: ObjectMeta) -> int:
    """Resource versions of one resource are numbers that grow."""
    return int(meta.resource_version) if meta.resource_version.isdigit() else 0
