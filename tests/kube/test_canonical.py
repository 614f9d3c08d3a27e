"""Templates that mean the same are equal, others are not (spec/leaderworkerset.md 3.5, Q30)."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.kube.canonical import canonical, covers

AUTHOR = {
    "spec": {
        "containers": [
            {
                "name": "a",
                "env": [{"name": "A", "value": "1"}, {"name": "B"}],
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi", "google.com/tpu": 4}},
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
}
GO = {
    "metadata": {"creationTimestamp": None},
    "spec": {
        "containers": [
            {
                "name": "a",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi", "google.com/tpu": "4"}},
                "args": [],
                "tty": False,
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        "securityContext": {},
        "hostNetwork": False,
    },
}


def test_as_written_and_as_go_writes_it() -> None:
    """3.5: a manifest applied again must not roll groups whose revision a Go program stored."""
    assert canonical(AUTHOR) == canonical(GO)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"emptyDir": {}}, {}),
        ({"labelSelector": {}}, {}),
        ({"automountServiceAccountToken": False}, {}),
        ({"terminationGracePeriodSeconds": 0}, {}),
        ({"runAsUser": 0}, {}),
        ({"storageClassName": ""}, {}),
        ({"labels": {"value": ""}}, {"labels": {}}),
        ({"protocol": "UDP", "containerPort": 1}, {"containerPort": 1}),
        ({"protocol": "TCP"}, {}),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1k"}}),
        ({"limits": {"memory": "1G"}}, {"limits": {"memory": "1Gi"}}),
        ({"hostPort": 0}, {"hostPort": 1}),
        ({"value": "0"}, {"value": ""}),
    ],
)
def test_what_has_a_meaning_is_kept(one: dict[str, Any], other: dict[str, Any]) -> None:
    """3.5: a change that matters is never missed."""
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1000m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1e3", "1k"),
        ("1Gi", "1024Mi"),
        (1, "1"),
        (0.5, "500m"),
        ("1000000u", "1"),
        ("1E", "1000P"),
    ],
)
def test_equal_amounts(one: Any, other: Any) -> None:
    """Kubernetes' quantities have many spellings."""
    assert canonical({"requests": {"x": one}}) == canonical({"requests": {"x": other}})


@pytest.mark.parametrize("amount", ["lots", "", "1Kx", True, None, "--1", float("inf"), [1], "1e99999999999999999999"])
def test_what_is_no_amount_stays(amount: Any) -> None:
    """Bad input is judged elsewhere; here it must neither break nor grow."""
    assert len(str(canonical({"limits": {"x": amount}}))) < 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "resources", "value", "labels", "limits", "tty"]), inner)
    ),
    max_leaves=12,
)


@given(JSON)
def test_canonical_is_idempotent_and_pure(value: Any) -> None:
    """A canonical form has itself as canonical form, covers itself, and leaves its input alone."""
    before = copy.deepcopy(value)
    once = canonical(value)
    assert canonical(once) == once
    assert covers(once, once)
    assert value == before


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"b": 2}, {"a": 1}, False),
        ({"a": 1}, {"a": 2}, False),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": 1}, {"a": {"b": 1}}, False),
        ({"a": {}}, {"a": []}, False),
    ],
)
def test_covers(live: Any, wanted: Any, expected: bool) -> None:
    """Q30: compared on what we set; what the server adds does not count."""
    assert covers(live, wanted) is expected
