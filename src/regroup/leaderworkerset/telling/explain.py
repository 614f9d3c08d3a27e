"""What the operator sees of a group and would do now, for ``regroup explain lws/NAME``. Pure; says, never does."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups import backoff
from regroup.leaderworkerset.groups.decide import decide
from regroup.leaderworkerset.groups.decisions import Decision, Defer, Exhaust, Recreate, Skip, Stay, Wait
from regroup.leaderworkerset.groups.failure import Failure, find_failures
from regroup.leaderworkerset.groups.start_state import expected_size, pending_because, start_state
from regroup.leaderworkerset.status.facts import is_ready
from regroup.leaderworkerset.telling.history import restarts_of
from regroup.leaderworkerset.view import GroupView, is_exhausted, is_gated, is_retained, worker_index
from regroup.runtime.clock import timestamp

_USUAL = frozenset({"", "ContainerCreating", "PodInitializing"})
"""What kubelets say of containers that merely start."""
_NAMED = 3
"""Pods that a reason names at most."""


@dataclass(frozen=True, slots=True)
class MemberReport:
    """One pod of the group."""

    pod: str
    index: int
    uid: str
    node: str
    state: str
    restarts: int
    remnant: bool = False
    """Of an earlier incarnation of the group."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group: what is seen, what would be done, and by which rule."""

    group: str
    state: str
    decision: str
    rule: str
    why: str
    facts: Sequence[str]
    policy: str
    size: int
    revision: str
    members: Sequence[MemberReport]
    failures: Sequence[str]
    last_failure: dict[str, Any] | None
    restarts_used: int | None
    restarts_allowed: int | None
    restarts_left: int | None
    """Recreations that the budget still permits; None without one."""
    next_permitted: str | None
    """When a deferred recreation is due, or when the group is looked at again; None when nothing is waited for."""
    recreation_permitted_from: str | None
    """When a failure would be answered by a recreation at the earliest; None where none would ever be: by policy, because the
    budget is used up, or without a leader."""
    waits_for: str | None
    """What has to happen before the group goes on; None when it needs nothing."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def explain_group(view: GroupView, *, now: datetime) -> GroupReport:
    """The report of one group at this moment; the decision is the very one that the controller would take on this view."""
    decision = decide(view, now)
    failures = find_failures(view)
    rules = view.rules
    return GroupReport(
        group=view.key.index,
        state=_state(view, decision),
        decision=decision.name,
        rule=decision.rule,
        why=_why(view, decision),
        facts=tuple(decision.facts),
        policy=str(rules.policy) if rules is not None else "unknown",
        size=rules.size if rules is not None else 0,
        revision=view.revision,
        members=(*(_member(pod) for pod in view.members), *(_member(pod, remnant=True) for pod in view.remnants)),
        failures=tuple(failure.sentence() for failure in failures),
        last_failure=_evidence(failures[-1]) if failures else _last_ended(view),
        restarts_used=view.count if rules is not None and rules.counts else None,
        restarts_allowed=rules.max_restarts if rules is not None else None,
        restarts_left=_left(view),
        next_permitted=timestamp(decision.again_at) if decision.again_at is not None else None,
        recreation_permitted_from=_permitted_from(view, now=now),
        waits_for=decision.why if isinstance(decision, Wait | Defer) else None,
    )


def _state(view: GroupView, decision: Decision) -> str:
    """The place in the life cycle of spec 5.10."""
    leader, rules = view.leader, view.rules
    if leader is None:
        return "NoLeader"
    if is_exhausted(leader) or isinstance(decision, Exhaust):
        return "Exhausted"
    if leader.deleting:
        return "Terminating"
    if isinstance(decision, Recreate):
        return "Recreating"
    if isinstance(decision, Defer):
        return "Deferred"
    if is_gated(leader):
        return "Gated"
    if is_ready(view):
        return "Running"
    if isinstance(decision, Skip | Wait | Stay) and rules is not None:
        size = expected_size(view.members, fallback=rules.size)
        return {"started": "NotReady"}.get(start_state(view.members, size=size).state, "Starting")
    return "Starting"


def _why(view: GroupView, decision: Decision) -> str:
    """The decision's own reason; where nothing is to be done although pods are not ready, also which and why, so that a person
    need not look for what the group still lacks."""
    if not isinstance(decision, Stay) or is_ready(view):
        return decision.why
    states = [(pod.metadata.name, _pod_state(pod)) for pod in view.members]
    late = [f"{name} ({state})" for name, state in states if state != "Ready"]
    if not late:
        return decision.why
    more = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
    return f"{decision.why}; not ready yet: {', '.join(late[:_NAMED])}{more}"


def _left(view: GroupView) -> int | None:
    rules = view.rules
    return None if rules is None or rules.max_restarts is None else max(0, rules.max_restarts - view.count)


def _permitted_from(view: GroupView, *, now: datetime) -> str | None:
    """By policy, budget and backoff alone (5.5, 5.7): a group that starts or goes may still be passed over then."""
    rules, leader = view.rules, view.leader
    if leader is None or leader.deleting or rules is None or not rules.policy.recreates or _left(view) == 0:
        return None
    created = leader.metadata.creation_timestamp
    due = backoff.due(rules.backoff, count=view.count, created=created, now=now) if rules.backoff is not None else None
    return timestamp(due or now)


def _last_ended(view: GroupView) -> dict[str, Any] | None:
    """The last container of the group that ended, where nothing of it is a failure now: started again by the kubelet under
    policy None, or forgiven while the group started."""
    entries = [entry for pod in view.members for entry in restarts_of(pod)]
    if not entries:
        return None
    return max(entries, key=lambda entry: entry.at).failure()


def _member(pod: Pod, *, remnant: bool = False) -> MemberReport:
    return MemberReport(
        pod=pod.metadata.name,
        index=worker_index(pod),
        uid=pod.metadata.uid,
        node=pod.spec.node_name,
        state=_pod_state(pod),
        restarts=pod.restarts,
        remnant=remnant,
    )


def _pod_state(pod: Pod) -> str:
    if is_retained(pod):
        return f"retained ({pod.phase})"
    if pod.deleting:
        return "Terminating"
    held = _held_up(pod)
    if pod.phase == "Pending":
        return f"Pending: {held or pending_because(pod)}"
    if pod.phase == "Running":
        return "Ready" if pod.ready else f"Running, not ready{f': {held}' if held else ''}"
    return f"{pod.phase} ({pod.status.reason})" if pod.status.reason else pod.phase


def _held_up(pod: Pod) -> str:
    """Why the first container that waits does, as kubelets name it (ImagePullBackOff, CrashLoopBackOff); empty when none says."""
    waiting = (status.state.waiting for status in pod.all_container_statuses() if status.state is not None)
    reasons = (one.reason for one in waiting if one is not None)
    return next((reason for reason in reasons if reason not in _USUAL), "")[:64]


def _evidence(failure: Failure) -> dict[str, Any]:
    return {
        "signal": str(failure.signal),
        "pod": failure.pod,
        "container": failure.container,
        "exitCode": failure.exit_code,
        "reason": failure.reason,
        "node": failure.node,
        "time": timestamp(failure.at) if failure.at is not None else None,
    }
