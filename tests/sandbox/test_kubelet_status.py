"""The status that the simulated kubelet reports, and taking over from it."""

from typing import Any

import msgspec
import pytest
from tests.sandbox.kubelet_fixtures import OPTIONS, START, Pod, make_pod

from regroup.sandbox.kubelet.adopt import adopt
from regroup.sandbox.kubelet.machine import Images, Stage
from regroup.sandbox.kubelet.options import Fault
from regroup.sandbox.kubelet.status import parse, render, same
from regroup.sandbox.kubelet.views import KubeletPod


def status(pod: Pod, seconds: float, *, body: KubeletPod | None = None) -> dict[str, Any]:
    run = pod.at(seconds)
    return render(body or pod.body, run, pod.plan, pod.options, now=START + seconds, host_ip="172.18.0.2")


def conditions(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {entry["type"]: (entry["status"], entry.get("reason", "")) for entry in found["conditions"]}


def reported(pod: Pod, found: dict[str, Any]) -> KubeletPod:
    """The pod as the API has it after ``found`` was written."""
    return msgspec.structs.replace(pod.body, raw_status=parse(found))


def test_the_life_of_a_pod() -> None:
    """Pending while created, Running when started, Ready when its probe passes."""
    pod = Pod(make_pod())
    created = status(pod, 0)
    assert created["phase"] == "Pending"
    assert created["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert conditions(created) == {
        "PodReadyToStartContainers": ("True", ""),
        "Initialized": ("True", ""),
        "Ready": ("False", "ContainersNotReady"),
        "ContainersReady": ("False", "ContainersNotReady"),
    }
    started = status(pod, 3)
    assert started["phase"] == "Running"
    assert started["podIP"] == "10.0.0.1"
    assert "running" in started["containerStatuses"][0]["state"]
    assert conditions(started)["Ready"][0] == "False"
    ready = status(pod, 7)
    assert (conditions(ready)["Ready"], conditions(ready)["ContainersReady"]) == (("True", ""), ("True", ""))
    assert ready["containerStatuses"][0]["ready"]


def test_init_containers_hold_the_pod_in_pending() -> None:
    """Initialized names who is not done; the regular container waits as PodInitializing; then all is said anew."""
    pod = Pod(make_pod(init=({"name": "one"}, {"name": "two"})))
    found = status(pod, 6)
    condition = next(entry for entry in found["conditions"] if entry["type"] == "Initialized")
    assert (found["phase"], condition["message"]) == ("Pending", "containers with incomplete status: [two]")
    assert found["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert [entry["ready"] for entry in found["initContainerStatuses"]] == [True, False]
    assert conditions(status(pod, 20))["Initialized"] == ("True", "")


def test_a_sidecar_counts_for_readiness() -> None:
    """ContainersReady waits for sidecars as for regular containers."""
    pod = Pod(make_pod(init=({"name": "proxy", "restartPolicy": "Always"},), annotations={"ready-delay": "proxy=1m,0s"}))
    assert conditions(status(pod, 30))["ContainersReady"] == ("False", "ContainersNotReady")
    assert conditions(status(pod, 90))["ContainersReady"] == ("True", "")


def test_a_crash_is_visible_in_full() -> None:
    """Terminated with code and reason; after the restart it is lastState, and the count is one higher."""
    pod = Pod(make_pod())
    pod.strike(10, Fault(id="a", action="crash", code=137, reason="OOMKilled"))
    crashed = status(pod, 10)["containerStatuses"][0]
    assert crashed["state"]["terminated"]["reason"] == "OOMKilled"
    assert (crashed["restartCount"], crashed["ready"]) == (0, False)
    again = status(pod, 11)["containerStatuses"][0]
    assert (again["restartCount"], again["lastState"]["terminated"]["exitCode"]) == (1, 137)
    assert "running" in again["state"]
    assert again["containerID"] != crashed["containerID"]


def test_crash_loop_back_off_names_the_pod_and_the_wait() -> None:
    """The kubelet's own words, with the end in lastState and the phase still Running."""
    pod = Pod(make_pod())
    pod.strike(10, Fault(id="a", action="crash"))
    pod.strike(12, Fault(id="b", action="crash", code=5))
    found = status(pod, 13)
    entry = found["containerStatuses"][0]
    assert entry["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=main pod=p_d(u1)",
    }
    assert (found["phase"], entry["lastState"]["terminated"]["exitCode"]) == ("Running", 5)


def test_a_refused_image_shows_both_reasons() -> None:
    """ErrImagePull first, then ImagePullBackOff; the pod is Pending."""
    pod = Pod(make_pod(), images=Images(refused=("img/",)))
    reasons = [status(pod, at)["containerStatuses"][0]["state"]["waiting"]["reason"] for at in (2, 3, 12.5)]
    assert reasons == ["ErrImagePull", "ImagePullBackOff", "ImagePullBackOff"]
    assert status(pod, 13)["phase"] == "Pending"


def test_readiness_gates_decide_after_the_containers() -> None:
    """Ready needs every gate's condition True; ContainersReady does not."""
    body = make_pod(spec={"readinessGates": [{"conditionType": "example.com/gate"}]})
    pod = Pod(body)
    found = status(pod, 8)
    assert (conditions(found)["ContainersReady"], conditions(found)["Ready"]) == (
        ("True", ""),
        ("False", "ReadinessGatesNotReady"),
    )
    gate = {"type": "example.com/gate", "status": "True"}
    told = msgspec.structs.replace(body, raw_status=parse({"conditions": [gate]}))
    assert conditions(status(pod, 9, body=told))["Ready"] == ("True", "")


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "PodCompleted"), (3, "Failed", "PodFailed")])
def test_a_pod_that_has_ended(code: int, phase: str, reason: str) -> None:
    """The terminal phase, and Ready False with why."""
    pod = Pod(make_pod(policy="Never"))
    pod.strike(10, Fault(id="a", action="crash", code=code))
    found = status(pod, 11)
    assert (found["phase"], conditions(found)["Ready"]) == (phase, ("False", reason))


def test_what_the_api_has_already_is_not_written_again() -> None:
    """``same``: nothing changed, or only what others own; but a condition of ours that others changed is put right."""
    pod = Pod(make_pod())
    body = reported(pod, status(pod, 7))
    assert same(body.status, parse(status(pod, 500, body=body)))
    others = [
        *(body.status.conditions or ()),
        msgspec.convert({"type": "PodScheduled", "status": "True"}, type(body.conditions[0])),
    ]
    assert same(msgspec.structs.replace(body.status, conditions=tuple(others)), parse(status(pod, 501, body=body)))
    wrong = tuple(msgspec.structs.replace(entry, status="False") for entry in body.conditions)
    assert not same(msgspec.structs.replace(body.status, conditions=wrong), parse(status(pod, 502, body=body)))


def test_the_time_of_a_condition_moves_only_with_its_status() -> None:
    """lastTransitionTime is kept while the status is the same."""
    pod = Pod(make_pod())
    first = status(pod, 7)
    later = status(pod, 900, body=reported(pod, first))
    assert [entry["lastTransitionTime"] for entry in later["conditions"]] == [
        entry["lastTransitionTime"] for entry in first["conditions"]
    ]


@pytest.mark.parametrize("seconds", [0, 2, 3, 7, 40])
def test_a_new_kubelet_takes_over_without_a_word(seconds: float) -> None:
    """Reading the run back from the status that was written gives the same status: no write, no restart."""
    pod = Pod(make_pod(init=({"name": "proxy", "restartPolicy": "Always"},)))
    body = reported(pod, status(pod, seconds))
    run = adopt(body, pod.plan, OPTIONS, now=START + seconds, ip="")
    assert same(body.status, parse(render(body, run, pod.plan, OPTIONS, now=START + seconds, host_ip="172.18.0.2")))


def test_a_new_kubelet_keeps_a_crash_loop_and_its_fault() -> None:
    """Back-off, counts and the handled fault come back from the API: nothing strikes twice."""
    pod = Pod(make_pod())
    pod.strike(10, Fault(id="a", action="crash"))
    pod.strike(12, Fault(id="b", action="crash", code=5))
    body = reported(pod, status(pod, 13))
    run = adopt(body, pod.plan, OPTIONS, now=START + 14, ip="")
    entry = run.containers[0]
    assert (entry.stage, entry.restarts, run.fault) == (Stage.CRASH_BACKOFF, 1, "b")
    assert entry.last is not None
    assert entry.last.code == 5
    assert same(body.status, parse(render(body, run, pod.plan, OPTIONS, now=START + 14, host_ip="172.18.0.2")))


def test_a_new_kubelet_leaves_an_ended_pod_alone() -> None:
    """A Failed pod stays Failed."""
    pod = Pod(make_pod(policy="Never"))
    pod.strike(10, Fault(id="a", action="fail", reason="Evicted", message="m"))
    body = reported(pod, status(pod, 11))
    run = adopt(body, pod.plan, OPTIONS, now=START + 14, ip="")
    assert (run.phase, run.reason, run.over) == ("Failed", "Evicted", True)
