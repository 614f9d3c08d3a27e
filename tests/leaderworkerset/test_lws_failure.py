"""What counts as a failure: the table of spec/leaderworkerset.md 5.1."""

from datetime import timedelta
from typing import Any

import pytest
from tests.leaderworkerset.lws_builders import LWS_OWNED, NOW, pod, set_owner, stateful_set, view

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.failure import Absorbed, Signal, complete, find_failures
from regroup.leaderworkerset.groups.members import workers_digest
from regroup.leaderworkerset.keys import ABSORBED_RESTARTS
from regroup.leaderworkerset.view import Departed, Membership, classify_worker, worker_leader_uid

FINALIZER = "leaderworkerset.sigs.k8s.io/group-restart-budget-cleanup"


def failures_of(worker: Pod, **more: Any) -> list[tuple[Signal, str]]:
    found = find_failures(view(workers=(pod(1), worker), **more))
    return [(failure.signal, failure.pod) for failure in found]


@pytest.mark.parametrize(
    ("worker", "signal"),
    [
        pytest.param(pod(2), None, id="healthy"),
        pytest.param(pod(2, restarts=1), Signal.RESTART, id="a regular container restarted"),
        pytest.param(
            pod(2, init_restarts=1, phase="Pending"), Signal.RESTART, id="an init container restarted while Pending (34)"
        ),
        pytest.param(pod(2, restarts=1, phase="Succeeded"), None, id="a pod that ended well does not fail by its restarts"),
        pytest.param(pod(2, ready=False), None, id="readiness lost without a restart (44)"),
        pytest.param(pod(2, deleted=30), Signal.DELETED, id="a worker is being deleted"),
        pytest.param(pod(2, phase="Failed"), Signal.FAILED, id="a failed pod (C14, C16 a and c)"),
        pytest.param(pod(2, phase="Succeeded"), None, id="succeeded without deletion"),
        pytest.param(pod(2, phase="Pending", ready=False, scheduled="Unschedulable"), None, id="not placed"),
        pytest.param(pod(2, restarts=1, revision="r0"), None, id="another revision than its leader (40, #291)"),
        pytest.param(pod(2, restarts=2, annotations={ABSORBED_RESTARTS: "2"}), None, id="restarts that a skip forgave"),
        pytest.param(pod(2, restarts=3, annotations={ABSORBED_RESTARTS: "2"}), Signal.RESTART, id="one more than was forgiven"),
        pytest.param(pod(2, deleted=1, annotations={ABSORBED_RESTARTS: "0,deletion"}), None, id="a deletion that a skip forgave"),
        pytest.param(pod(2, phase="Failed", annotations={ABSORBED_RESTARTS: "0,deletion"}), None, id="forgiven failure"),
        pytest.param(pod(3, deleted=1), None, id="a surplus worker beyond the size"),
        pytest.param(pod(2, deleted=1, finalizers=[FINALIZER]), None, id="a retained pod"),
    ],
)
def test_signals_of_a_worker(worker: Pod, signal: Signal | None) -> None:
    """Spec 5.1, one row each."""
    assert failures_of(worker) == ([(signal, worker.metadata.name)] if signal else [])


def test_a_leader_that_is_deleted_is_no_failure() -> None:
    """Spec 5.1: the group is being replaced anyway."""
    assert find_failures(view(leader=pod(0, deleted=1))) == ()


def test_a_leader_restart_is_a_failure_with_its_evidence() -> None:
    """Behaviour 33, and what a person is told: the container and its exit code."""
    (failure,) = find_failures(view(leader=pod(0, restarts=2, exit_code=137)))
    assert failure.sentence() == "container main of leader pod demo-0 restarted with exit code 137"


def test_a_vanished_worker_is_seen_behind_its_healthy_replacement() -> None:
    """Case C01, behaviour 36: the replacement has the same name and is Ready; the departed snapshot still counts."""
    gone = Departed(pod(2, uid="old"), leader_uid="uid-0-0", at=NOW)
    assert failures_of(pod(2, uid="new"), departed=(gone,)) == [(Signal.VANISHED, "demo-0-2")]


@pytest.mark.parametrize(
    ("departed", "why"),
    [
        (Departed(pod(2, uid="old"), leader_uid="an earlier leader", at=NOW), "its chain leads to an earlier leader (#804)"),
        (Departed(pod(2, uid="old", revision="r0"), leader_uid="uid-0-0", at=NOW), "it was of another revision"),
        (Departed(pod(3, uid="old"), leader_uid="uid-0-0", at=NOW), "it was beyond the size"),
        (
            Departed(pod(2, uid="old", annotations={ABSORBED_RESTARTS: "1,deletion"}), leader_uid="uid-0-0", at=NOW),
            "a skip forgave it",
        ),
        (Departed(pod(2), leader_uid="uid-0-0", at=NOW), "it is still there"),
    ],
)
def test_snapshots_that_prove_nothing(departed: Departed, why: str) -> None:
    """Spec 5.1, 8.3."""
    assert failures_of(pod(2), departed=(departed,)) == [], why


def test_pods_that_the_worker_set_takes_away_after_a_change_by_hand() -> None:
    """Spec Q30: putting a worker set right is nobody's failure."""
    rolled = pod(2, deleted=1, labels={"controller-revision-hash": "b"})
    assert failures_of(rolled, worker_set=stateful_set(update_revision="a")) == []
    kept = pod(2, deleted=1, labels={"controller-revision-hash": "a"})
    assert failures_of(kept, worker_set=stateful_set(update_revision="a")) == [(Signal.DELETED, "demo-0-2")]
    assert failures_of(pod(2, deleted=1), worker_set=stateful_set(replicas=1)) == []


def test_a_member_replaced_while_nobody_looked() -> None:
    """Case C01 with the operator down (B27): same leader, other workers than the status remembers, group complete."""
    remembered = workers_digest(["uid-0-1", "uid-0-2"])
    assert find_failures(view(recorded_workers=remembered)) == ()
    changed = view(workers=(pod(1), pod(2, uid="new")), recorded_workers=remembered)
    assert [failure.signal for failure in find_failures(changed)] == [Signal.REPLACED]
    incomplete = view(workers=(pod(1),), recorded_workers=remembered)
    assert find_failures(incomplete) == (), "a group on its way up proves nothing"


def test_complete_needs_every_member_at_rest() -> None:
    """Own extension B27: only a complete group is remembered."""
    assert complete(view())
    assert not complete(view(workers=(pod(1), pod(2, deleted=5))))
    assert not complete(view(workers=(pod(1), pod(2, revision="r0"))))
    assert not complete(view(workers=(pod(1), pod(2), pod(3))))
    assert not complete(view(worker_set=None))
    assert not complete(view(drift=("replicas",)))


def test_the_earliest_failure_comes_first() -> None:
    """Design 3: one decision names one cause; which one does not depend on the order of events."""
    found = find_failures(view(workers=(pod(1, deleted=-5), pod(2, deleted=-50))))
    assert [failure.pod for failure in found] == ["demo-0-2", "demo-0-1"]


@pytest.mark.parametrize(
    ("text", "absorbed"),
    [("", Absorbed()), ("3", Absorbed(3)), ("3,deletion", Absorbed(3, deletion=True)), ("x", Absorbed()), ("-1", Absorbed())],
)
def test_absorbed_annotation(text: str, absorbed: Absorbed) -> None:
    """Spec 5.4: nonsense in our own annotation forgives nothing."""
    assert Absorbed.of(pod(1, annotations={ABSORBED_RESTARTS: text})) == absorbed


def classify(worker: Pod, *sets: Any) -> Membership:
    return classify_worker(
        worker,
        sets={one.metadata.uid: one for one in sets},
        set_name="demo-0",
        leader_uid="uid-0-0",
        lws_uid="lws-uid",
        leader_name="demo-0",
    )


@pytest.mark.parametrize(
    ("worker", "sets", "expected"),
    [
        pytest.param(pod(1), [stateful_set()], Membership.MEMBER, id="chain to the living leader"),
        pytest.param(pod(1), [stateful_set(owner=LWS_OWNED)], Membership.MEMBER, id="set owned by the LWS (None)"),
        pytest.param(pod(1), [stateful_set(owner=("Pod", "demo-0", "earlier"))], Membership.REMNANT, id="set of an earlier one"),
        pytest.param(pod(1), [stateful_set(owner=("Pod", "x", "y"))], Membership.STRANGER, id="set of somebody else"),
        pytest.param(pod(1), [stateful_set(owner=("LeaderWorkerSet", "demo", "x"))], Membership.STRANGER, id="of another LWS"),
        pytest.param(pod(1), [], Membership.REMNANT, id="its set is gone: about to be collected"),
        pytest.param(
            pod(1, labels={"leaderworkerset.regroup.dev/leader-uid": "uid-0-0"}), [], Membership.MEMBER, id="set gone, our label"
        ),
        pytest.param(pod(1, owner={"kind": "Pod", "name": "demo-0", "uid": "uid-0-0", "controller": True}), [], Membership.MEMBER,
                     id="directly by the leader"),
        pytest.param(pod(1, owner=set_owner() | {"controller": False}), [stateful_set()], Membership.STRANGER, id="uncontrolled"),
        pytest.param(
            pod(1, owner={"kind": "LeaderWorkerSet", "name": "o", "uid": "o", "controller": True}), [], Membership.STRANGER,
            id="labels of ours, owned by another LWS (C104)",
        ),
        pytest.param(pod(1, owner=set_owner() | {"name": "other"}), [], Membership.STRANGER, id="a set of another name"),
    ],
)  # fmt: skip
def test_whose_pod_it_is(worker: Pod, sets: list[Any], expected: Membership) -> None:
    """Spec 5.2 step 5, 4.4, case C104: only the owner chain says who belongs to a group."""
    assert classify(worker, *sets) is expected


def test_a_deletion_failed_when_it_was_asked_for() -> None:
    """A deletionTimestamp is the end of the grace period: what is told, and what counts as the first failure of several, is when
    somebody asked."""
    deleted, crashed = pod(2, deleted=25, grace=30), pod(1, restarts=1)
    (told,) = find_failures(view(workers=(pod(1), deleted)))
    assert told.at == NOW - timedelta(seconds=5)
    first, *_ = find_failures(view(workers=(crashed, pod(2, deleted=25, grace=7200))))
    assert first.signal is Signal.DELETED


def test_the_label_is_believed_only_when_the_set_is_gone() -> None:
    """Case C104: a label cannot overrule an owner chain that can still be followed."""
    forged = pod(1, labels={"leaderworkerset.regroup.dev/leader-uid": "uid-0-0"})
    assert worker_leader_uid(forged, {"set-0": stateful_set(owner=("Pod", "demo-0", "earlier"))}) == "earlier"
