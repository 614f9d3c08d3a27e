"""The StatefulSet controller's plan: what a set needs next, as a real controller manager decides it."""

from typing import Any

import pytest
from tests.sandbox.controllers_fixtures import NOW, claim, set_pod, stateful_set

from regroup.sandbox.controllers.stateful.model import StatefulSet
from regroup.sandbox.controllers.stateful.plan import (
    NEW_PODS,
    Create,
    Delete,
    MakeClaims,
    Observed,
    OwnClaims,
    Plan,
    Repair,
    completed,
    count,
    needs_writing,
    plan,
)
from regroup.sandbox.controllers.views import Claim, Pod

DATA = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
OLD = {"currentRevision": "web-old", "updateRevision": "web-new", "currentReplicas": 3}


def observe(
    set_: StatefulSet, *pods: Pod, claims: tuple[Claim, ...] = (), current: str = "web-new", gate: bool = False
) -> Observed:
    return Observed(
        set=set_,
        pods=pods,
        claims={entry.metadata.name: entry for entry in claims},
        current_revision=current,
        update_revision="web-new",
        collision_count=0,
        now=NOW,
        max_unavailable_gate=gate,
    )


def told(made: Plan) -> list[str]:
    """The plan as words: ``create 0``, ``delete web-1 update``, ..."""
    words: list[str] = []
    for row in (*made.replicas, *made.condemned_claims, *made.condemned, made.update):
        for action in row:
            match action:
                case Create():
                    words.append(f"create {action.ordinal} {action.revision}")
                case Delete():
                    words.append(f"delete {action.pod.metadata.name} {action.reason}")
                case Repair() | MakeClaims() | OwnClaims():
                    words.append(f"{type(action).__name__.lower()} {action.pod.metadata.name}")
    return words


ORDERED: list[tuple[str, dict[str, Any], tuple[Pod, ...], list[str]]] = [
    ("an empty set begins with its first ordinal", {}, (), ["create 0 web-new"]),
    ("ordinals start where the set says", {"ordinals": {"start": 5}}, (), ["create 5 web-new"]),
    ("a pending pod is waited for", {}, (set_pod(0, phase="Pending", ready=False),), []),
    ("a running pod that is not ready is waited for", {}, (set_pod(0, ready=False),), []),
    ("the next ordinal follows a ready one", {}, (set_pod(0),), ["create 1 web-new"]),
    ("a hole is filled before anything else", {}, (set_pod(0), set_pod(2)), ["create 1 web-new"]),
    ("a terminating pod is waited for", {}, (set_pod(0, deleting=True), set_pod(1)), []),
    ("a failed pod is deleted, nothing else", {}, (set_pod(0, phase="Failed", ready=False),), ["delete web-0 terminal"]),
    ("a succeeded pod is deleted as well", {}, (set_pod(0, phase="Succeeded", ready=False),), ["delete web-0 terminal"]),
    ("a failed pod that is going is waited for", {}, (set_pod(0, phase="Failed", ready=False, deleting=True),), []),
    ("a settled set needs nothing", {}, (set_pod(0), set_pod(1), set_pod(2)), []),
    ("a pod that is not available yet is waited for", {"minReadySeconds": 7200}, (set_pod(0),), []),
    ("scale-down takes the highest", {"replicas": 1}, (set_pod(0), set_pod(1), set_pod(2)), ["delete web-2 scale-down"]),
    ("scale-down waits for the one that goes", {"replicas": 1}, (set_pod(0), set_pod(1), set_pod(2, deleting=True)), []),
    ("scale-down waits while a lower pod is unhealthy", {"replicas": 0}, (set_pod(0, ready=False), set_pod(1, ready=False)), []),
    ("the lowest unhealthy pod may go", {"replicas": 0}, (set_pod(0), set_pod(1, ready=False)), ["delete web-1 scale-down"]),
    ("no scale-down before the wanted ones are ready", {"replicas": 1}, (set_pod(0, ready=False), set_pod(1)), []),
    (
        "ordinals below the start go",
        {"replicas": 1, "ordinals": {"start": 1}},
        (set_pod(0), set_pod(1)),
        ["delete web-0 scale-down"],
    ),
    ("a lost label is put back", {"replicas": 1}, (set_pod(0, labelled=False),), ["repair web-0"]),
]


@pytest.mark.parametrize(("spec", "pods", "wanted"), [row[1:] for row in ORDERED], ids=[row[0] for row in ORDERED])
def test_an_ordered_set_takes_one_step_at_a_time(spec: dict[str, Any], pods: tuple[Pod, ...], wanted: list[str]) -> None:
    """OrderedReady: ascending creation, descending removal, never past a pod that is not available."""
    assert told(plan(observe(stateful_set(**spec), *pods))) == wanted


PARALLEL: list[tuple[str, dict[str, Any], tuple[Pod, ...], list[str]]] = [
    ("all at once", {}, (), ["create 0 web-new", "create 1 web-new", "create 2 web-new"]),
    ("missing ones only", {}, (set_pod(1, ready=False),), ["create 0 web-new", "create 2 web-new"]),
    (
        "a failed pod goes while others are made",
        {},
        (set_pod(0, phase="Failed", ready=False), set_pod(1)),
        ["delete web-0 terminal", "create 2 web-new"],
    ),
    ("a terminating pod blocks nobody", {}, (set_pod(0, deleting=True), set_pod(1)), ["create 2 web-new"]),
    (
        "scale-down takes all, highest first, and none twice",
        {"replicas": 0},
        (set_pod(0), set_pod(1, deleting=True), set_pod(2)),
        ["delete web-2 scale-down", "delete web-0 scale-down"],
    ),
    ("a label is repaired on an unready pod too", {"replicas": 1}, (set_pod(0, ready=False, labelled=False),), ["repair web-0"]),
]


@pytest.mark.parametrize(("spec", "pods", "wanted"), [row[1:] for row in PARALLEL], ids=[row[0] for row in PARALLEL])
def test_a_parallel_set_waits_for_nothing(spec: dict[str, Any], pods: tuple[Pod, ...], wanted: list[str]) -> None:
    """Parallel: every ordinal on its own, whatever its neighbours do."""
    assert told(plan(observe(stateful_set(podManagementPolicy="Parallel", **spec), *pods))) == wanted


@pytest.mark.parametrize("policy", ["Parallel", "OrderedReady"])
@pytest.mark.parametrize("gate", [False, True], ids=["one at a time", "maxUnavailable"])
def test_a_pass_is_no_longer_than_what_exists(policy: str, gate: bool) -> None:
    """A set may want 2**31 - 1 pods: what one pass plans stays small, repairs what is there, and goes on in the next pass."""
    pods = (set_pod(0), set_pod(2, labelled=False), set_pod(1_000_000, phase="Failed", ready=False))
    made = plan(observe(stateful_set(replicas=2**31 - 1, podManagementPolicy=policy), *pods, gate=gate))
    words = told(made)
    if policy == "OrderedReady":
        assert words == ["create 1 web-new"]
        return
    assert words[:3] == ["create 1 web-new", "repair web-2", "create 3 web-new"]
    assert words[-1] == "delete web-1000000 terminal"
    assert sum(word.startswith("create") for word in words) == NEW_PODS
    assert made.update == ()


def old(ordinal: int, **state: Any) -> Pod:
    return set_pod(ordinal, revision="web-old", **state)


UPDATES: list[tuple[str, dict[str, Any], tuple[Pod, ...], list[str]]] = [
    ("the highest old pod goes first", {}, (old(0), old(1), old(2)), ["delete web-2 update"]),
    ("then the next, when the new one is healthy", {}, (old(0), old(1), set_pod(2)), ["delete web-1 update"]),
    ("an unhealthy new pod stops an ordered set", {}, (old(0), old(1), set_pod(2, ready=False)), []),
    (
        "an unhealthy new pod stops a parallel set",
        {"podManagementPolicy": "Parallel"},
        (old(0), old(1), set_pod(2, ready=False)),
        [],
    ),
    (
        "a terminating old pod is waited for",
        {"podManagementPolicy": "Parallel"},
        (old(0), old(1), old(2, deleting=True)),
        [],
    ),
    (
        "an unhealthy old pod is replaced at once in a parallel set",
        {"podManagementPolicy": "Parallel"},
        (old(0), old(1), old(2, ready=False)),
        ["delete web-2 update"],
    ),
    (
        "below the partition nothing is replaced",
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
        (old(0), old(1), set_pod(2)),
        [],
    ),
    (
        "the partition counts from the first ordinal",
        {"ordinals": {"start": 10}, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}},
        (old(10), old(11), set_pod(12)),
        ["delete web-11 update"],
    ),
    (
        "a partition beyond the set keeps everything",
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 99}}},
        (old(0), old(1), old(2)),
        [],
    ),
    (
        "a failed old pod is deleted once",
        {"podManagementPolicy": "Parallel"},
        (old(0), old(1), old(2, phase="Failed", ready=False)),
        ["delete web-2 terminal"],
    ),
    ("OnDelete replaces nothing", {"updateStrategy": {"type": "OnDelete"}}, (old(0), old(1), old(2)), []),
    (
        "a set that is scaled down is not updated meanwhile",
        {"replicas": 2},
        (old(0), old(1), old(2)),
        ["delete web-2 scale-down"],
    ),
]


@pytest.mark.parametrize(("spec", "pods", "wanted"), [row[1:] for row in UPDATES], ids=[row[0] for row in UPDATES])
def test_a_rolling_update_replaces_from_the_top(spec: dict[str, Any], pods: tuple[Pod, ...], wanted: list[str]) -> None:
    """RollingUpdate deletes one old pod at a time, from the highest ordinal down to the partition."""
    assert told(plan(observe(stateful_set(status=OLD, **spec), *pods, current="web-old"))) == wanted


def rolling(limit: int | str, *, partition: int = 0) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition, "maxUnavailable": limit}}}


@pytest.mark.parametrize(
    ("limit", "pods", "wanted"),
    [
        (2, (old(0), old(1), old(2)), ["delete web-2 update", "delete web-1 update"]),
        ("67%", (old(0), old(1), old(2)), ["delete web-2 update", "delete web-1 update"]),
        ("10%", (old(0), old(1), old(2)), ["delete web-2 update"]),
        (2, (old(0), old(1), set_pod(2, ready=False)), ["delete web-1 update"]),
        (2, (old(0), old(1, ready=False), set_pod(2, ready=False)), []),
        (1, (old(0, ready=False), old(1), old(2)), []),
    ],
)
def test_max_unavailable_counts_every_broken_pod_when_the_gate_is_on(
    limit: int | str, pods: tuple[Pod, ...], wanted: list[str]
) -> None:
    """With the gate: as many as the limit leaves, at least one; a broken old pod uses the budget up (seen in 1.36)."""
    set_ = stateful_set(podManagementPolicy="Parallel", status=OLD, **rolling(limit))
    assert told(plan(observe(set_, *pods, current="web-old", gate=True))) == wanted


def test_max_unavailable_is_ignored_when_the_gate_is_off() -> None:
    """The gate is off by default in 1.36: one at a time, whatever the field says."""
    set_ = stateful_set(podManagementPolicy="Parallel", status=OLD, **rolling(3))
    assert told(plan(observe(set_, old(0), old(1), old(2), current="web-old"))) == ["delete web-2 update"]


@pytest.mark.parametrize(
    ("spec", "status", "wanted"),
    [
        (
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}},
            OLD,
            ["web-old", "web-new", "web-new"],
        ),
        ({}, OLD, ["web-new", "web-new", "web-new"]),
        ({"updateStrategy": {"type": "RollingUpdate"}}, {**OLD, "currentReplicas": 2}, ["web-old", "web-old", "web-new"]),
        ({"updateStrategy": {"type": "OnDelete"}}, OLD, ["web-new", "web-new", "web-new"]),
        (
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}},
            {"currentRevision": "web-new"},
            ["web-new", "web-new", "web-new"],
        ),
    ],
)
def test_a_new_pod_gets_the_revision_of_its_side_of_the_partition(
    spec: dict[str, Any], status: dict[str, Any], wanted: list[str]
) -> None:
    """Below the partition a lost pod comes back at the current revision, else at the update revision."""
    made = plan(observe(stateful_set(podManagementPolicy="Parallel", status=status, **spec), current="web-old"))
    assert [action.revision for row in made.replicas for action in row if isinstance(action, Create)] == wanted


def test_a_set_that_is_being_deleted_makes_and_deletes_nothing() -> None:
    """Pods of deleting sets are not recreated; the garbage collector does the rest."""
    made = plan(observe(stateful_set(deleting=True, podManagementPolicy="Parallel"), set_pod(0, phase="Failed")))
    assert made.idle
    assert made.status.replicas == 1


def test_status_counts_as_the_api_defines_it() -> None:
    """Terminating pods count as replicas, not as current or updated; ready is not yet available."""
    set_ = stateful_set(replicas=4, minReadySeconds=600, generation=7)
    pods = (
        set_pod(0, revision="web-old"),
        set_pod(1, ready_since="2026-03-01T11:59:00Z"),
        set_pod(2, deleting=True),
        set_pod(3, phase="Pending", ready=False),
    )
    status = count(observe(set_, *pods, current="web-old"))
    assert status.body() == {
        "observedGeneration": 7,
        "replicas": 4,
        "readyReplicas": 3,
        "availableReplicas": 2,
        "currentReplicas": 1,
        "updatedReplicas": 2,
        "currentRevision": "web-old",
        "updateRevision": "web-new",
        "collisionCount": 0,
    }


@pytest.mark.parametrize(
    ("replicas", "pods", "current"),
    [
        (2, (set_pod(0), set_pod(1)), "web-new"),
        (2, (set_pod(0), set_pod(1, ready=False)), "web-old"),
        (3, (set_pod(0), set_pod(1)), "web-old"),
        (1, (set_pod(0), set_pod(1)), "web-old"),
        (1, (), "web-old"),
    ],
)
def test_an_update_is_complete_when_every_replica_is_updated_and_ready(
    replicas: int, pods: tuple[Pod, ...], current: str
) -> None:
    """currentRevision moves only when replicas, ready and updated all equal spec.replicas."""
    set_ = stateful_set(replicas=replicas, status=OLD)
    status = completed(set_, count(observe(set_, *pods, current="web-old")))
    assert status.current_revision == current


def test_a_status_is_written_only_when_it_says_something_new() -> None:
    """No status write that changes nothing."""
    status = count(observe(stateful_set(replicas=1), set_pod(0)))
    live = {key: value for key, value in status.body().items() if key != "collisionCount"}
    assert not needs_writing(stateful_set(replicas=1, status=live), status)
    assert needs_writing(stateful_set(replicas=1, status={**live, "readyReplicas": 0}), status)
    assert needs_writing(stateful_set(replicas=1), status)


def test_becoming_available_is_looked_at_in_time() -> None:
    """A ready pod becomes available without an event: the plan says when to look again."""
    set_ = stateful_set(replicas=2, minReadySeconds=100)
    made = plan(observe(set_, set_pod(0, ready_since="2026-03-01T11:59:00Z"), set_pod(1, ready_since="2026-03-01T11:58:30Z")))
    assert made.recheck_after == pytest.approx(10.001)
    assert plan(observe(stateful_set(replicas=1), set_pod(0))).recheck_after is None


def test_claims_of_a_pending_pod_are_made_again() -> None:
    """A claim that was deleted under a pending pod is made anew."""
    set_ = stateful_set(replicas=1, volumeClaimTemplates=[DATA])
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]
    pending = set_pod(0, phase="Pending", ready=False, volumes=volumes)
    assert told(plan(observe(set_, pending))) == ["makeclaims web-0"]
    assert told(plan(observe(set_, pending, claims=(claim("data-web-0"),)))) == []


def test_a_pod_waits_for_the_claim_of_its_predecessor_to_go() -> None:
    """whenScaled Delete: a claim that still belongs to the earlier pod of that name is on its way out."""
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    set_ = stateful_set(replicas=1, volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy=policy)
    stale = claim("data-web-0", owners=[{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "earlier"}])
    assert told(plan(observe(set_, claims=(stale,)))) == []
    assert told(plan(observe(set_, claims=(claim("data-web-0"),)))) == ["create 0 web-new"]


def test_claims_of_a_condemned_pod_get_their_owner_before_it_goes() -> None:
    """whenScaled Delete: the pod owns its claims before it is deleted, so that they go with it."""
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    set_ = stateful_set(replicas=0, volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy=policy)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]
    made = plan(observe(set_, set_pod(0, volumes=volumes), claims=(claim("data-web-0"),)))
    assert told(made) == ["ownclaims web-0", "delete web-0 scale-down"]
