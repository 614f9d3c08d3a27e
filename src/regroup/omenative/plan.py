"""What is in force for one component at this moment: values of the replica, filled from the cluster's settings (1.1.2, 1.1.3).
Pure.

Made once a pass. Knows no row and no pod.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from regroup.omenative import durations
from regroup.omenative.counts import resolve_count
from regroup.omenative.lifecycle import (
    RECREATE,
    SURGE_THEN_DRAIN,
    InPlaceUpdate,
    IntOrPercent,
    RollingUpdate,
    UpdateStrategy,
)
from regroup.omenative.view import ReplicaView

T = TypeVar("T")
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The values a pass goes by. Seconds and Instances; None is no limit or off."""

    component: str
    desired: int
    recreates: bool
    """The restart policy is ``RecreateInstanceOnPodRestart``."""
    multi_pod: bool
    timeout: float | None
    """``instanceReadyTimeout``; None: operations never expire."""
    grace: float | None
    """The stuck-pod grace period."""
    unschedulable_grace: float | None
    min_ready: int
    strategy: str
    max_unavailable: int | None
    """What repairs are held by, under every update strategy."""
    update_unavailable: int | None
    """What updates that take pods offline are paced by."""
    max_surge: int | None
    partition: int
    in_place: InPlaceUpdate
    paused: bool
    frozen: bool
    target: str
    """Name of the wanted revision."""
    problems: tuple[str, ...] = ()
    """Values that could not be read and count as unset."""


def make(view: ReplicaView) -> Plan:
    """The plan for ``view``. A value that cannot be read counts as unset and is a problem: admission refuses most of them."""
    spec, live = view.replica.spec, view.settings.live
    problems: list[str] = []
    own = spec.lifecycle.update_strategy or UpdateStrategy()
    cluster = live.update_strategies.get(spec.component) or UpdateStrategy()
    strategy = own.type or cluster.type or SURGE_THEN_DRAIN
    rolling, default = own.rolling_update or RollingUpdate(), cluster.rolling_update or RollingUpdate()
    surges = strategy == SURGE_THEN_DRAIN

    def count(name: str, value: IntOrPercent | None) -> int | None:
        return _read(problems, name, lambda: None if value is None else resolve_count(value, spec.replicas))

    unavailable, surge = rolling.max_unavailable, rolling.max_surge
    # Of the cluster's budgets only the one that the strategy reads is filled in (1.1.3).
    if unavailable is None and not surges:
        unavailable = default.max_unavailable
    if surge is None and surges:
        surge = default.max_surge
    most = count("spec.lifecycle.updateStrategy.rollingUpdate.maxUnavailable", unavailable)
    pacing = spec.pacing
    paced = pacing.max_unavailable if pacing is not None else None
    partition = pacing.partition if pacing is not None and pacing.partition is not None else rolling.partition
    return Plan(
        component=spec.component,
        desired=spec.replicas,
        recreates=spec.restart_policy == RECREATE,
        multi_pod=spec.multi_pod,
        timeout=_timeout(spec.lifecycle.instance_ready_timeout, problems) or live.instance_ready_timeout or None,
        grace=live.stuck_pod_grace or None,
        unschedulable_grace=live.unschedulable_grace or None,
        min_ready=max(0, spec.min_ready_seconds),
        strategy=strategy,
        max_unavailable=most,
        update_unavailable=count("spec.pacing.maxUnavailable", paced) if paced is not None else most,
        max_surge=count("spec.lifecycle.updateStrategy.rollingUpdate.maxSurge", surge),
        partition=max(0, partition or 0),
        in_place=own.in_place_update_strategy or InPlaceUpdate(),
        paused=spec.paused,
        frozen=spec.frozen_pause,
        target=view.update_revision,
        problems=tuple(problems),
    )


def _timeout(text: str | None, problems: list[str]) -> float | None:
    """The component's own; ``0s`` is no value of its own (9.29)."""
    if text is None:
        return None
    seconds = _read(problems, "spec.lifecycle.instanceReadyTimeout", lambda: durations.parse(text))
    return seconds if seconds is not None and seconds > 0 else None


def _read(problems: list[str], name: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except ValueError as error:
        problems.append(f"{name} counts as unset: {error}"[: 4 * _SHOWN])
        return None
