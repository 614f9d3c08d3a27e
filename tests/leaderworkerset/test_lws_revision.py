"""Revisions (spec/leaderworkerset.md 3.5)."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.leaderworkerset.lws_api_builders import CONTAINER, TEMPLATE, lws, rolling

from regroup.kube.workloads import ControllerRevision
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.objects.revision import (
    RevisionDamaged,
    find_revision,
    next_number,
    restore,
    revision_data,
    revision_hash,
    revision_key,
    revision_name,
    same_revision,
)


def _revision(data: Any, *, number: int = 1, key: str = "k") -> ControllerRevision:
    labels = {keys.REVISION: key} if key else {}
    body = {"metadata": {"name": f"demo-{key}-{number}", "labels": labels}, "revision": number, "data": data}
    return msgspec.json.decode(msgspec.json.encode(body), type=ControllerRevision)


def test_shape() -> None:
    """A patch that replaces template and network configuration; a missing network configuration is Shared."""
    data = revision_data(lws(template={"maxGroupRestarts": 3, "restartBackoff": {}}))
    assert data == {
        "spec": {
            "leaderWorkerTemplate": {
                "workerTemplate": TEMPLATE,
                "size": 4,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "$patch": "replace",
            },
            "networkConfig": {"subdomainPolicy": "Shared", "$patch": "replace"},
        }
    }


@pytest.mark.parametrize(
    ("spec", "template"),
    [
        ({}, {"maxGroupRestarts": 3}),
        ({}, {"restartBackoff": {"baseSeconds": 5}}),
        ({"replicas": 9}, {}),
        (rolling(partition=1, maxSurge=2), {}),
        ({"startupPolicy": "LeaderReady"}, {}),
        ({"groupReplacementPolicy": "Immediate"}, {}),
        ({"podTerminationPolicy": "Parallel"}, {}),
        ({"networkConfig": {"subdomainPolicy": "Shared"}}, {}),
        ({}, {"restartPolicy": "RecreateGroupOnPodRestart"}),
        ({}, {"leaderTemplate": None, "volumeClaimTemplates": []}),
    ],
)
def test_live_knobs_and_defaults_are_no_change(spec: dict[str, Any], template: dict[str, Any]) -> None:
    """Behaviours 22, 80, 137, 6.1, B6: none of these makes a revision, so none of them replaces a pod."""
    changed = lws(spec=spec, template=template)
    assert revision_hash(revision_data(changed)) == revision_hash(revision_data(lws()))
    assert same_revision(changed, _revision(revision_data(lws())))


@pytest.mark.parametrize(
    ("spec", "template"),
    [
        ({}, {"size": 5}),
        ({}, {"restartPolicy": "None"}),
        ({}, {"workerTemplate": {"spec": {"containers": [{**CONTAINER, "image": "other"}]}}}),
        ({}, {"workerTemplate": {**TEMPLATE, "metadata": {"labels": {"a": "b"}}}}),
        ({}, {"leaderTemplate": TEMPLATE}),
        ({"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}, {}),
        ({}, {"subGroupPolicy": {"subGroupSize": 2}}),
        ({}, {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}),
        ({}, {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}),
    ],
)
def test_template_and_network_are_a_change(spec: dict[str, Any], template: dict[str, Any]) -> None:
    """6.1, 6.6."""
    changed = lws(spec=spec, template=template)
    assert revision_hash(revision_data(changed)) != revision_hash(revision_data(lws()))
    assert not same_revision(changed, _revision(revision_data(lws())))


def test_hash_is_short_stable_and_safe() -> None:
    """A label value in Kubernetes' alphabet, and the same in every process and version: changing it would roll every group."""
    key = revision_hash(revision_data(lws()))
    assert re.fullmatch(r"[bcdfghjklmnpqrstvwxz2456789]{10}", key)
    assert revision_hash({"spec": {"a": 1, "b": [1, "x"]}}) == revision_hash({"spec": {"b": [1, "x"], "a": 1}})
    assert revision_hash(revision_data(lws())) == "56skr99852"


def test_name() -> None:
    """3.5: the name is cut so that hash and number still fit."""
    assert revision_name("demo", key="abc", number=3) == "demo-abc-3"
    assert len(revision_name("d" * 300, key="k" * 10, number=1)) == 220 + 13


GO_DATA = {
    "spec": {
        "leaderWorkerTemplate": {
            "$patch": "replace",
            "workerTemplate": {
                "metadata": {"creationTimestamp": None},
                "spec": {"containers": [{**CONTAINER, "resources": {}}]},
            },
            "size": 4,
            "restartPolicy": "RecreateGroupOnPodRestart",
        },
        "networkConfig": {"$patch": "replace", "subdomainPolicy": "Shared"},
    }
}


def test_revisions_of_the_go_controller_are_adopted() -> None:
    """Issue 5 point 3, behaviour 22: its data equal ours, under its own key and its own hash."""
    stored = _revision(GO_DATA, key="7d9c5f")
    assert same_revision(lws(), stored)
    found = find_revision(lws(), [stored])
    assert found is not None
    assert revision_key(found) == "7d9c5f"


@pytest.mark.parametrize("missing", ["size", "restartPolicy", "networkConfig"])
def test_an_upgrade_that_adds_defaults_rolls_nothing(missing: str) -> None:
    """3.5, behaviour 22: the stored data go through today's defaults before they are compared."""
    data = json.loads(json.dumps(revision_data(lws(template={"size": None}))))
    data["spec"].pop(missing, None)
    data["spec"]["leaderWorkerTemplate"].pop(missing, None)
    assert same_revision(lws(template={"size": None}), _revision(data))


def test_the_deprecated_policy_equals_none() -> None:
    """5.8: a revision stored with Default, an object rewritten to None."""
    data = revision_data(lws(template={"restartPolicy": "None"}))
    data["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "Default"
    assert same_revision(lws(template={"restartPolicy": "None"}), _revision(data))


def test_the_newest_equal_revision_is_found() -> None:
    """3.5: going back to an older template finds its revision again; one without a key cannot be named by pods."""
    data, other = revision_data(lws()), revision_data(lws(template={"size": 9}))
    revisions = [
        _revision(data, number=1, key="a"),
        _revision(other, number=2, key="b"),
        _revision(data, number=3, key="c"),
        _revision(data, number=4, key=""),
        _revision(None, number=5, key="d"),
    ]
    found = find_revision(lws(), revisions)
    assert found is not None
    assert revision_key(found) == "c"
    assert find_revision(lws(template={"size": 7}), revisions) is None
    assert next_number(revisions) == 6
    assert next_number([]) == 1


def test_restore_keeps_live_fields() -> None:
    """3.5, 6.4: template and network of the revision; everything else, and the live knobs, of the object."""
    old = lws(
        spec={"networkConfig": {"subdomainPolicy": "UniquePerReplica"}},
        template={"size": 2, "restartPolicy": "None", "subGroupPolicy": {"subGroupSize": 2}},
        annotations={"a": "old"},
    )
    live = lws(
        spec={"replicas": 7},
        template={"size": 6, "maxGroupRestarts": 3, "restartBackoff": {"baseSeconds": 1}},
        annotations={"a": "new"},
    )
    then = restore(live, _revision(revision_data(old)))
    assert (then.template.size, then.template.restart_policy, then.spec.subdomain_policy) == (2, "None", "UniquePerReplica")
    policy = then.template.sub_group_policy
    assert policy is not None
    assert (policy.type, policy.size) == ("LeaderWorker", 2)
    assert (then.spec.replicas, then.template.max_group_restarts) == (7, 3)
    assert then.template.restart_backoff == live.template.restart_backoff
    assert then.metadata == live.metadata
    assert live.template.size == 6


@given(
    st.fixed_dictionaries(
        {
            "size": st.integers(1, 9),
            "restartPolicy": st.sampled_from(["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None", "Default"]),
            "leaderTemplate": st.none() | st.just(TEMPLATE),
            "volumeClaimTemplates": st.sampled_from([None, [], [{"metadata": {"name": "d"}, "spec": {}}]]),
            "subGroupPolicy": st.sampled_from([None, {"subGroupSize": 1}]),
        }
    )
)
def test_what_was_stored_is_what_is_restored(template: dict[str, Any]) -> None:
    """3.5: store and restore are inverse, whatever the live object looks like now."""
    old = lws(template=template)
    then = restore(lws(template={"size": 8}), _revision(revision_data(old)))
    assert revision_data(then) == revision_data(old)


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        [],
        {},
        {"spec": None},
        {"spec": {}},
        {"spec": {"leaderWorkerTemplate": None}},
        {"spec": {"leaderWorkerTemplate": "x"}},
        {"spec": {"leaderWorkerTemplate": {"size": 4}}},
        {"spec": {"leaderWorkerTemplate": {"size": "four", "workerTemplate": TEMPLATE}}},
        {"spec": {"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}, "networkConfig": []}},
        {"spec": {"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}, "networkConfig": {"subdomainPolicy": 1}}},
    ],
)
def test_damaged_data(data: Any) -> None:
    """Issue 5, bad input: a damaged revision equals nothing, and restoring it says which one it is."""
    damaged = _revision(data)
    assert not same_revision(lws(), damaged)
    assert find_revision(lws(), [damaged]) is None
    with pytest.raises(RevisionDamaged, match="demo-k-1"):
        restore(lws(), damaged)
