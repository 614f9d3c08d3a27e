"""What a controller keeps beside the cache: all of it can be worked out again from the API. No request, no decision."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from regroup.kube.pod import Pod
from regroup.leaderworkerset.status.facts import Summary
from regroup.leaderworkerset.view import Departed, GroupKey, is_hash_key
from regroup.runtime.clock import Clock

T = TypeVar("T")

_FIRST_WAIT = 1.0
"""Seconds that the third leader in a row waits whose predecessors were refused; doubled each time."""
_LONGEST_WAIT = 30.0
_MOST_TIMES = 16
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
    """Spaces out what happens to a key: the first time comes at once, each further one some seconds after the last."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[K, float] = {}

    def wait(self, key: K, *, interval: float) -> float:
        """Seconds until the next time, which is taken for settled; calls until then give the same moment."""
        now = self._clock.monotonic()
        if len(self._last) > _PACED:
            self._last = {one: at for one, at in self._last.items() if at + interval > now}
        last = self._last.get(key)
        if last is None or last + interval <= now:
            self._last[key] = now
            return 0.0
        if last <= now:
            self._last[key] = last = last + interval
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
        if changed:
            # An equal one stays the same object, by which others know that what they made of it still holds.
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


class Rejections:
    """Hash groups whose pods fail before a container has started (case C136): nodes refuse them, and new ones would be made as
    fast as the API allows. Leaders wait behind their gates a little longer each time.

    ``pacing`` does that for Ordinal groups. A Hash group's successor has another key, so all groups of a LeaderWorkerSet share
    one wait, and what counts is the refusal itself.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Streak] = {}

    def note(self, key: GroupKey, *, now: datetime) -> None:
        """A pod of this group was refused; each group counts once."""
        owner = (key.namespace, key.lws)
        before = self._known.get(owner)
        if before is not None and before.index == key.index:
            return
        times = min(before.times + 1 if before is not None else 1, _MOST_TIMES)
        wait = 0.0 if times == 1 else min(_FIRST_WAIT * 2 ** (times - 2), _LONGEST_WAIT)
        self._known[owner] = _Streak(key.index, times, now + timedelta(seconds=wait))

    def over(self, key: GroupKey) -> None:
        """A group has become ready."""
        self._known.pop((key.namespace, key.lws), None)

    def until(self, key: GroupKey) -> datetime | None:
        """When the next leader may be let in; None: whenever it likes."""
        found = self._known.get((key.namespace, key.lws)) if is_hash_key(key.index) else None
        return found.until if found is not None else None

    def forget(self, namespace: str, lws: str) -> None:
        """The LeaderWorkerSet is gone."""
        self._known.pop((namespace, lws), None)

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True, slots=True)
class _Streak:
    index: str
    times: int
    until: datetime
