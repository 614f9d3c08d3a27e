"""What is in force for one component at this moment: values of the replica, filled from the cluster's settings (1.1.2, 1.1.3).
Pure.

Made once a pass. Knows no row and no pod.
"""

from dataclasses import dataclass

from regroup.omenative.api.counts import resolve_count
from regroup.omenative.api.lifecycle import RECREATE, IntOrPercent
from regroup.omenative.configuration import effective
from regroup.omenative.view import ReplicaView

_SHOWN = 240


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
    in_place_grace: int
    """Seconds between leaving rotation and the patch of an update in place."""
    in_place_unready: bool
    """Pods leave rotation for an update in place."""
    paused: bool
    frozen: bool
    target: str
    """Name of the wanted revision."""
    problems: tuple[str, ...] = ()
    """Values that could not be read and count as unset."""


def make(view: ReplicaView) -> Plan:
    """The plan for ``view``. A count that cannot be read is no limit, and a problem: admission refuses most of them."""
    spec, live = view.replica.spec, view.settings.live
    problems: list[str] = []
    strategy = effective.strategy(spec.lifecycle, component=spec.component, live=live)

    def count(name: str, value: IntOrPercent | None) -> int | None:
        try:
            return None if value is None else resolve_count(value, spec.replicas)
        except ValueError as error:
            problems.append(f"{name} counts as unset: {error}"[:_SHOWN])
            return None

    most = count("spec.lifecycle.updateStrategy.rollingUpdate.maxUnavailable", strategy.max_unavailable)
    pacing = spec.pacing
    paced = pacing.max_unavailable if pacing is not None else None
    partition = pacing.partition if pacing is not None and pacing.partition is not None else strategy.partition
    return Plan(
        component=spec.component,
        desired=spec.replicas,
        recreates=spec.restart_policy == RECREATE,
        multi_pod=spec.multi_pod,
        timeout=effective.instance_ready_timeout(spec.lifecycle, live) or None,
        grace=live.stuck_pod_grace or None,
        unschedulable_grace=live.unschedulable_grace or None,
        min_ready=max(0, spec.min_ready_seconds),
        strategy=strategy.type,
        max_unavailable=most,
        update_unavailable=count("spec.pacing.maxUnavailable", paced) if paced is not None else most,
        max_surge=count("spec.lifecycle.updateStrategy.rollingUpdate.maxSurge", strategy.max_surge),
        partition=max(0, partition or 0),
        in_place_grace=max(0, strategy.grace_period_seconds),
        in_place_unready=strategy.mark_not_ready,
        paused=spec.paused,
        frozen=spec.frozen_pause,
        target=view.update_revision,
        problems=tuple(problems),
    )
