"""What happened to the groups of a LeaderWorkerSet: read from events and from what its pods still say. Pure.

Nothing but the API server remembers: events are kept for an hour by default, and a pod's status as long as the pod. The
evidence behind our own events is in an annotation of theirs; events of the Go controller have only their sentence.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from regroup.kube.meta import ObjectRef, ObjectView, View
from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.decisions import Decision, Defer, Exhaust, Force, Recreate, Skip
from regroup.leaderworkerset.groups.failure import Failure, Signal
from regroup.leaderworkerset.keys import EVIDENCE, GROUP_INDEX, REVISION
from regroup.leaderworkerset.view import GroupView
from regroup.runtime.clock import timestamp

RECREATED, EXHAUSTED, DEFERRED, SKIPPED, FORCED, RESTARTED = (
    "recreated",
    "exhausted",
    "deferred",
    "skipped",
    "forced",
    "container restarted",
)
_REASONS = {
    "RecreateGroup": RECREATED,
    "RecreateGroupOnPodRestart": RECREATED,  # what the Go controller called it before
    "ReplicaRestartBudgetExceeded": EXHAUSTED,
    "GroupRestartBackoff": DEFERRED,
    "GroupUnschedulable": SKIPPED,
    "ForcedPodDeletion": FORCED,
}
_GROUP = re.compile(r"\b[Gg]roup ([0-9]{1,9}|[0-9a-f]{40})\b")
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_EVIDENCE_LIMIT = 4096
_TEXT_LIMIT = 1024
ENTRIES_LIMIT = 10_000
"""The newest entries that are kept."""


class EventSeries(View, frozen=True, gc=False, kw_only=True):
    """``series`` of an event."""

    count: int = 1
    last_observed_time: datetime | None = None


class Event(ObjectView, frozen=True, gc=False, kw_only=True):
    """An events.k8s.io/v1 Event, whoever wrote it and by which API."""

    reason: str = ""
    type: str = ""
    note: str = ""
    event_time: datetime | None = None
    deprecated_last_timestamp: datetime | None = None
    deprecated_count: int | None = None
    series: EventSeries | None = None
    regarding: ObjectRef | None = None
    related: ObjectRef | None = None


class Evidence(View, frozen=True, gc=False, kw_only=True):
    """What an event of ours says for machines."""

    group: str = ""
    revision: str = ""
    signal: str = ""
    pod: str = ""
    uid: str = ""
    container: str = ""
    exit_code: int | None = None
    reason: str = ""
    node: str = ""
    time: datetime | None = None
    restarts: int | None = None
    allowed: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. ``at``: when it was told first; ``last``: when it was told last, of ``times`` times."""

    at: datetime
    what: str
    group: str
    cause: str
    signal: str = ""
    """How the failure showed itself."""
    pod: str = ""
    container: str = ""
    exit_code: int | None = None
    reason: str = ""
    node: str = ""
    revision: str = ""
    failed_at: datetime | None = None
    restarts: int | None = None
    """Restart count of the group with this one; None where none is kept."""
    allowed: int | None = None
    times: int = 1
    last: datetime | None = None
    source: str = "event"

    def failure(self) -> dict[str, Any]:
        """The failure behind it, as ``regroup explain`` shows one."""
        return {
            "signal": self.signal,
            "pod": self.pod,
            "container": self.container,
            "exitCode": self.exit_code,
            "reason": self.reason,
            "node": self.node,
            "time": timestamp(self.failed_at or self.at),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "time": timestamp(self.at),
            "what": self.what,
            "group": self.group,
            "cause": self.cause,
            "signal": self.signal,
            "pod": self.pod,
            "container": self.container,
            "exitCode": self.exit_code,
            "reason": self.reason,
            "node": self.node,
            "revision": self.revision,
            "failedAt": timestamp(self.failed_at) if self.failed_at is not None else None,
            "restarts": self.restarts,
            "allowed": self.allowed,
            "times": self.times,
            "lastTime": timestamp(self.last) if self.last is not None else None,
            "source": self.source,
        }


def evidence(decision: Decision, view: GroupView) -> str:
    """The annotation of the event that tells ``decision``."""
    failure: Failure | None = None
    restarts: int | None = None
    match decision:
        case Recreate():
            failure, restarts = decision.failure, decision.count
        case Exhaust():
            failure, restarts = decision.failure, view.count
        case Defer():
            failure, restarts = decision.failure, decision.count
        case Skip():
            failure = decision.failures[0]
        case Force():
            node = decision.node
            return _text(
                Evidence(group=view.key.index, revision=view.revision, pod=decision.pod.name, uid=decision.pod.uid, node=node)
            )
        case _:
            return ""
    known = Evidence(
        group=view.key.index,
        revision=view.revision,
        restarts=restarts,
        allowed=view.rules.max_restarts if view.rules is not None else None,
    )
    if failure is None:
        return _text(known)
    return _text(
        msgspec.structs.replace(
            known,
            signal=str(failure.signal),
            pod=failure.pod,
            uid=failure.uid,
            container=failure.container,
            exit_code=failure.exit_code,
            reason=failure.reason,
            node=failure.node,
            time=failure.at,
        )
    )


def history(events: Iterable[Event], pods: Iterable[Pod], *, group: str | None = None) -> tuple[Entry, ...]:
    """Everything that is known, the oldest first. A container whose restart led to something that was told is told once."""
    told: set[tuple[str, str]] = set()
    found = []
    for event in events:
        what = _REASONS.get(event.reason)
        if what is None or (what == EXHAUSTED and event.type != "Warning"):
            continue  # the Normal one tells of the condition
        known = _read(event)
        told.add((known.uid, known.container))
        found.append(_of_event(event, what, known))
    for pod in pods:
        found += [entry for entry in restarts_of(pod) if (pod.metadata.uid, entry.container) not in told]
    wanted = [entry for entry in found if group is None or entry.group == group]
    return tuple(sorted(wanted, key=lambda entry: (entry.at, entry.group, entry.pod))[-ENTRIES_LIMIT:])


def _of_event(event: Event, what: str, known: Evidence) -> Entry:
    series = event.series
    times = series.count if series is not None else (event.deprecated_count or 1)
    at = event.event_time or event.metadata.creation_timestamp or event.deprecated_last_timestamp or _EARLIEST
    match = _GROUP.search(event.note)
    related = event.related
    return Entry(
        at=at,
        what=what,
        group=known.group or (match[1] if match else ""),
        cause=event.note[:_TEXT_LIMIT],
        signal=known.signal,
        pod=known.pod or (related.name if related is not None and related.kind == "Pod" else ""),
        container=known.container,
        exit_code=known.exit_code,
        reason=known.reason,
        node=known.node,
        revision=known.revision,
        failed_at=known.time,
        restarts=known.restarts,
        allowed=known.allowed,
        times=max(1, times),
        last=series.last_observed_time if series is not None else event.deprecated_last_timestamp,
    )


def restarts_of(pod: Pod) -> Iterable[Entry]:
    """Containers that the kubelet restarted where they are (policy None, or while a group starts)."""
    labels = pod.metadata.labels
    for status in pod.all_container_statuses():
        ended = status.last_state.terminated if status.last_state is not None else None
        if not status.restart_count or ended is None or ended.finished_at is None:
            continue
        yield Entry(
            at=ended.finished_at,
            what=RESTARTED,
            group=labels.get(GROUP_INDEX, ""),
            cause=f"container {status.name} of pod {pod.metadata.name} ended and was started again in its place",
            signal=str(Signal.RESTART),
            pod=pod.metadata.name,
            container=status.name,
            exit_code=ended.exit_code,
            reason=ended.reason[:_TEXT_LIMIT],
            node=pod.spec.node_name,
            revision=labels.get(REVISION, ""),
            failed_at=ended.finished_at,
            times=status.restart_count,
            last=ended.finished_at,
            source="pod",
        )


def _read(event: Event) -> Evidence:
    """The evidence of an event; empty where there is none or it cannot be read."""
    text = event.metadata.annotations.get(EVIDENCE, "")
    if not text or len(text) > _EVIDENCE_LIMIT:
        return Evidence()
    try:
        return msgspec.json.decode(text, type=Evidence)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return Evidence()


def _text(known: Evidence) -> str:
    values = {name: value for name, value in msgspec.to_builtins(known).items() if value not in ("", None)}
    return msgspec.json.encode(values).decode()


def plotted(entries: Sequence[Entry]) -> Sequence[str]:
    """The groups that ``entries`` are about, in their order."""
    names = {entry.group for entry in entries}
    return sorted(names, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
