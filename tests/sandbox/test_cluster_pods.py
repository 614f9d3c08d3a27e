"""Pods in the whole cluster: scheduler, kubelet and API server together, under virtual time."""

import pytest
from tests.sandbox.cluster_fixtures import Pods, condition, container, running

from regroup.kube.resources import NODES, PODS
from regroup.sandbox.faults import FaultError
from regroup.sandbox.kubelet.options import KubeletOptions
from regroup.wire.errors import NotFound

pytestmark = pytest.mark.looptime


async def test_a_pod_becomes_ready() -> None:
    """Scheduled, run, ready, with an address and the node's; the conditions as kubelets and schedulers set them."""
    async with running() as cluster:
        pods = Pods(cluster.client("test"))
        await pods.create("a")
        pod = await pods.until_ready("a")
        assert pod["spec"]["nodeName"] in {"node-0", "node-1"}
        assert pod["status"]["phase"] == "Running"
        assert pod["status"]["podIP"].startswith("10.24")
        assert condition(pod, "PodScheduled")[0] == "True"
        assert "running" in container(pod)["state"]


async def test_a_pod_that_fits_nowhere_says_why_and_goes_when_it_fits() -> None:
    """Unschedulable with the reasons; a node that gets room is used without anybody asking again."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        for name in ("node-0", "node-1"):
            await client.merge_patch(NODES, name, {"spec": {"unschedulable": True}})
        await pods.create("a")
        pod = await pods.until("a", lambda pod: condition(pod, "PodScheduled")[1] == "Unschedulable")
        assert "0/2 nodes are available" in pod["status"]["conditions"][0]["message"]
        assert pod["status"]["phase"] == "Pending"
        await client.merge_patch(NODES, "node-1", {"spec": {"unschedulable": False}})
        pod = await pods.until_ready("a")
        assert pod["spec"]["nodeName"] == "node-1"


async def test_a_gated_pod_waits_for_its_gate() -> None:
    """SchedulingGated; scheduled as soon as the last gate is lifted."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        await pods.create("a", schedulingGates=[{"name": "example.com/gate"}])
        pod = await pods.until("a", lambda pod: condition(pod, "PodScheduled")[1] == "SchedulingGated")
        assert "nodeName" not in pod["spec"]
        await client.merge_patch(PODS, "a", {"spec": {"schedulingGates": []}}, namespace="default")
        await pods.until_ready("a")


async def test_a_crash_by_fault_counts_once_and_comes_back() -> None:
    """`regroup fault crash`: exit code and reason in lastState, one restart for one fault, Ready again."""
    async with running() as cluster:
        pods, faults = Pods(cluster.client("test")), cluster.faults()
        await pods.create("a")
        before = await pods.until_ready("a")
        assert await faults.crash("default", "a", exit_code=137, reason="OOMKilled") == "main"
        await pods.until("a", lambda pod: container(pod)["restartCount"] == 1)
        pod = await pods.until_ready("a")
        assert container(pod)["lastState"]["terminated"]["exitCode"] == 137
        assert container(pod)["lastState"]["terminated"]["reason"] == "OOMKilled"
        assert pod["metadata"]["uid"] == before["metadata"]["uid"]
        await faults.crash("default", "a", exit_code=3)
        pod = await pods.until("a", lambda pod: container(pod)["state"].get("waiting"))
        assert container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        await pods.until("a", lambda pod: container(pod)["restartCount"] == 2)


async def test_a_fault_by_hand_works_like_kubectl_annotate() -> None:
    """The annotation alone is enough, and a fault of the same id is not carried out twice."""
    async with running() as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        await pods.create("a")
        await pods.until_ready("a")
        patch = {"metadata": {"annotations": {"sandbox.regroup.dev/fault": "crash container=main code=3 id=one"}}}
        await client.merge_patch(PODS, "a", patch, namespace="default")
        await pods.until("a", lambda pod: container(pod)["restartCount"] == 1)
        await pods.until_ready("a")
        await client.merge_patch(PODS, "a", {"metadata": {"labels": {"x": "y"}}}, namespace="default")
        pod = await pods.until_ready("a")
        assert container(pod)["restartCount"] == 1


async def test_fault_targets_are_checked() -> None:
    """A wrong container or code is an error that names what there is; a missing pod is NotFound; an ended one is refused."""
    async with running() as cluster:
        pods, faults = Pods(cluster.client("test")), cluster.faults()
        await pods.create("a")
        await pods.until_ready("a")
        with pytest.raises(FaultError, match="no container 'nobody'; it has main"):
            await faults.crash("default", "a", container="nobody")
        with pytest.raises(FaultError, match="300"):
            await faults.crash("default", "a", exit_code=300)
        with pytest.raises(NotFound):
            await faults.crash("default", "b")
        await faults.fail_pod("default", "a", reason="Evicted", message="low on memory")
        pod = await pods.until("a", lambda pod: pod["status"]["phase"] == "Failed")
        assert (pod["status"]["reason"], pod["status"]["message"]) == ("Evicted", "low on memory")
        with pytest.raises(FaultError, match="already ended"):
            await faults.crash("default", "a")


async def test_a_refused_image_and_its_end() -> None:
    """`regroup fault refuse-image`: back-off for new containers of the prefix only; accepted again, the pod comes up."""
    async with running() as cluster:
        pods, faults = Pods(cluster.client("test")), cluster.faults()
        await faults.refuse_image("example.com/main")
        await pods.create("a")
        await pods.create("b", containers=[{"name": "main", "image": "example.com/other:1"}])
        await pods.until_ready("b")
        await pods.until("a", lambda pod: container(pod)["state"].get("waiting", {}).get("reason") == "ImagePullBackOff")
        await faults.accept_image("example.com/main")
        await pods.until_ready("a", within=60)


async def test_an_unschedulable_pod_by_fault() -> None:
    """`regroup fault unschedulable`: the named pod finds no place until the fault is taken back; others do."""
    async with running() as cluster:
        pods, faults = Pods(cluster.client("test")), cluster.faults()
        await faults.make_unschedulable("default", "a")
        await pods.create("a")
        await pods.create("b")
        await pods.until_ready("b")
        await pods.until("a", lambda pod: condition(pod, "PodScheduled")[1] == "Unschedulable")
        await faults.make_schedulable("default", "a")
        await pods.until_ready("a")


async def test_deletion_is_graceful() -> None:
    """The container gets its stop time and the final status is kept while a finalizer holds the pod; then it goes."""
    async with running(kubelet=KubeletOptions(stop_delay=5)) as cluster:
        client = cluster.client("test")
        pods = Pods(client)
        await pods.create("a")
        await client.merge_patch(PODS, "a", {"metadata": {"finalizers": ["example.com/hold"]}}, namespace="default")
        await pods.until_ready("a")
        await pods.delete("a", grace=30)
        pod = await pods.get("a")
        assert "running" in container(pod)["state"]
        pod = await pods.until("a", lambda pod: pod["status"]["phase"] == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 143
        assert pod["metadata"]["finalizers"] == ["example.com/hold"]
        await client.merge_patch(PODS, "a", {"metadata": {"finalizers": None}}, namespace="default")
        await pods.until_gone("a")


async def test_a_replacement_of_the_same_name_starts_afresh() -> None:
    """Deleted by force and created again at once: the new pod shares nothing with the old one but its name."""
    async with running() as cluster:
        pods, faults = Pods(cluster.client("test")), cluster.faults()
        await pods.create("a")
        old = await pods.until_ready("a")
        await faults.crash("default", "a")
        await pods.until("a", lambda pod: container(pod)["restartCount"] == 1)
        await pods.delete("a", grace=0)
        await pods.create("a")
        pod = await pods.until_ready("a")
        assert pod["metadata"]["uid"] != old["metadata"]["uid"]
        assert container(pod)["restartCount"] == 0
        assert container(pod)["containerID"] != container(old)["containerID"]


async def test_completion_and_failure_by_annotation() -> None:
    """exit-after and exit-code with restartPolicy Never and OnFailure."""
    async with running() as cluster:
        pods = Pods(cluster.client("test"))
        await pods.create("good", restartPolicy="Never", annotations={"exit-after": "5s"})
        await pods.create("bad", restartPolicy="Never", annotations={"exit-after": "5s", "exit-code": "7"})
        await pods.create("again", restartPolicy="OnFailure", annotations={"exit-after": "5s", "exit-code": "7"})
        await pods.until("good", lambda pod: pod["status"]["phase"] == "Succeeded")
        pod = await pods.until("bad", lambda pod: pod["status"]["phase"] == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 7
        await pods.until("again", lambda pod: container(pod)["restartCount"] == 2)
