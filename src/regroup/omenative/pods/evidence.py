"""What the pods of an Instance show: triggers of a restart, a wedge, a pod that cannot be placed, a silent node (3.6, 4.2, 4.4).
Pure.

Judges pods only: whether anything follows is for ``restart``, ``repair`` and ``clocks``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from regroup.omenative.keys import MAIN_CONTAINER
from regroup.omenative.pods import last_failure
from regroup.omenative.pods.gate import serves
from regroup.omenative.pods.members import is_worker
from regroup.omenative.view import InstancePod, NodeFacts

UNSCHEDULABLE = "Unschedulable"
_MESSAGE = 512


@dataclass(frozen=True, slots=True)
class Stuck:
    """A pod that waits in a state that does not clear on its own, or that cannot be placed."""

    pod: InstancePod
    reason: str
    due: datetime
    """When its grace is over."""
    message: str = ""


def trigger(pods: Sequence[InstancePod], *, desired: int, ready_since: datetime | None, now: datetime) -> str:
    """Why the policy restarts the Instance; empty when it does not (4.2). ``pods``: the members that it is to have."""
    return _restarted(pods, ready_since) or _failed(pods, now) or _too_few(pods, desired)


def _restarted(pods: Sequence[InstancePod], ready_since: datetime | None) -> str:
    """(a) the main container of a living pod restarted after the row entered Ready.

    Times have whole seconds: what happened in the second of that entry was before it (9.34). A container that never restarted is
    no evidence, whatever a node's clock says of its start.
    """
    if ready_since is None:
        return ""
    for pod in pods:
        if pod.deleting:
            continue
        for status in pod.status.container_statuses:
            if status.name != MAIN_CONTAINER or not status.restart_count:
                continue
            what = f"pod {pod.name} container {MAIN_CONTAINER} restarted after Ready"
            ended = status.last_state.terminated if status.last_state is not None else None
            if ended is not None and ended.finished_at is not None:
                if ended.finished_at > ready_since:
                    return f"{what}: {last_failure.said(ended.reason)} (exit {ended.exit_code})"
                continue
            running = status.state.running if status.state is not None else None
            if running is not None and running.started_at is not None and running.started_at > ready_since:
                return what
    return ""


def _failed(pods: Sequence[InstancePod], now: datetime) -> str:
    """(b) a pod in phase Failed. One that was told to end has not failed: it goes missing (c)."""
    for pod in pods:
        if pod.phase == "Failed" and not pod.deleting:
            bare = not (pod.status.reason or pod.status.message or any(pod.all_container_statuses()))
            found = None if bare else last_failure.read([pod], now=now)
            return last_failure.sentence(found) if found is not None else f"pod {pod.name} Failed"
    return ""


def _too_few(pods: Sequence[InstancePod], desired: int) -> str:
    """(c) a pod is gone or has ended. One that is on its way out still counts (9.22)."""
    live = sum(not pod.terminal for pod in pods)
    return f"pod count {live} below desired {desired}" if live < desired else ""


def member_lost(pods: Sequence[InstancePod], *, desired: int) -> str:
    """Some but not all pods of a gang that was complete are gone (T8); empty when they are not."""
    present = len(pods)
    return f"gang member lost: {present} of {desired} pods present" if 0 < present < desired else ""


def stuck(pods: Sequence[InstancePod], *, grace: float | None, since: datetime | None = None) -> Stuck | None:
    """The pod that waits in a terminal reason and whose grace is over first. Pod age counts, not the time in the state (9.12);
    ``since``: the pods are older than what is judged, which began then."""
    if grace is None:
        return None
    found = [one for pod in pods if not pod.deleting if (one := _stuck(pod, grace, since)) is not None]
    return min(found, key=lambda one: (one.due, one.pod.name), default=None)


def _stuck(pod: InstancePod, grace: float, since: datetime | None) -> Stuck | None:
    created = since or pod.metadata.creation_timestamp
    if created is None:
        return None
    for status in pod.all_container_statuses():
        reason = last_failure.terminal_waiting(status)
        if reason:
            waiting = status.state.waiting if status.state is not None else None
            text = waiting.message[:_MESSAGE] if waiting is not None else ""
            return Stuck(pod, reason, created + timedelta(seconds=grace), text)
    return None


def unschedulable(pods: Sequence[InstancePod], *, grace: float | None) -> Stuck | None:
    """The pod that no node takes and whose grace is over first."""
    if grace is None:
        return None
    found = []
    for pod in pods:
        placed = pod.scheduled
        if pod.deleting or placed is None or placed.status != "False" or placed.reason != UNSCHEDULABLE:
            continue
        since = placed.last_transition_time or pod.metadata.creation_timestamp
        if since is not None:
            found.append(Stuck(pod, UNSCHEDULABLE, since + timedelta(seconds=grace), placed.message[:_MESSAGE]))
    return min(found, key=lambda one: (one.due, one.pod.name), default=None)


def wedge_text(found: Stuck) -> str:
    """The trigger of a crash-loop repair (seed; 9.15)."""
    return f"pod {found.pod.name} wedged in {found.reason} past the stuck-pod grace"


def still_serves(pods: Sequence[InstancePod]) -> bool:
    """A routed pod takes requests: taking the Instance down takes something offline (4.4.2, 9.4)."""
    return any(serves(pod) for pod in pods if not is_worker(pod))


def fully_serves(pods: Sequence[InstancePod], *, desired: int) -> bool:
    """Every pod that the Instance is to have serves."""
    return sum(serves(pod) for pod in pods) >= desired


def gated(pods: Sequence[InstancePod]) -> InstancePod | None:
    """A pod that waits at a scheduling gate."""
    return next((pod for pod in pods if pod.spec.scheduling_gates and not pod.deleting), None)


def on_silent_node(pods: Sequence[InstancePod], nodes: Mapping[str, NodeFacts]) -> InstancePod | None:
    """A living pod whose node has stopped reporting."""
    for pod in pods:
        node = nodes.get(pod.spec.node_name)
        if pod.spec.node_name and node is not None and not node.known and not pod.deleting and not pod.terminal:
            return pod
    return None
