"""When a stuck member may be forced: spec/leaderworkerset.md Q29."""

from datetime import timedelta

import pytest
from tests.leaderworkerset.lws_builders import NOW, node, pod

from regroup.kube.node import NOT_READY_TAINT, OUT_OF_SERVICE_TAINT, UNREACHABLE_TAINT, Node
from regroup.leaderworkerset.groups.node_loss import GRACE_ANNOTATION, Stuck, judge, rule_for
from regroup.leaderworkerset.view import NodeLossRule


@pytest.mark.parametrize(
    ("nodes", "deleted", "expected"),
    [
        pytest.param([node()], -3600, Stuck.OVERDUE, id="healthy node: never forced, named after a while (158)"),
        pytest.param([node()], -30, Stuck.LEAVING, id="healthy node, in its time"),
        pytest.param([node(ready="Unknown", since=-61)], -61, Stuck.FORCE, id="Ready Unknown long enough"),
        pytest.param([node(ready="False", since=-61)], -61, Stuck.FORCE, id="Ready False long enough"),
        pytest.param([node(ready="Unknown", since=-59)], -600, Stuck.WAITING, id="lost too short"),
        pytest.param([node(ready="Unknown", since=-600)], -59, Stuck.WAITING, id="deleted too short"),
        pytest.param([node(ready="Unknown", since=-600)], 20, Stuck.WAITING, id="its grace period is not over"),
        pytest.param([node(taints=[(UNREACHABLE_TAINT, -61)])], -61, Stuck.FORCE, id="unreachable taint"),
        pytest.param([node(taints=[(NOT_READY_TAINT, -61)])], -61, Stuck.OVERDUE, id="the not-ready taint alone proves nothing"),
        pytest.param([node(taints=[(OUT_OF_SERVICE_TAINT, None)])], -61, Stuck.FORCE, id="out of service, set by a person"),
        pytest.param([], -61, Stuck.FORCE, id="the Node is gone"),
        pytest.param([], -30, Stuck.WAITING, id="the Node is gone, grace is not"),
    ],
)
def test_verdicts(nodes: list[Node], deleted: float, expected: Stuck) -> None:
    """One row a condition of the rule."""
    verdict = judge(pod(1, deleted=deleted), {one.metadata.name: one for one in nodes}, rule=NodeLossRule(), now=NOW)
    assert verdict.stuck is expected
    if expected is Stuck.WAITING:
        assert verdict.at is not None
        later = judge(pod(1, deleted=deleted), {one.metadata.name: one for one in nodes}, rule=NodeLossRule(), now=verdict.at)
        assert later.stuck is Stuck.FORCE, "it is due at the very moment that it names"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node(ready="Unknown", since=-600)], Stuck.BLOCKED),
        ([node(ready="Unknown", since=-600, taints=[(OUT_OF_SERVICE_TAINT, -61)])], Stuck.FORCE),
        ([], Stuck.FORCE),
        ([node()], Stuck.OVERDUE),
    ],
)
def test_a_claim_needs_proof(nodes: list[Node], expected: Stuck) -> None:
    """Behaviour 157: a partitioned node may still write to it."""
    verdict = judge(pod(1, deleted=-600, claim=True), {one.metadata.name: one for one in nodes}, rule=NodeLossRule(), now=NOW)
    assert verdict.stuck is expected


def test_never() -> None:
    """``--node-loss-grace 0``."""
    verdict = judge(pod(1, deleted=-600), {}, rule=NodeLossRule(0), now=NOW)
    assert verdict.stuck is Stuck.BLOCKED


def test_shorter_grace() -> None:
    """Both durations follow a shorter setting."""
    lost = {"n1": node(ready="Unknown", since=-6)}
    assert judge(pod(1, deleted=-6), lost, rule=NodeLossRule(5), now=NOW).stuck is Stuck.FORCE
    assert judge(pod(1, deleted=-6), lost, rule=NodeLossRule(7), now=NOW).at == NOW + timedelta(seconds=1)


def test_pods_that_were_never_placed_or_are_not_deleted() -> None:
    assert judge(pod(1), {}, rule=NodeLossRule(), now=NOW).stuck is Stuck.LEAVING
    assert judge(pod(1, deleted=-5, scheduled=None), {}, rule=NodeLossRule(), now=NOW).stuck is Stuck.LEAVING


@pytest.mark.parametrize(
    ("value", "grace"), [("30", 30.0), ("0", 0.0), ("never", 60.0), ("-1", 60.0), ("nan", 60.0), ("inf", 60.0), (None, 60.0)]
)
def test_the_annotation_of_one_leaderworkerset(value: str | None, grace: float) -> None:
    """Q29: one annotation overrides; nonsense does not."""
    annotations = {} if value is None else {GRACE_ANNOTATION: value}
    assert rule_for(annotations, default=NodeLossRule()).grace == grace


@pytest.mark.parametrize(
    ("phase", "words"),
    [("Failed", "its containers have stopped"), ("Succeeded", "its containers have stopped"), ("Running", "removed by force")],
)
def test_what_a_pod_without_a_grace_period_waits_for(phase: str, words: str) -> None:
    """158: a kubelet that is done deletes with a grace period of 0, as a person does who forces. Somebody's finalizer on a pod
    that has ended must not be told as a force that nobody used."""
    held = pod(1, deleted=-120, grace=0, phase=phase, ready=False, finalizers=["example.com/hold"])
    verdict = judge(held, {}, rule=NodeLossRule(), now=NOW)
    assert verdict.stuck is Stuck.OVERDUE
    assert words in verdict.why
    assert "it waits for finalizers example.com/hold" in verdict.why
