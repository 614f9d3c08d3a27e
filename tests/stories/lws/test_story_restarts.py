"""The restart policies, told with kubectl: [seed] behaviours 2, 4, 5, 32, 33, 35, 37, 43, 47-50, 53-57, 61, 63."""

import pytest
from tests.stories.lws.story_cluster import Kubectl, P, group, lws

from regroup.wire.yamlish import dump

pytestmark = [pytest.mark.http, pytest.mark.kubectl]


def test_the_whole_group_is_recreated(k: Kubectl) -> None:
    """Behaviours 2, 32, 33, 35, 37, with the seed's own manifest: whichever pod of a group of four fails, by a container or by
    its deletion, all four are new, and the other group keeps its pods."""
    k.apply_example("recreate-group-on-pod-restart.yaml")
    name = "leaderworkerset-sample"
    assert k.lws(name)["spec"]["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    old = k.ready(name)
    assert len(old) == 8
    first = [f"{name}-0", *(f"{name}-0-{index}" for index in (1, 2, 3))]
    for hit in ("a worker's container", "the leader's container", "a worker"):
        match hit:
            case "a worker's container":
                k.crash(f"{name}-0-2")
            case "the leader's container":
                k.crash(f"{name}-0")
            case _:
                k("delete", "pod", f"{name}-0-1", "--wait=false")
        new = k.recreated(old, first, name)
        assert {pod: uid for pod, uid in new.items() if pod not in first} == {
            pod: uid for pod, uid in old.items() if pod not in first
        }, hit
        old = k.ready(name)
    assert len(k.events("RecreateGroup")) == 3


def test_a_default_policy_is_the_first(k: Kubectl) -> None:
    """Behaviours 2, 4, 5: what is not said is RecreateGroupOnPodRestart; a budget goes with AfterStart and 0, not with None."""
    manifest = lws()
    k.apply(manifest)
    assert k("get", "lws", "demo", "-o", "jsonpath={.spec.leaderWorkerTemplate.restartPolicy}") == "RecreateGroupOnPodRestart"
    refused = lws(template={"restartPolicy": "None", "maxGroupRestarts": 3})
    refused["metadata"]["name"] = "refused"
    said = k.fails("apply", "-f", "-", text=dump(refused))
    assert "spec.leaderWorkerTemplate.maxGroupRestarts" in said
    after = lws(replicas=0, template={"restartPolicy": "RecreateGroupAfterStart", "maxGroupRestarts": 0})
    after["metadata"]["name"] = "after"
    assert "created" in k.apply(after)


def test_none_replaces_only_what_failed(k: Kubectl) -> None:
    """Behaviours 47, 48, 49: a crashed container is restarted in its pod, a deleted worker alone is new, and so is a deleted
    leader, under the same name."""
    k.apply_example("none.yaml")
    name = "leaderworkerset-sample"
    old = k.ready(name)
    k.crash(f"{name}-1-2")
    k.until(
        lambda: k.get("pod", f"{name}-1-2")["status"]["containerStatuses"][0]["restartCount"] == 1,
        what="the container is restarted",
    )
    assert k.uids(name) == old
    for pod in (f"{name}-1-3", f"{name}-0"):
        k("delete", "pod", pod, "--wait=false")
        new = k.recreated(old, [pod], name)
        assert {one for one in new if new[one] != old[one]} == {pod}
        old = k.ready(name)


def test_a_lost_node(k: Kubectl) -> None:
    """Behaviours 43, 50, 156: pods of a lost node are evicted; the whole group comes back on healthy nodes, and under None only
    the pods of that node are new."""
    soon = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
        for what in ("unreachable", "not-ready")
    ]
    lose, none = (
        lws(size=3, pod={"tolerations": soon}),
        lws(size=3, template={"restartPolicy": "None"}, pod={"tolerations": soon}),
    )
    none["metadata"]["name"] = "loose"
    k.apply(lose, none)
    old, loose = k.ready(), k.ready("loose")
    node = k.pods()["demo-0-1"]["spec"]["nodeName"]
    there = {name for name, pod in k.pods("loose").items() if pod["spec"]["nodeName"] == node}
    k("annotate", "node", node, "sandbox.regroup.dev/down=true")
    try:
        k.recreated(old, group(size=3))
        assert node not in {pod["spec"]["nodeName"] for pod in k.pods().values()}
        if there:
            k.recreated(loose, sorted(there), "loose")
        now = k.uids("loose")
        assert {name for name in now if now[name] != loose[name]} == there
    finally:
        k("annotate", "node", node, "sandbox.regroup.dev/down-")


def test_after_start_forgives_while_a_pod_is_pending(k: Kubectl) -> None:
    """Behaviours 54, 63, 53: while an image is pulled a crash is forgiven for good; when all run, the next one is not."""
    slow = lws(template={"restartPolicy": "RecreateGroupAfterStart"})
    worker = slow["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    slow["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = {"spec": dict(worker["spec"])}
    worker["metadata"] = {"annotations": {"sandbox.regroup.dev/start-delay": "120s"}}
    k.apply(slow)
    k.until(lambda: k.pods().get("demo-0-1"), what="the worker exists")
    k("wait", "pod/demo-0", "--for=condition=Ready", "--timeout=30s")
    leader = k.uids()["demo-0"]
    k.crash("demo-0")
    k.until(lambda: k.pods()["demo-0"]["status"]["containerStatuses"][0]["restartCount"] == 1, what="restarted")
    old = k.ready()
    k.lets_pass(30)
    assert k.uids() == old, "forgiven for good"
    assert old["demo-0"] == leader
    assert k.events("GroupUnschedulable") == []
    k.crash("demo-0-1")
    k.recreated(old, group())


def test_after_start_counts_an_unscheduled_pod_as_starting(k: Kubectl) -> None:
    """Behaviour 55: a pod that no scheduler has looked at has no PodScheduled condition: a crash is forgiven, and nothing is said
    of unschedulable pods."""
    manifest = lws(template={"restartPolicy": "RecreateGroupAfterStart"})
    template = manifest["spec"]["leaderWorkerTemplate"]
    template["leaderTemplate"] = {"spec": dict(template["workerTemplate"]["spec"])}
    template["workerTemplate"]["spec"]["schedulerName"] = "nobody"
    k.apply(manifest)
    k.until(lambda: k.pods().get("demo-0-1"), what="the worker exists")
    k("wait", "pod/demo-0", "--for=condition=Ready", "--timeout=30s")
    assert not any(one["type"] == "PodScheduled" for one in k.pods()["demo-0-1"]["status"].get("conditions", ()))
    uids = k.uids()
    k.crash("demo-0")
    k.until(lambda: k.pods()["demo-0"]["status"]["containerStatuses"][0]["restartCount"] == 1, what="restarted")
    k.lets_pass(20)
    assert k.uids() == uids
    assert k.events("GroupUnschedulable") == k.events("RecreateGroup") == []


def test_after_start_reports_what_cannot_be_placed(k: Kubectl) -> None:
    """Behaviours 57, 61, 62: a worker without a place: the crash of another is forgiven with a warning that names the pod; a
    leader without a place: the Progressing condition says so with the number."""
    tight = lws(template={"restartPolicy": "RecreateGroupAfterStart"}, pod={"nodeSelector": {"gpu": k.namespace[:60]}})
    template = tight["spec"]["leaderWorkerTemplate"]
    template["leaderTemplate"] = {"spec": {"containers": template["workerTemplate"]["spec"]["containers"]}}
    k.apply(tight)
    k("wait", "pod/demo-0", "--for=condition=Ready", "--timeout=30s")
    k.until(lambda: k.pods().get("demo-0-1"), what="the worker exists")
    k("wait", "pod/demo-0-1", "--for=jsonpath={.status.conditions[0].reason}=Unschedulable", "--timeout=30s")
    uid = k.uids()["demo-0"]
    k.crash("demo-0")
    (event,) = k.until(lambda: k.events("GroupUnschedulable"), what="GroupUnschedulable is told")
    assert event["type"] == "Warning"
    assert "demo-0-1" in event["message"]
    assert k.uids()["demo-0"] == uid

    nowhere = lws(replicas=2, size=1, pod={"nodeSelector": {"nowhere": "yes"}})
    nowhere["metadata"]["name"] = "nowhere"
    k.apply(nowhere)
    k.until(lambda: k.condition("Progressing", "nowhere") == ("True", "GroupUnschedulable"), what="Progressing says why")

    def message() -> str:
        return str(next(one["message"] for one in k.lws("nowhere")["status"]["conditions"] if one["type"] == "Progressing"))

    k.until(lambda: message().startswith("2 replicas"), what="with the number")
    node = k("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    k("label", "node", node, "nowhere=yes")
    k.ready("nowhere")
    assert k.condition("Progressing", "nowhere") == ("False", "GroupsProgressing")
    k("label", "node", node, "nowhere-")


def test_a_gated_leader_is_a_start(k: Kubectl) -> None:
    """Behaviour 56: a leader that waits for the last pod of its predecessor is gated; failures of the group are forgiven and
    nothing is reported."""
    manifest = lws(template={"restartPolicy": "RecreateGroupAfterStart"}, pod={"terminationGracePeriodSeconds": 120})
    manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {
        "annotations": {"sandbox.regroup.dev/stop-delay": "100s"}
    }
    k.apply(manifest)
    old = k.ready()
    k("delete", "pod", "demo-0", "--wait=false", "--grace-period=1")
    k.until(lambda: k.uids().get("demo-0") not in {None, old["demo-0"]}, what="a new leader is made")
    leader = k.get("pod", "demo-0")
    assert {"name": f"{P}group-replacement"} in leader["spec"]["schedulingGates"]
    assert "demo-0-1" in k.pods(), "the old worker is still there"
    k.recreated(old, group())
    assert k.events("GroupUnschedulable") == []
    assert k.events("RecreateGroup") == []


def test_parallel_termination(k: Kubectl) -> None:
    """Behaviour 139: the workers are told to end together with their leader; with Default they end after it."""
    for policy in ("Parallel", "Default"):
        manifest = lws(podTerminationPolicy=policy, pod={"terminationGracePeriodSeconds": 200})
        manifest["metadata"]["name"] = policy.lower()
        manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {
            "annotations": {"sandbox.regroup.dev/stop-delay": "100s"}
        }
        k.apply(manifest)
    for policy in ("parallel", "default"):
        k.ready(policy)
        k("delete", "pod", f"{policy}-0", "--wait=false")
    k.until(lambda: k.get("pod", "parallel-0-1")["metadata"].get("deletionTimestamp"), what="the worker ends with its leader")
    assert "deletionTimestamp" not in k.get("pod", "default-0-1")["metadata"]
