"""Takes the workers of groups that are recreated away, beside the looks, so that no look waits for it.

Once its leader is deleted in the foreground, garbage collection takes a worker set away in the foreground as well: the set stays
until its last pod is gone, its controller goes on writing its status and revisions, and each pod is asked for and deleted by
itself. Here this is made short in one of three ways; what gets lost on the way, garbage collection makes up for.

- A few workers: the set is deleted, in the background. It is gone at once, and garbage collection tells its few pods.
- Many workers: garbage collection is limited (20 requests a second after the first 30, as Kubernetes ships it), so all pods are
  told with one collection delete, and the set is left to it. That is one write as well.
- Several groups at once, or one soon after the other: the sets are deleted, and the pods of all of them are told with one
  collection delete.

A collection is found by a label and deleted by names. So nothing of a group may be made anew before such a request has ended.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from regroup.kube.resources import PODS, STATEFULSETS
from regroup.leaderworkerset.keys import LEADER_UID, NAME
from regroup.leaderworkerset.view import GroupKey
from regroup.runtime.clock import Clock
from regroup.wire.client import Client
from regroup.wire.errors import WireError

AT_ONCE = 8
"""Endings under way at the same time, each of one or several groups."""
JOINED = 12
"""Groups whose pods are told with one request: the API server deletes a collection one object after the other."""
SETS_AT_ONCE = 8
"""Sets that are being deleted at the same time. In a storm all of them would go out at once, each on a connection of its own,
and opening one costs both ends more than the request does: it would keep the API server from the leaders' deletions."""
CROWDED = 0.1
"""Seconds between two endings that belong to a storm."""
LULL, LULLS = 0.05, 10
"""Seconds without another ending after which those of a storm begin, and how often that is waited for at most."""
WAITING_LIMIT = 10_000
"""Groups that wait; what comes beyond is left to garbage collection."""
GC_RATE, GC_BURST = 20.0, 30.0
"""Requests that garbage collection may send, a second and at once, as Kubernetes ships it."""
GC_WAIT = 1.0
"""Seconds that pods may wait for garbage collection to reach them."""
_GC_EACH, _GC_GROUP = 2, 4
"""Requests that it needs for a pod and, beside them, for a group."""
_MOST = GC_BURST + GC_RATE * GC_WAIT


@dataclass(frozen=True, slots=True)
class Ending:
    """The workers of one incarnation of a group: ``pods`` of them are there and not told yet."""

    group: GroupKey
    leader_uid: str
    pods: int
    set_name: str = ""
    set_uid: str = ""
    """Their set; empty where it is not to be deleted."""
    labelled: bool = True
    """All of ``pods``, and nothing but workers of this incarnation, carry its label."""


class Endings:
    """Workers that are to go. ``run`` takes them away, until cancelled. ``on_told`` hears of each group of which ``tells`` is
    true no more."""

    def __init__(self, client: Client, *, clock: Clock, on_told: Callable[[GroupKey], None]) -> None:
        self._client = client
        self._on_told = on_told
        self._telling: Counter[GroupKey] = Counter()
        self._waiting: deque[Ending] = deque()
        self._news = asyncio.Event()
        self._clock = clock
        self._last = float("-inf")
        """When the last one came, and whether it came soon after the one before."""
        self._crowded = False
        self._collector = _Collector(clock)
        self._set_slots = asyncio.Semaphore(SETS_AT_ONCE)
        self._log = structlog.get_logger("leaderworkerset.endings")

    def add(self, ending: Ending) -> None:
        """Have these workers taken away soon."""
        if len(self._waiting) >= WAITING_LIMIT:
            self._log.warning("too many groups end at once: garbage collection takes the rest", leader=ending.leader_uid)
            return
        now = self._clock.monotonic()
        self._crowded, self._last = now - self._last < CROWDED, now
        self._waiting.append(ending)
        self._news.set()

    def tells(self, group: GroupKey) -> bool:
        """Whether a request that deletes workers of an incarnation of this group by their names is under way."""
        return group in self._telling

    async def run(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._news.wait()
                if self._crowded:
                    await self._lull()
                # What comes while all are busy is joined.
                await slots.acquire()
                task = tasks.create_task(self._end(self._next()), name="ending")
                task.add_done_callback(lambda _: slots.release())

    async def _lull(self) -> None:
        """Let the leaders of a storm go first: their deletions are what counts, and ours would keep the API server from them."""
        for _ in range(LULLS):
            before = self._last
            await asyncio.sleep(LULL)
            if self._last == before:
                return

    def _next(self) -> Sequence[Ending]:
        """The ending that waits longest, and those of its namespace that wait with it."""
        namespace = self._waiting[0].group.namespace
        chosen = [one for one in self._waiting if one.group.namespace == namespace][:JOINED]
        taken = {id(one) for one in chosen}
        self._waiting = deque(one for one in self._waiting if id(one) not in taken)
        if not self._waiting:
            self._news.clear()
        return chosen

    async def _end(self, endings: Sequence[Ending]) -> None:
        """Garbage collection is spared where it would hold things up, and asked where that costs no more."""
        sets = [one for one in endings if one.set_uid]
        told = [one for one in endings if one.pods and one.labelled]
        if len(endings) == 1 and sets and told:
            pods = endings[0].pods
            if self._collector.may_have(pods):
                told = []
            elif self._collector.never_has(pods):
                sets = []
        await asyncio.gather(self._tell(told), *map(self._delete_set, sets))

    async def _delete_set(self, ending: Ending) -> None:
        try:
            async with self._set_slots:
                await self._client.delete(
                    STATEFULSETS,
                    ending.set_name,
                    namespace=ending.group.namespace,
                    uid=ending.set_uid,
                    propagation="Background",
                )
        except WireError as error:
            self._log.info("a worker set is left to garbage collection", name=ending.set_name, error=str(error)[:300])

    async def _tell(self, endings: Sequence[Ending]) -> None:
        if not endings:
            return
        selector = f"{LEADER_UID} in ({','.join(one.leader_uid for one in endings)}),{NAME}"
        groups = [one.group for one in endings]
        self._telling.update(groups)
        try:
            await self._client.delete_collection(PODS, namespace=groups[0].namespace, label_selector=selector)
        except WireError as error:
            self._log.info("workers are left to garbage collection", selector=selector, error=str(error)[:300])
        finally:
            self._telling -= Counter(groups)
            for group in groups:
                self._on_told(group)


class _Collector:
    """What garbage collection can still do soon, by what we gave it to do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = _MOST
        self._at: float | None = None

    def may_have(self, pods: int) -> bool:
        """Whether it will have told so many pods soon; if so they are taken into account."""
        now = self._clock.monotonic()
        self._left = min(_MOST, self._left + GC_RATE * (now - (self._at if self._at is not None else now)))
        self._at = now
        if _needed(pods) > self._left:
            return False
        self._left -= _needed(pods)
        return True

    def never_has(self, pods: int) -> bool:
        """Whether so many are too many however idle it is."""
        return _needed(pods) > _MOST


def _needed(pods: int) -> int:
    return _GC_EACH * pods + _GC_GROUP
