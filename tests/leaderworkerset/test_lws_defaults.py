"""Defaulting at admission (spec/leaderworkerset.md 2.2-2.5)."""

import copy
from typing import Any

import pytest
from tests.leaderworkerset.lws_api_builders import TEMPLATE, lws_dict, rolling

from regroup.leaderworkerset.api.defaults import default, default_spec


def _spec(**fields: Any) -> dict[str, Any]:
    return default_spec({"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}, **fields})


def _template(**fields: Any) -> dict[str, Any]:
    template: dict[str, Any] = _spec(leaderWorkerTemplate=fields)["leaderWorkerTemplate"]
    return template


def test_everything_that_has_a_default_gets_it() -> None:
    """Behaviours 1 and 2, 2.4: also the missing rolling update block."""
    assert _spec() == {
        "replicas": 1,
        "startupPolicy": "LeaderCreated",
        "groupIdentity": "Ordinal",
        "groupReplacementPolicy": "PostTermination",
        "podTerminationPolicy": "Default",
        "networkConfig": {"subdomainPolicy": "Shared"},
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0, "partition": 0},
        },
        "leaderWorkerTemplate": {"workerTemplate": TEMPLATE, "size": 1, "restartPolicy": "RecreateGroupOnPodRestart"},
    }


def test_what_is_set_stays() -> None:
    """2.2: zero is a value."""
    spec = _spec(replicas=0, startupPolicy="LeaderReady", networkConfig={"subdomainPolicy": "UniquePerReplica"})
    assert (spec["replicas"], spec["startupPolicy"]) == (0, "LeaderReady")
    assert spec["networkConfig"] == {"subdomainPolicy": "UniquePerReplica"}
    config = _spec(**rolling(maxUnavailable=0, maxSurge="20%"))["rolloutStrategy"]["rollingUpdateConfiguration"]
    assert config == {"maxUnavailable": 0, "maxSurge": "20%", "partition": 0}


def test_the_deprecated_policy_is_rewritten() -> None:
    """Behaviour 3."""
    assert _template(restartPolicy="Default")["restartPolicy"] == "None"


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ({}, {"baseSeconds": 10, "capSeconds": 300}),
        ({"baseSeconds": 20}, {"baseSeconds": 20, "capSeconds": 300}),
        ({"capSeconds": 60}, {"baseSeconds": 10, "capSeconds": 60}),
        (None, None),
    ],
)
def test_backoff(backoff: Any, expected: Any) -> None:
    """Behaviour 8: an empty object is filled; an absent one stays absent."""
    assert _template(restartBackoff=backoff)["restartBackoff"] == expected
    assert "restartBackoff" not in _template()


def test_subgroup_type() -> None:
    """2.3."""
    assert _template(subGroupPolicy={"subGroupSize": 2})["subGroupPolicy"] == {
        "subGroupSize": 2,
        "subGroupPolicyType": "LeaderWorker",
    }


def test_idempotent_and_pure() -> None:
    """3.8: a second webhook pass, or an update, changes nothing; the input is never changed."""
    obj = lws_dict(template={"restartPolicy": "Default", "restartBackoff": {}})
    before = copy.deepcopy(obj)
    once = default(obj)
    assert obj == before
    assert default(once) == once


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"spec": None},
        {"spec": []},
        {"spec": {"leaderWorkerTemplate": "x", "rolloutStrategy": 3, "networkConfig": 7}},
        {"spec": {"leaderWorkerTemplate": {"restartBackoff": [], "subGroupPolicy": 1}}},
        {"spec": {"rolloutStrategy": {"type": "Recreate"}}},
        {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": "fast"}}},
    ],
)
def test_wrong_types_are_left_for_the_schema(obj: dict[str, Any]) -> None:
    """2.7: the API server calls us before it has checked any type; a wrong one must come back as it is, not as an error."""
    result = default(obj)
    for key, value in (obj.get("spec") or {}).items() if isinstance(obj.get("spec"), dict) else ():
        if not isinstance(value, dict):
            assert result["spec"][key] == value
