"""Counts of what was decided, for the metrics page, by namespace and LeaderWorkerSet (spec/leaderworkerset.md 7.7)."""

from typing import TYPE_CHECKING

from regroup.leaderworkerset.decisions import Decision, Defer, Exhaust, Recreate, Skip
from regroup.leaderworkerset.view import GroupKey

if TYPE_CHECKING:
    from regroup.runtime.metrics import Metrics

_LABELS = ("namespace", "leaderworkerset")


class Tallies:
    """Counters of one operator. Without ``metrics`` nothing is counted."""

    def __init__(self, metrics: "Metrics | None") -> None:
        self._on = metrics is not None
        if metrics is None:
            return
        self._recreations = metrics.counter("lws_group_recreations", "Groups recreated", _LABELS)
        self._skipped = metrics.counter("lws_group_recreations_skipped", "Failures forgiven", (*_LABELS, "reason"))
        self._deferred = metrics.counter("lws_group_recreations_deferred", "Recreations put off", _LABELS)
        self._exhausted = metrics.counter("lws_group_budgets_exhausted", "Groups that used up their budget", _LABELS)
        self._backoff = metrics.histogram(
            "lws_group_restart_backoff_seconds",
            "Length of a wait",
            _LABELS,
            buckets=(1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
        )

    def count(self, key: GroupKey, decision: Decision) -> None:
        """One decision was carried out."""
        if not self._on:
            return
        labels = (key.namespace, key.lws)
        match decision:
            case Recreate():
                self._recreations.labels(*labels).inc()
            case Skip():
                reason = "unschedulable" if decision.unschedulable else "starting"
                self._skipped.labels(*labels, reason).inc()
            case Defer():
                self._deferred.labels(*labels).inc()
                self._backoff.labels(*labels).observe(decision.remaining)
            case Exhaust(mark=True):
                self._exhausted.labels(*labels).inc()
            case _:
                pass
