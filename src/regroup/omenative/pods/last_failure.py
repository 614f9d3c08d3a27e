"""What is known of a failure: read from the pods, kept on the row (spec/omenative.md 4.7, 9.31). Pure.

Reads evidence only; what follows from a failure is for others.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from regroup.kube.pod import ContainerStatus, Terminated
from regroup.omenative.api.row import LastFailure
from regroup.omenative.keys import MAIN_CONTAINER
from regroup.omenative.view import InstancePod

TERMINAL_WAITING = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Waiting reasons that do not clear on their own (3.6)."""
POD_FAILED = "PodFailed"
ERROR = "Error"
_REASON, _MESSAGE, _NAME = 128, 1024, 253


def read(pods: Sequence[InstancePod], *, now: datetime, since: datetime | None = None) -> LastFailure | None:
    """The failure that ``pods`` show, None when they show none.

    A pod in phase Failed with readable detail comes first, then the first with a termination or a terminal waiting state.
    ``since``: terminations up to then are part of an earlier story. A pod that was told to end shows no failure.
    """
    pods = [pod for pod in pods if not pod.deleting]
    failed = [pod for pod in pods if pod.phase == "Failed"]
    for pod in (*failed, *(pod for pod in pods if pod.phase != "Failed")):
        found = _of_containers(pod, now=now, since=since)
        if found is not None:
            return found
        if pod.phase == "Failed" and (pod.status.reason or pod.status.message):
            return _of_pod(pod, now=now)
    return _of_pod(failed[0], now=now) if failed else None


def sentence(failure: LastFailure) -> str:
    """What failed, as triggers and events say it (4.2)."""
    if not failure.container_name:
        return f"pod {failure.pod_name} failed ({failure.reason})"
    who = f"pod {failure.pod_name} container {failure.container_name}"
    if failure.exit_code is None:
        return f"{who} stuck ({failure.reason})"
    return f"{who} failed ({failure.reason}, exit {failure.exit_code})"


def terminal_waiting(status: ContainerStatus) -> str:
    """The terminal reason for which the container waits; empty when it does not."""
    waiting = status.state.waiting if status.state is not None else None
    return waiting.reason if waiting is not None and waiting.reason in TERMINAL_WAITING else ""


def said(reason: str) -> str:
    """A reason that a pod gave, bounded; a blank one is an ``Error``."""
    return reason[:_REASON] or ERROR


def stamp(now: datetime) -> datetime:
    """A time as Kubernetes has it: whole seconds (9.34)."""
    return now.replace(microsecond=0)


def _of_containers(pod: InstancePod, *, now: datetime, since: datetime | None) -> LastFailure | None:
    statuses = list(pod.all_container_statuses())
    main = [status for status in statuses if status.name == MAIN_CONTAINER]
    # A failure of the main container says more than a side-car's (9.31).
    for some in (main, statuses):
        for status in some:
            ended = _ended(status, since=since)
            if ended is not None and ended.exit_code != 0:
                return _terminated(pod, status, ended, now=now)
        for status in some:
            reason = terminal_waiting(status)
            if reason:
                waiting = status.state.waiting if status.state is not None else None
                return _failure(pod, status.name, reason, message=waiting.message if waiting else "", time=stamp(now))
    if pod.phase != "Failed" or pod.status.reason:
        return None
    # Init containers that ended well are part of every start.
    for status in pod.status.container_statuses:
        ended = _ended(status, since=since)
        if ended is not None:
            return _terminated(pod, status, ended, now=now)
    return None


def _ended(status: ContainerStatus, *, since: datetime | None) -> Terminated | None:
    """How the container ended: a live termination wins over the last one."""
    for ended in _terminations(status):
        if since is None or ended.finished_at is None or ended.finished_at > since:
            return ended
    return None


def _terminations(status: ContainerStatus) -> Iterable[Terminated]:
    for state in (status.state, status.last_state):
        if state is not None and state.terminated is not None:
            yield state.terminated


def _terminated(pod: InstancePod, status: ContainerStatus, ended: Terminated, *, now: datetime) -> LastFailure:
    """A pod that was ended from outside says so itself ("Evicted"): its containers' exits are what came of it (case C49)."""
    outside = pod.status.reason if pod.phase == "Failed" else ""
    return _failure(
        pod,
        status.name,
        said(outside or ended.reason),
        exit_code=ended.exit_code,
        message=(pod.status.message if outside else "") or ended.message,
        time=ended.finished_at or stamp(now),
    )


def _of_pod(pod: InstancePod, *, now: datetime) -> LastFailure:
    return _failure(pod, "", pod.status.reason[:_REASON] or POD_FAILED, message=pod.status.message, time=stamp(now))


def _failure(
    pod: InstancePod, container: str, reason: str, *, message: str, time: datetime, exit_code: int | None = None
) -> LastFailure:
    return LastFailure(
        pod_name=pod.name,
        container_name=container[:_NAME],
        reason=reason[:_REASON],
        exit_code=exit_code,
        message=message[:_MESSAGE],
        time=time,
    )
