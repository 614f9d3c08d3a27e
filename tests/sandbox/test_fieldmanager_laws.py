"""Laws of field ownership that hold for whatever managers do."""

import copy
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regroup.sandbox.fieldmanager.manager import ApplyConflict, apply, update
from regroup.sandbox.fieldmanager.sets import paths, tree_of, union, without
from regroup.sandbox.fieldmanager.typed import compare, field_set, merge

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "labels": {"additionalProperties": {"type": "string"}}},
        },
        "spec": {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": "integer"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "whole": {"type": "object", "additionalProperties": {"type": "integer"}, "x-kubernetes-map-type": "atomic"},
                "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
                },
            },
        },
    },
}
NUMBERS = st.integers(0, 2)
KEYS = st.sampled_from("xyz")
ITEMS = st.lists(
    st.builds(lambda key, value: {"k": key} | ({} if value is None else {"v": value}), KEYS, st.none() | NUMBERS),
    unique_by=lambda item: item["k"],
    max_size=3,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "a": NUMBERS,
        "b": NUMBERS,
        "map": st.dictionaries(KEYS, NUMBERS, max_size=3),
        "whole": st.dictionaries(KEYS, NUMBERS, max_size=2),
        "set": st.lists(KEYS, unique=True, max_size=3),
        "items": ITEMS,
    },
)
MANAGERS = st.sampled_from(["alice", "bob", "carol"])
STEPS = st.lists(st.tuples(st.sampled_from(["apply", "force", "update"]), MANAGERS, SPECS), max_size=8)


def obj(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": copy.deepcopy(spec)}


def step(live: dict[str, Any] | None, kind: str, manager: str, spec: dict[str, Any], time: int) -> dict[str, Any] | None:
    now = f"2026-01-01T00:00:{time:02d}Z"
    if kind == "update":
        new = obj(spec)
        return update(live, new, manager=manager, subresource="", now=now, schema=SCHEMA)
    try:
        return apply(live, obj(spec), manager=manager, force=kind == "force", subresource="", now=now, schema=SCHEMA)
    except ApplyConflict:
        return live


def play(steps: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any] | None:
    live: dict[str, Any] | None = None
    for number, (kind, manager, spec) in enumerate(steps):
        live = step(live, kind, manager, spec, number)
    return live


def entries(live: dict[str, Any] | None) -> list[dict[str, Any]]:
    return list(((live or {}).get("metadata") or {}).get("managedFields") or [])


def bare(live: dict[str, Any] | None) -> dict[str, Any]:
    live = live or {"metadata": {}}
    return {**live, "metadata": {key: value for key, value in live["metadata"].items() if key != "managedFields"}}


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_nobody_owns_what_is_not_there(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    """Every owned path of an applier exists in the object, or is the place of an empty list or map."""
    live = play(steps)
    there = set(field_set(bare(live), SCHEMA))
    prefixes = {path[:depth] for path in there for depth in range(1, len(path) + 1)}
    spec = (live or {}).get("spec") or {}
    for entry in entries(live):
        for path in paths(entry["fieldsV1"]):
            empty = spec.get(path[1][2:]) in ([], {}) if len(path) == 2 and path[0] == "f:spec" else path == ("f:spec",)
            assert path in prefixes or empty, (path, live)


@given(STEPS, MANAGERS, SPECS)
@settings(max_examples=150, deadline=None)
def test_a_forced_apply_gets_what_it_says_and_owns_just_that(
    steps: list[tuple[str, str, dict[str, Any]]], manager: str, spec: dict[str, Any]
) -> None:
    live = play(steps)
    after = apply(live, obj(spec), manager=manager, force=True, subresource="", now="2026-01-01T00:01:00Z", schema=SCHEMA)
    again = merge(bare(after), obj(spec), SCHEMA)
    assert again == bare(after)
    mine = [entry for entry in entries(after) if (entry["manager"], entry["operation"]) == (manager, "Apply")]
    wanted = set(field_set({"spec": spec}, SCHEMA))
    assert [set(paths(entry["fieldsV1"])) for entry in mine] == ([wanted] if wanted else [])


@given(STEPS, MANAGERS, SPECS)
@settings(max_examples=100, deadline=None)
def test_applying_twice_is_applying_once(
    steps: list[tuple[str, str, dict[str, Any]]], manager: str, spec: dict[str, Any]
) -> None:
    """The second time nothing moves, not even the time. (An object that nobody owns anything of is taken for one from before.)"""
    live = play(steps)
    arguments: dict[str, Any] = {"manager": manager, "force": True, "subresource": "", "schema": SCHEMA}
    once = apply(live, obj(spec), now="2026-01-01T00:01:00Z", **arguments)
    assume(entries(once))
    assert apply(once, obj(spec), now="2026-01-01T00:02:00Z", **arguments) == once


@given(STEPS, MANAGERS)
@settings(max_examples=100, deadline=None)
def test_a_write_that_changes_nothing_changes_no_ownership(steps: list[tuple[str, str, dict[str, Any]]], manager: str) -> None:
    live = play(steps)
    if live is not None:
        same = update(live, copy.deepcopy(live), manager=manager, subresource="", now="2026-01-01T00:01:00Z", schema=SCHEMA)
        assert same == live


@given(STEPS, MANAGERS, SPECS)
@settings(max_examples=150, deadline=None)
def test_without_force_nothing_of_others_changes(
    steps: list[tuple[str, str, dict[str, Any]]], manager: str, spec: dict[str, Any]
) -> None:
    """An apply either conflicts, or leaves every value that another manager owns as it was."""
    live = play(steps)
    if live is None:
        return
    try:
        after = apply(live, obj(spec), manager=manager, force=False, subresource="", now="2026-01-01T00:01:00Z", schema=SCHEMA)
    except ApplyConflict:
        return
    difference = compare(bare(live), bare(after), SCHEMA)
    for entry in entries(live):
        if (entry["manager"], entry["operation"]) != (manager, "Apply"):
            assert not set(paths(entry["fieldsV1"])) & difference.modified


@given(STEPS, MANAGERS, SPECS)
@settings(max_examples=100, deadline=None)
def test_a_plain_write_takes_what_it_changes(
    steps: list[tuple[str, str, dict[str, Any]]], manager: str, spec: dict[str, Any]
) -> None:
    """After it, the writer owns every changed path and nobody else does, and the object is what was written."""
    live = play(steps)
    if live is None or not entries(live):
        return
    new = {**obj(spec), "metadata": copy.deepcopy(live["metadata"])}
    after = update(live, new, manager=manager, subresource="", now="2026-01-01T00:01:00Z", schema=SCHEMA)
    assert bare(after) == bare(new)
    difference = compare(bare(live), bare(new), SCHEMA)
    changed = difference.added | difference.modified
    for entry in entries(after):
        owned = set(paths(entry["fieldsV1"])) & changed
        is_writer = (entry["manager"], entry["operation"]) == (manager, "Update")
        assert owned == (changed if is_writer else set())


@given(STEPS)
@settings(max_examples=100, deadline=None)
def test_an_apply_of_nothing_gives_everything_up(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    """What only that manager applied goes; what others own stays."""
    live = play(steps)
    if live is None:
        return
    empty = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}
    after = apply(live, empty, manager="alice", force=True, subresource="", now="2026-01-01T00:01:00Z", schema=SCHEMA)
    assert not [entry for entry in entries(after) if (entry["manager"], entry["operation"]) == ("alice", "Apply")]
    removed = compare(bare(live), bare(after), SCHEMA)
    assert not removed.added | removed.modified
    for entry in entries(after):
        for path in set(paths(entry["fieldsV1"])) & removed.removed:
            raise AssertionError((entry, path))


PATHS = st.lists(
    st.tuples(*[st.sampled_from(["f:a", "f:b", 'k:{"n":1}'])] * 3).map(lambda path: path[:3]) | st.just(("f:a",)), max_size=6
)


@given(PATHS, PATHS)
def test_sets_of_paths_are_sets(one: list[tuple[str, ...]], other: list[tuple[str, ...]]) -> None:
    """The tree form loses and invents nothing."""
    assert set(paths(tree_of(one))) == set(one)
    assert set(paths(union(tree_of(one), other))) == set(one) | set(other)
    assert set(paths(without(tree_of(one), other))) == set(one) - set(other)
