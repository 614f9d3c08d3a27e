"""Counts of what passes did, for the metrics page. Upstream counts no restarts: these are our own (omenative 6.3)."""

from typing import TYPE_CHECKING

from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.outcome import Outcome

if TYPE_CHECKING:
    from regroup.runtime.metrics import Metrics

_LABELS = ("namespace", "isvc", "component")


class Tallies:
    """Counters of one operator. Without ``metrics`` nothing is counted."""

    def __init__(self, metrics: "Metrics | None") -> None:
        self._on = metrics is not None
        if metrics is None:
            return
        self._steps = metrics.counter(
            "regroup_omenative_steps",
            "Steps of Instances by what they were: RestartTriggered, RestartCompleted, RepairHeld, InstanceFailed and the others",
            (*_LABELS, "reason"),
        )
        self._actions = metrics.counter("regroup_omenative_actions", "Writes to pods by kind", (*_LABELS, "action"))

    def count(self, replica: InferenceReplica, outcome: Outcome) -> None:
        """One pass was carried out."""
        if not self._on:
            return
        labels = (replica.namespace, replica.service_name, replica.spec.component)
        for told in outcome.events:
            self._steps.labels(*labels, told.reason).inc()
        for action in outcome.actions:
            self._actions.labels(*labels, type(action).__name__).inc()
