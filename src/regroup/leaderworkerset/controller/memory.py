"""What a controller keeps beside the cache: all of it can be worked out again from the API. No request, no decision."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Generic, TypeVar

from regroup.kube.meta import HasMeta, ObjectMeta
from regroup.kube.pod import Pod
from regroup.leaderworkerset.facts import Summary
from regroup.leaderworkerset.view import Departed, GroupKey
from regroup.runtime.clock import Clock

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_PATIENCE = 10.0
"""Seconds after which an own write is taken for seen: the object was gone before the cache could show it."""
_LOOK_AGAIN = 0.5


class Memo(Generic[T]):
    """The last value worked out from a text for each owner, so that a map of a thousand groups is not parsed for each of them."""

    def __init__(self, work: Callable[[str], T]) -> None:
        self._work = work
        self._known: dict[str, tuple[str, T]] = {}

    def of(self, owner: str, text: str) -> T:
        known = self._known.get(owner)
        if known is not None and known[0] == text:
            return known[1]
        value = self._work(text)
        self._known[owner] = (text, value)
        return value

    def forget(self, owner: str) -> None:
        self._known.pop(owner, None)


class Departures:
    """Workers that are gone and whose loss no look has settled yet (8.3): kept until a look succeeds (B2)."""

    def __init__(self) -> None:
        self._gone: dict[GroupKey, dict[str, Departed]] = {}

    def add(self, key: GroupKey, pod: Pod, *, leader_uid: str, at: datetime) -> None:
        self._gone.setdefault(key, {})[pod.metadata.uid] = Departed(pod, leader_uid, at)

    def of(self, key: GroupKey) -> tuple[Departed, ...]:
        return tuple(self._gone.get(key, {}).values())

    def settle(self, key: GroupKey, seen: Iterable[Departed]) -> None:
        """Forget what a look has dealt with; what came in meanwhile stays."""
        kept = self._gone.get(key)
        if kept is None:
            return
        for departed in seen:
            kept.pop(departed.pod.metadata.uid, None)
        if not kept:
            del self._gone[key]

    def __len__(self) -> int:
        return sum(len(gone) for gone in self._gone.values())


class Groups:
    """All groups that exist, by LeaderWorkerSet, with their last summary; None while it has to be worked out."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, Summary | None]] = {}

    def note(self, key: GroupKey) -> None:
        """Something of this group exists."""
        self._known.setdefault((key.namespace, key.lws), {}).setdefault(key.index, None)

    def put(self, key: GroupKey, summary: Summary | None) -> bool:
        """Keep the summary, or forget a group that is gone (None). Returns whether anything is different now."""
        owner = (key.namespace, key.lws)
        groups = self._known.get(owner, {})
        if summary is None:
            changed = groups.pop(key.index, None) is not None
            if not groups:
                self._known.pop(owner, None)
            return changed
        changed = groups.get(key.index) != summary
        self._known.setdefault(owner, groups)[key.index] = summary
        return changed

    def of(self, namespace: str, lws: str) -> Mapping[str, Summary | None]:
        """Index to summary, in no order."""
        return self._known.get((namespace, lws), {})

    def keys(self, namespace: str, lws: str) -> Iterator[GroupKey]:
        for index in list(self.of(namespace, lws)):
            yield GroupKey(namespace, lws, index)

    def __len__(self) -> int:
        return sum(len(groups) for groups in self._known.values())


class Awaited(Generic[K]):
    """Own writes that the cache must show before the next look, so that nothing is done twice on a stale cache."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._writes: dict[K, dict[str, tuple[int, float]]] = {}

    def wrote(self, key: K, meta: ObjectMeta) -> None:
        """The server answered a write with this version of the object."""
        self._writes.setdefault(key, {})[meta.uid] = (_version(meta), self._clock.monotonic())

    def behind(self, key: K, by_uid: Callable[[str], HasMeta | None]) -> float | None:
        """None when the cache shows everything; else seconds after which to look again, should no event come."""
        writes = self._writes.get(key)
        if writes is None:
            return None
        oldest = self._clock.monotonic() - _PATIENCE
        for uid, (version, at) in list(writes.items()):
            found = by_uid(uid)
            if at < oldest or (found is not None and _version(found.metadata) >= version):
                del writes[uid]
        if writes:
            return _LOOK_AGAIN
        del self._writes[key]
        return None

    def forget(self, key: K) -> None:
        self._writes.pop(key, None)


def _version(meta: ObjectMeta) -> int:
    """Versions of one resource are numbers that grow (Kubernetes 1.35 makes that a promise; all servers keep it)."""
    return int(meta.resource_version) if meta.resource_version.isdigit() else 0
