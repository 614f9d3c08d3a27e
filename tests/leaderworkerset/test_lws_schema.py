"""The CustomResourceDefinition (spec/leaderworkerset.md 2)."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.leaderworkerset.lws_api_builders import lws_dict

from regroup.leaderworkerset.api import types
from regroup.leaderworkerset.api.defaults import default_spec
from regroup.leaderworkerset.api.schema import crd

CRD = crd()
VERSION = CRD["spec"]["versions"][0]
ROOT = VERSION["schema"]["openAPIV3Schema"]


def _at(path: str) -> dict[str, Any]:
    node: dict[str, Any] = ROOT
    for step in path.split("."):
        node = node["items"] if step == "[]" else node["properties"][step]
    return node


def _walk(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _walk(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from _walk(node[name], f"{path}.{name}")


def test_resource() -> None:
    """2.1: names, scope, subresources."""
    names = CRD["spec"]["names"]
    assert CRD["metadata"]["name"] == "leaderworkersets.leaderworkerset.x-k8s.io"
    assert (names["kind"], names["listKind"], names["shortNames"]) == ("LeaderWorkerSet", "LeaderWorkerSetList", ["lws"])
    assert CRD["spec"]["scope"] == "Namespaced"
    assert VERSION["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.hpaPodSelector",
    }
    assert VERSION["subresources"]["status"] == {}


def test_columns() -> None:
    """2.1: kubectl get lws shows READY DESIRED UP-TO-DATE AGE."""
    columns = [(column["name"], column["jsonPath"]) for column in VERSION["additionalPrinterColumns"]]
    assert columns == [
        ("Ready", ".status.readyReplicas"),
        ("Desired", ".spec.replicas"),
        ("Up-to-date", ".status.updatedReplicas"),
        ("Age", ".metadata.creationTimestamp"),
    ]


@pytest.mark.parametrize(
    ("path", "view"),
    [
        ("spec", types.LeaderWorkerSetSpec),
        ("spec.leaderWorkerTemplate", types.LeaderWorkerTemplate),
        ("spec.leaderWorkerTemplate.restartBackoff", types.RestartBackoff),
        ("spec.leaderWorkerTemplate.subGroupPolicy", types.SubGroupPolicy),
        ("spec.rolloutStrategy", types.RolloutStrategy),
        ("spec.rolloutStrategy.rollingUpdateConfiguration", types.RollingUpdateConfiguration),
        ("spec.networkConfig", types.NetworkConfig),
        ("status", types.LeaderWorkerSetStatus),
    ],
)
def test_schema_and_views_know_the_same_fields(path: str, view: type[msgspec.Struct]) -> None:
    """2.2-2.8: what the schema lacks is pruned by the API server; what the views lack is never acted upon."""
    assert {field.encode_name for field in msgspec.structs.fields(view)} == set(_at(path)["properties"])


def test_everything_is_explained() -> None:
    """Issue 3: kubectl explain teaches."""
    silent = [path for path, node in _walk(ROOT) if not node.get("description") and path not in {"", ".metadata"}]
    assert [path for path in silent if not path.endswith("additionalProperties")] == []


def test_structural() -> None:
    """An API server refuses a schema that is not structural: each node has a type or is int-or-string."""
    for path, node in _walk(ROOT):
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path
        assert not ("properties" in node and "additionalProperties" in node), path
        if node.get("x-kubernetes-list-type") == "map":
            keys = set(node["x-kubernetes-list-map-keys"])
            assert keys <= set(node["items"]["required"]), path
        for name in node.get("required", ()):
            assert name in node["properties"], path
        if "default" in node and "enum" in node:
            assert node["default"] in node["enum"], path


def test_defaults_agree_with_admission() -> None:
    """2.2-2.4: a cluster whose webhook is not asked (an old stored object that is read) sees the same values."""
    spec = default_spec(lws_dict(template={"restartBackoff": {}, "subGroupPolicy": {}})["spec"])
    spec.pop("replicas")
    found = 0
    for path, node in _walk(ROOT["properties"]["spec"]):
        value: Any = default_spec({**spec})
        for step in path.split(".")[1:]:
            value = value.get(step) if isinstance(value, dict) else None
        if "default" in node and "items" not in path and value is not None and "size" not in path:
            found += 1
            assert value == node["default"], path
    assert found >= 11


@pytest.mark.parametrize(
    ("path", "limits"),
    [
        ("spec.replicas", {"minimum": 0, "maximum": 1_000_000, "default": 1, "format": "int32"}),
        ("spec.leaderWorkerTemplate.maxGroupRestarts", {"minimum": 0}),
        ("spec.leaderWorkerTemplate.restartBackoff.baseSeconds", {"minimum": 1, "default": 10}),
        ("spec.leaderWorkerTemplate.restartBackoff.capSeconds", {"minimum": 1, "default": 300}),
        ("spec.startupPolicy", {"enum": ["LeaderCreated", "LeaderReady"]}),
        (
            "spec.leaderWorkerTemplate.restartPolicy",
            {"enum": ["Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]},
        ),
        ("spec.networkConfig", {"required": ["subdomainPolicy"]}),
        ("spec.leaderWorkerTemplate", {"required": ["workerTemplate"]}),
        ("spec", {"required": ["leaderWorkerTemplate"]}),
        ("status.conditions", {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
        ("spec.scheduling.replica.leader.resourceClaims", {"maxItems": 4}),
        ("spec.leaderWorkerTemplate.workerTemplate.spec", {"required": ["containers"]}),
    ],
)
def test_limits(path: str, limits: dict[str, Any]) -> None:
    """2.2-2.6, 2.8; behaviours 6, 11, 19 are refused by the schema already."""
    assert limits.items() <= _at(path).items()


@pytest.mark.parametrize("template", ["leaderTemplate", "workerTemplate"])
def test_pod_templates_are_open(template: str) -> None:
    """2.3: fields of pods that we never heard of are kept."""
    path = f"spec.leaderWorkerTemplate.{template}"
    for part in ("metadata", "spec", "spec.containers.[]", "spec.containers.[].env.[]", "spec.initContainers.[]"):
        assert _at(f"{path}.{part}")["x-kubernetes-preserve-unknown-fields"] is True


def test_the_definition_is_small() -> None:
    """A full pod schema twice would be a megabyte and is not needed."""
    assert len(msgspec.json.encode(CRD)) < 40_000
