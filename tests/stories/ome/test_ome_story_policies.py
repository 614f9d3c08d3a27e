"""More [seed] behaviours of spec/omenative.md 8 with kubectl: whose policy counts, migrations, freezes, deadlines, tables."""

import json
from datetime import datetime

import pytest
from tests.stories.ome.ome_cluster import RECREATE, OmeKubectl, gang, runtime, service

pytestmark = [pytest.mark.http, pytest.mark.kubectl]

SETTLED = 3
POD = "svc-engine-0-default-0"


def test_a_router_and_the_cluster_have_no_say(k: OmeKubectl) -> None:
    """Behaviours 3, 7, 14: a router without a lifecycle has None; what the ConfigMap says of policies counts nothing; pods are
    restarted by their kubelet as Kubernetes does by default."""
    said = k.without_namespace("get", "configmap", "-n", "ome", "inferenceservice-config", "-o", "jsonpath={.data.lifecycle}")
    chart = json.loads(said)
    _configure(k, {**chart, "restartPolicy": RECREATE})
    try:
        k.apply(runtime(k.namespace), service(router={"minReplicas": 1}))
        k.settled()
        k.settled(name="svc-router")
        old = k.pod_uids(), k.pod_uids(component="router")
        assert [one["spec"]["restartPolicy"] for one in k.get("pods")] == ["Always", "Always"]
        k.lets_pass(SETTLED)
        k.end_container(POD, "svc-router-0-default-0")
        k.until(lambda: k.restarts(POD) and k.restarts("svc-router-0-default-0", component="router"), what="both run again")
        k.lets_pass(30)
        assert (k.pod_uids(), k.pod_uids(component="router")) == old
        assert k.notes("RestartTriggered") == []
    finally:
        _configure(k, chart)


def test_an_init_container_restarts_nothing(k: OmeKubectl) -> None:
    """Behaviour 19: one that runs beside the engine ends and is started again by its kubelet."""
    proxy = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    k.apply(runtime(k.namespace, config={"initContainers": [proxy]}), service(RECREATE))
    k.settled()
    old = k.pod_uids()
    k.lets_pass(SETTLED)
    k.end_container(POD, container="proxy")

    def restarted() -> bool:
        found = k.instance_pods()[POD]["status"].get("initContainerStatuses", ())
        return any(one["name"] == "proxy" and one["restartCount"] == 1 for one in found)

    k.until(restarted, what="the proxy runs again")
    k.lets_pass(30)
    assert k.pod_uids() == old
    assert k.notes("RestartTriggered") == []


def test_a_migration_that_another_operator_left_is_not_ours(k: OmeKubectl) -> None:
    """Behaviours 28, 107: an Instance in migration whose container crashes is left to the migration."""
    k.apply(runtime(k.namespace), service(RECREATE))
    row = k.settled()
    old = k.pod_uids()
    operation = {"id": "m", "type": "Migrate", "step": "CreateSurge", "startedAt": row["readySince"]}
    patch = {"status": {"instanceStatuses": [{**row, "phase": "Migrating", "operation": operation}]}}
    k("patch", "irep", "svc-engine", "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    k.lets_pass(SETTLED)
    k.end_container(POD)
    k.until(lambda: k.restarts(POD), what="the kubelet restarts the container")
    k.lets_pass(60)
    assert (k.rows()[0]["phase"], k.rows()[0]["incarnation"]) == ("Migrating", 1)
    assert k.pod_uids() == old
    assert k.notes("RestartTriggered") == []


def test_a_deadline_of_ones_own(k: OmeKubectl) -> None:
    """Behaviours 72, 88: the component's 45 minutes beat the cluster's 30; the operation says what it is, why, and until when."""
    k.apply(runtime(k.namespace), service(RECREATE, lifecycle={"instanceReadyTimeout": "45m"}))
    k.settled()
    k.lets_pass(SETTLED)
    k("label", "pod", POD, "ome.io/instance-incarnation-")  # holds the restart up for as long as we want to look
    k.end_container(POD, code=3)
    row = k.phase("Restarting")
    operation = row["operation"]
    assert (row["incarnation"], operation["type"], operation["step"]) == (2, "Restart", "Drain")
    assert operation["reason"] == f"pod {POD} container ome-container restarted after Ready: Error (exit 3)"
    until = datetime.fromisoformat(operation["deadline"]) - datetime.fromisoformat(operation["startedAt"])
    assert until.total_seconds() == 45 * 60
    k("delete", "pod", POD, "--wait=false")
    k.settled(incarnation=2)


def test_a_new_revision_reaches_a_failed_instance(k: OmeKubectl) -> None:
    """Behaviours 86, 91, 92: kept Failed for an hour; a template with an image that can be had brings it back."""
    image = f"picky-{k.namespace}"
    k.apply(runtime(k.namespace, image=f"{image}:1"), service(RECREATE, lifecycle={"instanceReadyTimeout": "30s"}))
    k.settled()
    k.lets_pass(SETTLED)
    k.refuse_images(image)
    try:
        k.end_container(POD)
        k.phase("Failed")
        kept = k.pod_uids()
        k.lets_pass(600)
        assert (k.rows()[0]["phase"], k.pod_uids()) == ("Failed", kept)
        k.apply(runtime(k.namespace, image="server:2"))
        k.settled()
        assert {one["spec"]["containers"][0]["image"] for one in k.instance_pods().values()} == {"server:2"}
    finally:
        k.refuse_images(None)


def test_a_freeze_lets_a_restart_finish_and_tells_what_is_gone(k: OmeKubectl) -> None:
    """Behaviours 101, 102: set while a restart runs, the freeze lets it finish; pods that are lost then are missed until the
    resume: the Instance is Pending, and restarts after it."""
    k.apply(gang(k.namespace, workers=1), service())
    k.settled()
    k.lets_pass(SETTLED)
    k.end_container("svc-engine-0-leader-0")
    k.phase("Restarting")
    k.freezes()
    k.settled(incarnation=2)
    k("delete", "pod", "svc-engine-0-leader-0", "svc-engine-0-worker-0", "--wait=false")
    k.phase("Pending")
    k.lets_pass(60)
    assert k.instance_pods() == {}
    assert k.ome("list", "svc").splitlines()[1].split()[:4] == ["engine", "0/2", "Pending", "0/0/0"]
    k.resumes()
    k.settled(incarnation=3)


def test_what_kubectl_prints_of_a_replica(k: OmeKubectl) -> None:
    """Behaviours 117, 118, 119: the columns of the table, the replica's condition, and that old evidence triggers nothing."""
    k.apply(runtime(k.namespace), service(RECREATE))
    first = k.settled()
    k.lets_pass(SETTLED)
    k.end_container(POD)
    row = k.settled(incarnation=2)
    assert row["readySince"] > first["readySince"]
    k.lets_pass(120)
    assert k.rows()[0]["incarnation"] == 2
    header, line = k("get", "irep", "svc-engine").splitlines()
    assert header.split() == ["NAME", "COMPONENT", "DESIRED", "CURRENT", "READY", "AVAILABLE", "AGE"]
    assert line.split()[:6] == ["svc-engine", "engine", "1", "1", "1", "1"]
    k("wait", "irep/svc-engine", "--for=condition=Ready", "--timeout=20s")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {
                "deploymentMode": None,
                "engine": {"annotations": {"ome.io/deploymentMode": "OMENative"}},
                "decoder": {"minReplicas": 1},
            },
            'InvalidDeploymentModeCombination: engine deploymentMode="OMENative" does not match decoder deploymentMode=""',
        ),
        (
            {"engine": {"lifecycle": {"updateStrategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}}}},
            "RollingUpdateZeroBudget",
        ),
        ({"engine": {"lifecycle": {"minReadySeconds": -1}}}, "spec.engine.lifecycle.minReadySeconds"),
        ({"engine": {"lifecycle": {"instanceReadyTimeout": 45}}}, "spec.engine.lifecycle.instanceReadyTimeout"),
    ],
)
def test_refusals_reach_the_person(k: OmeKubectl, spec: dict[str, object], words: str) -> None:
    """Behaviours 124, 125, 126: kubectl shows path and rule, and the service stays as it was."""
    k.apply(runtime(k.namespace), service())
    before = k.get("isvc", "svc")["spec"]
    said = k.fails("patch", "isvc", "svc", "--type=merge", "-p", json.dumps({"spec": spec}))
    assert words in said
    assert k.get("isvc", "svc")["spec"] == before


def _configure(k: OmeKubectl, lifecycle: dict[str, object]) -> None:
    patch = json.dumps({"data": {"lifecycle": json.dumps(lifecycle)}})
    k.without_namespace("patch", "configmap", "-n", "ome", "inferenceservice-config", "--type=merge", "-p", patch)
