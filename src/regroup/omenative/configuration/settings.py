"""What a cluster's administrator sets for all Instances (spec/omenative.md 6.4). Plain values; ``config`` reads them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regroup.omenative.api.lifecycle import UpdateStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRetry:
    """``lifecycle.updateRetry``. Seconds."""

    max_attempts: int
    initial_delay: float
    max_delay: float
    multiplier: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """Read again while the operator runs (at most 30 s old). Seconds; None is off."""

    instance_ready_timeout: float | None = None
    stuck_pod_grace: float | None = None
    unschedulable_grace: float | None = None
    update_retry: UpdateRetry | None = None
    requeue_operation: float = 5.0
    requeue_gate: float = 3.0
    revision_history_limit: int | None = None
    teardown_deadline: float | None = None
    gang_timeout_min: float = 60.0
    gang_timeout_max: float = 600.0
    min_ready_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    default_min_replicas: int = 1
    update_strategies: Mapping[str, UpdateStrategy] = field(default_factory=dict)
    """By component: what fills a strategy that neither the service nor its runtime sets."""
    pdb_max_unavailable: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    """Read once, when the operator starts. Instances or pods; None is no bound."""

    repair_batch_size: int | None = None
    scale_up_pod_batch_size: int | None = None
    scale_down_pod_batch_size: int | None = None
    scale_down_requeue_interval: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a pass reads of the configuration."""

    live: LiveSettings = LiveSettings()
    start: StartSettings = StartSettings()
