"""The garbage collector's graph (where to look) and its verdicts (what to do)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.kube.meta import ObjectMeta, OwnerReference
from regroup.sandbox.controllers.collector.decide import (
    Delete,
    DropReferences,
    Keep,
    OwnerState,
    Verdict,
    judge,
    owner_state,
)
from regroup.sandbox.controllers.collector.graph import ABSENT_LIMIT, Graph
from regroup.wire.resource import Resource

THINGS = Resource("example.com", "v1", "things", "Thing")


def meta(
    uid: str, *, owners: tuple[str, ...] = (), blocking: bool = True, deleting: bool = False, finalizers: tuple[str, ...] = ()
) -> ObjectMeta:
    """Metadata of a thing whose name is its UID."""
    body: dict[str, Any] = {"name": uid, "namespace": "default", "uid": uid, "finalizers": list(finalizers)}
    body["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Thing", "name": owner, "uid": owner, "blockOwnerDeletion": blocking}
        for owner in owners
    ]
    if deleting:
        body["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    return msgspec.json.decode(msgspec.json.encode(body), type=ObjectMeta)


def graph_of(*objects: ObjectMeta) -> Graph:
    graph = Graph()
    for entry in objects:
        graph.observe(THINGS, entry)
    return graph


def test_an_object_without_owners_needs_no_look() -> None:
    """Nothing owned, nothing to collect."""
    assert Graph().observe(THINGS, meta("a")) == []


def test_a_dependent_of_an_unseen_owner_is_looked_at() -> None:
    """The owner may be gone for good, or merely not seen yet: only a live look tells."""
    graph = Graph()
    assert graph.observe(THINGS, meta("b", owners=("a",))) == ["b"]
    assert graph.observe(THINGS, meta("a")) == []
    assert [node.uid for node in graph.dependents("a")] == ["b"]


def test_dependents_are_looked_at_when_their_owner_goes() -> None:
    """Background collection begins when the owner is gone, and the UID is remembered as absent."""
    graph = graph_of(meta("a"), meta("c", owners=("a",)), meta("b", owners=("a",)))
    assert graph.forget("a") == ["b", "c"]
    assert graph.known_absent("a")
    assert not graph.known_absent("b")


def test_a_foreground_deletion_looks_at_the_owner_and_its_dependents() -> None:
    """The moment that the finalizer and the deletion are seen, and not again on later updates."""
    graph = graph_of(meta("a"), meta("b", owners=("a",)))
    dying = meta("a", deleting=True, finalizers=("foregroundDeletion",))
    assert graph.observe(THINGS, dying) == ["a", "b"]
    assert graph.observe(THINGS, dying) == []


def test_a_foreground_deletion_goes_on_when_a_dependent_goes_or_stops_blocking() -> None:
    """The owner is looked at again each time that one blocker less is there."""
    dying = meta("a", deleting=True, finalizers=("foregroundDeletion",))
    graph = graph_of(dying, meta("b", owners=("a",)), meta("c", owners=("a",)))
    assert [node.uid for node in graph.blocking_dependents("a")] == ["b", "c"]
    assert graph.observe(THINGS, meta("b", owners=("a",), blocking=False)) == ["a"]
    assert graph.forget("c") == ["a"]
    assert graph.blocking_dependents("a") == ()
    assert graph.observe(THINGS, meta("b")) == ["a"]


def test_a_late_dependent_of_a_dying_owner_is_looked_at() -> None:
    """A dependent that appears during the foreground deletion of its owner is collected as well."""
    graph = graph_of(meta("a", deleting=True, finalizers=("foregroundDeletion",)))
    assert graph.observe(THINGS, meta("b", owners=("a",))) == ["b"]


def test_orphaning_looks_at_the_owner_only() -> None:
    """The dependents are to be kept."""
    graph = graph_of(meta("a"), meta("b", owners=("a",)))
    assert graph.observe(THINGS, meta("a", deleting=True, finalizers=("orphan",))) == ["a"]


def test_an_absent_owner_is_forgotten_in_the_end() -> None:
    """The memory of what is gone is bounded."""
    graph = Graph()
    for number in range(ABSENT_LIMIT + 1):
        graph.observe(THINGS, meta(str(number)))
        graph.forget(str(number))
    assert not graph.known_absent("0")
    assert graph.known_absent(str(ABSENT_LIMIT))


@given(
    st.lists(
        st.tuples(st.sampled_from(["see", "forget"]), st.sampled_from("abcde"), st.sets(st.sampled_from("abcde"), max_size=3)),
        max_size=40,
    )
)
def test_the_index_of_dependents_equals_a_recomputation(steps: list[tuple[str, str, set[str]]]) -> None:
    """Whatever comes in whatever order, dependents(x) is exactly who names x as an owner."""
    graph = Graph()
    model: dict[str, set[str]] = {}
    for kind, uid, owners in steps:
        if kind == "see":
            graph.observe(THINGS, meta(uid, owners=tuple(sorted(owners))))
            model[uid] = owners
        else:
            graph.forget(uid)
            model.pop(uid, None)
        for owner in "abcde":
            assert {node.uid for node in graph.dependents(owner)} == {uid for uid, held in model.items() if owner in held}
    assert len(graph) == len(model)


def reference(uid: str) -> OwnerReference:
    return OwnerReference(api_version="example.com/v1", kind="Thing", name=uid, uid=uid)


@pytest.mark.parametrize(
    ("live", "state"),
    [
        (None, OwnerState.DANGLING),
        (meta("other"), OwnerState.DANGLING),
        (meta("a"), OwnerState.SOLID),
        (meta("a", deleting=True), OwnerState.SOLID),
        (meta("a", deleting=True, finalizers=("orphan",)), OwnerState.SOLID),
        (meta("a", deleting=True, finalizers=("foregroundDeletion",)), OwnerState.WAITING),
        (meta("a", finalizers=("foregroundDeletion",)), OwnerState.SOLID),
    ],
)
def test_an_owner_is_judged_by_its_uid(live: ObjectMeta | None, state: OwnerState) -> None:
    """An object of the same name with another UID is another object."""
    assert owner_state(reference("a"), live) is state


SOLID, DANGLING, WAITING = OwnerState.SOLID, OwnerState.DANGLING, OwnerState.WAITING


@pytest.mark.parametrize(
    ("states", "finalizers", "dependents", "circle", "verdict"),
    [
        ((), (), False, False, Keep()),
        ((SOLID,), (), False, False, Keep()),
        ((SOLID, DANGLING), (), True, False, DropReferences(("1",))),
        ((WAITING, SOLID, DANGLING), (), True, False, DropReferences(("0", "2"))),
        ((DANGLING,), (), True, False, Delete("Background")),
        ((DANGLING, DANGLING), (), False, False, Delete("Background")),
        ((DANGLING,), ("orphan",), True, False, Delete("Orphan")),
        ((DANGLING,), ("foregroundDeletion",), True, False, Delete("Foreground")),
        ((WAITING,), (), True, False, Delete("Foreground")),
        ((WAITING, DANGLING), (), True, False, Delete("Foreground")),
        ((WAITING,), (), True, True, Delete("Foreground", unblock=True)),
        ((WAITING,), (), False, False, Delete("Background")),
    ],
)
def test_what_becomes_of_a_dependent(
    states: tuple[OwnerState, ...], finalizers: tuple[str, ...], dependents: bool, circle: bool, verdict: Verdict
) -> None:
    """One solid owner keeps it; none deletes it, in the foreground when an owner waits and it has dependents itself."""
    owners = [(reference(str(number)), state) for number, state in enumerate(states)]
    assert judge(meta("x", finalizers=finalizers), owners, has_dependents=dependents, circle=circle) == verdict
