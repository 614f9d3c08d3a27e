"""Protobuf bodies are read as the objects that kubectl meant. The bodies were recorded from kubectl 1.37."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.kinds_hands import KINDS

from regroup.sandbox.kinds.tables import TABLE
from regroup.sandbox.protobuf import MAGIC, ProtobufError, decode_protobuf

CONFIG_MAP = "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEhsKEQoBYRIAGgAiACoAMgA4AEIAEgYKAWsSAXYaACIA"
SECRET = "azhzAAoMCgJ2MRIGU2VjcmV0Eh0KEQoBcxIAGgAiACoAMgA4AEIAEgYKAXASAXEaABoAIgA="
NAMESPACE = "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhkKEQoBbhIAGgAiACoAMgA4AEIAEgAaAgoAGgAiAA=="
DEPLOYMENT = (
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50Eq4BChsKAWQSABoAIgAqADIAOABCAFoICgNhcHASAWQSgAEIAhIKCggKA2FwcBIBZBpoChoKABIAGgAiACoA"
    "MgA4AEIAWggKA2FwcBIBZBJKEiwKA2ltZxIFaW1nOjEqADIKCgAQABhQIgAqAEIAagByAIABAIgBAJABAKIBABoAMgBCAEoAUgBYAGAAaACCAQCKAQCaAQDC"
    "AQAiAgoAKAA4ABoMCAAQABgAIAAoADgAGgAiAA=="
)
SERVICE = (
    "azhzAAoNCgJ2MRIHU2VydmljZRJmCh0KAnN2EgAaACIAKgAyADgAQgBaCQoDYXBwEgJzdhJBChsKBzgwLTgwODASA1RDUBhQIgcIABCQPxoAKAASCQoDYXBw"
    "EgJzdhoAIglDbHVzdGVySVA6AEIAUgBaAGAAaAAaAgoAGgAiAA=="
)
BUDGET = (
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSNgoRCgFwEgAaACIAKgAyADgAQgASFQoJCAEQABoDNTAlEggKBgoBYRIBYhoKCAAYACAA"
    "KAAwABoAIgA="
)
BINDING = (
    "azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtSb2xlQmluZGluZxJ+ChIKAnJiEgAaACIAKgAyADgAQgASJgoEVXNlchIZcmJhYy5hdXRo"
    "b3JpemF0aW9uLms4cy5pbxoBdSIAEhoKDlNlcnZpY2VBY2NvdW50EgAaAnNhIgJucxokChlyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvEgRSb2xlGgFyGgAi"
    "AA=="
)
PRIORITY_CLASS = (
    "azhzAAolChRzY2hlZHVsaW5nLms4cy5pby92MRINUHJpb3JpdHlDbGFzcxIwChIKAnBjEgAaACIAKgAyADgAQgAQBRgAIgAqFFByZWVtcHRMb3dlclByaW9y"
    "aXR5GgAiAA=="
)
REVIEW = (
    "azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSPAoQCgASABoAIgAqADIAOABCABIeChwKB2RlZmF1bHQS"
    "A2dldBoAIgAqBHBvZHMyADoAGggIABIAGgAgABoAIgA="
)


def read(text: str) -> dict[str, Any]:
    """The object as its kind keeps it: without the empty values that protobuf carries along."""
    obj = decode_protobuf(base64.b64decode(text))
    group = obj["apiVersion"].rpartition("/")[0]
    kept, unknown = KINDS[f"{group}/{obj['kind']}"].decode(obj)
    assert unknown == []
    return kept


def test_a_config_map() -> None:
    assert read(CONFIG_MAP) == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}


def test_a_secret_carries_bytes() -> None:
    assert read(SECRET)["data"] == {"p": "cQ=="}


def test_a_namespace() -> None:
    assert read(NAMESPACE) == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {}, "status": {}}


def test_a_deployment() -> None:
    assert read(DEPLOYMENT) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"app": "d"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "img", "image": "img:1", "ports": [{"containerPort": 80}], "resources": {}}]},
            },
            "strategy": {},
        },
        "status": {},
    }


def test_a_service_has_ports_by_number_or_name() -> None:
    assert read(SERVICE)["spec"] == {
        "ports": [{"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080}],
        "selector": {"app": "sv"},
        "type": "ClusterIP",
    }


def test_a_budget_has_a_share() -> None:
    assert read(BUDGET)["spec"] == {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}


def test_a_binding_has_subjects_in_order() -> None:
    obj = read(BINDING)
    assert [subject["kind"] for subject in obj["subjects"]] == ["User", "ServiceAccount"]
    assert obj["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}


def test_a_priority_class_has_an_optional_text() -> None:
    obj = read(PRIORITY_CLASS)
    assert (obj["value"], obj["preemptionPolicy"]) == (5, "PreemptLowerPriority")


def test_a_review_that_is_not_stored() -> None:
    obj = decode_protobuf(base64.b64decode(REVIEW))
    attributes = obj["spec"]["resourceAttributes"]
    assert (obj["kind"], attributes["verb"], attributes["resource"]) == ("SelfSubjectAccessReview", "get", "pods")


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    def field(number: int, data: bytes) -> bytes:
        assert len(data) < 128
        return bytes([number << 3 | 2, len(data)]) + data

    return MAGIC + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, raw)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "the body is no Kubernetes protobuf message"),
        (envelope("v1", "Nothing", b""), "v1 Nothing is not understood as protobuf here: send it as JSON or YAML"),
        (envelope("v2", "Pod", b""), "v2 Pod is not understood as protobuf here: send it as JSON or YAML"),
        (envelope("v1", "Container", b""), "v1 Container is not understood as protobuf here: send it as JSON or YAML"),
        (
            envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", b""),
            "apiextensions.k8s.io/v1 CustomResourceDefinition is not understood as protobuf here: send it as JSON or YAML",
        ),
        (
            envelope("v1", "ConfigMap", b"\xfa\x01\x00"),
            "ConfigMap: field number 31 is not understood as protobuf here: send it as JSON or YAML",
        ),
        (envelope("v1", "ConfigMap", b"\x0a\x7f"), "the message is cut off"),
        (envelope("v1", "ConfigMap", b"\x08\x01"), "ConfigMap.metadata: wrong wire type"),
        (envelope("v1", "ConfigMap", b"\x0b"), "wire type 3 is not understood"),
    ],
)
def test_bodies_that_cannot_be_read_say_why(body: bytes, message: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        decode_protobuf(body)
    assert str(caught.value) == message


@given(st.binary(max_size=60), st.sampled_from(["ConfigMap", "Pod", "Event", "Secret"]))
def test_no_bytes_do_worse_than_an_error(raw: bytes, kind: str) -> None:
    try:
        decode_protobuf(envelope("v1", kind, raw))
    except ProtobufError:
        return


def test_no_type_has_a_number_twice() -> None:
    for message in TABLE:
        numbers = [entry.number for entry in message.declared if entry.number]
        assert len(numbers) == len(set(numbers)), message.full_name
