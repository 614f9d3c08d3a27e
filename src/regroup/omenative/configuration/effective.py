"""The lifecycle values in force: what a component says, else the cluster, else nothing (spec/omenative.md 1.1.3). Pure.

``lifecycle`` is already merged: the InferenceService over its runtime. The restart policy is not here, because no cluster-wide
setting of it exists: ``InferenceReplicaSpec.restart_policy`` is all there is.
"""

from dataclasses import dataclass

from regroup.omenative.api import durations
from regroup.omenative.api.lifecycle import SURGE_THEN_DRAIN, InPlaceUpdate, IntOrPercent, Lifecycle, UpdateStrategy
from regroup.omenative.configuration.settings import LiveSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How a component's Instances move to another revision. Budgets are in Instances; None is no cap."""

    type: str
    max_surge: IntOrPercent | None
    max_unavailable: IntOrPercent | None
    partition: int | None
    grace_period_seconds: int
    mark_not_ready: bool


def instance_ready_timeout(lifecycle: Lifecycle, live: LiveSettings) -> float | None:
    """Seconds that an operation has; None: it never expires.

    ``0s`` counts as unset at the component, hides the runtime's value (it won the merge), and leaves the cluster's (9.29).
    """
    own = _positive(lifecycle.instance_ready_timeout or "")
    return own if own is not None else live.instance_ready_timeout


def min_ready_seconds(lifecycle: Lifecycle, live: LiveSettings) -> int:
    """Seconds that new pods must stay ready; an explicit 0 wins over the cluster's."""
    if lifecycle.min_ready_seconds is not None:
        return lifecycle.min_ready_seconds
    return live.min_ready_seconds or 0


def strategy(lifecycle: Lifecycle, *, component: str, live: LiveSettings) -> Strategy:
    """The update strategy with its budgets. The cluster fills only the budget that the resolved type reads."""
    own = lifecycle.update_strategy or UpdateStrategy()
    cluster = live.update_strategies.get(component) or UpdateStrategy()
    kind = own.type or cluster.type or SURGE_THEN_DRAIN
    rolling, filled = lifecycle.rolling_update, Lifecycle(update_strategy=cluster).rolling_update
    surging = kind == SURGE_THEN_DRAIN
    in_place = own.in_place_update_strategy or InPlaceUpdate()
    max_surge, max_unavailable = rolling.max_surge, rolling.max_unavailable
    if max_surge is None and surging:
        max_surge = filled.max_surge
    if max_unavailable is None and not surging:
        max_unavailable = filled.max_unavailable
    return Strategy(
        type=kind,
        max_surge=max_surge,
        max_unavailable=max_unavailable,
        partition=rolling.partition,
        grace_period_seconds=in_place.grace_period_seconds or 0,
        mark_not_ready=in_place.mark_not_ready_during_lifecycle is not False,
    )


def _positive(text: str) -> float | None:
    try:
        seconds = durations.parse(text) if text else 0.0
    except ValueError:
        return None
    return seconds if seconds > 0 else None
