"""What this version does not do is refused or told by name, never taken in silence: [COULD] of
spec/omenative.md, with kubectl."""

from typing import Any

import pytest
from tests.stories.ome.ome_cluster import OmeKubectl, runtime, service

from regroup.wire.yamlish import dump

pytestmark = [pytest.mark.http, pytest.mark.kubectl]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("ome.io/migration-request-v1-5f0c", "migrating Instances is not supported by this version of regroup"),
        ("ome.io/rollout-promote", "rolling out by canary is not supported by this version of regroup"),
        ("ome.io/rollout-rollback", "rolling out by canary is not supported by this version of regroup"),
    ],
)
def test_orders_by_annotation_are_refused(k: OmeKubectl, key: str, words: str) -> None:
    """5.6, 5.8, 2.7: an order that nobody would carry out is not taken; the service runs on."""
    k.apply(runtime(k.namespace), service())
    k.settled()
    old = k.pod_uids()
    said = k.fails("annotate", "isvc", "svc", f"{key}=svc-engine-0")
    assert f"metadata.annotations[{key}]" in said
    assert words in said
    k.lets_pass(20)
    assert k.pod_uids() == old


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (
            {"rollout": {"groups": [{"name": "one", "components": ["engine"]}]}},
            "spec.rollout.groups",
            "rolling components out in groups is not supported by this version of regroup",
        ),
        (
            {"runtime": {"name": "stub", "kind": "ServingRuntime", "autoSync": False}},
            "spec.runtime.autoSync",
            "pinning a runtime is not supported by this version of regroup",
        ),
        (
            {"runtime": {"name": "stub", "kind": "ServingRuntime", "revision": "stub-1"}},
            "spec.runtime.revision",
            "pinning a runtime is not supported by this version of regroup",
        ),
    ],
)
def test_fields_that_would_change_what_runs_are_refused(k: OmeKubectl, change: dict[str, Any], field: str, words: str) -> None:
    """1.1: the message names the field."""
    k.apply(runtime(k.namespace))
    body = service()
    said = k.fails("apply", "-f", "-", text=dump({**body, "spec": {**body["spec"], **change}}))
    assert field in said
    assert words in said


def test_autoscaling_and_others_are_told_by_a_warning(k: OmeKubectl) -> None:
    """1.1, 1.1.1: OME's manifests may have them: taken, told by kubectl's Warning, and minReplicas is what runs."""
    body = service(
        engine={"autoscaler": {"class": "HPA"}, "maxReplicas": 5},
        lifecycle={"migrationPolicy": {"mode": "Auto"}, "readyPolicy": "None"},
        traffic={"canary": 10},
        placement={},
    )
    said = k.apply(runtime(k.namespace), body)
    for field in (
        "spec.traffic",
        "spec.placement",
        "spec.engine.autoscaler",
        "spec.engine.lifecycle.readyPolicy",
        "spec.engine.lifecycle.migrationPolicy",
    ):
        assert f"Warning: {field}: " in said
    k.settled(1)
    k.lets_pass(60)
    assert len(k.pod_uids()) == 1


def test_a_runtime_is_not_chosen_automatically(k: OmeKubectl) -> None:
    """1.3: a service that names only its model is told to name a runtime, by condition and event."""
    model = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "BaseModel",
        "metadata": {"name": "tiny", "namespace": k.namespace},
        "spec": {"modelFormat": {"name": "safetensors"}},
    }
    body = service()
    del body["spec"]["runtime"]
    body["spec"]["model"] = {"name": "tiny", "kind": "BaseModel"}
    k.apply(runtime(k.namespace), model, body)
    k.until(lambda: k.service_condition("RuntimeReady")[0] == "False", what="RuntimeReady is False")
    _, reason, message = k.service_condition("RuntimeReady")
    assert reason == "InvalidComponent"
    assert "a runtime is not chosen automatically, name one in spec.runtime.name" in message
    assert k.until(lambda: k.notes("InvalidComponent"), what="an event says so")
    assert k.instance_pods() == {}


@pytest.mark.parametrize("mode", ["RawDeployment", "MultiNode", "VirtualDeployment"])
def test_other_modes_are_told_and_left_alone(k: OmeKubectl, mode: str) -> None:
    """Behaviour 10, 1.1.4: a condition and an event name the mode; nothing is made, and the policy is nobody's there."""
    body = service("RecreateInstanceOnPodRestart", engine={"annotations": {"ome.io/deploymentMode": mode}})
    k.apply(runtime(k.namespace), body)
    k.until(lambda: k.service_condition("EngineReady")[1] == "UnsupportedDeploymentMode", what="EngineReady says so")
    assert mode in k.service_condition("EngineReady")[2]
    assert k.until(lambda: k.notes("UnsupportedDeploymentMode"), what="an event says so")
    assert k.get("irep") == []
    assert k.get("pods") == []


def test_standalone_replicas_need_their_templates(k: OmeKubectl) -> None:
    """1.2: a replica of its own from a model or a runtime is refused, with what to set in their place."""
    for field in ("modelRef", "runtimeRef"):
        body = {
            "apiVersion": "ome.io/v1beta1",
            "kind": "InferenceReplica",
            "metadata": {"name": "alone"},
            "spec": {"component": "engine", field: {"name": "stub"}},
        }
        said = k.fails("apply", "-f", "-", text=dump(body))
        assert f"spec.{field}" in said
        assert "set spec.runners" in said
