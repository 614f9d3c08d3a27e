"""Counts of what was decided, for the metrics page: by namespace and LeaderWorkerSet, never by pod (spec 7.7)."""

from collections.abc import Callable, Iterable

from regroup.leaderworkerset.groups.decisions import Decision, Defer, Exhaust, Recreate, Skip
from regroup.leaderworkerset.view import GroupKey
from regroup.runtime.metrics import Metrics

_LABELS = ("namespace", "leaderworkerset")
_STARTING, _UNSCHEDULABLE = "starting", "unschedulable"
BUCKETS = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds of a wait: the default delays, and what lies around them."""

Exhausted = Callable[[], Iterable[tuple[tuple[str, str], int]]]
"""Namespace and name of each LeaderWorkerSet with groups that are retained now, and how many."""


class Tallies:
    """Counters of one operator. Without ``metrics`` nothing is counted."""

    def __init__(self, metrics: Metrics | None, *, exhausted: Exhausted) -> None:
        self._on = metrics is not None
        if metrics is None:
            return
        self._recreations = metrics.counter("lws_group_recreations", "Groups recreated", _LABELS)
        self._skipped = metrics.counter("lws_group_recreations_skipped", "Failures forgiven", (*_LABELS, "reason"))
        self._deferred = metrics.counter("lws_group_recreations_deferred", "Recreations put off", _LABELS)
        self._exhaustions = metrics.counter("lws_group_budget_exhaustions", "Groups that used up their budget", _LABELS)
        self._backoff = metrics.histogram("lws_group_restart_backoff_seconds", "Length of a wait", _LABELS, buckets=BUCKETS)
        metrics.gauges(
            "lws_group_budget_exhausted",
            "Groups that are retained because they used up their budget",
            _LABELS,
            lambda: ((name, float(count)) for name, count in exhausted()),
        )
        self._seen: set[tuple[str, str]] = set()

    def count(self, key: GroupKey, decision: Decision) -> None:
        """One decision was carried out."""
        if not self._on:
            return
        labels = (key.namespace, key.lws)
        if isinstance(decision, Recreate | Skip | Defer | Exhaust):
            self._seen.add(labels)
        match decision:
            case Recreate():
                self._recreations.labels(*labels).inc()
            case Skip():
                reason = _UNSCHEDULABLE if decision.unschedulable else _STARTING
                self._skipped.labels(*labels, reason).inc()
            case Defer():
                self._deferred.labels(*labels).inc()
                self._backoff.labels(*labels).observe(decision.remaining)
            case Exhaust(mark=True):
                self._exhaustions.labels(*labels).inc()
            case _:
                pass

    def forget(self, namespace: str, name: str) -> None:
        """The LeaderWorkerSet is gone: its series go with it, or names that come and go would pile up."""
        labels = (namespace, name)
        if not self._on or labels not in self._seen:
            return
        self._seen.discard(labels)
        for metric in (self._recreations, self._deferred, self._exhaustions, self._backoff):
            metric.remove(*labels)
        for reason in (_STARTING, _UNSCHEDULABLE):
            self._skipped.remove(*labels, reason)
