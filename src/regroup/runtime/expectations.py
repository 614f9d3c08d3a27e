"""What we wrote and the cache has not shown yet.

A pass that acts on a cache older than its own last write would do it twice: create a second object, count a failure twice,
delete a replacement. So each write is noted here under the key it belongs to, and a pass asks ``satisfied`` before it acts. Notes
are kept by UID for creates and deletes and by resourceVersion for updates, and expire: a lost event delays, it never wedges.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from regroup.kube.meta import HasMeta
from regroup.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)

EXPIRY = 30.0
"""Seconds after which a note is dropped, so that a lost event cannot hold a key for ever."""


@dataclass(frozen=True, slots=True)
class ExpectationStatistics:
    """Keys that wait for their writes to show, and notes that ran out."""

    waiting: int
    expired: int


@dataclass(slots=True)
class _Note:
    seen: Callable[[], bool]
    deadline: float


class Expectations(Generic[K]):
    """Notes of own writes, by the key of the pass that made them."""

    def __init__(self, *, clock: Clock, expiry: float = EXPIRY) -> None:
        self._clock = clock
        self._expiry = expiry
        self._notes: dict[K, dict[str, _Note]] = {}
        self._expired = 0

    def expect_created(self, key: K, *, uid: str, by_uid: Callable[[str], HasMeta | None]) -> None:
        """The object ``uid`` was created; satisfied once ``by_uid`` (a store's) knows it or it has gone again."""
        self._note(key, f"created {uid}", lambda: by_uid(uid) is not None)

    def expect_deleted(self, key: K, *, uid: str, by_uid: Callable[[str], HasMeta | None]) -> None:
        """The object ``uid`` was told to go; satisfied once it is gone from the store or shown as deleting."""

        def seen() -> bool:
            obj = by_uid(uid)
            return obj is None or obj.metadata.deletion_timestamp is not None

        self._note(key, f"deleted {uid}", seen)

    def expect_version(self, key: K, *, uid: str, resource_version: str, by_uid: Callable[[str], HasMeta | None]) -> None:
        """The object ``uid`` was written as ``resource_version``; satisfied once the store holds that version or a later one."""

        def seen() -> bool:
            obj = by_uid(uid)
            return obj is None or not _older(obj.metadata.resource_version, resource_version)

        self._note(key, f"written {uid}", seen)

    def note_gone(self, key: K, *, uid: str) -> None:
        """The object ``uid`` was seen to go: nothing of it is waited for any more."""
        notes = self._notes.get(key)
        if notes:
            for name in (f"created {uid}", f"deleted {uid}", f"written {uid}"):
                notes.pop(name, None)

    def satisfied(self, key: K) -> bool:
        """Whether the cache shows every write that was made under ``key``."""
        notes = self._notes.get(key)
        if not notes:
            return True
        now = self._clock.monotonic()
        for name, note in list(notes.items()):
            if note.seen():
                del notes[name]
            elif note.deadline <= now:
                self._expired += 1
                del notes[name]
        if notes:
            return False
        del self._notes[key]
        return True

    def forget(self, key: K) -> None:
        """Drop all notes of ``key``."""
        self._notes.pop(key, None)

    def statistics(self) -> ExpectationStatistics:
        return ExpectationStatistics(len(self._notes), self._expired)

    def _note(self, key: K, name: str, seen: Callable[[], bool]) -> None:
        self._notes.setdefault(key, {})[name] = _Note(seen, self._clock.monotonic() + self._expiry)


def _older(left: str, right: str) -> bool:
    """Whether version ``left`` is before ``right``. Versions of one kind compare as numbers (so Kubernetes 1.35 and later)."""
    try:
        return int(left) < int(right)
    except ValueError:
        return left != right
