"""Crash-loop repairs, failed restarts, reset, orphans, told with kubectl: [seed] behaviours of spec/omenative.md 8."""

import json
from datetime import datetime

import pytest
from tests.stories.ome.ome_cluster import RECREATE, OmeKubectl, gang, runtime, service

pytestmark = [pytest.mark.http, pytest.mark.kubectl]

SETTLED = 3


def test_a_crash_loop_is_repaired_under_none(k: OmeKubectl) -> None:
    """Behaviours 39, 41: past the stuck-pod grace the whole Instance starts over, and the event says why."""
    looping = {"sandbox.regroup.dev/exit-after": "15s"}
    k.apply(runtime(k.namespace), service(annotations=looping))
    pod = "svc-engine-0-default-0"
    k.until(lambda: k.rows().get(0, {}).get("incarnation", 1) > 1, what="the Instance is rebuilt")
    said = k.notes("RestartTriggered")[0]
    assert f"pod {pod} wedged in CrashLoopBackOff past the stuck-pod grace" in said
    assert said.endswith("(incarnation=2)")


def test_a_serving_gang_waits_for_the_budget(k: OmeKubectl) -> None:
    """Behaviours 59, 60, 66, 71: maxUnavailable 0 holds the repair of a gang whose leader serves; it is told once, and a higher
    budget lets it go."""
    rolling = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}
    k.apply(gang(k.namespace, workers=1), service("None", lifecycle=rolling))
    k.settled()
    for _ in range(6):
        k.end_container("svc-engine-0-worker-0")
        k.lets_pass(25)
    [said] = k.until(lambda: k.notes("RepairHeld"), what="the repair is held")
    assert said == (
        "OMENative component=engine instance=0 crash-loop repair held by Budget: per-Component unavailability budget 0 exhausted "
        "(would become 1)"
    )
    assert k.rows()[0]["incarnation"] == 1
    for _ in range(3):
        k.end_container("svc-engine-0-worker-0")
        k.lets_pass(25)
    k.apply(service("None", lifecycle={"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}))
    k.settled(incarnation=2)
    assert len(k.notes("RepairHeld")) == 1


def test_a_failed_restart_is_kept_until_it_is_reset(k: OmeKubectl) -> None:
    """Behaviours 86, 87, 91, 93, 94: no image, so the restart fails and stays; a reset starts it over once the image is there."""
    image = f"picky-{k.namespace}"
    k.apply(runtime(k.namespace, image=f"{image}:1"), service(RECREATE))
    k.settled()
    k.lets_pass(SETTLED)
    k.refuse_images(image)
    try:
        k("delete", "pod", "svc-engine-0-default-0", "--wait=false")
        row = k.phase("Failed")
        assert row["incarnation"] == 2
        assert row["operation"]["type"] == "Restart"
        assert row["lastFailure"]["reason"] in {"ImagePullBackOff", "ErrImagePull"}
        assert k.notes("InstanceFailed")
        kept = k.pod_uids()
        assert len(kept) == 1
        k.lets_pass(300)
        assert k.pod_uids() == kept, "kept for inspection"
        assert k.rows()[0]["phase"] == "Failed"
    finally:
        k.refuse_images(None)
    k("annotate", "irep", "svc-engine", "ome.io/reset-instances=all")
    k.until(lambda: k.notes("InstancesReset") or k.notes("InstancesResetSkipped"), what="the reset is answered")
    row = k.settled()
    assert row["incarnation"] == 2
    assert "ome.io/reset-instances" not in k.replica()["metadata"]["annotations"]


def test_a_reset_of_what_is_ready_is_skipped(k: OmeKubectl) -> None:
    """Behaviours 94, 95: skipped with the reason; a word that is no index rejects the whole."""
    k.apply(runtime(k.namespace), service(RECREATE))
    k.settled()
    old = k.pod_uids()
    k("annotate", "irep", "svc-engine", "ome.io/reset-instances=0")
    [said] = k.until(lambda: k.notes("InstancesResetSkipped"), what="the reset is skipped")
    assert "reset skipped for instance(s) 0 (Phase=Ready)" in said
    k("annotate", "irep", "svc-engine", "ome.io/reset-instances=All")
    [said] = k.until(lambda: k.notes("InstancesResetRejected"), what="the reset is rejected")
    assert "nothing reset" in said
    assert k.pod_uids() == old


def test_an_orphan_holds_the_restart_up(k: OmeKubectl) -> None:
    """Behaviour 81: a pod without its incarnation is not deleted; once it is gone the restart goes on."""
    k.apply(gang(k.namespace, workers=1), service())
    k.settled()
    k.lets_pass(SETTLED)
    k("label", "pod", "svc-engine-0-worker-0", "ome.io/instance-incarnation-")
    k.end_container("svc-engine-0-leader-0")
    k.phase("Restarting")
    [said] = k.until(lambda: k.notes("FoundOrphan"), what="the orphan is told")
    assert f"found orphan pod {k.namespace}/svc-engine-0-worker-0 without ome.io/instance-incarnation" in said
    k.lets_pass(60)
    assert len(k.instance_pods()) == 2
    assert k.rows()[0]["phase"] == "Restarting"
    k("delete", "pod", "svc-engine-0-worker-0", "--wait=false")
    k.settled(incarnation=2)


def test_the_plugin_shows_a_restart_while_it_runs(k: OmeKubectl) -> None:
    """Behaviours 115, 116: PHASE Restarting, IDX/INC 0/2, the operation, and each pod's restarts."""
    k.apply(runtime(k.namespace), service(RECREATE))
    k.settled()
    k.lets_pass(SETTLED)
    # A pod without its incarnation holds the restart up for as long as we want to look.
    k("label", "pod", "svc-engine-0-default-0", "ome.io/instance-incarnation-")
    k.end_container("svc-engine-0-default-0")
    k.phase("Restarting")
    line = k.ome("list", "svc").splitlines()[1].split()
    assert line[:3] == ["engine", "0/2", "Restarting"]
    shown = k.ome("status", "svc", "0", "--component", "engine", "-o", "wide")
    fields = {row.partition("  ")[0].strip(): row.partition("  ")[2].strip() for row in shown.splitlines()}
    assert fields["operation type"] == "Restart"
    assert "restarted after Ready" in fields["operation reason"]
    assert fields["failure container"] == "ome-container"
    report = json.loads(k.ome("list", "svc", "-o", "json"))
    assert report["kind"] == "InstanceListReport"
    k("delete", "pod", "svc-engine-0-default-0", "--wait=false")
    k.settled(incarnation=2)


def test_dark_instances_wait_for_no_budget(k: OmeKubectl) -> None:
    """Behaviours 61, 66: at maxUnavailable 1 both Instances are repaired, because neither serves anything; nothing is held."""
    rolling = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxUnavailable": 1}}}
    looping = {"sandbox.regroup.dev/exit-after": "15s"}
    k.apply(runtime(k.namespace), service(instances=2, lifecycle=rolling, annotations=looping))
    k.until(
        lambda: len(k.rows()) == 2 and all(row.get("incarnation", 1) > 1 for row in k.rows().values()),
        what="both Instances are rebuilt",
    )
    assert all("wedged in CrashLoopBackOff" in said for said in k.notes("RestartTriggered"))
    assert k.notes("RepairHeld") == []


def test_a_freeze_holds_a_repair(k: OmeKubectl) -> None:
    """Behaviour 104: at freeze a wedged Instance stays as it is; lifted, its repair opens."""
    k.apply(runtime(k.namespace), service(annotations={"sandbox.regroup.dev/exit-after": "15s"}))
    k.phase("Ready")
    k("annotate", "isvc", "svc", "ome.io/rollout-paused=freeze")
    k.until(lambda: k.replica()["spec"].get("pauseMode") == "Freeze", what="the freeze reaches the replica")
    incarnation = k.rows()[0]["incarnation"]
    k.lets_pass(200)
    assert k.rows()[0]["incarnation"] == incarnation
    k("annotate", "isvc", "svc", "ome.io/rollout-paused-")
    k.until(lambda: k.rows()[0]["incarnation"] > incarnation, what="the repair opens")


def test_a_runtimes_policy_and_min_ready_seconds(k: OmeKubectl) -> None:
    """Behaviours 4, 79: the runtime's policy counts where the service has none, and new pods must stay ready for a while."""
    lifecycle = {"restartPolicy": RECREATE, "minReadySeconds": 60}
    k.apply(runtime(k.namespace, config={"lifecycle": lifecycle}), service())
    assert k.settled()["incarnation"] == 1
    k.lets_pass(SETTLED)
    k.end_container("svc-engine-0-default-0")
    row = k.settled(incarnation=2)
    ready = next(
        one["lastTransitionTime"]
        for one in k.instance_pods()["svc-engine-0-default-0"]["status"]["conditions"]
        if one["type"] == "Ready"
    )
    waited = datetime.fromisoformat(row["readySince"]) - datetime.fromisoformat(ready)
    assert waited.total_seconds() >= 59, "times have whole seconds"
    assert k.notes("RestartCompleted") == ["OMENative component=engine instance=0 restart complete (incarnation=2)"]
