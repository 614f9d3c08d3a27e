"""The decision procedure: spec/leaderworkerset.md 5.2-5.9, one row a rule."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.leaderworkerset.lws_builders import AFTER, LWS_OWNED, NONE, NOW, node, pod, stateful_set, view

from regroup.kube.node import OUT_OF_SERVICE_TAINT, UNREACHABLE_TAINT
from regroup.leaderworkerset.groups.decide import decide
from regroup.leaderworkerset.groups.decisions import (
    Admit,
    CreateWorkers,
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
    needs_fresh_reads,
)
from regroup.leaderworkerset.groups.failure import Absorbed
from regroup.leaderworkerset.keys import ABSORBED_RESTARTS, CLEANUP_FINALIZER, EXHAUSTED, RECOVER, RECREATE_PENDING
from regroup.leaderworkerset.view import Backoff, Departed, GroupView, LeaderSet, Owner, Policy, Rules, WorkerSet

ON_RESTART = Rules(Policy.ON_POD_RESTART, size=3)
FAILED = (pod(1, restarts=1), pod(2))


def budget(limit: int | None, backoff: Backoff | None = None) -> Rules:
    return replace(ON_RESTART, max_restarts=limit, backoff=backoff)


def retained(index: int, **more: Any) -> Any:
    marks = {EXHAUSTED: "true"} if index == 0 else {}
    return pod(index, deleted=-60, finalizers=[CLEANUP_FINALIZER], annotations={**marks, **more.pop("annotations", {})}, **more)


def exhausted(*, leader: Any = None, **more: Any) -> GroupView:
    return view(leader=leader or retained(0), workers=(retained(1), retained(2)), rules=budget(0), **more)


@pytest.mark.parametrize(
    ("given_view", "kind"),
    [
        pytest.param(view(), Stay, id="settled"),
        pytest.param(view(workers=FAILED), Recreate, id="a worker container restarted (32)"),
        pytest.param(view(leader=pod(0, restarts=1)), Recreate, id="the leader container restarted (33)"),
        pytest.param(view(workers=(pod(1), pod(2, deleted=30))), Recreate, id="a worker is deleted (35)"),
        pytest.param(view(leader=pod(0, phase="Failed")), Recreate, id="a failed leader (45, Q21)"),
        pytest.param(view(leader=pod(0, deleted=5), workers=FAILED), Wait, id="leader already terminating (41)"),
        pytest.param(
            view(workers=FAILED, rules=NONE, worker_set=stateful_set(owner=LWS_OWNED)),
            Stay,
            id="None: the kubelet handles it (47)",
        ),
        pytest.param(view(leader=None, workers=FAILED), Stay, id="no leader: the group is going away"),
        pytest.param(view(workers=FAILED, owner=None), Stay, id="no LeaderWorkerSet"),
        pytest.param(view(workers=FAILED, owner=Owner("lws-uid", deleting=True)), Stay, id="LeaderWorkerSet deleting"),
        pytest.param(view(workers=FAILED, rules=None), Recreate, id="default rules"),
        pytest.param(view(workers=FAILED, counter_error="bad", rules=budget(1)), Wait, id="counters unreadable (76)"),
        pytest.param(view(workers=FAILED, counter_error="bad"), Recreate, id="counters unreadable but not used"),
    ],
)
def test_outcomes(given_view: GroupView, kind: type[Decision]) -> None:
    """Spec 5.2, outcomes in their order."""
    assert type(decide(given_view, NOW)) is kind


def test_an_unknown_revision_decides_nothing() -> None:
    """Spec 8.1: without the revision nobody knows the policy, so nothing is deleted (C93)."""
    decision = decide(replace(view(workers=FAILED), rules=None), NOW)
    assert isinstance(decision, Wait)
    assert "r1" in decision.why


def test_recreation_names_leader_cause_and_every_failure() -> None:
    """Behaviours 38 and 42: two members failing together are one decision about one leader UID."""
    decision = decide(view(workers=(pod(1, restarts=1), pod(2, deleted=5))), NOW)
    assert isinstance(decision, Recreate)
    assert decision.leader == PodId("demo-0", "uid-0-0")
    assert decision.count is None, "no counter is kept when neither feature is set (70)"
    assert len(decision.facts) == 2
    assert not needs_fresh_reads(decision), "the deletion's UID precondition finds what a read would"


class TestBudget:
    """Spec 5.5."""

    @pytest.mark.parametrize(
        ("limit", "count", "expected"),
        [(0, 0, "Exhaust"), (2, 0, "Recreate"), (2, 1, "Recreate"), (2, 2, "Exhaust"), (1, 5, "Exhaust"), (None, 20, "Recreate")],
    )
    def test_limits(self, limit: int | None, count: int, expected: str) -> None:
        """Behaviours 68, 69, 70, 78: N recreations, failure N+1 exhausts."""
        assert decide(view(workers=FAILED, rules=budget(limit), count=count), NOW).name == expected

    def test_counts_one_more(self) -> None:
        """Behaviour 74: the count grows by one, whoever caused the failure."""
        decision = decide(view(workers=(pod(1), pod(2, deleted=3)), rules=budget(3), count=1), NOW)
        assert isinstance(decision, Recreate)
        assert decision.count == 2
        assert needs_fresh_reads(decision), "limit and leader are read again before anything is counted (5.2 step 6, 8.4)"

    def test_counted_already(self) -> None:
        """Behaviour 85: a crash between persist and delete neither counts twice nor forgets, even at the limit."""
        decision = decide(view(rules=budget(2), count=2, counted=True), NOW)
        assert isinstance(decision, Recreate)
        assert decision.count == 2

    @given(limit=st.integers(0, 50), count=st.integers(0, 60))
    def test_never_past_the_limit(self, limit: int, count: int) -> None:
        """Property: no recreation ever takes the count past the limit."""
        decision = decide(view(workers=FAILED, rules=budget(limit), count=count), NOW)
        assert isinstance(decision, Exhaust if count >= limit else Recreate)
        if isinstance(decision, Recreate):
            assert decision.count == count + 1 <= limit


class TestBackoff:
    """Spec 5.7."""

    @pytest.mark.parametrize(
        ("age", "count", "remaining"),
        [(2, 0, 8), (12, 0, None), (15, 1, 5), (3, 0, 7), (299, 6, 1), (301, 6, None), (-50, 0, 10)],
    )
    def test_wait_from_leader_creation(self, age: float, count: int, remaining: int | None) -> None:
        """Behaviours 120-122, 125, 126; a clock that is behind never waits longer than the delay."""
        decision = decide(view(leader=pod(0, age=age), workers=FAILED, rules=budget(None, Backoff()), count=count), NOW)
        if remaining is None:
            assert isinstance(decision, Recreate)
            return
        assert isinstance(decision, Defer)
        assert (decision.remaining, decision.count, decision.marked) == (remaining, count, False)
        assert decision.again_at == NOW + timedelta(seconds=remaining)

    def test_exhaustion_is_never_delayed(self) -> None:
        """Behaviour 129."""
        decision = decide(view(leader=pod(0, age=1), workers=FAILED, rules=budget(1, Backoff()), count=1), NOW)
        assert isinstance(decision, Exhaust)

    def test_the_mark_outlives_the_failure(self) -> None:
        """Behaviours 127, 133, B32: the replacement is Pending and healthy, yet the group goes."""
        rules = replace(AFTER, backoff=Backoff())
        waiting = (pod(1), pod(2, uid="new", phase="Pending", ready=False))
        young = view(leader=pod(0, age=4, annotations={RECREATE_PENDING: "1"}), workers=waiting, rules=rules)
        deferred = decide(young, NOW)
        assert isinstance(deferred, Defer)
        assert deferred.marked
        due = decide(young, NOW + timedelta(seconds=6))
        assert isinstance(due, Recreate)
        assert due.count == 1

    def test_the_wait_does_not_hold_up_the_rest(self) -> None:
        """Behaviours 130, 131, B33: the worker set is still made, and the wake-up is kept."""
        marked = pod(0, age=4, annotations={RECREATE_PENDING: "1"})
        rules = budget(None, Backoff())
        decision = decide(view(leader=marked, workers=(), worker_set=None, rules=rules), NOW)
        assert isinstance(decision, CreateWorkers)
        assert decision.again_at == NOW + timedelta(seconds=6)
        waiting = decide(view(leader=marked, workers=(), worker_set=None, rules=replace(rules, leader_ready_first=True)), NOW)
        assert waiting.again_at == NOW + timedelta(seconds=6)

    def test_backoff_removed_during_the_wait(self) -> None:
        """Behaviour 134."""
        marked = pod(0, age=4, annotations={RECREATE_PENDING: "1"})
        assert isinstance(decide(view(leader=marked, rules=budget(5)), NOW), Recreate)

    def test_a_lowered_budget_is_looked_at_when_due(self) -> None:
        """Spec 5.7: re-check the budget."""
        marked = pod(0, annotations={RECREATE_PENDING: "3"})
        assert isinstance(decide(view(leader=marked, rules=budget(2, Backoff()), count=2), NOW), Exhaust)

    def test_a_foreign_marker_is_a_decision_as_well(self) -> None:
        """Taking over from the Go controller: any non-empty value."""
        marked = pod(0, annotations={RECREATE_PENDING: "yes"})
        decision = decide(view(leader=marked, rules=budget(None, Backoff()), count=1), NOW)
        assert isinstance(decision, Recreate)
        assert decision.count == 2


class TestAfterStart:
    """Spec 5.4."""

    @pytest.mark.parametrize(
        ("workers", "kind", "unschedulable"),
        [
            pytest.param(FAILED, Recreate, "", id="all started (53)"),
            pytest.param((pod(1, restarts=1), pod(2, phase="Pending", ready=False)), Skip, "", id="placed and starting (54)"),
            pytest.param((pod(1, restarts=1), pod(2, phase="Pending", scheduled=None)), Skip, "", id="no condition yet (55)"),
            pytest.param((pod(1, restarts=1), pod(2, phase="Pending", scheduled="SchedulingGated")), Skip, "", id="gated (56)"),
            pytest.param(
                (pod(1, restarts=1), pod(2, phase="Pending", scheduled="Unschedulable")),
                Skip,
                "demo-0-2",
                id="unschedulable (57)",
            ),
            pytest.param(
                (pod(1, restarts=1), pod(2, phase="Pending", scheduled="SchedulerError")), Skip, "demo-0-2", id="any reason (58)"
            ),
            pytest.param((pod(1, restarts=1),), Skip, "", id="fewer members than the size (59)"),
            pytest.param((pod(1, restarts=1, scheduled="Unschedulable", phase="Pending"),), Skip, "demo-0-1", id="it wins (60)"),
        ],
    )
    def test_guard(self, workers: Any, kind: type[Decision], unschedulable: str) -> None:
        """Behaviours 53-60."""
        decision = decide(view(workers=workers, rules=AFTER), NOW)
        assert type(decision) is kind
        if isinstance(decision, Skip):
            assert decision.unschedulable == unschedulable

    def test_a_skip_is_final(self) -> None:
        """Behaviour 63, Q1: what was absorbed never fires later, one restart more does."""
        decision = decide(view(workers=(pod(1, restarts=2), pod(2, phase="Pending")), rules=AFTER), NOW)
        assert isinstance(decision, Skip)
        assert decision.absorb == [(PodId("demo-0-1", "uid-0-1"), Absorbed(2))]
        note = {ABSORBED_RESTARTS: decision.absorb[0][1].text()}
        assert isinstance(decide(view(workers=(pod(1, restarts=2, annotations=note), pod(2)), rules=AFTER), NOW), Stay)
        assert isinstance(decide(view(workers=(pod(1, restarts=3, annotations=note), pod(2)), rules=AFTER), NOW), Recreate)

    def test_a_lost_worker_of_a_started_group(self) -> None:
        """Behaviour 64, Q2: the replacement is Pending and vetoes nothing; the lost pod counts as it was."""
        gone = Departed(pod(2, uid="old"), leader_uid="uid-0-0", at=NOW)
        replacement = pod(2, uid="new", phase="Pending", ready=False)
        decision = decide(view(workers=(pod(1), replacement), departed=(gone,), rules=AFTER), NOW)
        assert isinstance(decision, Recreate)
        was_pending = replace(gone, pod=pod(2, uid="old", phase="Pending"))
        assert isinstance(decide(view(workers=(pod(1),), departed=(was_pending,), rules=AFTER), NOW), Skip)

    def test_old_groups_keep_their_size(self) -> None:
        """Behaviour 67: the size annotation of the pods counts, not the new size."""
        old = [pod(index, size=4, restarts=int(index == 3)) for index in range(4)]
        rules = replace(AFTER, size=6)
        assert isinstance(decide(view(leader=old[0], workers=old[1:], rules=rules), NOW), Recreate)

    def test_deprecated_annotation_guards_the_other_policy(self) -> None:
        """Behaviour 66."""
        rules = replace(ON_RESTART, guard_start=True)
        assert isinstance(decide(view(workers=(pod(1, restarts=1), pod(2, phase="Pending")), rules=rules), NOW), Skip)

    def test_a_failed_pod_is_forgiven_with_the_deletion_that_follows(self) -> None:
        """Q21: one failure, not two."""
        decision = decide(view(workers=(pod(1, phase="Failed"), pod(2, phase="Pending")), rules=AFTER), NOW)
        assert isinstance(decision, Skip)
        assert decision.absorb == [(PodId("demo-0-1", "uid-0-1"), Absorbed(0, deletion=True))]


class TestExhaustion:
    """Spec 5.6."""

    def test_retains_what_can_be_retained(self) -> None:
        """Behaviours 86, 88: workers that are already deleting or of another revision are left out."""
        workers = (pod(1, restarts=1), pod(2, deleted=5))
        decision = decide(view(workers=workers, rules=budget(0)), NOW)
        assert isinstance(decision, Exhaust)
        assert decision.retain == [PodId("demo-0-1", "uid-0-1")]
        assert (decision.mark, decision.delete) == (True, True)

    def test_an_interrupted_exhaustion_is_finished(self) -> None:
        """Spec 5.2 step 8: marked but not deleted yet; AfterStart does not block it (65)."""
        leader = pod(0, annotations={EXHAUSTED: "true", RECOVER: "true"}, finalizers=[CLEANUP_FINALIZER])
        decision = decide(view(leader=leader, workers=(pod(1, phase="Pending"), pod(2)), rules=AFTER), NOW)
        assert isinstance(decision, Exhaust)
        assert (decision.mark, decision.delete) == (False, True)

    def test_it_stays_retained(self) -> None:
        """Behaviours 96, 97, 105: no edit, no deletion and no event moves it."""
        for rules in (budget(0), budget(9), budget(None), replace(AFTER, backoff=Backoff())):
            assert isinstance(decide(replace(exhausted(), rules=rules), NOW), Wait)

    @pytest.mark.parametrize(("value", "kind"), [("true", Recover), ("yes", Wait), ("True", Wait), ("", Wait)])
    def test_recovery_needs_the_exact_word(self, value: str, kind: type[Decision]) -> None:
        """Behaviours 92, 95: workers first, the leader last."""
        decision = decide(exhausted(leader=retained(0, annotations={RECOVER: value})), NOW)
        assert type(decision) is kind
        if isinstance(decision, Recover):
            assert [one.name for one in decision.pods] == ["demo-0-1", "demo-0-2", "demo-0"]

    @pytest.mark.parametrize(
        ("leader_set", "kind"),
        [
            (LeaderSet("s", 1, revision="r1"), Wait),
            (LeaderSet("s", 0, revision="r1"), Release),
            (LeaderSet("s", 1, partition=0, revision="r2"), Release),
            (LeaderSet("s", 1, partition=1, revision="r2"), Wait),
        ],
        ids=["stays", "scaled away (100)", "the rollout reached it (102)", "below the partition (103)"],
    )
    def test_clean_up_is_no_recovery(self, leader_set: LeaderSet, kind: type[Decision]) -> None:
        """Spec 5.6.5."""
        assert type(decide(exhausted(leader_set=leader_set), NOW)) is kind

    @pytest.mark.parametrize("owner", [None, Owner("lws-uid", deleting=True)])
    def test_released_with_the_leaderworkerset(self, owner: Owner | None) -> None:
        """Behaviours 98, 99."""
        decision = decide(exhausted(owner=owner), NOW)
        assert isinstance(decision, Release)
        assert [one.name for one in decision.pods] == ["demo-0-1", "demo-0-2", "demo-0"]

    def test_released_with_the_namespace(self) -> None:
        """Behaviours 98, 99: Kubernetes empties a namespace of its pods before it deletes the LeaderWorkerSet."""
        decision = decide(exhausted(owner=Owner("lws-uid", deleting=True, namespace_deleting=True)), NOW)
        assert isinstance(decision, Release)
        assert "namespace that is being deleted" in decision.why

    def test_no_finalizer_outside_exhausted_groups(self) -> None:
        """Case C127: what is left of an exhausted group under a new leader, or under none, is let go."""
        assert isinstance(decide(view(workers=(retained(1), pod(2))), NOW), Release)
        assert isinstance(decide(view(leader=None, workers=(retained(1),)), NOW), Release)

    def test_a_finalizer_taken_off_by_hand(self) -> None:
        """Q23: the retained workers must not hold the leader for ever."""
        bare = pod(0, deleted=-60, annotations={EXHAUSTED: "true"})
        assert isinstance(decide(view(leader=bare, workers=(retained(1),)), NOW), Release)
        assert isinstance(decide(view(leader=bare, workers=()), NOW), Wait)


class TestTermination:
    """Spec 5.9, Q29, case C12."""

    def test_parallel_takes_the_workers_with_a_leader_that_goes(self) -> None:
        """Behaviour 139."""
        rules = replace(ON_RESTART, parallel=True)
        decision = decide(view(leader=pod(0, deleted=20), rules=rules), NOW)
        assert isinstance(decision, RemoveWorkers)
        assert decision.set_uid == "set-0"

    def test_default_does_not(self) -> None:
        """Behaviour 138."""
        assert isinstance(decide(view(leader=pod(0, deleted=20)), NOW), Wait)

    def test_never_another_leaders_set(self) -> None:
        """Behaviour 143."""
        rules = replace(ON_RESTART, parallel=True)
        other = stateful_set(owner=("Pod", "demo-0", "earlier"))
        assert isinstance(decide(view(leader=pod(0, deleted=20), rules=rules, worker_set=other), NOW), Wait)

    def test_parallel_without_the_leaderworkerset(self) -> None:
        """Behaviours 140, 141: the leader's annotation still says so."""
        note = {"leaderworkerset.sigs.k8s.io/pod-termination-policy": "Parallel"}
        gone = replace(view(leader=pod(0, deleted=9, annotations=note), owner=None), rules=None)
        assert isinstance(decide(gone, NOW), RemoveWorkers)
        alive = replace(view(leader=pod(0, annotations=note), owner=None), rules=None)
        assert isinstance(decide(alive, NOW), Stay)
        going = view(owner=Owner("lws-uid", deleting=True), rules=replace(ON_RESTART, parallel=True))
        assert isinstance(decide(going, NOW), RemoveWorkers)

    def test_a_leader_on_a_lost_node_takes_its_workers_along(self) -> None:
        """Case C12: the leader object may stay for ever; its workers must not hold their devices so long."""
        lost = {"n1": node(ready="Unknown", since=-5)}
        decision = decide(view(leader=pod(0, deleted=20), nodes=lost), NOW)
        assert isinstance(decision, RemoveWorkers)
        assert decision.leader_uid == "uid-0-0"
        assert isinstance(decide(view(leader=pod(0, deleted=20), nodes=lost, rules=NONE), NOW), Wait), "None keeps its workers"

    def test_force_on_a_dead_node(self) -> None:
        """Behaviour 156: after the loss grace, by UID, worker or leader."""
        lost = {"n1": node(), "n2": node("n2", ready="Unknown", since=-120, taints=[(UNREACHABLE_TAINT, -120)])}
        stuck = pod(2, deleted=-61, node="n2")
        decision = decide(view(leader=pod(0, deleted=-61), workers=(pod(1, deleted=-61), stuck), nodes=lost), NOW)
        assert isinstance(decision, Force)
        assert decision.pod == PodId("demo-0-2", "uid-0-2")
        early = decide(view(leader=pod(0, deleted=-30), workers=(replace_deleted(stuck, -30),), nodes=lost), NOW)
        assert isinstance(early, Wait)
        assert early.again_at == NOW + timedelta(seconds=30)

    def test_a_claim_needs_proof(self) -> None:
        """Behaviour 157."""
        stuck = pod(2, deleted=-90, node="n2", claim=True)
        lost = {"n1": node(), "n2": node("n2", ready="Unknown", since=-120)}
        blocked = decide(view(leader=pod(0, deleted=-90), workers=(stuck,), nodes=lost), NOW)
        assert isinstance(blocked, Wait)
        assert (blocked.event, blocked.pod) == ("GroupBlockedByNode", PodId("demo-0-2", "uid-0-2"))
        tainted = {"n1": node(), "n2": node("n2", ready="Unknown", since=-120, taints=[(OUT_OF_SERVICE_TAINT, None)])}
        assert isinstance(decide(view(leader=pod(0, deleted=-90), workers=(stuck,), nodes=tainted), NOW), Force)
        assert isinstance(decide(view(leader=pod(0, deleted=-90), workers=(stuck,), nodes={"n1": node()}), NOW), Force)

    def test_never_on_a_healthy_node(self) -> None:
        """Behaviour 158: named, never forced."""
        decision = decide(view(leader=pod(0, deleted=-3600, finalizers=["x.io/a"])), NOW)
        assert isinstance(decision, Wait)
        assert "x.io/a" in decision.why

    def test_none_forces_a_stuck_worker_and_looks_after_the_rest(self) -> None:
        """Behaviour 50 with Q29: one member of a group that otherwise runs on."""
        lost = {"n1": node(), "n2": node("n2", ready="Unknown", since=-120)}
        stuck = pod(2, deleted=-61, node="n2")
        assert isinstance(decide(view(workers=(pod(1), stuck), nodes=lost, rules=NONE), NOW), Force)
        gated = view(
            leader=pod(0, uid="new", gated=True, phase="Pending"),
            workers=(pod(1), replace_deleted(stuck, -10)),
            nodes=lost,
            rules=NONE,
            worker_set=stateful_set(owner=LWS_OWNED),
        )
        decision = decide(gated, NOW)
        assert isinstance(decision, Admit)
        assert decision.again_at == NOW + timedelta(seconds=50)

    def test_forced_once(self) -> None:
        """Spec Q29: a pod that was forced and is held by a finalizer is not forced again."""
        lost = {"n1": node(ready="Unknown", since=-120)}
        decision = decide(
            view(leader=pod(0, deleted=-61, grace=0, finalizers=["foregroundDeletion"]), nodes=lost, worker_set=None), NOW
        )
        assert isinstance(decision, Wait)


def replace_deleted(one: Any, seconds: float) -> Any:
    return pod(2, deleted=seconds, node=one.spec.node_name)


def test_every_decision_says_which_rule_and_why() -> None:
    """Design 3: every branch names its rule and a sentence for a person."""
    views = [
        view(),
        view(workers=FAILED),
        view(workers=FAILED, rules=budget(0)),
        view(workers=FAILED, rules=NONE),
        exhausted(),
        view(leader=None),
        view(owner=None),
        view(leader=pod(0, gated=True, phase="Pending"), workers=(), worker_set=None),
        replace(view(), worker_set=WorkerSet(stateful_set(), ("replicas",))),
    ]
    for one in views:
        decision = decide(one, NOW)
        assert decision.rule.startswith("lws ")
        assert decision.why
