"""Looking after a healthy group: spec/leaderworkerset.md 3.3, 3.4, 4.3, 4.4, 5.3, 6.7, Q30."""

from dataclasses import replace
from typing import Any

import pytest
from tests.leaderworkerset.lws_builders import LWS_OWNED, NONE, NOW, pod, stateful_set, view

from regroup.leaderworkerset.groups.decisions import (
    Admit,
    CreateService,
    CreateWorkers,
    Decision,
    RemoveWorkers,
    RepairWorkers,
    Stay,
    Wait,
)
from regroup.leaderworkerset.groups.upkeep import upkeep
from regroup.leaderworkerset.view import GroupKey, GroupView, LeaderSet, Policy, Rules, ServiceState, WorkerSet

RULES = Rules(Policy.ON_POD_RESTART, size=3)
NEW = pod(0, uid="new", gated=True, phase="Pending", ready=False)
BARE: dict[str, Any] = {"workers": (), "worker_set": None}


@pytest.mark.parametrize(
    ("given_view", "kind"),
    [
        pytest.param(view(), Stay, id="complete"),
        pytest.param(view(leader=None, **BARE), Stay, id="the leader set makes the leader"),
        pytest.param(view(**BARE), CreateWorkers, id="no worker set (28)"),
        pytest.param(view(telling=True, **BARE), Wait, id="its names are still being deleted"),
        pytest.param(view(rules=replace(RULES, size=1), **BARE), Stay, id="size 1 has no worker set (24, C21)"),
        pytest.param(view(leader=NEW, **BARE), Admit, id="nothing is left of the previous group"),
        pytest.param(view(leader=NEW, remnants=(pod(1, deleted=5),), **BARE), Wait, id="a remnant holds the gate (4.4)"),
        pytest.param(view(leader=NEW, service=ServiceState.MISSING, **BARE), CreateService, id="Service before the gate (26)"),
        pytest.param(view(service=ServiceState.FOREIGN, **BARE), Wait, id="a foreign Service: nothing else (29, B20)"),
        pytest.param(view(rules=replace(RULES, leader_ready_first=True), **BARE), CreateWorkers, id="LeaderReady, ready"),
        pytest.param(
            view(leader=pod(0, ready=False), rules=replace(RULES, leader_ready_first=True), **BARE), Wait, id="LeaderReady (152)"
        ),
        pytest.param(
            view(leader=pod(0, scheduled=None), rules=replace(RULES, exclusive_topology="rack"), **BARE),
            Wait,
            id="not bound (30)",
        ),
        pytest.param(view(rules=replace(RULES, exclusive_topology="rack"), **BARE), Wait, id="node without the label (B31)"),
        pytest.param(
            view(rules=replace(RULES, exclusive_topology="rack"), topology_value="a", **BARE), CreateWorkers, id="bound (30)"
        ),
        pytest.param(view(workers=(pod(1),)), Wait, id="a worker that is not made yet"),
        pytest.param(view(drift=("replicas",)), RepairWorkers, id="changed by hand (Q30)"),
        pytest.param(view(worker_set=stateful_set(deleted=True)), Wait, id="a terminating set is left alone (142)"),
        pytest.param(
            view(worker_set=stateful_set(owner=("Pod", "demo-0", "earlier"))), Wait, id="the set of the previous leader"
        ),
        pytest.param(view(worker_set=stateful_set(owner=("ReplicaSet", "x", "y"))), Wait, id="somebody else's set"),
        pytest.param(view(leader=pod(0, annotations={"leaderworkerset.sigs.k8s.io/leader-name": "x"})), Wait, id="too old (B30)"),
        pytest.param(replace(view(**BARE), rules=None), Wait, id="revision missing (C93)"),
    ],
)
def test_upkeep(given_view: GroupView, kind: type[Decision]) -> None:
    """One row a rule."""
    assert type(upkeep(given_view, NOW)) is kind


def none(**more: Any) -> GroupView:
    return view(rules=NONE, worker_set=more.pop("worker_set", stateful_set(owner=LWS_OWNED)), **more)


class TestNone:
    """Spec 5.3: the workers outlive their leader."""

    def test_survivors_do_not_hold_the_gate(self) -> None:
        """Behaviours 49, 51, case C10."""
        assert isinstance(upkeep(none(leader=NEW), NOW), Admit)

    def test_survivors_of_another_revision_go_first(self) -> None:
        """Spec 5.3 b: the leader of that index exists at another revision."""
        old = (pod(1, revision="r0"), pod(2, revision="r0"))
        decision = upkeep(none(leader=NEW, workers=old, worker_set=stateful_set(owner=LWS_OWNED, revision="r0")), NOW)
        assert isinstance(decision, RemoveWorkers)
        waiting = upkeep(
            none(leader=NEW, workers=old, worker_set=stateful_set(owner=LWS_OWNED, revision="r0", deleted=True)), NOW
        )
        assert isinstance(waiting, Wait)

    def test_scaled_away(self) -> None:
        """Behaviour 52, B29."""
        gone = none(leader=None, leader_set=LeaderSet("s", 0, revision="r1"))
        assert isinstance(upkeep(gone, NOW), RemoveWorkers)

    def test_without_a_leader_they_stay(self) -> None:
        """Behaviour 49: between two leaders nothing is done to them."""
        assert isinstance(upkeep(none(leader=None), NOW), Stay)

    def test_a_set_that_the_go_controller_made_moves_to_the_leaderworkerset(self) -> None:
        """Taking over: the owner is put right, no pod is touched."""
        decision = upkeep(none(worker_set=stateful_set()), NOW)
        assert isinstance(decision, RepairWorkers)
        assert list(decision.fields) == ["owner"]

    def test_in_hash_the_set_stays_with_its_leader(self) -> None:
        """Spec 5.3: only Ordinal workers outlive their leader. In Hash the leader's own set is right as it is, else every pass
        would write its owner again and explain would call a healthy group one that needs repair."""
        hashed = replace(none(worker_set=stateful_set()), key=GroupKey("default", "demo", "0" * 40))
        assert isinstance(upkeep(hashed, NOW), Stay)

    def test_a_set_of_the_leaderworkerset_under_a_policy_that_recreates(self) -> None:
        """A policy change arrives with a new leader: its set must go with it."""
        assert isinstance(upkeep(view(worker_set=stateful_set(owner=LWS_OWNED)), NOW), RemoveWorkers)


def test_drift_of_an_old_revision_is_not_repaired() -> None:
    """Spec Q30, 6.4: the group's own revision rules, and its set is about to go."""
    odd = replace(view(), worker_set=WorkerSet(stateful_set(revision="r0"), ("template",)))
    assert isinstance(upkeep(odd, NOW), Stay)


def test_missing_workers_of_the_largest_group_are_counted_not_walked() -> None:
    """Bounds (2.1): a group may want 2**31 - 1 pods; a pass names the first eight that are missing and counts the rest."""
    size = 2**31 - 1
    large = view(rules=replace(RULES, size=size), workers=(pod(1), pod(3)), worker_set=stateful_set(replicas=size - 1))
    decision = upkeep(large, NOW)
    assert isinstance(decision, Wait)
    assert list(decision.missing) == [f"demo-0-{index}" for index in (2, 4, 5, 6, 7, 8, 9, 10)]
    assert decision.why.startswith(f"{size - 3} worker pod(s) are not made yet: demo-0-2, demo-0-4")
