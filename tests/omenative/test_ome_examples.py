"""Both examples of the seed, with the runtimes and models that they refer to (issue 6, point 10)."""

from importlib import resources
from typing import Any

import pytest
from tests.omenative.ome_service_plane import RECREATE, plane

from regroup.kube.resources import NAMESPACES
from regroup.omenative.admission.validation import validate_service, warnings
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.keys import CLUSTER_BASE_MODELS, CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES
from regroup.wire import yamlish

Object = dict[str, Any]

EXAMPLES = resources.files("regroup.omenative") / "examples"
_KINDS = {one.kind: one for one in (NAMESPACES, CLUSTER_BASE_MODELS, CLUSTER_SERVING_RUNTIMES, INFERENCE_SERVICES)}


def _documents(name: str) -> list[Object]:
    return yamlish.load_documents((EXAMPLES / f"{name}.yaml").read_text())


def test_the_services_say_what_the_seed_says() -> None:
    """Seed, "Set the policy" and "Choose a policy per component": field by field."""
    [qwen] = _documents("qwen3-0-6b-native")
    assert qwen["metadata"] == {"name": "qwen3-0-6b", "namespace": "qwen3-native"}
    assert qwen["spec"] == {
        "deploymentMode": "OMENative",
        "model": {"name": "qwen3-0-6b"},
        "runtime": {"name": "srt-qwen3-0-6b"},
        "engine": {"minReplicas": 1, "maxReplicas": 1, "lifecycle": {"restartPolicy": RECREATE}},
    }
    [llama] = _documents("llama-pd")
    assert llama["metadata"] == {"name": "llama-pd", "namespace": "llama-demo"}
    rolling = {"type": "SurgeThenDrain", "rollingUpdate": {"maxUnavailable": 1}}
    assert llama["spec"] == {
        "deploymentMode": "OMENative",
        "model": {"name": "llama-3-2-1b-instruct"},
        "runtime": {"name": "srt-llama-3-2-1b-instruct-pd"},
        "engine": {"minReplicas": 2, "maxReplicas": 2, "lifecycle": {"restartPolicy": RECREATE, "updateStrategy": rolling}},
        "decoder": {"minReplicas": 1, "maxReplicas": 1, "lifecycle": {"restartPolicy": "None"}},
        "router": {"minReplicas": 1, "maxReplicas": 1},
    }
    for one in (qwen, llama):
        assert validate_service(one) == []
        assert warnings(one) == []


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("service", "runtime", "expected"),
    [
        ("qwen3-0-6b-native", "qwen3-0-6b-runtime", {"qwen3-0-6b-engine": (1, RECREATE)}),
        (
            "llama-pd",
            "llama-pd-runtime",
            {"llama-pd-engine": (2, RECREATE), "llama-pd-decoder": (1, "None"), "llama-pd-router": (1, "None")},
        ),
    ],
)
@pytest.mark.parametrize("runtime_first", [True, False])
async def test_they_apply_in_any_order_and_become_replicas(
    service: str, runtime: str, expected: dict[str, tuple[int, str]], runtime_first: bool
) -> None:
    """Behaviours 1, 6: each component at its replicas and its policy, whatever is applied first."""
    documents = _documents(runtime) + _documents(service)
    namespace = documents[-1]["metadata"]["namespace"]
    if not runtime_first:
        documents = [documents[0], documents[-1], *documents[1:-1]]
    async with plane() as hands:
        for one in documents:
            meta = one["metadata"]
            await hands.client.apply(_KINDS[one["kind"]], meta["name"], one, namespace=meta.get("namespace"))
            await hands.settle(1)
        await hands.settle()
        found = await hands.client.list_all(INFERENCE_REPLICAS, namespace=namespace, type=InferenceReplica)
        made = {one.name: (one.spec.replicas, one.spec.restart_policy) for one in found.items}
        assert made == expected
        for replica in found.items:
            [container] = replica.spec.runners[0].template["spec"]["containers"]
            assert container["name"] == "ome-container"
