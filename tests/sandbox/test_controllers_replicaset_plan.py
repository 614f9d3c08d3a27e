"""How many pods a ReplicaSet makes or deletes, and which go first."""

from typing import Any

import msgspec
import pytest
from tests.sandbox.controllers_fixtures import NOW

from regroup.sandbox.controllers.deploying.replicas import ReplicaSet, build_pod, needs_writing, plan, recheck_after, status
from regroup.sandbox.controllers.views import Pod


def replica_set(replicas: int, *, status_: dict[str, Any] | None = None, deleting: bool = False, **spec: Any) -> ReplicaSet:
    metadata: dict[str, Any] = {"name": "rs", "namespace": "default", "uid": "rs-uid", "generation": 2}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T11:00:00Z"
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}
    body = {"metadata": metadata, "spec": {"replicas": replicas, "template": template, **spec}, "status": status_ or {}}
    return msgspec.json.decode(msgspec.json.encode(body), type=ReplicaSet)


def pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: bool = True,
    since: str = "2026-03-01T11:00:00Z",
    created: str = "2026-03-01T10:00:00Z",
    restarts: int = 0,
    cost: str = "",
    deleting: bool = False,
    labels: dict[str, str] | None = None,
) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created}
    metadata["labels"] = {"app": "a"} if labels is None else labels
    if cost:
        metadata["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": cost}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T11:59:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}]
    statuses = [{"name": "c", "restartCount": restarts}]
    body = {
        "metadata": metadata,
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


@pytest.mark.parametrize(
    ("replicas", "pods", "create", "delete"),
    [
        (2, [], 2, []),
        (2, [pod("a"), pod("b")], 0, []),
        (2, [pod("a"), pod("b", deleting=True)], 1, []),
        (2, [pod("a"), pod("b", phase="Failed", ready=False)], 1, []),
        (1, [pod("a"), pod("b", ready=False)], 0, ["b"]),
        (0, [pod("a", deleting=True)], 0, []),
        (1000, [], 500, []),
    ],
)
def test_pods_that_ended_or_go_do_not_count(replicas: int, pods: list[Pod], create: int, delete: list[str]) -> None:
    """A ReplicaSet replaces failed and terminating pods at once, and never deletes a failed one itself."""
    made = plan(replica_set(replicas), pods, pods, NOW)
    assert (made.create, [entry.metadata.name for entry in made.delete]) == (create, delete)


def test_a_set_that_is_being_deleted_makes_nothing() -> None:
    """The garbage collector takes its pods."""
    assert plan(replica_set(3, deleting=True), [], [], NOW).create == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("z", node=""), pod("a", phase="Pending", ready=False)),
        (pod("z", phase="Pending", ready=False), pod("a", phase="Unknown", ready=False)),
        (pod("z", phase="Unknown", ready=False), pod("a", ready=False)),
        (pod("z", ready=False), pod("a", cost="-10")),
        (pod("z", cost="-1"), pod("a")),
        (pod("z"), pod("a", cost="5")),
        (pod("z", since="2026-03-01T11:59:59Z"), pod("a", since="2026-03-01T11:00:00Z")),
        (pod("z", restarts=3), pod("a")),
        (pod("z", created="2026-03-01T11:59:00Z"), pod("a")),
        (pod("a", created="2026-03-01T10:00:00Z"), pod("z", created="2026-03-01T10:00:01Z")),
    ],
    ids=["unassigned", "pending", "unknown", "unready", "cheaper", "free", "ready later", "restarts", "younger", "uid"],
)
def test_which_pod_goes_first(first: Pod, second: Pod) -> None:
    """The order of the API: assignment, phase, readiness, cost, time being ready, restarts, age; times by powers of two."""
    for pods in ([first, second], [second, first]):
        assert plan(replica_set(1), pods, pods, NOW).delete == (first,)


def test_the_crowded_node_is_relieved_first() -> None:
    """Pods of related sets on the same node count."""
    pods = [pod("a", node="n1"), pod("z", node="n2")]
    related = [*pods, pod("other", node="n2"), pod("gone", node="n1", deleting=True)]
    assert [entry.metadata.name for entry in plan(replica_set(1), pods, related, NOW).delete] == ["z"]


@pytest.mark.parametrize("text", ["+5", "05", "x", "99999999999", "2147483648", ""])
def test_a_malformed_cost_is_no_cost(text: str) -> None:
    """It must not decide anything."""
    pods = [pod("a", cost=text), pod("b", cost="1")]
    assert [entry.metadata.name for entry in plan(replica_set(1), pods, pods, NOW).delete] == ["a"]


def test_status_counts_live_pods_only() -> None:
    """Replicas are the live pods; a failure of this pass becomes the condition ReplicaFailure and goes with it."""
    rs = replica_set(3, minReadySeconds=600)
    pods = [pod("a"), pod("b", since="2026-03-01T11:55:00Z", labels={}), pod("c", deleting=True), pod("d", phase="Failed")]
    body = status(rs, pods, failure="quota", failed="FailedCreate", now=NOW)
    assert {key: body[key] for key in ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")} == {
        "replicas": 2,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 2,
        "availableReplicas": 1,
    }
    assert body["terminatingReplicas"] == 1
    assert body["conditions"][0]["reason"] == "FailedCreate"
    assert needs_writing(rs, body)
    settled = replica_set(3, minReadySeconds=600, status_=body)
    assert not needs_writing(settled, body)
    assert needs_writing(settled, status(settled, pods, failure="", failed="", now=NOW))
    assert recheck_after(rs, pods, NOW) == pytest.approx(300.001)


def test_a_pod_is_made_from_the_template() -> None:
    """Generated name, labels of the template, the set as its controller."""
    made = build_pod(replica_set(1))
    assert made["metadata"]["generateName"] == "rs-"
    assert made["metadata"]["labels"] == {"app": "a"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "rs-uid"
