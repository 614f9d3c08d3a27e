"""Which pod is tried next, and when one that found no place is tried again. Knows pods by key only; time is passed in.

As in kube-scheduler: higher priority first, then the order of arrival; a pod without a place waits for a change in the
cluster, and is not tried again before its back-off of 1 s, doubling to 10 s, is over.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from regroup.sandbox.scheduler.facts import PodFacts

BACKOFF = 1.0
BACKOFF_MAX = 10.0


@dataclass(slots=True)
class Waiting:
    """A pod that has no place yet."""

    pod: PodFacts
    order: int
    attempts: int = 0
    not_before: float = 0.0
    state: Literal["ready", "in hand", "parked", "later"] = "in hand"
    """``parked``: it was tried and found no place; only a change in the cluster helps."""


class SchedulingQueue:
    """Pods to place, by UID. A pod is in one state at a time; stale entries of the heaps are skipped by it."""

    def __init__(self) -> None:
        self._pods: dict[str, Waiting] = {}
        self._parked: dict[str, Waiting] = {}
        self._ready: list[tuple[int, int, str]] = []
        self._later: list[tuple[float, int, str]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add(self, pod: PodFacts) -> None:
        """A pod that is new or has changed: try it now."""
        entry = self._entry(pod)
        entry.pod = pod
        self._make_ready(entry)

    def remove(self, uid: str) -> None:
        """The pod is placed, gone, or somebody else's."""
        self._pods.pop(uid, None)
        self._parked.pop(uid, None)

    def park(self, pod: PodFacts, *, now: float) -> None:
        """The pod was tried and found no place."""
        entry = self._entry(pod)
        entry.attempts += 1
        entry.not_before = now + min(BACKOFF_MAX, BACKOFF * 2.0 ** min(entry.attempts - 1, 10))
        entry.state = "parked"
        self._parked[pod.uid] = entry

    def retry(self, uid: str) -> None:
        """Try a parked pod again once its back-off is over."""
        entry = self._parked.pop(uid, None)
        if entry is not None:
            entry.state = "later"
            heapq.heappush(self._later, (entry.not_before, entry.order, uid))

    def cluster_changed(self, helps: Callable[[PodFacts], bool]) -> None:
        """``retry`` for the parked pods that ``helps`` says yes to."""
        for uid in [uid for uid, entry in self._parked.items() if helps(entry.pod)]:
            self.retry(uid)

    def pop(self, *, now: float) -> PodFacts | None:
        """The pod to try now, if any. It stays known until ``remove`` or ``park``."""
        while self._later and self._later[0][0] <= now:
            entry = self._pods.get(heapq.heappop(self._later)[2])
            if entry is not None and entry.state == "later":
                self._make_ready(entry)
        while self._ready:
            entry = self._pods.get(heapq.heappop(self._ready)[2])
            if entry is not None and entry.state == "ready":
                entry.state = "in hand"
                return entry.pod
        return None

    def next_due(self) -> float | None:
        """When the next back-off ends."""
        return self._later[0][0] if self._later else None

    def _entry(self, pod: PodFacts) -> Waiting:
        entry = self._pods.get(pod.uid)
        if entry is None:
            self._arrivals += 1
            entry = self._pods[pod.uid] = Waiting(pod, self._arrivals)
        return entry

    def _make_ready(self, entry: Waiting) -> None:
        entry.state = "ready"
        self._parked.pop(entry.pod.uid, None)
        heapq.heappush(self._ready, (-entry.pod.priority, entry.order, entry.pod.uid))
