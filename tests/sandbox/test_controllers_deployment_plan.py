"""How a Deployment moves its ReplicaSets: the promises of a rollout, and scaling in the middle of one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.sandbox.controllers.deploying.replicas import ReplicaSet
from regroup.sandbox.controllers.deploying.rollout import (
    Deployment,
    build_replica_set,
    new_replica_set,
    outdated,
    recreate,
    rescale,
    resized,
    roll,
)

Limit = int | str


def deployment(replicas: int, *, image: str = "new", strategy: dict[str, Any] | None = None, **spec: Any) -> Deployment:
    body = {
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "annotations": {"own": "note"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": image}]}},
            "strategy": strategy or {"type": "RollingUpdate"},
            **spec,
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Deployment)


def rolling(surge: Limit, unavailable: Limit) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def rs(
    name: str, replicas: int, *, available: int | None = None, desired: int | None = None, maximum: int = 0, age: int = 0
) -> ReplicaSet:
    """A set that is called after the image of its pods; a greater age is older."""
    annotations = {"deployment.kubernetes.io/revision": str(9 - age)}
    if desired is not None:
        annotations["deployment.kubernetes.io/desired-replicas"] = str(desired)
        annotations["deployment.kubernetes.io/max-replicas"] = str(maximum or desired)
    template = {"metadata": {"labels": {"app": "web", "pod-template-hash": name}}, "spec": {"containers": [{"image": name}]}}
    ready = replicas if available is None else available
    created = f"2026-03-01T{12 - age:02}:00:00Z"
    body = {
        "metadata": {"name": name, "uid": name, "annotations": annotations, "creationTimestamp": created},
        "spec": {"replicas": replicas, "template": template},
        "status": {"replicas": replicas, "availableReplicas": ready},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=ReplicaSet)


def test_the_new_set_is_the_oldest_of_the_same_template() -> None:
    """The hash label does not count; without one of the template there is none."""
    sets = [rs("new", 0), rs("old", 3)]
    assert new_replica_set(deployment(3), sets) is sets[0]
    assert new_replica_set(deployment(3, image="else"), sets) is None


def test_a_new_set_carries_hash_revision_and_size() -> None:
    """Label, selector and template have the same hash; the Deployment's annotations come along."""
    made = build_replica_set(deployment(4), revision=7, replicas=5, collision_count=0)
    digest = made["metadata"]["labels"]["pod-template-hash"]
    assert made["metadata"]["name"] == f"web-{digest}"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": digest}
    assert made["metadata"]["annotations"] == {
        "own": "note",
        "deployment.kubernetes.io/revision": "7",
        "deployment.kubernetes.io/desired-replicas": "4",
        "deployment.kubernetes.io/max-replicas": "5",
    }
    assert build_replica_set(deployment(4), revision=7, replicas=5, collision_count=1)["metadata"]["name"] != f"web-{digest}"


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "wanted"),
    [
        (4, "25%", "25%", (1, 1)),
        (10, "25%", "25%", (3, 2)),
        (3, 0, 0, (0, 1)),
        (3, "1%", "1%", (1, 0)),
        (2, 0, 5, (0, 2)),
        (0, 1, 1, (1, 0)),
    ],
)
def test_surge_rounds_up_and_unavailable_down(replicas: int, surge: Limit, unavailable: Limit, wanted: tuple[int, int]) -> None:
    """And a rollout that could not move may have one pod unavailable."""
    assert deployment(replicas, strategy=rolling(surge, unavailable)).limits() == wanted


def test_unhealthy_old_pods_go_first() -> None:
    """They serve nobody: their loss costs no availability."""
    dep = deployment(10, strategy=rolling(1, 2))
    made = roll(dep, rs("new", 1, available=1), [rs("old", 10, available=8, age=1)])
    assert [(step.rs.name, step.replicas) for step in made] == [("old", 7)]


def test_recreate_waits_for_the_last_old_pod() -> None:
    """No new pod beside an old one."""
    dep = deployment(3, strategy={"type": "Recreate"})
    assert [(step.rs.name, step.replicas) for step in recreate(dep, rs("new", 0), [rs("old", 3)], old_pods=True)] == [("old", 0)]
    assert recreate(dep, rs("new", 0), [rs("old", 0)], old_pods=True) == []
    assert [step.replicas for step in recreate(dep, rs("new", 0), [rs("old", 0)], old_pods=False)] == [3]
    assert recreate(dep, rs("new", 3), [], old_pods=False) == []


@pytest.mark.parametrize(
    ("replicas", "new", "old", "wanted"),
    [
        (5, rs("new", 3, desired=3), [], {"new": 5}),
        (20, rs("new", 5, desired=10, maximum=10), [rs("old", 5, desired=10, maximum=10, age=1)], {"new": 10, "old": 10}),
        (5, rs("new", 5, desired=10, maximum=10), [rs("old", 5, desired=10, maximum=10, age=1)], {"new": 3, "old": 2}),
        (0, rs("new", 2, desired=4, maximum=4), [rs("old", 2, desired=4, maximum=4, age=1)], {"new": 0, "old": 0}),
    ],
)
def test_scaling_in_the_middle_of_a_rollout_keeps_the_proportions(
    replicas: int, new: ReplicaSet, old: list[ReplicaSet], wanted: dict[str, int]
) -> None:
    """The sum is always the new size (with no surge here), shared by size."""
    dep = deployment(replicas, strategy=rolling(0, 1))
    assert resized(dep, [new, *old])
    assert {step.rs.name: step.replicas for step in rescale(dep, new, old)} == wanted


def test_history_keeps_the_newest_empty_sets() -> None:
    """revisionHistoryLimit counts empty old sets."""
    old = [rs("a", 0, age=3), rs("b", 0, age=2), rs("c", 1, age=4), rs("d", 0, age=1)]
    assert [entry.name for entry in outdated(deployment(1, revisionHistoryLimit=1), old)] == ["a", "b"]
    assert [entry.name for entry in outdated(deployment(1, revisionHistoryLimit=2), old)] == ["a"]


@given(
    replicas=st.integers(0, 12),
    surge=st.integers(0, 6),
    unavailable=st.integers(0, 6),
    first=st.integers(0, 12),
    broken=st.integers(0, 12),
)
def test_a_rollout_keeps_its_limits_and_ends(replicas: int, surge: int, unavailable: int, first: int, broken: int) -> None:
    """Never more pods than replicas + maxSurge, never fewer available than replicas - maxUnavailable, and it comes to an end."""
    dep = deployment(replicas, strategy=rolling(surge, unavailable))
    most, least = dep.limits()
    sizes = {"new": 0, "old": replicas, "older": 0}
    if first < replicas:
        sizes |= {"old": replicas - first, "older": first}
    ready = {**sizes, "old": max(sizes["old"] - broken, 0)}
    floor = min(sum(ready.values()), replicas - least)
    for _ in range(200):
        sets = {name: rs(name, size, available=ready[name], age=index) for index, (name, size) in enumerate(sizes.items())}
        steps = roll(dep, sets["new"], [sets["old"], sets["older"]])
        for step in steps:
            sizes[step.rs.name] = step.replicas
            ready[step.rs.name] = min(ready[step.rs.name], step.replicas)
        assert sum(sizes.values()) <= replicas + most
        assert sum(ready.values()) >= floor
        if ready["new"] < sizes["new"]:
            ready["new"] += 1
        elif not steps:
            break
    assert sizes == {"new": replicas, "old": 0, "older": 0}
