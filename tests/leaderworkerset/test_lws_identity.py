"""Names, keys and subgroups (spec/leaderworkerset.md 3.8, 4.1, 4.2)."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.leaderworkerset.objects.identity import (
    group_key,
    hash_host_name,
    leader_pod_name,
    parent_and_ordinal,
    subgroup_index,
    subgroup_key,
)


def test_group_key_is_the_sha1_of_namespace_and_leader() -> None:
    """3.8: the same key as the Go controller's, or adopted groups would get a second one."""
    assert group_key("default", "demo-0") == hashlib.sha1(b"default/demo-0").hexdigest()
    assert subgroup_key("demo-0", 2) == hashlib.sha1(b"demo-0/2").hexdigest()


def test_group_keys_differ_between_namespaces_and_groups() -> None:
    """2.9: unique per group."""
    assert len({group_key(namespace, f"demo-{index}") for namespace in ("a", "b") for index in range(10)}) == 20


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("demo-0", ("demo", 0)),
        ("demo-0-3", ("demo-0", 3)),
        ("a-b-12", ("a-b", 12)),
        ("demo", None),
        ("demo-", None),
        ("demo-x1", None),
        ("demo-1\n", None),
        ("demo-٣", None),
    ],
)
def test_parent_and_ordinal(name: str, expected: tuple[str, int] | None) -> None:
    """3.8: the trailing number of a StatefulSet pod's name; nothing else is a number."""
    assert parent_and_ordinal(name) == expected


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True), st.integers(0, 10**6))
def test_leader_names_can_be_read_back(name: str, index: int) -> None:
    """4.1: name and index survive the way through a pod name, also for names that end with a number."""
    assert parent_and_ordinal(leader_pod_name(name, index)) == (name, index)


def test_hash_host_name() -> None:
    """4.2: the name and the first eight characters of the key."""
    assert hash_host_name("demo", "0123456789abcdef") == "demo-01234567"


@pytest.mark.parametrize(
    ("size", "subgroup_size", "expected"),
    [
        (4, 2, [0, 1, 1]),
        (5, 2, [0, 0, 1, 1]),
        (4, 4, [0, 0, 0]),
        (4, 1, [1, 2, 3]),
        (9, 4, [0, 0, 0, 0, 1, 1, 1, 1]),
        (8, 4, [0, 0, 0, 1, 1, 1, 1]),
    ],
)
def test_subgroup_index(size: int, subgroup_size: int, expected: list[int]) -> None:
    """3.8 step 3: by position in the group, or among the workers when only those divide evenly."""
    assert [subgroup_index(worker, size=size, subgroup_size=subgroup_size) for worker in range(1, size)] == expected


@given(st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_subgroups_are_full(subgroup_size: int, count: int, with_extra_leader: bool) -> None:
    """3.8 step 3: every subgroup has its size, but for the leader's when it is an extra member."""
    size = subgroup_size * count + (1 if with_extra_leader else 0)
    members = [0] + [subgroup_index(worker, size=size, subgroup_size=subgroup_size) for worker in range(1, size)]
    extra = 1 if with_extra_leader and subgroup_size > 1 else 0
    sizes = [members.count(index) for index in range(max(members) + 1)]
    assert sizes[0] == subgroup_size + extra
    assert set(sizes[1:]) <= {subgroup_size}


def test_keys_are_label_values() -> None:
    """2.9: keys are put into labels, which take 63 characters."""
    assert re.fullmatch(r"[0-9a-f]{40}", group_key("n" * 63, "p" * 253))
