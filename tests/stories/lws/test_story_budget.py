"""Restart budget, exhaustion, recovery and clean-up with kubectl: [seed] behaviours 68-74, 86-89, 92, 96-98, 100, 102, 106."""

import pytest
from tests.stories.lws.story_cluster import Kubectl, P, group, lws

pytestmark = [pytest.mark.http, pytest.mark.kubectl]
RECOVER = f"{P}recover=true"


def test_a_budget_is_used_up_and_the_group_recovered(k: Kubectl) -> None:
    """Behaviours 68, 71, 74, 86-89, 92, 96, 97, 106: one recreation counts, the next failure exhausts: the pods are kept with
    their status, Degraded, the other group runs on with its own budget. Raising the limit and deleting the pods change nothing;
    the annotation on the leader does, and the new group has a full budget."""
    k.apply(lws(replicas=2, template={"maxGroupRestarts": 1}))
    old = k.ready()
    k("delete", "pod", "demo-0-1", "--wait=false")
    old = k.recreated(old, group())
    assert k.counts() == {"0": 1}
    k.ready()
    k.crash("demo-0-1", code=7)
    kept = k.retained(group())
    assert k.counts() == {"0": 1}, "exhaustion is not counted"
    assert kept["demo-0"]["metadata"]["annotations"][f"{P}group-restart-budget-exhausted"] == "true"
    k("wait", "lws/demo", "--for=condition=Degraded", "--timeout=30s")
    assert k.condition("Degraded") == ("True", "ReplicaRestartBudgetExceeded")
    assert k.until(lambda: k.lws()["status"].get("readyReplicas") == 1, what="one group is ready")
    (event,) = [one for one in k.events("ReplicaRestartBudgetExceeded") if one["type"] == "Warning"]
    assert "demo-0-1" in event["message"]

    k("patch", "lws", "demo", "--type=merge", "-p", '{"spec":{"leaderWorkerTemplate":{"maxGroupRestarts":5}}}')
    k("delete", "pod", "demo-0", "demo-0-1", "--wait=false")
    k.lets_pass(30)
    now = k.uids()
    assert now == old, "retained as it was, the other group untouched"
    k("patch", "lws", "demo", "--type=merge", "-p", '{"spec":{"leaderWorkerTemplate":{"maxGroupRestarts":1}}}')

    k("annotate", "pod", "demo-0", RECOVER)
    new = k.recreated(old, group())
    k.ready()
    assert k.counts() == {}
    assert k.condition("Degraded") == ("False", "AsExpected")
    assert {pod: new[pod] for pod in group(1)} == {pod: old[pod] for pod in group(1)}
    k.crash("demo-0")
    k.recreated(new, group())
    assert k.counts() == {"0": 1}, "the budget is full again"


def test_a_budget_of_nothing(k: Kubectl) -> None:
    """Behaviours 69, 88: the first failure exhausts; a pod that was on its way out before may vanish, the rest is kept."""
    k.apply(lws(template={"maxGroupRestarts": 0}))
    k.ready()
    k("delete", "pod", "demo-0-1", "--wait=false")
    k.retained(["demo-0"])
    assert k.counts() == {}
    assert k.events("RecreateGroup") == []


def test_without_a_budget(k: Kubectl) -> None:
    """Behaviours 70, 73: unlimited, without any counter; nor does the deletion of a leader by hand count where there is one."""
    k.apply(lws())
    old = k.ready()
    for _ in range(3):
        k.crash("demo-0-1")
        old = k.recreated(old, group())
        k.ready()
    assert f"{P}group-restart-counts" not in k.lws()["metadata"].get("annotations", {})
    k("patch", "lws", "demo", "--type=merge", "-p", '{"spec":{"leaderWorkerTemplate":{"maxGroupRestarts":3}}}')
    k("delete", "pod", "demo-0", "--wait=false")
    k.recreated(old, group())
    assert k.counts() == {}


def test_clean_up_is_no_recovery(k: Kubectl) -> None:
    """Behaviours 72, 98, 100, 102: a rollout releases a retained group into a fresh budget, scaling down releases it for good,
    and so does the deletion of the LeaderWorkerSet."""
    k.apply(lws(replicas=2, template={"maxGroupRestarts": 0}))
    old = k.ready()
    k.crash("demo-1")
    k.retained(group(1))
    k(
        "patch",
        "lws",
        "demo",
        "--type=json",
        "-p",
        '[{"op":"replace","path":"/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image","value":"worker:2"}]',
    )
    old = k.recreated(old, [*group(0), *group(1)])
    k.ready()
    assert k.condition("Degraded") == ("False", "AsExpected")

    k.crash("demo-1")
    k.retained(group(1))
    k("scale", "lws", "demo", "--replicas=1")
    k.until(lambda: sorted(k.uids()) == group(0), what="the retained group is gone")
    assert k.uids()["demo-0"] == old["demo-0"]

    k.crash("demo-0-1")
    k.retained(group(0))
    k("delete", "lws", "demo", "--timeout=30s")
    k.until(lambda: not k.pods(), what="nothing is left")


def test_the_seeds_manifest_with_a_budget(k: Kubectl) -> None:
    """12.1: copied as it stands, it applies, and three recreations are permitted."""
    k.apply_example("max-group-restarts.yaml")
    assert k.lws("leaderworkerset-sample")["spec"]["leaderWorkerTemplate"]["maxGroupRestarts"] == 3
    assert len(k.ready("leaderworkerset-sample")) == 8
