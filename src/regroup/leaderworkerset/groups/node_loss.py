"""When a member that is stuck Terminating may be removed by force (spec/leaderworkerset.md Q29). Pure.

A pod on a healthy node is never forced, however long it takes. With a PersistentVolumeClaim only proof that the node is gone is
enough: its Node object does not exist any more, or it carries the out-of-service taint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from regroup.kube.node import OUT_OF_SERVICE_TAINT, UNREACHABLE_TAINT, Node
from regroup.kube.pod import Pod
from regroup.leaderworkerset.view import NodeLossRule

GRACE_ANNOTATION = "leaderworkerset.regroup.dev/node-loss-grace"
"""On a LeaderWorkerSet: seconds that override the operator's setting; 0 means never force."""
SETTLED = 60.0
"""Seconds that a deletionTimestamp, which includes the grace period, must be past."""

_ALWAYS = datetime.min.replace(tzinfo=UTC)


class Stuck(StrEnum):
    """What is to become of a member that is Terminating."""

    LEAVING = "leaving"
    """Its time is not up, or its node is healthy: nothing is wrong yet, or nothing that force may solve."""
    OVERDUE = "overdue"
    """Terminating for long on a healthy node: told, never forced."""
    WAITING = "waiting for the node-loss grace"
    BLOCKED = "blocked by its node"
    FORCE = "to be forced"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds, why, and when to look again (None: only when something changes)."""

    stuck: Stuck
    why: str
    at: datetime | None = None


def rule_for(annotations: Mapping[str, str], *, default: NodeLossRule) -> NodeLossRule:
    """The rule of one LeaderWorkerSet: its annotation where that is a number of seconds, else the operator's setting."""
    try:
        grace = float(annotations[GRACE_ANNOTATION])
    except (KeyError, ValueError):
        return default
    return NodeLossRule(grace=grace) if 0 <= grace < 1e9 else default


def judge(pod: Pod, nodes: Mapping[str, Node], *, rule: NodeLossRule, now: datetime) -> Verdict:
    """Whether a pod with a deletionTimestamp is stuck on a dead node and what to do about it."""
    deleted = pod.metadata.deletion_timestamp
    name = pod.spec.node_name
    if deleted is None:
        return Verdict(Stuck.LEAVING, "it is not being deleted")
    if pod.metadata.deletion_grace_period_seconds == 0:
        # A kubelet ends with the same words as who forces: what tells them apart is that its containers have stopped.
        why = "its containers have stopped" if pod.terminal else "it was removed by force or without grace"
        return _slow(pod, deleted, why, now=now)
    if not name:
        return _slow(pod, deleted, "it was never placed", now=now)
    lost = _lost(name, nodes)
    if lost is None:
        return _slow(pod, deleted, f"node {name} is healthy", now=now)
    if rule.grace <= 0:
        return Verdict(Stuck.BLOCKED, f"{lost.why}, and forcing is switched off")
    if pod.spec.has_claim and not lost.proven:
        return Verdict(
            Stuck.BLOCKED,
            f"{lost.why}, and the pod has a PersistentVolumeClaim that the node may still write to; delete the Node or taint it "
            f"{OUT_OF_SERVICE_TAINT} when the machine is certainly off",
        )
    # The spec's 60 s are the defaults of both durations; a shorter grace shortens the second as well.
    at = max(lost.since + timedelta(seconds=rule.grace), deleted + timedelta(seconds=min(SETTLED, rule.grace)))
    if at > now:
        return Verdict(Stuck.WAITING, f"{lost.why}; it will be forced at {at:%H:%M:%S} UTC", at)
    return Verdict(Stuck.FORCE, lost.why)


def _slow(pod: Pod, deleted: datetime, why: str, *, now: datetime) -> Verdict:
    """A pod that force would not help: it takes its time, and is named once that is long over."""
    overdue = deleted + timedelta(seconds=SETTLED)
    held = f"finalizers {', '.join(pod.metadata.finalizers)}" if pod.metadata.finalizers else "its shutdown"
    if overdue > now:
        return Verdict(Stuck.LEAVING, why, overdue)
    return Verdict(Stuck.OVERDUE, f"{why}; it waits for {held} since {deleted:%Y-%m-%d %H:%M:%S} UTC"[:400])


@dataclass(frozen=True, slots=True)
class _Lost:
    why: str
    since: datetime
    proven: bool


def _lost(name: str, nodes: Mapping[str, Node]) -> _Lost | None:
    """Since when and by which sign the node is lost; None while it is healthy."""
    node = nodes.get(name)
    if node is None:
        return _Lost(f"node {name} does not exist any more", _ALWAYS, proven=True)
    signs = []
    out = node.taint(OUT_OF_SERVICE_TAINT)
    if out is not None:
        signs.append(_Lost(f"node {name} is tainted out-of-service", out.time_added or _ALWAYS, proven=True))
    taint = node.taint(UNREACHABLE_TAINT)
    if taint is not None:
        signs.append(_Lost(f"node {name} is unreachable", taint.time_added or _ALWAYS, proven=False))
    ready = node.ready
    if ready is not None and ready.status in {"False", "Unknown"}:
        since = ready.last_transition_time or _ALWAYS
        signs.append(_Lost(f"node {name} is not ready", since, proven=False))
    if not signs:
        return None
    first = min(signs, key=lambda sign: sign.since)
    return _Lost(first.why, first.since, proven=any(sign.proven for sign in signs))
