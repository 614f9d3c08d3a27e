"""What a silent node means for its taints and its pods: one test a rule."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from regroup.kube.node import Node
from regroup.sandbox.nodelifecycle.rules import (
    BoundPod,
    default_toleration_seconds,
    evicted_at,
    silent_conditions,
    wanted_taints,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def make_node(ready: str | None, *, taints: list[dict[str, Any]] | None = None, unschedulable: bool = False) -> Node:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    body = {
        "metadata": {"name": "n"},
        "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {"conditions": conditions},
    }
    return msgspec.convert(body, Node)


def make_pod(*tolerations: dict[str, Any]) -> BoundPod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "tolerations": tolerations}}, BoundPod)


def kinds(taints: list[dict[str, Any]] | None) -> set[tuple[str, str]] | None:
    return None if taints is None else {(taint["key"], taint["effect"]) for taint in taints}


@pytest.mark.parametrize(
    ("ready", "key"),
    [("False", NOT_READY), ("Unknown", UNREACHABLE), (None, UNREACHABLE)],
)
def test_a_node_that_is_not_well_is_tainted(ready: str | None, key: str) -> None:
    """Ready False: not-ready; Unknown or never reported: unreachable; both effects, with the time."""
    taints = wanted_taints(make_node(ready), evict=True, now=NOW)
    assert kinds(taints) == {(key, "NoSchedule"), (key, "NoExecute")}
    assert taints is not None
    assert {taint["timeAdded"] for taint in taints} == {"2026-01-01T00:00:00Z"}


def test_no_eviction_when_no_node_is_well() -> None:
    """The NoExecute taint is left out and taken away again when the whole cluster is silent."""
    assert kinds(wanted_taints(make_node("Unknown"), evict=False, now=NOW)) == {(UNREACHABLE, "NoSchedule")}
    both = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    assert kinds(wanted_taints(make_node("Unknown", taints=both), evict=False, now=NOW)) == {(UNREACHABLE, "NoSchedule")}


def test_taints_are_exchanged_and_others_kept() -> None:
    """A change of state swaps ours, keeps the time of those that stay, and never touches a user's taint."""
    users = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    old = {"key": NOT_READY, "effect": "NoExecute", "timeAdded": "2025-12-31T00:00:00Z"}
    assert kinds(wanted_taints(make_node("True", taints=[users, old]), evict=True, now=NOW)) == {("gpu", "NoSchedule")}
    taints = wanted_taints(make_node("False", taints=[users, old]), evict=True, now=NOW)
    assert taints is not None
    assert taints[:2] == [users, old]
    assert taints[2] == {"key": NOT_READY, "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}


def test_a_settled_node_is_not_written() -> None:
    """None when the taints are as they should be, whatever users added."""
    both = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    assert wanted_taints(make_node("Unknown", taints=[*both, {"key": "x", "effect": "NoExecute"}]), evict=True, now=NOW) is None
    assert wanted_taints(make_node("True"), evict=True, now=NOW) is None


def test_a_cordoned_node_has_its_taint() -> None:
    """spec.unschedulable shows as a taint, and goes with it."""
    key = "node.kubernetes.io/unschedulable"
    assert kinds(wanted_taints(make_node("True", unschedulable=True), evict=True, now=NOW)) == {(key, "NoSchedule")}
    tainted = [{"key": key, "effect": "NoSchedule"}]
    assert wanted_taints(make_node("True", taints=tainted), evict=True, now=NOW) == []


def test_silence_makes_every_condition_unknown() -> None:
    """What was known is unknown, what never was is said so; a second time there is nothing to say."""
    found = {entry["type"]: entry for entry in silent_conditions(make_node("True"), now=NOW)}
    assert {entry["status"] for entry in found.values()} == {"Unknown"}
    assert found["Ready"]["reason"] == "NodeStatusUnknown"
    assert found["DiskPressure"]["reason"] == "NodeStatusNeverUpdated"
    body = {"metadata": {"name": "n"}, "status": {"conditions": list(found.values())}}
    assert silent_conditions(msgspec.convert(body, Node), now=NOW) == []


def test_when_pods_have_to_go() -> None:
    """At once without a toleration; after the shortest tolerationSeconds since the taint came; never with an open end."""
    node = make_node("Unknown", taints=[{"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": "2025-12-31T23:59:00Z"}])
    taints = node.spec.taints
    assert evicted_at(make_pod(), taints, now=NOW) == NOW
    assert evicted_at(make_pod({"operator": "Exists"}), taints, now=NOW) is None
    timed = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    assert evicted_at(make_pod(timed), taints, now=NOW) == NOW + timedelta(seconds=240)
    shorter = {**timed, "tolerationSeconds": 30}
    assert evicted_at(make_pod(timed, shorter), taints, now=NOW) == NOW - timedelta(seconds=30)
    assert evicted_at(make_pod({**timed, "effect": "NoSchedule"}), taints, now=NOW) == NOW


def test_soft_taints_evict_nobody() -> None:
    """NoSchedule and PreferNoSchedule keep off, they do not throw out."""
    node = make_node("True", taints=[{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "PreferNoSchedule"}])
    assert evicted_at(make_pod(), node.spec.taints, now=NOW) is None


def test_the_strictest_of_several_taints_counts() -> None:
    """Each NoExecute taint has to be tolerated; the first to run out decides."""
    taints = [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}, {"key": "b", "effect": "NoExecute"}]
    node = make_node("True", taints=taints)
    first = {"key": "a", "operator": "Exists", "tolerationSeconds": 20}
    assert evicted_at(make_pod(first), node.spec.taints, now=NOW) == NOW
    second = {"key": "b", "operator": "Exists", "tolerationSeconds": 50}
    assert evicted_at(make_pod(first, second), node.spec.taints, now=NOW) == NOW + timedelta(seconds=20)


def test_default_tolerations() -> None:
    """300 s for not-ready and unreachable at a pod's creation, unless it speaks of them itself."""
    pod: dict[str, Any] = {"spec": {}}
    default_toleration_seconds(pod)
    assert [(entry["key"], entry["effect"], entry["tolerationSeconds"]) for entry in pod["spec"]["tolerations"]] == [
        (NOT_READY, "NoExecute", 300),
        (UNREACHABLE, "NoExecute", 300),
    ]
    default_toleration_seconds(pod)
    assert len(pod["spec"]["tolerations"]) == 2
    own = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    pod = {"spec": {"tolerations": [own]}}
    default_toleration_seconds(pod)
    assert [entry["key"] for entry in pod["spec"]["tolerations"]] == [UNREACHABLE, NOT_READY]
    pod = {"spec": {"tolerations": [{"operator": "Exists"}]}}
    default_toleration_seconds(pod)
    assert len(pod["spec"]["tolerations"]) == 1


@pytest.mark.parametrize(("since", "stale"), [("2025-12-31T00:00:00Z", True), ("2026-01-01T00:00:09Z", False), (None, True)])
def test_readiness_said_after_the_silence_is_believed(since: str | None, stale: bool) -> None:
    """Only what a pod said before its node fell silent is taken back: a kubelet that is back must not be contradicted."""
    node = {
        "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": NOW}]},
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    pod = msgspec.convert({"metadata": {"name": "p"}, "status": {"conditions": [ready]}}, BoundPod)
    assert pod.ready_since_before(msgspec.convert(node, Node)) is stale
