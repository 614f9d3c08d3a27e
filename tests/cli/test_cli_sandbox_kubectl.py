"""`regroup sandbox`, the seed's manifests as they stand, and both kubectls as a person types them.

Real sockets, real time at six times its speed: faster, a busy machine would miss the time limits of calls. Nothing sleeps,
everything waits for what it wants to see.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.sandbox_process import EXAMPLES, Kubectl, Sandbox, regroup, sandbox
from tests.sandbox import kubectl_binaries

pytestmark = [pytest.mark.kubectl, pytest.mark.http]

LWS = "lws/leaderworkerset-sample"
GROUPS = {f"leaderworkerset-sample-{group}{worker}" for group in (0, 1) for worker in ("", "-1", "-2", "-3")}
MINIMAL = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: NAME}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    workerTemplate: {spec: {containers: [{name: c, image: i}]}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One sandbox for all: each test has a namespace of its own."""
    with sandbox(tmp_path_factory.mktemp("cluster"), "--nodes", "6", "--speed", "6") as running:
        yield running


@pytest.fixture(params=kubectl_binaries.KINDS)
def k(request: pytest.FixtureRequest, cluster: Sandbox) -> Kubectl:
    number = next(_numbers)
    kubectl = Kubectl(kubectl_binaries.find(request.param), cluster.kubeconfig, f"n{number}")
    kubectl("create", "namespace", kubectl.namespace)
    return kubectl


_numbers = itertools.count()


def seed(name: str) -> str:
    """A manifest of the seed, as it stands."""
    return (EXAMPLES / f"{name}.yaml").read_text()


def started(k: Kubectl, name: str) -> None:
    """Apply a manifest of the seed and wait until it is available."""
    assert "leaderworkerset-sample created" in k("apply", "-f", "-", text=seed(name))
    k("wait", "--for=condition=Available", LWS, "--timeout=60s")


def test_the_first_failure_end_to_end(k: Kubectl) -> None:
    """Seed, RecreateGroupOnPodRestart: apply, look, crash a container, see exactly that group rebuilt, and read why."""
    started(k, "recreate-group-on-pod-restart")
    wide = k("get", "lws,sts,pods", "-o", "wide")
    assert all(f"pod/{name} " in wide for name in GROUPS)
    assert "NOMINATED NODE" in wide
    assert "READY   DESIRED   UP-TO-DATE" in wide
    before = k.uids()
    assert before.keys() == GROUPS
    said = regroup("fault", "crash", f"{k.namespace}/leaderworkerset-sample-0-2", "--exit-code", "3", kubeconfig=k.kubeconfig)
    assert said.code == 0, said.all
    line = k.first_line("RecreateGroup", "get", "events", "-w", "--no-headers")
    assert "worker pod leaderworkerset-sample-0-2 restarted with exit code 3" in line
    k.first_line("leaderworkerset-sample-0-3   1/1     Running", "get", "pods", "-w")
    k("wait", "--for=jsonpath={.status.readyReplicas}=2", LWS, "--timeout=60s")
    after = k.uids()
    assert after.keys() == GROUPS
    assert {name for name in GROUPS if before[name] == after[name]} == {
        name for name in GROUPS if name.startswith("leaderworkerset-sample-1")
    }
    described = k("describe", LWS)
    assert "Recreating group 0 (leader pod leaderworkerset-sample-0)" in described
    assert "RecreateGroup" in k("events", "--for", LWS)
    explained = regroup("explain", LWS, "-n", k.namespace, "--group", "0", kubeconfig=k.kubeconfig)
    assert explained.code == 0
    assert "Running" in explained.out
    assert "leaderworkerset-sample-0-3" in explained.out


def test_only_the_failed_pod(k: Kubectl) -> None:
    """Seed, None: a container that ends is restarted in place, and its logs and the ones before can be read; a deleted worker
    comes back alone."""
    started(k, "none")
    before = k.uids()
    pod = "leaderworkerset-sample-0-2"
    assert regroup("fault", "crash", f"{k.namespace}/{pod}", kubeconfig=k.kubeconfig).code == 0
    k("wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", f"pod/{pod}", "--timeout=60s")
    k("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
    assert k.uids() == before
    assert "container worker started" in k("logs", pod)
    assert "container worker started" in k("logs", pod, "--previous")
    assert "container worker started" in k.first_line("started", "logs", "-f", pod)
    k("delete", "pod", pod)
    k("wait", "--for=create", f"pod/{pod}", "--timeout=60s")
    k("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
    after = k.uids()
    assert {name for name in GROUPS if before[name] != after[name]} == {pod}


def test_changing_it(k: Kubectl) -> None:
    """annotate, label, scale, patch, edit, apply --server-side with and without force, diff, replace."""
    started(k, "none")
    assert "annotated" in k("annotate", LWS, "team=blue")
    assert "labeled" in k("label", LWS, "team=blue")
    assert "scaled" in k("scale", LWS, "--replicas=3")
    k("wait", "--for=jsonpath={.status.readyReplicas}=3", LWS, "--timeout=60s")
    assert "patched" in k("patch", LWS, "--type=json", "-p", '[{"op": "replace", "path": "/spec/replicas", "value": 1}]')
    assert "edited" in k("edit", LWS, editor="sed -i 's/  replicas: 1$/  replicas: 2/'")
    assert k("get", LWS, "-o", "jsonpath={.spec.replicas} {.metadata.labels.team} {.metadata.annotations.team}") == "2 blue blue"
    mine = MINIMAL.partition("spec:")[0].replace("NAME", "leaderworkerset-sample") + "spec: {replicas: 1}\n"
    told = k.refused("apply", "--server-side", "--field-manager=other", "-f", "-", text=mine)
    assert "conflict" in told
    assert ".spec.replicas" in told
    k("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", text=mine)
    assert k("get", LWS, "-o", "jsonpath={.spec.replicas}") == "1"
    assert "+  replicas: 2" in k.ask("diff", "-f", "-", text=seed("none")).out
    assert "replaced" in k("replace", "-f", "-", text=seed("none"))
    assert "already exists" in k.refused("create", "-f", "-", text=seed("none"))
    k("wait", "--for=jsonpath={.status.readyReplicas}=2", LWS, "--timeout=60s")
    assert "rol" in k("rollout", "status", "sts/leaderworkerset-sample", "--timeout=60s")
    assert "REVISION" in k("rollout", "history", "sts/leaderworkerset-sample")


def test_documents(k: Kubectl) -> None:
    """explain, api-resources, columns, describe of what the operator made, get all."""
    assert "leaderWorkerTemplate" in k("explain", "lws.spec")
    assert "RecreateGroupOnPodRestart" in k("explain", "lws.spec.leaderWorkerTemplate.restartPolicy")
    assert "leaderworkersets" in k("api-resources")
    k("apply", "-f", "-", text=MINIMAL.replace("NAME", "small"))
    k("wait", "--for=condition=Available", "lws/small", "--timeout=60s")
    for kind in ("sts/small", "sts/small-0", "pod/small-0-1", "svc/small", "lws/small"):
        assert "small" in k("describe", kind)
    everything = k("get", "all")
    assert all(name in everything for name in ("pod/small-0 ", "pod/small-0-1 ", "service/small ", "statefulset.apps/small-0 "))
    assert "LWS_GROUP_SIZE:      2" in k("describe", "pod/small-0-1")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_deleting_it(k: Kubectl, cascade: str) -> None:
    """delete with each cascade: all goes, or, orphaned, everything stays and runs on; its namespace goes with all in it."""
    started(k, "recreate-group-on-pod-restart")
    before = k.uids()
    k("delete", LWS, f"--cascade={cascade}", "--timeout=60s")
    if cascade == "orphan":
        assert k.uids() == before
        k("delete", "sts", "leaderworkerset-sample", "--timeout=60s")
    k("wait", "--for=delete", "pod", "--all", "--timeout=60s")
    k("wait", "--for=delete", "sts", "--all", "--timeout=60s")
    k("delete", "namespace", k.namespace, "--timeout=60s")
    k("create", "namespace", k.namespace)
    assert k("get", "lws,sts,pods,svc,controllerrevisions,events", "-o", "name") == ""


BAD = [
    (
        "replicas: 1",
        "replicas: -3",
        "spec.replicas: Invalid value: -3: spec.replicas in body should be greater than or equal to 0",
    ),
    ("replicas: 1", 'replicas: "two"', 'spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer'),
    ("replicas: 1", "replica: 1", 'unknown field "spec.replica"'),
    ("size: 2", "size: 0", "spec.leaderWorkerTemplate.size: Invalid value: 0"),
    ("size: 2", "restartPolicy: Sometimes", 'restartPolicy: Unsupported value: "Sometimes": supported values: "Default"'),
    ("containers: [{name: c, image: i}]", "containers: []", "workerTemplate.spec.containers: Invalid value: 0"),
    ("name: NAME", "name: Ünï", 'metadata.name: Invalid value: "Ünï"'),
    ("name: NAME", f"name: {'x' * 64}", "must be no more than"),
    ("name: NAME", "name: a.b", 'metadata.name: Invalid value: "a.b"'),
]


def test_a_wrong_manifest_is_told_its_field_value_and_rule(k: Kubectl) -> None:
    """'Bad input': the field's path, the value and the rule, through kubectl, as a real cluster would answer."""
    for part, instead, told in BAD:
        assert told in k.refused("apply", "-f", "-", text=MINIMAL.replace(part, instead).replace("NAME", "bad")), instead
    assert k("get", "lws", "-o", "name") == ""


def test_of_two_documents_the_good_one_is_made(k: Kubectl) -> None:
    """One wrong document of a file does not stop the other; the exit code says that something was wrong."""
    text = MINIMAL.replace("NAME", "bad").replace("size: 2", "size: 0") + "---" + MINIMAL.replace("NAME", "good")
    assert '"bad" is invalid' in k.refused("apply", "-f", "-", text=text)
    assert k("get", "lws", "-o", "name") == "leaderworkerset.leaderworkerset.x-k8s.io/good\n"


def test_what_only_shows_when_pods_are_made_is_an_event(k: Kubectl) -> None:
    """A pod template that the StatefulSet refuses stops only its own object: its event has the path, the others go on."""
    bad = MINIMAL.replace("NAME", "bad").replace("spec: {containers", "spec: {restartPolicy: Never, containers")
    k("apply", "-f", "-", text=bad)
    line = k.first_line("FailedCreate", "get", "events", "-w", "--no-headers")
    assert 'spec.template.spec.restartPolicy: Unsupported value: "Never"' in line
    k("apply", "-f", "-", text=MINIMAL.replace("NAME", "good"))
    k("wait", "--for=condition=Available", "lws/good", "--timeout=60s")


def test_explain_goes_by_the_clusters_time(k: Kubectl) -> None:
    """A sandbox that runs at its own speed is ahead of the machine, and so may a real cluster be: the times that explain gives,
    and what it decides by them, are the API server's."""
    k("apply", "-f", "-", text=MINIMAL.replace("NAME", "late"))
    k("wait", "--for=condition=Available", "lws/late", "--timeout=60s")
    available = k("get", "lws/late", "-o", 'jsonpath={.status.conditions[?(@.type=="Available")].lastTransitionTime}')
    said = regroup("explain", "lws/late", "-n", k.namespace, "-o", "json", kubeconfig=k.kubeconfig)
    assert said.code == 0, said.all
    assert all(group["recreation_permitted_from"] >= available for group in json.loads(said.out)["groups"]), said.out


def test_a_group_of_two_thousand_million_does_not_end_the_cluster(cluster: Sandbox) -> None:
    """size may be anything that fits into 31 bits (2.1): the cluster lives, others work, and it can be deleted again."""
    k = Kubectl(kubectl_binaries.find("package"), cluster.kubeconfig, "huge")
    k("create", "namespace", "huge")
    k("apply", "-f", "-", text=MINIMAL.replace("NAME", "huge").replace("size: 2", "size: 2000000000"))
    k("wait", "--for=create", "pod/huge-0-1", "--timeout=60s")
    k("apply", "-f", "-", text=MINIMAL.replace("NAME", "small"))
    k("wait", "--for=create", "pod/small-0-1", "--timeout=60s")
    k("delete", "lws", "huge", "--timeout=60s")


def test_the_operators_life_on_the_command_line(tmp_path: Path) -> None:
    """A busy port and a folder in use are told; Ctrl-C is a clean stop; with --data-dir everything is there again."""
    data = str(tmp_path / "data")
    binary = kubectl_binaries.find("package")
    with sandbox(tmp_path, "--speed", "6", "--data-dir", data) as first:
        assert f"export KUBECONFIG={first.kubeconfig}" in first.banner
        port = first.banner.split("127.0.0.1:")[1].split(",")[0].split()[0]
        busy = regroup("sandbox", "--port", port)
        assert (busy.code, busy.out) == (1, "")
        assert f"port {port} of 127.0.0.1 is in use" in busy.err
        taken = regroup("sandbox", "--data-dir", data)
        assert (taken.code, taken.out) == (1, "")
        assert "is in use by another sandbox" in taken.err
        k = Kubectl(binary, first.kubeconfig, "default")
        started(k, "none")
        before = k.uids()
        end = first.interrupt()
        assert (end.code, end.out) == (0, "stopped\n")
        assert "Traceback" not in end.err
    with sandbox(tmp_path, "--speed", "6", "--data-dir", data) as second:
        k = Kubectl(binary, second.kubeconfig, "default")
        k("wait", "--for=condition=Available", LWS, "--timeout=60s")
        assert k.uids() == before
        end = second.interrupt()
        assert end.code == 0
        assert "Traceback" not in end.err
