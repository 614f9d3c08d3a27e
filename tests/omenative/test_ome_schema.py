"""The CustomResourceDefinitions, on an API server (spec/omenative.md 1)."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.runtime.edges_plane import start_api

from regroup.kube.resources import CRDS
from regroup.omenative.api.row import PHASES, LastFailure, Operation, Row
from regroup.omenative.api.schema import crds
from regroup.omenative.keys import (
    CLUSTER_SERVING_RUNTIMES,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
)
from regroup.wire.errors import Invalid

Object = dict[str, Any]

BY_NAME = {one["spec"]["names"]["kind"]: one for one in crds()}


def _walk(node: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _walk(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from _walk(node[name], f"{path}.{name}")


def _version(kind: str) -> Object:
    found: Object = BY_NAME[kind]["spec"]["versions"][0]
    return found


def test_kinds_names_and_scopes() -> None:
    """1: group ``ome.io``, version ``v1beta1``, short names isvc and irep."""
    assert list(BY_NAME) == [
        "InferenceService",
        "InferenceReplica",
        "ServingRuntime",
        "ClusterServingRuntime",
        "BaseModel",
        "ClusterBaseModel",
    ]
    for kind, one in BY_NAME.items():
        assert one["metadata"]["name"] == f"{one['spec']['names']['plural']}.ome.io"
        assert one["spec"]["scope"] == ("Cluster" if kind.startswith("Cluster") else "Namespaced")
        assert _version(kind)["name"] == "v1beta1"
        assert "status" in _version(kind)["subresources"]
    assert BY_NAME["InferenceService"]["spec"]["names"]["shortNames"] == ["isvc"]
    assert BY_NAME["InferenceReplica"]["spec"]["names"]["shortNames"] == ["irep"]


def test_columns() -> None:
    """1.1 and behaviour 118."""
    columns = {kind: [column["name"] for column in _version(kind)["additionalPrinterColumns"]] for kind in BY_NAME}
    assert columns["InferenceService"] == ["URL", "Ready", "BaseModel", "Runtime", "Age"]
    assert columns["InferenceReplica"] == ["Component", "Desired", "Current", "Ready", "Available", "Age"]
    assert _version("InferenceReplica")["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.labelSelector",
    }


def test_every_field_is_explained() -> None:
    """``kubectl explain`` has a sentence for every field."""
    for kind in BY_NAME:
        for path, node in _walk(_version(kind)["schema"]["openAPIV3Schema"]):
            if path not in ("", ".metadata") and not path.endswith((".items", ".additionalProperties")):
                assert node.get("description"), (kind, path)


def test_rows_have_the_fields_that_we_write() -> None:
    """1.2: the row's schema and its view are the same words."""
    status = _version("InferenceReplica")["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    row = status["instanceStatuses"]["items"]
    assert set(Row.__struct_encode_fields__) == set(row["properties"])
    assert all(phase in row["properties"]["phase"]["description"] for phase in PHASES)
    for view in (Operation, LastFailure):
        assert view.__struct_encode_fields__


@pytest.mark.looptime
async def test_they_are_accepted_and_serve_the_seeds_manifests_unchanged() -> None:
    """1, 10.7: structural schemas; an OME manifest keeps every field; behaviour 9: ``Always`` is refused by the API server."""
    api = await start_api()
    for one in crds():
        await api.client.create(CRDS, one)
    body: Object = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "full"},
        "spec": {
            "deploymentMode": "OMENative",
            "model": {"name": "m", "fineTunedWeights": ["w"], "overlays": [{"a": 1}]},
            "runtime": {"name": "r"},
            "engine": {
                "minReplicas": 1,
                "runner": {"name": "ome-container", "securityContext": {"privileged": True}},
                "leader": {"hostIPC": True, "runner": {"name": "x", "livenessProbe": {"httpGet": {"port": "http"}}}},
                "worker": {"size": 2, "dnsPolicy": "ClusterFirst"},
                "lifecycle": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}}},
                "scaleMetric": "cpu",
                "somethingNew": {"deep": [1, {"x": None}]},
            },
            "traffic": {"canary": 3},
        },
    }
    made: Object = await api.client.create(INFERENCE_SERVICES, body, namespace="default")
    kept = {**made["spec"]["engine"], "somethingNew": body["spec"]["engine"]["somethingNew"]}
    assert {**made["spec"], "engine": kept} == body["spec"]
    runtime: Object = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": "r"},
        "spec": {"supportedModelFormats": [{"name": "safetensors", "autoSelect": True}], "engineConfig": body["spec"]["engine"]},
    }
    await api.client.create(CLUSTER_SERVING_RUNTIMES, runtime)
    for where, resource, namespace in (
        ("engine", INFERENCE_SERVICES, "default"),
        ("engineConfig", CLUSTER_SERVING_RUNTIMES, None),
    ):
        source = body if where == "engine" else runtime
        bad = {
            **source,
            "metadata": {"name": "bad"},
            "spec": {**source["spec"], where: {"lifecycle": {"restartPolicy": "Always"}}},
        }
        with pytest.raises(Invalid, match=rf'spec\.{where}\.lifecycle\.restartPolicy: Unsupported value: "Always"'):
            await api.client.create(resource, bad, namespace=namespace)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("containers", "x"),
        ("affinity", {"nodeAffinity": []}),
        ("affinity", {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
        ("readinessGates", ["x"]),
        ("topologySpreadConstraints", {}),
        ("nodeSelector", []),
        ("runner", {"env": "x"}),
        ("runner", {"volumeMounts": [7]}),
        ("leader", {"containers": 7}),
        ("worker", {"size": "many"}),
        ("labels", {"a": 1}),
    ],
)
async def test_shapes_that_pods_cannot_have_are_refused_by_the_api_server(field: str, value: Any) -> None:
    """Bad input: what the operator adds to has the shape that it adds to, so no pass ever stumbles over it."""
    api = await start_api()
    await api.client.create(CRDS, BY_NAME["InferenceService"])
    body: Object = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "bad"},
        "spec": {"runtime": {"name": "r"}, "engine": {field: value}},
    }
    with pytest.raises(Invalid, match=rf"spec\.engine\.{field}"):
        await api.client.create(INFERENCE_SERVICES, body, namespace="default")


@pytest.mark.looptime
async def test_a_replica_keeps_templates_as_they_are() -> None:
    """1.2: pod templates pass unpruned; replicas are 1 by default."""
    api = await start_api()
    for one in crds():
        await api.client.create(CRDS, one)
    template = {"metadata": {"labels": {"a": "b"}, "x": 1}, "spec": {"containers": [{"name": "c", "new": {"y": [1]}}], "z": True}}
    body: Object = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceReplica",
        "metadata": {"name": "r"},
        "spec": {"component": "engine", "runners": [{"name": "default", "template": template}]},
    }
    made: Object = await api.client.create(INFERENCE_REPLICAS, body, namespace="default")
    assert made["spec"]["runners"][0]["template"] == template
    assert made["spec"]["replicas"] == 1
