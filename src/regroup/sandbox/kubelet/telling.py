"""What a kubelet tells people: events and log lines for what happened to a pod's containers between two looks. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from regroup.sandbox.kubelet.machine import ContainerRun, Ended, PodRun, Stage
from regroup.sandbox.kubelet.options import ContainerPlan, PodPlan
from regroup.sandbox.kubelet.status import pull_error


@dataclass(frozen=True, slots=True)
class Note:
    """An event about the pod."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    action: str
    container: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a container's log; ``restarts`` says which of its runs wrote it."""

    container: str
    restarts: int
    at: float
    text: str


def notes(before: PodRun | None, after: PodRun, plan: PodPlan) -> Iterator[Note]:
    """Events for what changed from ``before`` (None: the pod is new here) to ``after``."""
    old = {entry.name: entry for entry in before.containers} if before else {}
    for entry, spec in zip(after.containers, plan.containers, strict=True):
        yield from _of_container(old.get(entry.name) or ContainerRun(entry.name), entry, spec)
    if after.stopping and not (before and before.stopping):
        for entry, spec in zip(after.containers, plan.containers, strict=True):
            if entry.stage is Stage.RUNNING:
                yield Note("Normal", "Killing", f"Stopping container {spec.name}", "Killing", spec.name)


def _of_container(old: ContainerRun, new: ContainerRun, spec: ContainerPlan) -> Iterator[Note]:
    image = spec.image
    if new.pull_failures > old.pull_failures:
        yield Note("Warning", "Failed", f'Failed to pull image "{image}": {pull_error(image)}', "Pulling", spec.name)
    if new.stage is Stage.PULL_BACKOFF and old.stage is not Stage.PULL_BACKOFF:
        yield Note("Normal", "BackOff", f'Back-off pulling image "{image}"', "Pulling", spec.name)
    if new.stage is Stage.PULLING and old.stage is not Stage.PULLING:
        yield Note("Normal", "Pulling", f'Pulling image "{image}"', "Pulling", spec.name)
    if old.stage is Stage.PULLING and _pulled(new):
        yield Note("Normal", "Pulled", f'Successfully pulled image "{image}"', "Pulling", spec.name)
    if _runs(new) > _runs(old):
        yield Note("Normal", "Started", f"Started container {spec.name}", "Starting", spec.name)
    if new.stage is Stage.CRASH_BACKOFF and old.stage is not Stage.CRASH_BACKOFF:
        yield Note("Warning", "BackOff", f"Back-off restarting failed container {spec.name}", "Restarting", spec.name)


def lines(before: PodRun | None, after: PodRun, plan: PodPlan) -> Iterator[Line]:
    """Log lines for the same: where each run of a container begins and how it ended."""
    old = {entry.name: entry for entry in before.containers} if before else {}
    for entry, spec in zip(after.containers, plan.containers, strict=True):
        was = old.get(entry.name) or ContainerRun(entry.name)
        end = entry.ended or entry.last
        known = was.ended or was.last
        fresh = _runs(entry) > _runs(was)
        if fresh and end is not None and end != known and entry.last is end:
            yield from _end(spec, entry.restarts - 1, end)
        if fresh:
            restarted = f", restart {entry.restarts}" if entry.restarts else ""
            yield Line(
                spec.name, entry.restarts, _began(entry), f"container {spec.name} started from image {spec.image}{restarted}"
            )
        if end is not None and end != known and not (fresh and entry.last is end):
            yield from _end(spec, entry.restarts, end)


def _end(spec: ContainerPlan, restarts: int, end: Ended) -> Iterator[Line]:
    if end.reason != "ContainerStatusUnknown":
        message = f": {end.message}" if end.message else ""
        yield Line(
            spec.name, restarts, end.finished, f"container {spec.name} exited with code {end.code} ({end.reason}){message}"
        )


def _pulled(entry: ContainerRun) -> bool:
    return not entry.pull_failures and entry.stage not in {Stage.BLOCKED, Stage.PULLING} and not _unstarted(entry)


def _unstarted(entry: ContainerRun) -> bool:
    return entry.ended is not None and entry.ended.reason == "ContainerStatusUnknown"


def _runs(entry: ContainerRun) -> int:
    """How many times the container was started."""
    has_run = entry.stage in {Stage.RUNNING, Stage.EXITED, Stage.CRASH_BACKOFF, Stage.DONE} and not _unstarted(entry)
    return entry.restarts + has_run


def _began(entry: ContainerRun) -> float:
    if entry.stage is Stage.RUNNING:
        return entry.since
    end = entry.ended or entry.last
    return end.started if end else entry.since
