"""Projection onto the InferenceReplica (spec/omenative.md 1.2)."""

from typing import Any

import pytest
from tests.omenative.ome_service_builders import RECREATE, resolved, runtime, service

from regroup.omenative.api.replica import InferenceReplica, decode
from regroup.omenative.api.types import InferenceService
from regroup.omenative.service.project import manifest, patch, spec_hash
from regroup.omenative.service.resolve import Resolved
from regroup.wire.patches import apply_merge_patch

Object = dict[str, Any]


def _manifest(of: InferenceService, **more: Any) -> Object:
    found = resolved(of, **more)
    assert isinstance(found, Resolved), found
    return manifest(of, found)


def test_the_replica_of_a_component() -> None:
    """1.2: name, owner, labels, annotations, finalizer, spec."""
    made = _manifest(
        service(
            metadata={"labels": {"team": "a"}, "annotations": {"cost": "1", "ome.io/revision-history-limit": "4"}},
            engine={"minReplicas": 2, "lifecycle": {"restartPolicy": RECREATE}, "topologySpread": "Required"},
        )
    )
    meta = made["metadata"]
    assert meta["name"] == "qwen3-0-6b-engine"
    assert meta["finalizers"] == ["ome.io/ir-teardown"]
    [owner] = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("InferenceService", "isvc-uid", True)
    assert meta["labels"] == {
        "team": "a",
        "ome.io/inferenceservice": "qwen3-0-6b",
        "component": "engine",
        "ome.io/managed-by": "OMENative",
    }
    assert meta["annotations"]["ome.io/controller-write"] == "true"
    assert meta["annotations"]["ome.io/parent-generation"] == "3"
    assert meta["annotations"]["cost"] == "1"
    assert meta["annotations"]["ome.io/revision-excluded-annotation-keys"] == "cost"
    assert "ome.io/revision-history-limit" not in meta["annotations"]
    spec = made["spec"]
    assert spec.pop("runners")[0]["name"] == "default"
    assert spec == {
        "parentRef": {"name": "qwen3-0-6b"},
        "component": "engine",
        "replicas": 2,
        "lifecycle": {"restartPolicy": RECREATE},
        "topologySpread": "Required",
        "revisionHistoryLimit": 4,
    }


@pytest.mark.parametrize(
    ("value", "paused", "frozen"),
    [
        ("true", True, False),
        ("freeze", True, True),
        ("True", False, False),
        ("", False, False),
        ("Freeze", False, False),
        (None, False, False),
    ],
)
def test_only_exact_values_pause(value: str | None, paused: bool, frozen: bool) -> None:
    """1.2 and behaviour 103."""
    annotations = {} if value is None else {"ome.io/rollout-paused": value}
    found = decode(_manifest(service(engine={}, metadata={"annotations": annotations})))
    assert (found.spec.paused, found.spec.frozen_pause) == (paused, frozen)


def _live(made: Object, **metadata: Any) -> InferenceReplica:
    return decode({**made, "metadata": {**made["metadata"], "uid": "u", "resourceVersion": "1", **metadata}})


def test_nothing_changed_is_no_write() -> None:
    """1.2: written only when something changed; what the API server adds is no change."""
    made = _manifest(service(engine={"lifecycle": {"restartPolicy": RECREATE}}))
    assert patch(_live(made), made) is None
    defaulted = {**made, "spec": {**made["spec"], "paused": False, "minReadySeconds": 0, "pauseMode": ""}}
    assert patch(_live(defaulted), made) is None


def test_a_policy_edit_is_the_smallest_patch() -> None:
    """Behaviour 11: nothing but the policy moves, so no template and no revision does."""
    before = _manifest(service(engine={"lifecycle": {"restartPolicy": RECREATE, "instanceReadyTimeout": "9m"}}))
    after = _manifest(service(engine={"lifecycle": {"restartPolicy": "None", "instanceReadyTimeout": "9m"}}))
    found = patch(_live(before), after)
    assert found is not None
    assert found["spec"] == {"lifecycle": {"restartPolicy": "None"}}
    assert found["metadata"].keys() == {"annotations"}


def test_what_is_taken_away_is_taken_away() -> None:
    """1.2: the replica says what the service says: a field that is gone there goes here."""
    rich = service(
        metadata={"labels": {"team": "a"}, "annotations": {"cost": "1", "ome.io/rollout-paused": "freeze"}},
        engine={"lifecycle": {"restartPolicy": RECREATE, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}},
    )
    plain = service(engine={"lifecycle": {"updateStrategy": {"type": "RecreatePod"}}})
    before, after = _manifest(rich), _manifest(plain)
    live = _live(before)
    changes = patch(live, after)
    assert changes is not None
    merged = apply_merge_patch({**before, "metadata": {**before["metadata"], "uid": "u"}}, changes)
    assert merged["spec"] == after["spec"]
    assert merged["metadata"]["labels"] == after["metadata"]["labels"]
    assert merged["metadata"]["annotations"] == after["metadata"]["annotations"]
    assert patch(decode(merged), after) is None, "a second look finds nothing to do"


def test_mailboxes_and_other_peoples_metadata_stay() -> None:
    """1.2: metadata may be changed freely."""
    made = _manifest(service(engine={}))
    live = _live(
        made,
        annotations={**made["metadata"]["annotations"], "ome.io/reset-instances": "all", "note": "x"},
        labels={**made["metadata"]["labels"], "theirs": "y"},
        finalizers=["other", "ome.io/ir-teardown"],
    )
    assert patch(live, made) is None


def test_a_new_image_replaces_the_runners() -> None:
    """1.2: a template change reaches the replica as a whole."""
    before = _manifest(service(engine={}))
    after = _manifest(service(engine={}), by=runtime(engineConfig={"runner": {"image": "server:2"}}))
    found = patch(_live(before), after)
    assert found is not None
    assert found["spec"] == {"runners": after["spec"]["runners"]}


def test_a_replica_without_controller_is_taken_in() -> None:
    """1.2: controller ownerReference to the service; other owners stay."""
    made = _manifest(service(engine={}))
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}
    found = patch(_live(made, ownerReferences=[other]), made)
    assert found is not None
    assert [owner["kind"] for owner in found["metadata"]["ownerReferences"]] == ["ConfigMap", "InferenceService"]
    assert found["metadata"]["ownerReferences"][0]["name"] == "x"


def test_the_hash_of_a_spec_says_whether_it_means_the_same() -> None:
    """1.2: admission tells our edits from others' by it."""
    made = _manifest(service(engine={}))
    mark = made["metadata"]["annotations"]["omenative.regroup.dev/projected"]
    assert mark == spec_hash(made) == spec_hash({"spec": {**made["spec"], "paused": False}})
    assert mark != spec_hash({"spec": {**made["spec"], "replicas": 9}})


def test_a_finalizer_that_was_taken_off_comes_back() -> None:
    """1.2, 5.7: without it the pods are not drained when the replica goes. Those of others stay; one that goes gets none."""
    made = _manifest(service(engine={}))
    live = _live(made, finalizers=["other"])
    assert patch(live, made) == {"metadata": {"finalizers": ["other", "ome.io/ir-teardown"]}}
    going = _live(made, finalizers=["other"], deletionTimestamp="2026-08-01T12:00:00Z")
    assert patch(going, made) is None
