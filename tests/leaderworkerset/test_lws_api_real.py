"""A real API server judges the API: definition, defaults, refusals, admission of pods, the objects that we make of it.

Runs only when asked for (``-m real``) and where a real control plane is at hand; the webhooks are called over HTTPS by URL.
"""

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import msgspec
import pytest
import yaml
from tests.runtime.real_kubectl import Kubectl, real_kubectl, served_webhooks, until, wait_established

from regroup.kube.pod import Pod
from regroup.kube.workloads import ControllerRevision, StatefulSet
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.admission import webhook
from regroup.leaderworkerset.api import types
from regroup.leaderworkerset.api.schema import crd
from regroup.leaderworkerset.objects import revision
from regroup.leaderworkerset.objects import workloads as objects

pytestmark = pytest.mark.real

EXAMPLES = resources.files("regroup.leaderworkerset") / "examples"
NAME = "leaderworkerset-sample"
CRD_NAME = "leaderworkersets.leaderworkerset.x-k8s.io"


@pytest.fixture(scope="module")
def kubectl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on a real control plane that has our definition and our webhooks. Gives what it says, errors included."""
    folder = tmp_path_factory.mktemp("real")
    with served_webhooks(webhook.register) as (port, ca), real_kubectl(request, folder) as run:
        assert "created" in run("apply", "-f", "-", body=crd())
        wait_established(run, CRD_NAME)
        for body in webhook.webhook_configurations(name="regroup", url=f"https://127.0.0.1:{port}", ca_bundle=ca):
            assert "created" in run("apply", "-f", "-", body=body)
        refused = _manifest("none", "bad", maxGroupRestarts=0)
        until(lambda: "may only be set" in run("create", "--dry-run=server", "-f", "-", body=refused))
        yield run


def _manifest(example: str, name: str, **template: Any) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())
    body["metadata"]["name"] = name
    body["spec"]["leaderWorkerTemplate"].update(template)
    return body


def test_definition_is_established(kubectl: Kubectl) -> None:
    """2.1: no condition says that the schema is not structural."""
    conditions = kubectl("get", "crd", CRD_NAME, "-o", "jsonpath={.status.conditions[*].type}")
    assert sorted(conditions.split()) == ["Established", "NamesAccepted"]


@pytest.mark.parametrize("example", ["recreate-group-on-pod-restart", "none"])
def test_manifests_of_the_seed(kubectl: Kubectl, example: str) -> None:
    """Seed, behaviours 1-2: as they stand; stored with every default; shown in the upstream's columns; scaled; deleted."""
    text = (EXAMPLES / f"{example}.yaml").read_text()
    assert "created" in kubectl("apply", "-f", "-", body=text)
    stored = json.loads(kubectl("get", "lws", NAME, "-o", "json"))
    assert stored["spec"]["networkConfig"] == {"subdomainPolicy": "Shared"}
    assert stored["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["maxUnavailable"] == 1
    assert kubectl("get", "lws").split()[:5] == ["NAME", "READY", "DESIRED", "UP-TO-DATE", "AGE"]
    assert "unchanged" in kubectl("apply", "-f", "-", body=text)
    assert "scaled" in kubectl("scale", "lws", NAME, "--replicas=5")
    assert kubectl("get", "lws", NAME, "-o", "jsonpath={.spec.replicas}") == "5"
    assert "deleted" in kubectl("delete", "lws", NAME)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({"size": "four"}, "spec.leaderWorkerTemplate.size"),
        ({"restartPolicy": "Always"}, 'restartPolicy: Unsupported value: "Always"'),
        (
            {"maxGroupRestarts": 3},
            "spec.leaderWorkerTemplate.maxGroupRestarts: Invalid value: 3: may only be set when restartPolicy",
        ),
        ({"maxGroupRestarts": -1}, "maxGroupRestarts: Invalid value: -1"),
        ({"siize": 4}, 'unknown field "spec.leaderWorkerTemplate.siize"'),
        ({"workerTemplate": {"spec": {}}}, "spec.leaderWorkerTemplate.workerTemplate.spec.containers: Required value"),
        (
            {"workerTemplate": {"spec": {"containers": [{"name": "a", "env": [{"name": "N", "value": 1}]}]}}},
            "workerTemplate.spec.containers[0].env[0].value: Invalid value",
        ),
    ],
)
def test_refusals_reach_kubectl(kubectl: Kubectl, template: dict[str, Any], said: str) -> None:
    """Behaviours 4 and 6, design 9: path, value and rule, from the schema or from us."""
    assert said in kubectl("create", "-f", "-", body=_manifest("none", "bad", **template))


def test_explain_teaches(kubectl: Kubectl) -> None:
    """Issue 3: kubectl explain lws.spec."""
    assert "leaderWorkerTemplate\t<Object> -required-" in kubectl("explain", "lws.spec")
    assert "deleted and created anew" in " ".join(kubectl("explain", "lws.spec.leaderWorkerTemplate.restartPolicy").split())


def test_objects_and_pods(kubectl: Kubectl) -> None:
    """Behaviours 23, 25, 27; 3.1-3.5, Q30: what we make is taken; pods are admitted; the server's defaults are no drift; stored
    revisions are found again."""
    kubectl("apply", "-f", "-", body=_manifest("recreate-group-on-pod-restart", "demo"))
    lws = types.decode(json.loads(kubectl("get", "lws", "demo", "-o", "json")))
    leaders = objects.leader_set(lws, revision="r1", replicas=2, partition=0)
    apply = ("apply", "--server-side", "--field-manager=lws", "-f", "-")
    assert "serverside-applied" in kubectl(*apply, body=leaders)
    assert "serverside-applied" in kubectl(*apply, body=objects.shared_service(lws))
    until(lambda: "NotFound" not in kubectl("get", "pod", "demo-0"))
    leader = msgspec.json.decode(kubectl("get", "pod", "demo-0", "-o", "json"), type=Pod)
    assert leader.gated_by(keys.GATE)
    assert leader.metadata.labels[keys.GROUP_INDEX] == "0"

    workers = objects.worker_set(lws, leader=leader)
    assert "created" in kubectl("create", "-f", "-", body=workers)
    until(lambda: "NotFound" not in kubectl("get", "pod", "demo-0-3"))
    env = kubectl("get", "pod", "demo-0-3", "-o", "jsonpath={.spec.containers[0].env[*].value}")
    assert env == "demo-0.demo.default 4 3"
    live = msgspec.json.decode(kubectl("get", "sts", "demo-0", "-o", "json"), type=StatefulSet)
    assert objects.worker_set_drift(live, workers) == ()
    kubectl("scale", "sts", "demo-0", "--replicas=5")
    live = msgspec.json.decode(kubectl("get", "sts", "demo-0", "-o", "json"), type=StatefulSet)
    assert objects.worker_set_drift(live, workers) == ("spec.replicas",)

    data = revision.revision_data(lws)
    stored = objects.revision_object(lws, data=data, key=revision.revision_hash(data), number=1)
    assert "created" in kubectl("create", "-f", "-", body=stored)
    name = stored["metadata"]["name"]
    found = msgspec.json.decode(kubectl("get", "controllerrevision", name, "-o", "json"), type=ControllerRevision)
    assert revision.same_revision(lws, found)


def test_foreign_pods_do_not_depend_on_us(kubectl: Kubectl) -> None:
    """Design 9: the webhook is asked about pods with our label only."""
    assert "created" in kubectl("run", "plain", "--image=x")
    stray = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "labels": {keys.NAME: "demo"}},
        "spec": {"containers": [{"name": "a", "image": "x"}]},
    }
    assert f"metadata.annotations[{keys.SIZE}]: Required value" in kubectl("create", "-f", "-", body=stray)
