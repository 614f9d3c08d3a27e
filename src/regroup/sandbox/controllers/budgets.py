"""What a PodDisruptionBudget allows now. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from regroup.kube.meta import Condition, ObjectView, View, find_condition
from regroup.runtime.clock import timestamp
from regroup.sandbox.controllers.views import Pod, percent_or_count

EVICTION_PATIENCE = timedelta(minutes=2)
"""How long an eviction that was granted may take to show as a deletion, before it is taken for lost."""


class BudgetSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a PodDisruptionBudget."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: dict[str, Any] | None = None


class BudgetStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a PodDisruptionBudget."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    raw_disrupted_pods: dict[str, datetime] | None = msgspec.field(name="disruptedPods", default=None)
    raw_conditions: tuple[Condition, ...] | None = msgspec.field(name="conditions", default=None)


class Budget(ObjectView, frozen=True, gc=False, kw_only=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    raw_status: BudgetStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> BudgetStatus:
        return self.raw_status or BudgetStatus()


@dataclass(frozen=True, slots=True)
class Expected:
    """What a budget is counted against."""

    pods: int
    healthy: int


def needs_scale(budget: Budget) -> bool:
    """Whether the budget is relative to the size that the pods' controllers want; else the pods themselves are counted."""
    return budget.spec.max_unavailable is not None or isinstance(budget.spec.min_available, str)


def expected(budget: Budget, pods: Sequence[Pod], scale: int) -> Expected:
    """How many pods there should be and how many of them have to be healthy. ``scale``: the sum over their controllers."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        lost = percent_or_count(spec.max_unavailable, scale, round_up=True, default=0)
        return Expected(scale, max(scale - lost, 0))
    if isinstance(spec.min_available, str):
        return Expected(scale, percent_or_count(spec.min_available, scale, round_up=True, default=0))
    return Expected(len(pods), spec.min_available or 0)


def disrupted(budget: Budget, pods: Sequence[Pod], now: datetime) -> dict[str, datetime]:
    """Evictions that were granted and have not shown yet: the pod is there, not deleting, and the grant is young."""
    standing = {pod.metadata.name for pod in pods if not pod.deleting}
    granted: Mapping[str, datetime] = budget.status.raw_disrupted_pods or {}
    return {name: at for name, at in granted.items() if name in standing and at + EVICTION_PATIENCE > now}


def status(budget: Budget, pods: Sequence[Pod], wanted: Expected, now: datetime) -> dict[str, Any]:
    """The status to be written."""
    gone = disrupted(budget, pods, now)
    healthy = sum(pod.ready and not pod.deleting and pod.metadata.name not in gone for pod in pods)
    allowed = max(healthy - wanted.healthy, 0) if wanted.pods > 0 else 0
    return {
        "observedGeneration": budget.metadata.generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": wanted.healthy,
        "expectedPods": wanted.pods,
        "disruptedPods": {name: timestamp(at) for name, at in sorted(gone.items())} or None,
        "conditions": [_condition(budget, "SufficientPods" if allowed > 0 else "InsufficientPods", allowed > 0, "", now)],
    }


def failsafe(budget: Budget, problem: str, now: datetime) -> dict[str, Any]:
    """The status when the budget cannot be computed: nothing may be disrupted."""
    return {
        "disruptionsAllowed": 0,
        "conditions": [_condition(budget, "SyncFailed", False, problem[:1024], now)],
    }


def needs_writing(budget: Budget, body: Mapping[str, Any]) -> bool:
    """Whether the budget's status says anything else."""
    live = budget.status
    condition = find_condition(live.raw_conditions, "DisruptionAllowed")
    (wanted,) = body["conditions"]
    return (
        condition is None
        or (condition.status, condition.reason, condition.message) != (wanted["status"], wanted["reason"], wanted["message"])
        or body["disruptionsAllowed"] != live.disruptions_allowed
        or body.get("observedGeneration", live.observed_generation) != live.observed_generation
        or body.get("currentHealthy", live.current_healthy) != live.current_healthy
        or body.get("desiredHealthy", live.desired_healthy) != live.desired_healthy
        or body.get("expectedPods", live.expected_pods) != live.expected_pods
        or sorted(body.get("disruptedPods") or {}) != sorted(live.raw_disrupted_pods or {})
    )


def recheck_after(budget: Budget, pods: Sequence[Pod], now: datetime) -> float | None:
    """Seconds until the next granted eviction is taken for lost."""
    waits = [(at + EVICTION_PATIENCE - now).total_seconds() for at in disrupted(budget, pods, now).values()]
    return min(waits) + 0.001 if waits else None


def _condition(budget: Budget, reason: str, allowed: bool, message: str, now: datetime) -> dict[str, Any]:
    state = "True" if allowed else "False"
    present = find_condition(budget.status.raw_conditions, "DisruptionAllowed")
    since = present.last_transition_time if present is not None and present.status == state else None
    return {
        "type": "DisruptionAllowed",
        "status": state,
        "reason": reason,
        "message": message,
        "observedGeneration": budget.metadata.generation,
        "lastTransitionTime": timestamp(since or now),
    }
