"""The Instance restart policy, told with kubectl: [seed] behaviours of spec/omenative.md 8."""

from functools import partial

import pytest
from tests.stories.ome.ome_cluster import RECREATE, OmeKubectl, gang, runtime, service

pytestmark = [pytest.mark.http, pytest.mark.kubectl]

SETTLED = 3
"""Seconds of the cluster after which an end is surely later than the second in which the Instance became Ready (9.34)."""


def test_the_seeds_first_example(k: OmeKubectl) -> None:
    """Behaviours 15, 72-78, 82, 111, 112, 115, 116, 120: qwen3-0-6b, as the guide applies it, whose container is killed."""
    k.namespace = "qwen3-native"
    k.apply_ome_example("qwen3-0-6b-runtime.yaml")
    assert "qwen3-0-6b created" in k.apply_ome_example("qwen3-0-6b-native.yaml")
    replica, pod = "qwen3-0-6b-engine", "qwen3-0-6b-engine-0-default-0"
    k.settled(name=replica)
    k("wait", "isvc/qwen3-0-6b", "--for=condition=Ready", "--timeout=40s")
    for incarnation in (2, 3):
        old = k.pod_uids("qwen3-0-6b")
        k.lets_pass(SETTLED)
        k.end_container(pod, code=137, reason="OOMKilled")
        row = k.settled(name=replica, incarnation=incarnation)
        new = k.instance_pods("qwen3-0-6b")
        assert list(new) == [pod]
        assert new[pod]["metadata"]["uid"] != old[pod]
        assert new[pod]["metadata"]["labels"]["ome.io/instance-incarnation"] == str(incarnation)
        failure = row["lastFailure"]
        assert (failure["podName"], failure["containerName"], failure["reason"], failure["exitCode"]) == (
            pod,
            "ome-container",
            "OOMKilled",
            137,
        )
    said = k(
        "get",
        "events",
        "--field-selector",
        "reason=RestartTriggered",
        "-o",
        "custom-columns=KIND:.involvedObject.kind,NAME:.involvedObject.name,MESSAGE:.message",
    )
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["InferenceService", "qwen3-0-6b"]] * 2
    for incarnation in (2, 3):
        assert (
            f"OMENative component=engine instance=0 restart triggered: pod {pod} container ome-container restarted after Ready: "
            f"OOMKilled (exit 137) (incarnation={incarnation})"
        ) in said
    listed = k.ome("list", "qwen3-0-6b").splitlines()
    assert listed[0].split() == ["COMP", "IDX/INC", "PHASE", "PODS", "REVS", "AOF", "EVIDENCE"]
    assert listed[1].split()[:4] == ["engine", "0/3", "Ready", "1/1/1"]
    shown = k.ome("status", "qwen3-0-6b", "0", "--component", "engine", "-o", "wide")
    assert "OOMKilled" in shown
    assert "137" in shown


def test_the_seeds_second_example(k: OmeKubectl) -> None:
    """Behaviours 6, 29, 113, 114: prefill and decode with a policy each; one Instance down keeps EngineReady, two do not."""
    k.namespace = "llama-demo"
    k.apply_ome_example("llama-pd-runtime.yaml")
    k.apply_ome_example("llama-pd.yaml")
    k.settled(2, name="llama-pd-engine")
    k("wait", "isvc/llama-pd", "--for=condition=Ready", "--timeout=40s")
    k.lets_pass(SETTLED)
    k.end_container("llama-pd-engine-0-default-0")
    k.says("EngineReady", "True", "MinimumAvailable", "1/2 Instances serving (min 1)", name="llama-pd")
    k.settled(2, name="llama-pd-engine", incarnation=2)
    k.lets_pass(SETTLED)
    # Both at once: a restart that the policy starts waits for no budget.
    k.end_container("llama-pd-engine-0-default-0", "llama-pd-engine-1-default-0")
    k.says("EngineReady", "False", "InsufficientAvailable", "0/2 Instances serving, need 1", name="llama-pd")
    k.settled(2, name="llama-pd-engine", incarnation=3)
    decoder = k.pod_uids("llama-pd", "decoder")
    k.end_container("llama-pd-decoder-0-default-0")
    one = "llama-pd-decoder-0-default-0"
    k.until(lambda: k.restarts(one, name="llama-pd", component="decoder"), what="the kubelet restarts the decoder's container")
    assert k.pod_uids("llama-pd", "decoder") == decoder
    assert k.rows("llama-pd-decoder")[0]["incarnation"] == 1


@pytest.mark.parametrize("hit", ["a worker's container", "a worker", "the leader fails"])
def test_a_gang_is_rebuilt_whole_by_default(k: OmeKubectl, hit: str) -> None:
    """Behaviours 2, 22, 23, 24: a leader and its workers come back as one group."""
    k.apply(gang(k.namespace), service())
    k.settled()
    old = k.pod_uids()
    assert len(old) == 4
    k.lets_pass(SETTLED)
    match hit:
        case "a worker's container":
            k.end_container("svc-engine-0-worker-2")
        case "a worker":
            k("delete", "pod", "svc-engine-0-worker-1", "--wait=false")
        case _:
            k.fail_pod("svc-engine-0-leader-0")
    k.settled(incarnation=2)
    new = k.pod_uids()
    assert new.keys() == old.keys()
    assert not set(new.values()) & set(old.values())
    [said] = k.notes("RestartTriggered")
    expected = {
        "a worker's container": "pod svc-engine-0-worker-2 container ome-container restarted after Ready: Error (exit 1)",
        "a worker": "pod count 3 below desired 4",
        "the leader fails": "pod svc-engine-0-leader-0",
    }
    assert expected[hit] in said
    [done] = k.notes("RestartCompleted")
    assert done == "OMENative component=engine instance=0 restart complete (incarnation=2)"


def test_none_repairs_only_the_pod_that_failed(k: OmeKubectl) -> None:
    """Behaviours 1, 33, 34, 35: a single-pod Instance has policy None: same incarnation, no RestartTriggered."""
    k.apply(runtime(k.namespace), service())
    k.settled()
    old = k.pod_uids()
    pod = "svc-engine-0-default-0"
    k.lets_pass(SETTLED)
    k.end_container(pod)
    k.until(lambda: k.restarts(pod), what="the kubelet restarts the container")
    assert k.pod_uids() == old
    for how in ("deleted", "failed"):
        before = k.pod_uids()
        if how == "deleted":
            k("delete", "pod", pod, "--wait=false")
        else:
            k.fail_pod(pod)
        k.until(partial(_replaced, k, before), what=f"{how}: a new pod of the same name")
        assert k.settled()["incarnation"] == 1, how
    assert k.notes("RestartTriggered") == []


def test_none_on_a_gang_replaces_the_worker_alone(k: OmeKubectl) -> None:
    """Behaviour 36: the other pods keep their UIDs."""
    k.apply(gang(k.namespace), service("None"))
    k.settled()
    old = k.pod_uids()
    k("delete", "pod", "svc-engine-0-worker-1", "--wait=false")
    k.until(
        lambda: len(k.pod_uids()) == 4 and k.pod_uids()["svc-engine-0-worker-1"] != old["svc-engine-0-worker-1"],
        what="worker 1 is new",
    )
    assert k.settled()["incarnation"] == 1
    changed = {pod for pod, uid in k.pod_uids().items() if old[pod] != uid}
    assert changed == {"svc-engine-0-worker-1"}


def test_sidecars_and_starts_are_no_failure(k: OmeKubectl) -> None:
    """Behaviours 18, 20, 21: a sidecar that ends, and a main container that ends before Ready, restart nothing."""
    config = {"containers": [{"name": "sidecar", "image": "side:1"}]}
    k.apply(runtime(k.namespace, config=config), service(RECREATE, annotations={"sandbox.regroup.dev/ready-delay": "20s"}))
    pod = "svc-engine-0-default-0"
    k.until(lambda: k.instance_pods().get(pod, {}).get("status", {}).get("phase") == "Running", what="it starts")
    k.end_container(pod, container="ome-container")
    row = k.settled()
    assert row["incarnation"] == 1
    old = k.pod_uids()
    k.lets_pass(SETTLED)
    k.end_container(pod, container="sidecar")
    k.until(lambda: k.restarts(pod, "sidecar"), what="the sidecar is restarted in place")
    k.lets_pass(30)
    assert k.pod_uids() == old
    assert k.notes("RestartTriggered") == []


def test_a_policy_edit_starts_nothing_and_counts_from_then_on(k: OmeKubectl) -> None:
    """Behaviours 5, 9, 11, 12: `configured`, no new revision; ``Always`` is refused; a restart under way still finishes."""
    k.apply(runtime(k.namespace, config={"lifecycle": {"restartPolicy": RECREATE}}), service("None"))
    k.settled()
    old, revisions = k.pod_uids(), len(k.get("controllerrevisions"))
    assert "configured" in k.apply(service(RECREATE))
    k.lets_pass(20)
    assert k.pod_uids() == old
    assert len(k.get("controllerrevisions")) == revisions
    said = k.fails("patch", "isvc", "svc", "--type=merge", "-p", '{"spec":{"engine":{"lifecycle":{"restartPolicy":"Always"}}}}')
    assert 'spec.engine.lifecycle.restartPolicy: Unsupported value: "Always"' in said
    k.end_container("svc-engine-0-default-0")
    k.phase("Restarting")
    k.apply(service("None"))
    k.settled(incarnation=2)


def test_pauses(k: OmeKubectl) -> None:
    """Behaviours 37, 38, 100, 101, 103: at ``true`` repairs go on but a missing pod waits; at ``freeze`` no repair starts."""
    k.apply(runtime(k.namespace), service(RECREATE, router={"minReplicas": 1}))
    k.settled()
    k.settled(name="svc-router")
    k("annotate", "isvc", "svc", "ome.io/rollout-paused=true")
    k.until(lambda: k.replica()["spec"].get("paused"), what="the pause reaches the replica")
    k.lets_pass(SETTLED)
    k("delete", "pod", "svc-router-0-default-0")
    k.end_container("svc-engine-0-default-0")
    k.settled(incarnation=2)
    k.phase("Pending", name="svc-router")
    assert k.instance_pods(component="router") == {}
    k("annotate", "isvc", "svc", "ome.io/rollout-paused=freeze", "--overwrite")
    k.until(lambda: k.replica()["spec"].get("pauseMode") == "Freeze", what="the freeze reaches the replica")
    k.lets_pass(SETTLED)
    k.end_container("svc-engine-0-default-0")
    k.lets_pass(60)
    assert k.rows()[0]["incarnation"] == 2
    k("annotate", "isvc", "svc", "ome.io/rollout-paused-")
    k.settled(incarnation=3)
    k.settled(name="svc-router")


def test_a_new_image_rolls_by_its_strategy(k: OmeKubectl) -> None:
    """Behaviour 105: a change to the pod template is no failure: incarnation 1, no RestartTriggered."""
    k.apply(runtime(k.namespace), service(RECREATE))
    k.settled()
    k.apply(runtime(k.namespace, image="server:2"))
    k.until(
        lambda: [one["spec"]["containers"][0]["image"] for one in k.instance_pods().values()] == ["server:2"],
        what="one pod with the new image",
    )
    assert k.settled()["incarnation"] == 1
    assert k.notes("RestartTriggered") == []


def _replaced(k: OmeKubectl, before: dict[str, str]) -> bool:
    now = k.pod_uids()
    return now.keys() == before.keys() and now != before
