"""The ConfigMap ``inferenceservice-config``: from its JSON texts to settings (spec/omenative.md 6.4). Pure.

Some is read once, when the operator starts, and what is wrong with it stops the start. The rest is read again while it runs, and
an entry that cannot be read then counts as absent, as a whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from regroup.kube.meta import View
from regroup.omenative.api import durations
from regroup.omenative.api.counts import is_zero, percent
from regroup.omenative.api.lifecycle import (
    SURGE_THEN_DRAIN,
    UPDATE_STRATEGIES,
    IntOrPercent,
    RollingUpdate,
    UpdateStrategy,
)
from regroup.omenative.configuration.settings import LiveSettings, StartSettings, UpdateRetry
from regroup.omenative.keys import COMPONENTS

T = TypeVar("T")

CONFIG_MAP = "inferenceservice-config"
LIFECYCLE = "lifecycle"
DEPLOY = "deploy"
DISRUPTION = "podDisruptionBudget"
_RAW_DEPLOYMENT = "RawDeployment"
_SHOWN = 300


class ConfigInvalid(ValueError):
    """A configuration with which the operator does not start. The message is one line."""


class _Retry(View, frozen=True, kw_only=True):
    max_attempts: int | None = None
    initial_delay: str = ""
    max_delay: str = ""
    multiplier: float = 2.0


class _Requeue(View, frozen=True, kw_only=True):
    operation: str = ""
    gate: str = ""


class _Teardown(View, frozen=True, kw_only=True):
    deadline: str = ""


class _Range(View, frozen=True, kw_only=True):
    min: str = ""
    max: str = ""


class _Lifecycle(View, frozen=True, kw_only=True):
    instance_ready_timeout: str = ""
    stuck_pod_grace_period: str = ""
    unschedulable_grace_period: str = ""
    repair_batch_size: int | None = None
    scale_up_pod_batch_size: int | None = None
    scale_down_pod_batch_size: int | None = None
    scale_down_requeue_interval: str = ""
    update_retry: _Retry | None = None
    requeue: _Requeue | None = None
    revision_history_limit: int | None = None
    teardown: _Teardown | None = None
    gang_schedule_timeout: _Range | None = None


class _Replicas(View, frozen=True, kw_only=True):
    default_min_replicas: int | None = None


class _Strategy(View, frozen=True, kw_only=True):
    type: str = ""
    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None


class _Deploy(View, frozen=True, kw_only=True):
    default_deployment_mode: str = ""
    replicas: _Replicas | None = None
    termination_grace_period_seconds: int | None = None
    min_ready_seconds: int | None = None
    update_strategy: dict[str, _Strategy] | None = None


class _Budget(View, frozen=True, kw_only=True):
    max_unavailable: IntOrPercent | None = None


class _Budgets(View, frozen=True, kw_only=True):
    ome_native: _Budget | None = msgspec.field(name="omeNative", default=None)


@dataclass(frozen=True, slots=True)
class Read:
    """Live settings, and a sentence for each thing that was passed over."""

    settings: LiveSettings
    complaints: Sequence[str] = field(default=())


def start_settings(data: Mapping[str, str]) -> StartSettings:
    """What counts from this start to the next. Raises ``ConfigInvalid``, also for what is wrong with the rest."""
    lifecycle = _decoded(data, LIFECYCLE, _Lifecycle)
    for name, value in (
        ("repairBatchSize", lifecycle.repair_batch_size),
        ("scaleUpPodBatchSize", lifecycle.scale_up_pod_batch_size),
        ("scaleDownPodBatchSize", lifecycle.scale_down_pod_batch_size),
    ):
        if value is not None and value <= 0:
            raise ConfigInvalid(f"invalid lifecycle.{name}: must be > 0, got {value}")
    found = StartSettings(
        repair_batch_size=lifecycle.repair_batch_size,
        scale_up_pod_batch_size=lifecycle.scale_up_pod_batch_size,
        scale_down_pod_batch_size=lifecycle.scale_down_pod_batch_size,
    )
    interval = lifecycle.scale_down_requeue_interval
    if interval:
        seconds = _seconds(interval)
        if seconds is None or seconds <= 0:
            raise ConfigInvalid(f"invalid lifecycle.scaleDownRequeueInterval: must be > 0, got {interval}"[:_SHOWN])
        found = replace(found, scale_down_requeue_interval=seconds)
    _check_deploy(_decoded(data, DEPLOY, _Deploy))
    _decoded(data, DISRUPTION, _Budgets)
    return found


def live_settings(data: Mapping[str, str]) -> Read:
    """What may change while the operator runs. Never raises."""
    complaints: list[str] = []
    lifecycle = _or_absent(lambda: _decoded(data, LIFECYCLE, _Lifecycle), _Lifecycle(), complaints)
    deploy = _or_absent(lambda: _checked(_decoded(data, DEPLOY, _Deploy)), _Deploy(), complaints)
    budgets = _or_absent(lambda: _decoded(data, DISRUPTION, _Budgets), _Budgets(), complaints)

    def positive(name: str, text: str) -> float | None:
        seconds = _seconds(text)
        if text and (seconds is None or seconds <= 0):
            complaints.append(f"lifecycle.{name} {text[:60]!r} is ignored: must be a duration above zero, such as 60s")
        return seconds if seconds is not None and seconds > 0 else None

    settings = LiveSettings(
        instance_ready_timeout=positive("instanceReadyTimeout", lifecycle.instance_ready_timeout),
        stuck_pod_grace=positive("stuckPodGracePeriod", lifecycle.stuck_pod_grace_period),
        unschedulable_grace=positive("unschedulableGracePeriod", lifecycle.unschedulable_grace_period),
        update_retry=_update_retry(lifecycle.update_retry, complaints),
        revision_history_limit=_history_limit(lifecycle.revision_history_limit, complaints),
        teardown_deadline=positive("teardown.deadline", lifecycle.teardown.deadline) if lifecycle.teardown else None,
        min_ready_seconds=deploy.min_ready_seconds,
        termination_grace_period_seconds=deploy.termination_grace_period_seconds,
        update_strategies=_strategies(deploy),
        pdb_max_unavailable=_budget(budgets, complaints),
    )
    if deploy.replicas is not None and (deploy.replicas.default_min_replicas or 0) > 0:
        settings = replace(settings, default_min_replicas=deploy.replicas.default_min_replicas or 1)
    if lifecycle.requeue is not None:
        operation = positive("requeue.operation", lifecycle.requeue.operation)
        gate = positive("requeue.gate", lifecycle.requeue.gate)
        if operation is not None and gate is not None:
            settings = replace(settings, requeue_operation=operation, requeue_gate=gate)
        else:
            complaints.append("lifecycle.requeue is ignored: operation and gate are set both or neither")
    if lifecycle.gang_schedule_timeout is not None:
        low = positive("gangScheduleTimeout.min", lifecycle.gang_schedule_timeout.min) or settings.gang_timeout_min
        high = positive("gangScheduleTimeout.max", lifecycle.gang_schedule_timeout.max) or settings.gang_timeout_max
        if low <= high:
            settings = replace(settings, gang_timeout_min=low, gang_timeout_max=high)
        else:
            complaints.append("lifecycle.gangScheduleTimeout is ignored: min must not be above max")
    return Read(settings, tuple(complaints))


def _decoded(data: Mapping[str, str], key: str, type: type[T]) -> T:
    text = data.get(key, "")
    try:
        # An empty entry is an absent one.
        return msgspec.json.decode(text if text.strip() else "{}", type=type)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ConfigInvalid(f"unable to parse {key} config json: {error}"[:_SHOWN]) from error


def _check_deploy(deploy: _Deploy) -> None:
    if deploy.default_deployment_mode not in {"", _RAW_DEPLOYMENT}:
        shown = deploy.default_deployment_mode[:60]
        raise ConfigInvalid(f"invalid deploy config, defaultDeploymentMode must be {_RAW_DEPLOYMENT}, got {shown}")
    if deploy.min_ready_seconds is not None and deploy.min_ready_seconds < 0:
        raise ConfigInvalid(f"invalid deploy config, minReadySeconds must be >= 0, got {deploy.min_ready_seconds}")
    grace = deploy.termination_grace_period_seconds
    if grace is not None and grace < 0:
        raise ConfigInvalid(f"invalid deploy config, terminationGracePeriodSeconds must be >= 0, got {grace}")
    for component, strategy in (deploy.update_strategy or {}).items():
        path = f"updateStrategy.{component[:60]}"
        if component not in COMPONENTS:
            raise ConfigInvalid(f"invalid deploy config, {path}: must be one of {', '.join(COMPONENTS)}")
        if strategy.type and strategy.type not in UPDATE_STRATEGIES:
            shown = strategy.type[:60]
            raise ConfigInvalid(f"invalid deploy config, {path}.type must be one of {', '.join(UPDATE_STRATEGIES)}, got {shown}")
        for name, value in (("maxSurge", strategy.max_surge), ("maxUnavailable", strategy.max_unavailable)):
            if value is not None and not _is_budget(value):
                raise ConfigInvalid(f"invalid deploy config, {path}.{name} must be a number or 0% to 100%, got {value}"[:_SHOWN])
            if _reads(strategy.type, name) and is_zero(value):
                why = "no update could ever start (RollingUpdateZeroBudget)"
                raise ConfigInvalid(f"invalid deploy config, {path}.{name} must be > 0, got {value}: {why}")


def _checked(deploy: _Deploy) -> _Deploy:
    _check_deploy(deploy)
    return deploy


def _strategies(deploy: _Deploy) -> dict[str, UpdateStrategy]:
    return {
        component: UpdateStrategy(
            type=strategy.type or None,
            rolling_update=RollingUpdate(max_surge=strategy.max_surge, max_unavailable=strategy.max_unavailable),
        )
        for component, strategy in (deploy.update_strategy or {}).items()
    }


def _reads(strategy: str, budget: str) -> bool:
    """Whether a strategy reads that budget: a surging one ``maxSurge``, the others ``maxUnavailable`` (5.2)."""
    return (budget == "maxSurge") is ((strategy or SURGE_THEN_DRAIN) == SURGE_THEN_DRAIN)


def _update_retry(retry: _Retry | None, complaints: list[str]) -> UpdateRetry | None:
    if retry is None:
        return None
    first, longest = _seconds(retry.initial_delay), _seconds(retry.max_delay)
    attempts = retry.max_attempts
    if (
        attempts is not None
        and attempts > 0
        and first is not None
        and longest is not None
        and longest >= first >= 0
        and retry.multiplier >= 1
    ):
        return UpdateRetry(max_attempts=attempts, initial_delay=first, max_delay=longest, multiplier=retry.multiplier)
    complaints.append(
        "lifecycle.updateRetry is ignored: maxAttempts must be > 0, maxDelay at least initialDelay, and multiplier at least 1"
    )
    return None


def _history_limit(limit: int | None, complaints: list[str]) -> int | None:
    if limit is not None and limit < 1:
        complaints.append(f"lifecycle.revisionHistoryLimit {limit} is ignored: must be at least 1")
        return None
    return limit


def _budget(budgets: _Budgets, complaints: list[str]) -> IntOrPercent | None:
    value = budgets.ome_native.max_unavailable if budgets.ome_native else None
    if value is not None and not _is_budget(value):
        complaints.append(
            f"podDisruptionBudget.omeNative.maxUnavailable {value!r:.80} is ignored: must be a number or 0% to 100%"
        )
        return None
    return value


def _is_budget(value: IntOrPercent) -> bool:
    if isinstance(value, int):
        return value >= 0
    share = percent(value)
    return share is not None and share <= 100


def _seconds(text: str) -> float | None:
    """None for what is no duration; an empty text is none either."""
    try:
        return durations.parse(text) if text else None
    except ValueError:
        return None


def _or_absent(read: Callable[[], T], absent: T, complaints: list[str]) -> T:
    try:
        return read()
    except ConfigInvalid as error:
        complaints.append(f"{error}: the entry is ignored")
        return absent
