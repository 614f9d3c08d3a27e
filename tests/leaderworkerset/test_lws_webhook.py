"""Admission handlers and webhook configurations (spec/leaderworkerset.md 2, 3.8, 8.5)."""

import base64
import random
from typing import Any

import jsonpatch
import msgspec
import pytest
from tests.leaderworkerset.lws_api_builders import lws_dict, pod_dict

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.admission.webhook import (
    MUTATE_LWS,
    MUTATE_POD,
    VALIDATE_LWS,
    register,
    webhook_configurations,
)
from regroup.leaderworkerset.api.defaults import default
from regroup.runtime.admission import AdmissionServer

BUDGET_WITH_NONE = lws_dict(template={"restartPolicy": "None", "maxGroupRestarts": 3})


async def _review(
    path: str, obj: dict[str, Any] | None, *, old: dict[str, Any] | None = None, operation: str = "CREATE", seed: int = 1
) -> dict[str, Any]:
    """The answer of a server with our handlers, through real AdmissionReviews."""
    server = AdmissionServer()
    register(server, rng=random.Random(seed))
    request = {"uid": "u", "operation": operation, "namespace": "t", "name": "demo", "object": obj, "oldObject": old}
    body = msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    answer: dict[str, Any] = msgspec.json.decode(await server.handle(path, body))["response"]
    return answer


def _patched(obj: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    if "patch" not in answer:
        return obj
    result: dict[str, Any] = jsonpatch.apply_patch(obj, msgspec.json.decode(base64.b64decode(answer["patch"])))
    return result


async def test_defaults_are_patched_in() -> None:
    """Behaviours 1-3: what the patch makes of the object is the defaulted object."""
    obj = lws_dict(template={"restartPolicy": "Default"})
    answer = await _review(MUTATE_LWS, obj)
    assert answer["allowed"]
    assert _patched(obj, answer) == default(obj)
    assert answer["warnings"] == ["spec.leaderWorkerTemplate.restartPolicy: Default is deprecated, use None"]


async def test_a_complete_object_is_not_patched() -> None:
    """3.8: a second pass changes nothing."""
    answer = await _review(MUTATE_LWS, default(lws_dict()))
    assert answer["allowed"]
    assert "patch" not in answer


async def test_the_deprecated_annotation_is_warned_about() -> None:
    """5.8, Q8."""
    answer = await _review(MUTATE_LWS, lws_dict(annotations={keys.AFTER_START_EXPERIMENT: ""}))
    assert keys.AFTER_START_EXPERIMENT in answer["warnings"][0]


@pytest.mark.parametrize("obj", [{}, {"spec": 3}, {"metadata": None, "spec": {"leaderWorkerTemplate": []}}])
async def test_nonsense_passes_the_mutation(obj: dict[str, Any]) -> None:
    """2.7: the schema refuses it a moment later, with a better message than ours."""
    assert (await _review(MUTATE_LWS, obj))["allowed"]


async def test_refusal() -> None:
    """Behaviour 4: 422, with message and cause as an API server makes them, so that kubectl prints field, value and rule."""
    answer = await _review(VALIDATE_LWS, default(BUDGET_WITH_NONE))
    assert not answer["allowed"]
    status = answer["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    head = 'LeaderWorkerSet.leaderworkerset.x-k8s.io "demo" is invalid: '
    assert status["message"].startswith(head + "spec.leaderWorkerTemplate.maxGroupRestarts: Invalid value: 3: ")
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "spec.leaderWorkerTemplate.maxGroupRestarts"
    assert cause["message"].startswith("Invalid value: 3: may only be set when")


async def test_a_good_object_is_allowed() -> None:
    """Behaviour 2."""
    assert await _review(VALIDATE_LWS, default(lws_dict())) == {"uid": "u", "allowed": True}


async def test_updates_are_compared() -> None:
    """Behaviour 13."""
    new = default(lws_dict(spec={"groupIdentity": "Hash"}))
    answer = await _review(VALIDATE_LWS, new, old=default(lws_dict()), operation="UPDATE")
    assert answer["status"]["details"]["causes"][0]["field"] == "spec.groupIdentity"


async def test_deletion_is_never_blocked() -> None:
    """2.7: neither DELETE itself, nor the update that takes a finalizer away, even from an object that is invalid by now."""
    assert (await _review(VALIDATE_LWS, None, old=BUDGET_WITH_NONE, operation="DELETE"))["allowed"]
    going = {**BUDGET_WITH_NONE, "metadata": {**BUDGET_WITH_NONE["metadata"], "deletionTimestamp": "2026-08-01T12:00:00Z"}}
    assert (await _review(VALIDATE_LWS, going, old=BUDGET_WITH_NONE, operation="UPDATE"))["allowed"]


async def test_pods_get_their_place() -> None:
    """3.8, behaviour 27."""
    pod = pod_dict("demo-0", index="0")
    admitted = _patched(pod, await _review(MUTATE_POD, pod))
    assert admitted["metadata"]["labels"][keys.GROUP_INDEX] == "0"
    assert admitted["spec"]["schedulingGates"] == [{"name": keys.GATE}]
    assert [entry["name"] for entry in admitted["spec"]["containers"][0]["env"]] == [
        "LWS_LEADER_ADDRESS",
        "LWS_GROUP_SIZE",
        "LWS_WORKER_INDEX",
    ]


async def test_a_pod_is_admitted_once() -> None:
    """Behaviour 31: reinvocation, with another draw of the key, patches nothing."""
    pod = pod_dict("x", index="0", annotations={keys.GROUP_IDENTITY: "Hash"}, spec={"hostname": ""}, owner="ReplicaSet")
    admitted = _patched(pod, await _review(MUTATE_POD, pod, seed=1))
    other = _patched(pod, await _review(MUTATE_POD, pod, seed=2))
    assert admitted["metadata"]["labels"][keys.GROUP_KEY] != other["metadata"]["labels"][keys.GROUP_KEY]
    assert "patch" not in await _review(MUTATE_POD, admitted, seed=3)


async def test_foreign_pods_and_other_operations_pass() -> None:
    """3.8: only creations of our pods are looked at."""
    foreign = {"metadata": {"name": "x"}, "spec": {"containers": []}}
    assert await _review(MUTATE_POD, foreign) == {"uid": "u", "allowed": True}
    broken = pod_dict("demo", index="0")
    assert (await _review(MUTATE_POD, broken, operation="UPDATE"))["allowed"]


async def test_a_pod_that_cannot_be_a_member_is_refused() -> None:
    """3.8 steps 1 and 2."""
    answer = await _review(MUTATE_POD, pod_dict("demo", index="0"))
    assert not answer["allowed"]
    assert "metadata.name: Invalid value: 'demo'" in answer["status"]["message"]


def _webhooks(**how: Any) -> list[dict[str, Any]]:
    return [hook for configuration in webhook_configurations(name="regroup", **how) for hook in configuration["webhooks"]]


def test_configurations() -> None:
    """8.5, design 9: closed when we are down, but only for what is ours; deletions are never sent."""
    mutating, validating = webhook_configurations(name="regroup", service=("ns", "svc"), ca_bundle=b"pem")
    assert (mutating["kind"], validating["kind"]) == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert {mutating["metadata"]["name"], validating["metadata"]["name"]} == {"regroup"}
    hooks = _webhooks(service=("ns", "svc"), ca_bundle=b"pem")
    assert [hook["clientConfig"]["service"]["path"] for hook in hooks] == [MUTATE_LWS, MUTATE_POD, VALIDATE_LWS]
    for hook in hooks:
        assert hook["failurePolicy"] == "Fail"
        assert hook["sideEffects"] == "None"
        assert hook["admissionReviewVersions"] == ["v1"]
        assert hook["clientConfig"]["caBundle"] == base64.b64encode(b"pem").decode()
        assert hook["name"].count(".") >= 2
        (rule,) = hook["rules"]
        assert "DELETE" not in rule["operations"]
        assert "*" not in rule["resources"]
        assert "namespaceSelector" not in hook
    pods = hooks[1]
    assert pods["objectSelector"] == {"matchExpressions": [{"key": keys.NAME, "operator": "Exists"}]}
    assert pods["rules"][0]["operations"] == ["CREATE"]
    assert pods["reinvocationPolicy"] == "IfNeeded"


def test_by_url_and_for_some_namespaces() -> None:
    """Issue 3 point 6: an operator outside of the cluster registers its own URL; --namespaces limits the webhooks too."""
    for hook in _webhooks(url="https://127.0.0.1:9443/", namespaces=("a", "b")):
        assert hook["clientConfig"]["url"] in {f"https://127.0.0.1:9443{path}" for path in (MUTATE_LWS, MUTATE_POD, VALIDATE_LWS)}
        assert "caBundle" not in hook["clientConfig"]
        (expression,) = hook["namespaceSelector"]["matchExpressions"]
        assert expression == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}


@pytest.mark.parametrize("how", [{}, {"service": ("a", "b"), "url": "https://x"}])
def test_exactly_one_way(how: dict[str, Any]) -> None:
    """A configuration that reaches nobody, with failurePolicy Fail, would stop every pod of ours."""
    with pytest.raises(ValueError, match="service or by a URL"):
        webhook_configurations(name="regroup", **how)
