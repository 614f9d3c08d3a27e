"""How many pods of an Instance are ready, serve, are available (spec/omenative.md 3.4). Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from regroup.kube.meta import find_condition
from regroup.omenative.pods.gate import serves
from regroup.omenative.view import InstancePod


@dataclass(frozen=True, slots=True)
class PodCounts:
    """Pods of one Instance by state."""

    pods: int = 0
    ready: int = 0
    serving: int = 0
    available: int = 0
    admitted: bool = False
    """It has pods, and none waits at a scheduling gate."""
    settled: int = 0
    """Pods that serve and that the kubelet calls Ready."""


def count(
    pods: Sequence[InstancePod],
    *,
    current: Sequence[InstancePod],
    listed: Collection[str],
    min_ready: int,
    now: datetime,
) -> PodCounts:
    """``pods``: all that there are; ``current``: those that count for service. ``listed``: UIDs on the headless Service."""
    living = [pod for pod in current if not pod.deleting and not pod.terminal]
    return PodCounts(
        pods=len(pods),
        ready=sum(pod.containers_ready for pod in living),
        serving=sum(serves(pod) for pod in living),
        available=sum(_available(pod, listed, min_ready=min_ready, now=now) for pod in living),
        admitted=bool(pods) and not any(pod.spec.scheduling_gates for pod in pods),
        settled=sum(serves(pod) and pod.ready for pod in living),
    )


def available_from(pods: Sequence[InstancePod], *, min_ready: int, now: datetime) -> datetime | None:
    """When the next of ``pods`` that is Ready will have been so long enough: no event tells it. None: there is none."""
    times = [since + timedelta(seconds=min_ready) for pod in pods if (since := ready_at(pod)) is not None]
    return min((time for time in times if time > now), default=None)


def ready_until(pods: Sequence[InstancePod], *, min_ready: int) -> datetime | None:
    """When the last of ``pods`` will have been Ready for ``min_ready`` seconds; None when one is not Ready."""
    times = [ready_at(pod) for pod in pods]
    known = [time for time in times if time is not None]
    if len(known) < len(times) or not known:
        return None
    return max(known) + timedelta(seconds=min_ready)


def ready_at(pod: InstancePod) -> datetime | None:
    """Since when the pod is Ready; None when it is not. A flap starts anew (80)."""
    condition = find_condition(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True":
        return None
    return condition.last_transition_time or pod.metadata.creation_timestamp


def _available(pod: InstancePod, listed: Collection[str], *, min_ready: int, now: datetime) -> bool:
    since = ready_at(pod)
    return pod.uid in listed and since is not None and now >= since + timedelta(seconds=min_ready)
