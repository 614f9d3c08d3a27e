"""What is to be done for one group: exactly one typed decision a look (spec/leaderworkerset.md 5.2, 5.10, 8.1). Pure.

The rules are asked in a fixed order and the first one with an answer wins. ``explain``, events, log lines, history and tests
all use these decisions. Looking after a healthy group (Service, gate, worker set) is ``upkeep``.
"""

from dataclasses import replace
from datetime import datetime
from math import ceil

from regroup.leaderworkerset.groups import backoff
from regroup.leaderworkerset.groups.census import scaled_away
from regroup.leaderworkerset.groups.decisions import (
    Decision,
    Defer,
    Exhaust,
    Force,
    PodId,
    Recover,
    Recreate,
    Release,
    RemoveWorkers,
    Skip,
    Stay,
    Wait,
    pod_id,
)
from regroup.leaderworkerset.groups.failure import Absorbed, Failure, Signal, find_failures
from regroup.leaderworkerset.groups.node_loss import Stuck, judge
from regroup.leaderworkerset.groups.start_state import Start, as_it_was, expected_size, start_state
from regroup.leaderworkerset.groups.upkeep import upkeep
from regroup.leaderworkerset.keys import RECOVER, RECREATE_PENDING
from regroup.leaderworkerset.view import GroupView, Rules, is_exhausted, is_retained, revision_of, wants_recovery, worker_index

RETAINED = "lws 5.6.2"
"""The rule of a group that is kept until somebody recovers it or takes it away."""


def decide(view: GroupView, now: datetime) -> Decision:
    """The one decision for this view at this moment."""
    for rule in (_torn_down, _exhausted, _over, _parallel, _failed, _ended):
        decision = rule(view, now)
        if isinstance(decision, Defer) and decision.marked:
            # All else goes on during the wait (5.7): the wake-up is remembered, not returned early.
            return _with_wake_up(_look_after(view, now), decision)
        if decision is not None:
            return decision
    return _look_after(view, now)


def _look_after(view: GroupView, now: datetime) -> Decision:
    """Members that leave come first where nothing else can be done; else they only set the time of the next look."""
    leaving = _leaving(view, now)
    if leaving is None:
        return upkeep(view, now)
    if isinstance(leaving, Force) or (view.leader is not None and view.leader.deleting):
        return leaving
    return _with_wake_up(upkeep(view, now), leaving)


def _with_wake_up(decision: Decision, other: Decision) -> Decision:
    """``decision``, or ``other`` where there is nothing to do, with the earlier of both wake-ups."""
    if isinstance(decision, Stay):
        return other
    times = [at for at in (decision.again_at, other.again_at) if at is not None]
    return replace(decision, again_at=min(times, default=None), facts=(*decision.facts, other.why))


def _torn_down(view: GroupView, now: datetime) -> Decision | None:
    """The LeaderWorkerSet is going or gone: let go of everything that we hold (5.2 step 0, 5.6.5, 5.9)."""
    owner, leader, workers = view.owner, view.leader, view.worker_set
    if owner is not None and not owner.deleting:
        return None
    state = "does not exist" if owner is None else "is being deleted"
    if owner is not None and owner.namespace_deleting:
        state = "is in a namespace that is being deleted"
    held = _retained(view)
    if held:
        return Release(rule="lws 5.6.5", why=f"the LeaderWorkerSet {state}", pods=held)
    if view.parallel and workers is not None and not workers.deleting:
        ours = leader is not None and workers.controlled_by(leader.metadata.uid)
        if ours and (owner is not None or (leader is not None and leader.deleting)):
            return RemoveWorkers(
                rule="lws 5.9",
                why=f"the LeaderWorkerSet {state} and its groups terminate in parallel",
                set_name=workers.name,
                set_uid=workers.uid,
            )
    return _leaving(view, now) or Stay(rule="lws 6.10", why=f"the LeaderWorkerSet {state}")


def _exhausted(view: GroupView, now: datetime) -> Decision | None:
    """A leader that is marked: cleaned up, recovered, retained on, or its exhaustion finished (5.6)."""
    leader = view.leader
    if leader is None or not is_exhausted(leader):
        return None
    reason = _clean_up_reason(view)
    if reason:
        held = _retained(view)
        if held:
            return Release(rule="lws 5.6.5", why=reason, pods=held, forget_count=_scaled_away(view))
        return _leaving(view, now) or Wait(rule="lws 5.6.5", why=reason)
    if not leader.deleting:
        return _exhaust(view, failure=None, why="its exhaustion is not finished")
    if not is_retained(leader):
        why = f"somebody took the finalizer off leader {leader.metadata.name}"
        held = _retained(view)
        return Release(rule="lws Q23", why=why, pods=held) if held else _leaving(view, now) or Wait(rule="lws Q23", why=why)
    if wants_recovery(leader):
        return Recover(
            rule="lws 5.6.4",
            why=f"recovery was asked for on {leader.metadata.name}",
            leader=pod_id(leader),
            pods=_retained(view),
        )
    how = f"to recover it, annotate pod {leader.metadata.name} with {RECOVER}=true"
    return Wait(rule=RETAINED, why=f"the group used up its restart budget and is retained; {how}")


def _clean_up_reason(view: GroupView) -> str:
    """Why a retained group is cleaned up without being recovered; empty when it stays (5.6.5)."""
    leader_set, ordinal = view.leader_set, view.ordinal
    if leader_set is None:
        return ""
    if ordinal is not None and ordinal >= leader_set.replicas:
        return f"the group is scaled away: {leader_set.replicas} groups are left"
    reached = ordinal is None or ordinal >= leader_set.partition
    if leader_set.revision and leader_set.revision != view.revision and reached:
        return f"the rollout of revision {leader_set.revision} has reached the group"
    if _scaled_away(view):
        return "the group is scaled away: other groups have all the places"
    return ""


def _scaled_away(view: GroupView) -> bool:
    """Hash: the retained group has no place any more."""
    return view.census is not None and view.leader is not None and scaled_away(view.census, view.leader)


def _over(view: GroupView, _: datetime) -> Decision | None:
    """Our finalizer on pods of a group whose living leader is not exhausted, or that has no leader left."""
    if view.leader is not None and is_exhausted(view.leader):
        return None
    held = _retained(view)
    if not held:
        return None
    return Release(rule="lws 5.6.5", why="the exhausted group that these pods were retained for is over", pods=held)


def _parallel(view: GroupView, now: datetime) -> Decision | None:
    """Workers go together with a leader that is going, where the policy says so (5.9), or where the leader's node is lost and
    its object may stay for ever while the workers hold their devices (5.1, case C12)."""
    leader, workers, rules = view.leader, view.worker_set, view.rules
    if leader is None or not leader.deleting or workers is None or workers.deleting:
        return None
    if not workers.controlled_by(leader.metadata.uid):
        return None
    if view.parallel:
        rule, why = "lws 5.9", f"leader {leader.metadata.name} is being deleted and its group terminates in parallel"
    elif rules is not None and rules.policy.recreates and _on_lost_node(view, now) and not _still_starting(view, rules):
        rule, why = "lws 5.1", f"leader {leader.metadata.name} is lost with node {leader.spec.node_name}"
    else:
        return None
    return RemoveWorkers(rule=rule, why=why, set_name=workers.name, set_uid=workers.uid, leader_uid=leader.metadata.uid)


def _on_lost_node(view: GroupView, now: datetime) -> bool:
    leader = view.leader
    if leader is None:
        return False
    verdict = judge(leader, view.nodes, rule=view.node_loss, now=now)
    return verdict.stuck in {Stuck.WAITING, Stuck.BLOCKED, Stuck.FORCE}


def _still_starting(view: GroupView, rules: Rules) -> bool:
    size = expected_size(view.members, fallback=rules.size)
    return rules.guard_start and start_state(view.members, size=size).state is not Start.STARTED


def _failed(view: GroupView, now: datetime) -> Decision | None:
    """Steps 1-15 of 5.2 for the policies that recreate."""
    leader, rules = view.leader, view.rules
    if leader is None or rules is None or not rules.policy.recreates or leader.deleting:
        return None
    failures = find_failures(view)
    decided = _decided_count(view)
    if not failures and decided is None:
        return None
    if view.counter_error and rules.counts:
        return Wait(rule="lws 5.5", why=view.counter_error, event="FailedRestartCount", warning=True)
    first = failures[0] if failures else None
    if decided is None and rules.guard_start:
        skip = _guard(view, rules, failures)
        if skip is not None:
            return skip
    count = view.count if decided is None else max(0, decided - 1)
    if rules.max_restarts is not None and count >= rules.max_restarts:
        return _exhaust(view, failure=first, why=f"{_cause(first)}, and {count} of {rules.max_restarts} restarts are used")
    if rules.backoff is not None and not view.counted:
        until = backoff.due(rules.backoff, count=count, created=leader.metadata.creation_timestamp, now=now)
        if until is not None:
            return _defer(view, first, until=until, count=count, now=now)
    return Recreate(
        rule="lws 5.2",
        why=_cause(first),
        facts=tuple(failure.sentence() for failure in failures[:16]),
        leader=pod_id(leader),
        failure=first,
        count=count + 1 if rules.counts else None,
    )


def _ended(view: GroupView, _: datetime) -> Recreate | None:
    """A Hash leader that has ended without a failure to count: its ReplicaSet has made another one already, which waits for its
    place, and nobody else would ever take this one away (5.1, 5.3)."""
    leader, rules = view.leader, view.rules
    if not view.hash_mode or leader is None or rules is None or leader.deleting or not leader.terminal:
        return None
    if view.counter_error and rules.counts:
        return None
    why = f"leader pod {leader.metadata.name} has ended ({leader.phase}), and its ReplicaSet makes another in its place"
    return Recreate(rule="lws 5.1", why=why, leader=pod_id(leader), failure=None)


def _decided_count(view: GroupView) -> int | None:
    """The target count of a recreation that an earlier look decided on: counted already, or marked on the leader (5.7)."""
    if view.counted:
        return view.count
    leader = view.leader
    marker = leader.metadata.annotations.get(RECREATE_PENDING, "") if leader is not None else ""
    if not marker:
        return None
    # A marker that is no number was set by the Go controller: any non-empty value is a decision.
    target = int(marker) if marker.isdigit() and len(marker) < 10 else 0
    return max(target, view.count + 1)


def _guard(view: GroupView, rules: Rules, failures: tuple[Failure, ...]) -> Skip | None:
    """The AfterStart guard (5.4): a failure while anything is Pending is forgiven."""
    members = as_it_was(view.members, view.departed, failures)
    start = start_state(members, size=expected_size(members, fallback=rules.size))
    if start.state is Start.STARTED:
        return None
    # A failed pod is deleted by its set next: that deletion is the same failure (Q21).
    lost = {failure.uid for failure in failures if failure.loses_pod or failure.signal is Signal.FAILED}
    failed = {failure.uid for failure in failures}
    forgiven = [
        (pod, Absorbed(pod.restarts, deletion=pod.metadata.uid in lost)) for pod in view.members if pod.metadata.uid in failed
    ]
    absorb = [(pod_id(pod), note) for pod, note in forgiven if Absorbed.of(pod) != note]
    return Skip(
        rule="lws 5.4",
        why=f"{failures[0].sentence()}, but the group is still starting: {start.why}",
        facts=tuple(failure.sentence() for failure in failures[:16]),
        failures=failures,
        absorb=absorb,
        unschedulable=start.pod if start.state is Start.UNSCHEDULABLE else "",
    )


def _defer(view: GroupView, first: Failure | None, *, until: datetime, count: int, now: datetime) -> Defer:
    leader = view.leader
    assert leader is not None  # noqa: S101 - only asked with a leader
    remaining = ceil((until - now).total_seconds())
    return Defer(
        rule="lws 5.7",
        why=f"{_cause(first)}; the group was recreated {count} time(s) and waits {remaining} s more",
        again_at=until,
        leader=pod_id(leader),
        until=until,
        remaining=remaining,
        count=count,
        marked=bool(leader.metadata.annotations.get(RECREATE_PENDING)),
        failure=first,
    )


def _exhaust(view: GroupView, *, failure: Failure | None, why: str) -> Exhaust:
    leader = view.leader
    assert leader is not None  # noqa: S101 - only asked with a leader
    retain = [
        pod_id(pod) for pod in view.workers if revision_of(pod) == view.revision and not pod.deleting and not is_retained(pod)
    ]
    return Exhaust(
        rule="lws 5.6.1",
        why=why,
        leader=pod_id(leader),
        retain=retain,
        mark=not is_exhausted(leader) or not is_retained(leader),
        delete=not leader.deleting,
        failure=failure,
    )


def _leaving(view: GroupView, now: datetime) -> Decision | None:
    """Members that are Terminating: forced when their node is dead (Q29), named while they are waited for."""
    verdicts = [
        (pod, judge(pod, view.nodes, rule=view.node_loss, now=now)) for pod in view.pods if pod.deleting and not is_retained(pod)
    ]
    for pod, verdict in verdicts:
        if verdict.stuck is Stuck.FORCE:
            name, node = pod.metadata.name, pod.spec.node_name
            why = f"pod {name} is Terminating for good: {verdict.why}"
            return Force(rule="lws Q29", why=why, pod=pod_id(pod), node=node)
    wake_ups = [verdict.at for _, verdict in verdicts if verdict.at is not None]
    again = min(wake_ups) if wake_ups else None
    for pod, verdict in verdicts:
        if verdict.stuck is Stuck.BLOCKED:
            why = f"pod {pod.metadata.name} cannot go: {verdict.why}"
            return Wait(rule="lws Q29", why=why, event="GroupBlockedByNode", warning=True, pod=pod_id(pod), again_at=again)
    leader = view.leader
    if leader is not None and leader.deleting:
        what = "; ".join(f"pod {pod.metadata.name}: {verdict.why}" for pod, verdict in verdicts[:4])
        return Wait(rule="lws 5.10", why=f"the group is terminating; it waits for {what or leader.metadata.name}", again_at=again)
    if again is not None:
        pod, verdict = next((pod, verdict) for pod, verdict in verdicts if verdict.at == again)
        return Wait(rule="lws Q29", why=f"pod {pod.metadata.name} is Terminating: {verdict.why}", again_at=again)
    return None


def _retained(view: GroupView) -> tuple[PodId, ...]:
    """Pods with our finalizer: workers first, the leader last."""
    held = sorted(
        (pod for pod in view.pods if is_retained(pod)),
        key=lambda pod: (worker_index(pod) == 0, worker_index(pod), pod.metadata.name),
    )
    return tuple(pod_id(pod) for pod in held)


def _cause(failure: Failure | None) -> str:
    return failure.sentence() if failure is not None else "the group was to be recreated"
