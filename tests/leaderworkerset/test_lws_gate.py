"""Admission in Hash mode, the worked facts of spec/leaderworkerset.md 4.5; Ordinal is in test_lws_upkeep."""

from typing import Any

import msgspec
from tests.leaderworkerset.lws_builders import P, at

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.gate import admit_hash
from regroup.leaderworkerset.view import HashCensus

GROUP = f"{P}group-index"


def leader(
    name: str, *, gated: bool = False, deleted: bool = False, exhausted: bool = False, revision: str = "r1", age: float = 10
) -> Pod:
    meta: dict[str, Any] = {
        "name": name,
        "uid": name,
        "creationTimestamp": at(-age),
        "labels": {GROUP: f"key-{name}", f"{P}worker-index": "0", f"{P}template-revision-hash": revision},
        "annotations": {f"{P}group-restart-budget-exhausted": "true"} if exhausted else {},
    }
    if deleted or exhausted:
        meta["deletionTimestamp"] = at(-1)
    gates = [{"name": f"{P}group-replacement"}] if gated else []
    return msgspec.convert({"metadata": meta, "spec": {"schedulingGates": gates}}, Pod)


def admitted(
    which: Pod, *leaders: Pod, replicas: int = 2, revision: str = "r1", immediate: bool = False, orphans: int = 0
) -> bool:
    groups = frozenset({one.metadata.labels[GROUP] for one in leaders} | {f"orphan-{number}" for number in range(orphans)})
    return admit_hash(which, HashCensus(leaders, groups, replicas, revision, immediate)).admitted


def test_terminating_group_and_one_gated() -> None:
    """Behaviour 111, case C74."""
    new, old, other = leader("new", gated=True), leader("old", deleted=True), leader("other")
    assert not admitted(new, new, old, other)
    assert admitted(new, new, old, other, immediate=True)


def test_two_gated_and_one_tearing_down() -> None:
    """Behaviour 112: the older is admitted."""
    older, younger, old = leader("a", gated=True, age=20), leader("b", gated=True), leader("old", deleted=True)
    assert admitted(older, older, younger, old)
    assert not admitted(younger, older, younger, old)


def test_a_worker_without_its_leader_still_counts() -> None:
    """Behaviour 113."""
    new = leader("new", gated=True)
    assert not admitted(new, new, replicas=1, orphans=1)


def test_outdated_revisions_never_schedule() -> None:
    """Behaviour 114."""
    new = leader("new", gated=True, revision="r0")
    assert not admitted(new, new)


def test_no_more_than_replicas() -> None:
    """Behaviour 115."""
    new, living = leader("new", gated=True), leader("living")
    assert not admitted(new, new, living, replicas=1)
    assert admitted(new, new, living, replicas=2)


def test_an_exhausted_group_holds_back_one_leader_under_both_policies() -> None:
    """Behaviours 108-110, case C76; once it is gone the leader is admitted."""
    new, retained = leader("new", gated=True), leader("old", exhausted=True)
    assert not admitted(new, new, retained, replicas=1)
    assert not admitted(new, new, retained, replicas=1, immediate=True)
    assert admitted(new, new, replicas=1)
