"""Whether a group has started, for RecreateGroupAfterStart (spec/leaderworkerset.md 5.4, Q1, Q2, Q20). Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.failure import Failure, Signal
from regroup.leaderworkerset.keys import SIZE
from regroup.leaderworkerset.view import Departed, by_index

_GATED = "SchedulingGated"


class Start(StrEnum):
    """The three states of a group on its way up."""

    UNSCHEDULABLE = "unschedulable"
    STARTING = "starting"
    STARTED = "started"


@dataclass(frozen=True, slots=True)
class StartState:
    """The state, the pod that it rests on (empty when none does), and a clause for a person."""

    state: Start
    pod: str = ""
    why: str = ""


def is_unschedulable(pod: Pod) -> bool:
    """The scheduler tried and failed: ``PodScheduled=False`` with any reason but SchedulingGated."""
    condition = pod.scheduled
    return condition is not None and condition.status == "False" and condition.reason != _GATED


def pending_because(pod: Pod) -> str:
    """Which of the Pending states the pod is in, as a clause; a missing condition means starting."""
    condition = pod.scheduled
    if condition is None:
        return "no scheduler has reported on it yet"
    if condition.status == "True":
        return "it is placed and starting"
    if condition.reason == _GATED:
        return "a scheduling gate holds it"
    return f"it cannot be placed ({condition.reason})"


def expected_size(members: Iterable[Pod], *, fallback: int) -> int:
    """Group size from the size annotation, so that an old group keeps its size during a resize; else ``fallback``."""
    for pod in members:
        value = pod.metadata.annotations.get(SIZE, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    return fallback


def start_state(members: Sequence[Pod], *, size: int) -> StartState:
    """The state over exactly these members: unschedulable wins over anything missing, then Pending or a wrong number is
    starting, else started."""
    for pod in members:
        if is_unschedulable(pod):
            return StartState(Start.UNSCHEDULABLE, pod.metadata.name, f"pod {pod.metadata.name} cannot be placed")
    for pod in members:
        if pod.phase == "Pending":
            return StartState(Start.STARTING, pod.metadata.name, f"pod {pod.metadata.name} is Pending: {pending_because(pod)}")
    if len(members) != size:
        return StartState(Start.STARTING, "", f"{len(members)} of {size} pods exist")
    return StartState(Start.STARTED, "", "all pods have started")


def as_it_was(members: Sequence[Pod], departed: Sequence[Departed], failures: Sequence[Failure]) -> tuple[Pod, ...]:
    """The members as they were when they failed: pods that are gone count with their last phase, and the replacement of a lost
    pod, which has its name and is Pending, neither counts nor vetoes (Q2)."""
    vanished = {failure.uid for failure in failures if failure.signal is Signal.VANISHED}
    lost = {failure.pod: failure.uid for failure in failures if failure.loses_pod}
    kept = [pod for pod in members if lost.get(pod.metadata.name, pod.metadata.uid) == pod.metadata.uid]
    gone = [
        one.pod for one in departed if one.pod.metadata.uid in vanished and lost[one.pod.metadata.name] == one.pod.metadata.uid
    ]
    return by_index([*kept, *gone])
