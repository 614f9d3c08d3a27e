"""What a controller keeps beside the cache: all of it can be worked out again from the API. No request, no decision."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Generic, TypeVar

from regroup.kube.pod import Pod
from regroup.leaderworkerset.facts import Summary
from regroup.leaderworkerset.view import Departed, GroupKey
from regroup.runtime.clock import Clock

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_PACED = 1024
"""Keys beyond which those that are due anyway are forgotten."""


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


class Pace(Generic[K]):
    """Spaces out what happens to a key: the first time comes at once, each further one ``interval`` seconds after the last."""

    def __init__(self, *, clock: Clock, interval: float) -> None:
        self._clock = clock
        self._interval = interval
        self._last: dict[K, float] = {}

    def wait(self, key: K) -> float:
        """Seconds until the next time, which is taken for settled; calls until then give the same moment."""
        now = self._clock.monotonic()
        if len(self._last) > _PACED:
            self._last = {one: at for one, at in self._last.items() if at + self._interval > now}
        last = self._last.get(key)
        if last is None or last + self._interval <= now:
            self._last[key] = now
            return 0.0
        if last <= now:
            self._last[key] = last = last + self._interval
        return last - now


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

    def exhausted(self) -> Iterator[tuple[tuple[str, str], int]]:
        """Each LeaderWorkerSet with groups that are retained because they used up their budget, and how many."""
        for owner, groups in self._known.items():
            count = sum(1 for summary in groups.values() if summary is not None and summary.exhausted)
            if count:
                yield owner, count

    def __len__(self) -> int:
        return sum(len(groups) for groups in self._known.values())
