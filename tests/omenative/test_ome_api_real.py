"""A real API server judges the API of OMENative: definitions, refusals, what kubectl shows, and the objects that we make.

Runs only when asked for (``-m real``) and where a real control plane is at hand; the webhooks are called over HTTPS by URL.
"""

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from tests.omenative.ome_api_builders import create
from tests.omenative.ome_service_builders import gang_runtime, runtime
from tests.runtime.real_kubectl import Kubectl, real_kubectl, served_webhooks, until, wait_established

from regroup.omenative.admission import webhook
from regroup.omenative.api.replica import InferenceReplica, decode
from regroup.omenative.api.schema import crds
from regroup.omenative.api.types import decode as decode_service
from regroup.omenative.configuration import chart
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.objects import exposure, revision
from regroup.omenative.objects import instances as objects
from regroup.omenative.service.project import manifest, patch
from regroup.omenative.service.resolve import Resolved, Sources, resolve
from regroup.runtime.webhooks import Reach, configuration

pytestmark = pytest.mark.real

EXAMPLES = resources.files("regroup.omenative") / "examples"
Object = dict[str, Any]

APPLY = ("apply", "--server-side", "-f", "-")


@pytest.fixture(scope="module")
def kubectl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on a real control plane that has our definitions and our webhooks."""
    folder = tmp_path_factory.mktemp("real")
    with served_webhooks(webhook.register) as (port, ca), real_kubectl(request, folder) as run:
        for one in crds():
            assert "created" in run("create", "-f", "-", body=one)
            wait_established(run, one["metadata"]["name"])
        entries = webhook.webhooks(Reach(url=f"https://127.0.0.1:{port}", ca_bundle=ca))
        assert "created" in run("create", "-f", "-", body=configuration("Validating", name="regroup", webhooks=entries))
        until(lambda: "at least one of" in run("create", "--dry-run=server", "-f", "-", body=_service("probe", runtime=None)))
        yield run


def _service(name: str, **spec: Any) -> Object:
    base: Object = {"deploymentMode": "OMENative", "runtime": {"name": "srt"}, "engine": {}}
    made = {key: value for key, value in {**base, **spec}.items() if value is not None}
    head = {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name, "namespace": "default"}}
    return {**head, "spec": made}


def _read(kubectl: Kubectl, kind: str, name: str) -> Object:
    found: Object = json.loads(kubectl("get", kind, name, "-o", "json"))
    return found


def test_definitions_are_structural(kubectl: Kubectl) -> None:
    """1: no condition says otherwise."""
    for one in crds():
        found = kubectl("get", "crd", one["metadata"]["name"], "-o", "jsonpath={.status.conditions[*].type}")
        assert sorted(found.split()) == ["Established", "NamesAccepted"]


@pytest.mark.parametrize("example", ["qwen3-0-6b", "llama-pd"])
def test_manifests_of_the_seed(kubectl: Kubectl, example: str) -> None:
    """Seed: the files apply as they stand, twice, and are shown in OME's columns."""
    name = {"qwen3-0-6b": "qwen3-0-6b-native"}.get(example, example)
    assert "clusterservingruntime" in kubectl(*APPLY, body=(EXAMPLES / f"{example}-runtime.yaml").read_text())
    text = (EXAMPLES / f"{name}.yaml").read_text()
    assert f"inferenceservice.ome.io/{example} created" in kubectl("apply", "-f", "-", body=text)
    assert "unchanged" in kubectl("apply", "-f", "-", body=text)
    shown = kubectl("get", "isvc", "-A").splitlines()
    assert shown[0].split() == ["NAMESPACE", "NAME", "URL", "READY", "BASEMODEL", "RUNTIME", "AGE"]
    assert any(example in line and f"srt-{'qwen3-0-6b' if example.startswith('qwen') else 'llama'}" in line for line in shown[1:])


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"lifecycle": {"restartPolicy": "Always"}}, 'spec.engine.lifecycle.restartPolicy: Unsupported value: "Always"'),
        (
            {"lifecycle": {"minReadySeconds": -1}},
            "spec.engine.lifecycle.minReadySeconds must be >= 0, got -1 (InvalidMinReadySeconds)",
        ),
        ({"lifecycle": {"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}}, "RollingUpdateZeroBudget"),
        ({"lifecycle": {"instanceReadyTimeout": "60"}}, 'missing unit in duration "60"'),
        ({"leader": {}}, "InvalidLeaderWorkerPairing"),
    ],
)
def test_refusals_reach_kubectl(kubectl: Kubectl, engine: Object, said: str) -> None:
    """Behaviours 9, 125, 126: path, value and rule, from the schema or from us."""
    assert said in kubectl("create", "-f", "-", body=_service("bad", engine=engine))


def test_explain_teaches(kubectl: Kubectl) -> None:
    """Every field has a sentence."""
    said = " ".join(kubectl("explain", "isvc.spec.engine.lifecycle.restartPolicy").split())
    assert "only that pod is repaired" in said
    assert "RecreateInstanceOnPodRestart" in said


@pytest.mark.parametrize("gang", [False, True])
def test_what_we_make_is_taken_as_it_is(kubectl: Kubectl, gang: bool) -> None:
    """2, 1.2: the replica, its pods, Services, budget and stored revision; a second look finds nothing to change."""
    name = "gang" if gang else "single"
    engine = {"labels": {"team": "x"}, "lifecycle": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "25%"}}}}
    kubectl("create", "-f", "-", body=_service(name, engine=engine))
    service = decode_service(_read(kubectl, "isvc", name))
    sources = Sources(runtime=gang_runtime(topologyKey="zone", topologySpread="Required") if gang else runtime())
    found = resolve(service, "engine", sources=sources, live=LiveSettings())
    assert isinstance(found, Resolved)
    wanted = manifest(service, found)
    assert "created" in kubectl("create", "-f", "-", body=wanted)
    live = decode(_read(kubectl, "irep", f"{name}-engine"))
    assert patch(live, wanted) is None
    columns = kubectl("get", "irep", live.name).splitlines()[0].split()
    assert columns == ["NAME", "COMPONENT", "DESIRED", "CURRENT", "READY", "AVAILABLE", "AGE"]
    stored, _ = revision.new_revision(live, stored=())
    made = [
        objects.revision_object(live, stored),
        exposure.stable_service(live, leaders_only=gang),
        exposure.headless_service(live),
        *exposure.revision_services(live, stored),
        exposure.disruption_budget(live, max_unavailable=1),
        *_pods(live, gang=gang),
    ]
    for one in made:
        answer = kubectl("create", "-f", "-", body=one)
        assert "created" in answer, answer
    pod = _read(kubectl, "pod", f"{name}-engine-0-{'worker-1' if gang else 'default-0'}")
    assert pod["spec"]["restartPolicy"] == "Always"
    edited = kubectl("patch", "irep", live.name, "--type=merge", "-p", '{"spec":{"paused":true}}')
    assert "edit the InferenceService instead" in edited
    assert "annotated" in kubectl("annotate", "irep", live.name, "ome.io/reset-instances=all")
    # The finalizer would keep it: nobody runs the teardown here.
    assert "patched" in kubectl("patch", "irep", live.name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def _pods(live: InferenceReplica, *, gang: bool) -> list[Object]:
    stored, _ = revision.new_revision(live, stored=())
    if not gang:
        return [objects.pod(live, stored, create(f"{live.name}-0-default-0"), termination_grace=600)]
    return [
        objects.pod(live, stored, create(f"{live.name}-0-leader-0", runner="leader")),
        objects.pod(live, stored, create(f"{live.name}-0-worker-1", runner="worker", ordinal=1)),
    ]


def test_the_configuration_map(kubectl: Kubectl) -> None:
    """6.4: the chart's defaults."""
    body = chart.config_map(namespace="default", labels={"a": "b"})
    assert "created" in kubectl("create", "-f", "-", body=body)
