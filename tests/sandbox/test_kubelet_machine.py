"""The pure machine of a simulated pod: what happens to its containers as time goes by."""

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from tests.sandbox.kubelet_fixtures import OPTIONS, START, Pod, make_pod

from regroup.sandbox.kubelet.machine import Images, Stage, finish
from regroup.sandbox.kubelet.options import FAULT, Fault, plan


def crash(code: int = 3, fault_id: str = "a", container: str = "") -> Fault:
    return Fault(id=fault_id, action="crash", container=container, code=code)


def test_a_container_pulls_then_starts_then_runs_then_is_ready() -> None:
    """Pull 2 s, start 1 s, ready 4 s later; nothing comes early."""
    pod = Pod(make_pod())
    assert pod.stages(0) == [Stage.PULLING]
    assert pod.stages(1.9) == [Stage.PULLING]
    assert pod.stages(2) == [Stage.STARTING]
    assert pod.stages(3) == [Stage.RUNNING]
    assert not pod.at(6.9).containers[0].ready(START + 6.9)
    assert pod.at(7).containers[0].ready(START + 7)


def test_an_image_that_is_there_is_not_pulled() -> None:
    """The second pod of an image on a node starts at once."""
    pod = Pod(make_pod(), images=Images(present={"img/main"}))
    assert pod.stages(0) == [Stage.STARTING]


def test_a_late_look_finds_the_same_history() -> None:
    """Looking once at the end equals looking often: a cut off kubelet loses nothing (moments and counts are equal)."""
    body = make_pod(annotations={"exit-after": "7s", "exit-code": "3"})
    often, once = Pod(body), Pod(body)
    for tenth in range(1200):
        often.at(tenth / 10)
    once.at(119.9)
    assert often.run == once.run
    assert once.run.containers[0].restarts > 2


def test_next_due_names_every_change() -> None:
    """A kubelet that sleeps until ``next_due`` misses neither an event nor a readiness."""
    pod = Pod(make_pod(annotations={"exit-after": "60s"}))
    seen = []
    now = START
    for _ in range(5):
        run = pod.at(now - START)
        now = run.next_due(now)
        seen.append(now - START)
    assert seen == [2, 3, 7, 63, 64]


def test_init_containers_run_one_after_the_other_and_before_the_rest() -> None:
    """Order of init containers; a regular container waits for all of them."""
    pod = Pod(make_pod(init=({"name": "one"}, {"name": "two"})))
    assert pod.stages(0) == [Stage.PULLING, Stage.BLOCKED, Stage.BLOCKED]
    assert pod.stages(5.9) == [Stage.RUNNING, Stage.BLOCKED, Stage.BLOCKED]
    assert pod.stages(6) == [Stage.DONE, Stage.PULLING, Stage.BLOCKED]
    assert pod.stages(12) == [Stage.DONE, Stage.DONE, Stage.PULLING]
    assert pod.stages(15) == [Stage.DONE, Stage.DONE, Stage.RUNNING]


def test_a_sidecar_keeps_running_and_lets_the_next_one_start() -> None:
    """An init container with restartPolicy Always only has to have started."""
    pod = Pod(make_pod(init=({"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"})))
    assert pod.stages(3) == [Stage.RUNNING, Stage.PULLING, Stage.BLOCKED]
    assert pod.stages(9) == [Stage.RUNNING, Stage.DONE, Stage.PULLING]
    assert pod.stages(12) == [Stage.RUNNING, Stage.DONE, Stage.RUNNING]


def test_a_crashed_sidecar_is_restarted_whatever_the_pods_policy() -> None:
    """A sidecar's exit neither ends the pod nor blocks it."""
    pod = Pod(make_pod(init=({"name": "proxy", "restartPolicy": "Always"},), policy="Never"))
    run = pod.strike(10, crash(container="proxy"))
    assert [entry.stage for entry in run.containers] == [Stage.EXITED, Stage.RUNNING]
    run = pod.at(11)
    assert (run.containers[0].stage, run.containers[0].restarts, run.over) == (Stage.RUNNING, 1, False)


def test_sidecars_end_with_the_last_regular_container() -> None:
    """A pod whose regular containers are done has succeeded although its sidecar would run for ever."""
    pod = Pod(make_pod(init=({"name": "proxy", "restartPolicy": "Always"},), policy="Never", annotations={"exit-after": "5s"}))
    run = pod.at(30)
    assert run.phase == "Succeeded"
    assert [entry.stage for entry in run.containers] == [Stage.DONE, Stage.DONE]


def test_a_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    """restartPolicy Never and an init exit code: phase Failed, the rest never starts."""
    pod = Pod(make_pod(init=({"name": "setup"},), policy="Never", annotations={"exit-code": "setup=4"}))
    run = pod.at(100)
    assert run.phase == "Failed"
    assert [entry.stage for entry in run.containers] == [Stage.DONE, Stage.BLOCKED]


def test_a_failed_init_container_is_tried_again_under_always() -> None:
    """Always means OnFailure for init containers: it backs off, and a good one is not repeated."""
    pod = Pod(make_pod(init=({"name": "setup"},), annotations={"exit-code": "setup=4"}))
    run = pod.at(11)
    assert run.containers[0].stage is Stage.CRASH_BACKOFF
    assert run.containers[0].restarts == 1


@pytest.mark.parametrize(
    ("policy", "code", "stage", "phase"),
    [
        ("Always", 0, Stage.EXITED, ""),
        ("Always", 3, Stage.EXITED, ""),
        ("OnFailure", 3, Stage.EXITED, ""),
        ("OnFailure", 0, Stage.DONE, "Succeeded"),
        ("Never", 3, Stage.DONE, "Failed"),
        ("Never", 0, Stage.DONE, "Succeeded"),
    ],
)
def test_the_pods_policy_decides_about_a_restart(policy: str, code: int, stage: Stage, phase: str) -> None:
    """restartPolicy against exit codes."""
    pod = Pod(make_pod(policy=policy))
    run = pod.strike(10, crash(code))
    assert (run.containers[0].stage, run.phase) == (stage, phase)


def test_a_pod_ends_only_when_all_of_its_containers_have() -> None:
    """One of two ended under Never: the pod runs on; both: it failed if one did."""
    pod = Pod(make_pod(containers=("a", "b"), policy="Never"))
    assert not pod.strike(10, crash(3, container="a")).over
    run = pod.strike(11, crash(0, "b", container="b"))
    assert run.phase == "Failed"


def test_the_restart_back_off_doubles_to_its_limit() -> None:
    """First restart at once, then 10, 20, 40, 80, 160, 300, 300 s (the kubelet's CrashLoopBackOff)."""
    pod = Pod(make_pod(annotations={"exit-after": "0s", "exit-code": "1"}))
    starts: list[float] = []
    now = 0.0
    while len(starts) < 9:
        run = pod.at(now)
        end = run.containers[0].ended or run.containers[0].last
        if end is not None and (not starts or end.started > starts[-1]):
            starts.append(end.started)
        now = run.next_due(START + now) - START
    gaps = [round(after - before) for before, after in pairwise(starts)]
    assert gaps == [1, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_forgets_the_crashes_before_it() -> None:
    """Ten minutes without a crash and the next restart is at once again."""
    pod = Pod(make_pod())
    pod.strike(10, crash(1, "a"))
    assert pod.strike(20, crash(1, "b")).containers[0].stage is Stage.CRASH_BACKOFF
    assert pod.strike(20 + 10 + 601, crash(1, "c")).containers[0].stage is Stage.EXITED


def test_a_refused_image_backs_off_and_is_tried_again() -> None:
    """ErrImagePull, then ImagePullBackOff for 10 s and 20 s, then running when the registry gives in."""
    pod = Pod(make_pod(), images=Images(refused=("img/",)))
    assert pod.stages(2) == [Stage.PULL_FAILED]
    assert pod.stages(3) == [Stage.PULL_BACKOFF]
    assert pod.stages(12) == [Stage.PULLING]
    assert pod.stages(14) == [Stage.PULL_FAILED]
    assert pod.stages(33.9) == [Stage.PULL_BACKOFF]
    pod.images = Images()
    assert pod.stages(34) == [Stage.PULLING]
    assert pod.stages(37) == [Stage.RUNNING]
    assert pod.run.containers[0].restarts == 0


def test_a_refused_image_is_refused_even_if_it_was_there() -> None:
    """``regroup fault refuse-image`` holds for every new container of it."""
    pod = Pod(make_pod(), images=Images(present={"img/main"}, refused=("img/main",)))
    assert pod.stages(2) == [Stage.PULL_FAILED]


def test_termination_ends_what_runs_within_the_grace_period() -> None:
    """SIGTERM, 5 s, exit code 143; nothing is restarted; the phase is final."""
    pod = Pod(make_pod())
    assert not pod.stop(10, 30).over
    assert not pod.at(14.9).over
    run = pod.at(15)
    assert run.phase == "Failed"
    assert run.containers[0].ended is not None
    assert run.containers[0].ended.code == 143


def test_a_slow_container_is_killed_when_the_grace_period_is_over() -> None:
    """SIGKILL: 137 at the end of the grace period."""
    pod = Pod(make_pod(annotations={"stop-delay": "10m"}))
    pod.stop(10, 30)
    assert not pod.at(39.9).over
    run = pod.at(40)
    assert run.containers[0].ended is not None
    assert (run.phase, run.containers[0].ended.code) == ("Failed", 137)


def test_a_second_delete_may_only_shorten_the_grace_period() -> None:
    """`kubectl delete --grace-period=1` on a terminating pod; a longer one changes nothing."""
    pod = Pod(make_pod(annotations={"stop-delay": "10m"}))
    pod.stop(10, 30)
    pod.stop(12, 300)
    assert pod.run.kill_at == START + 40
    pod.stop(12, 1)
    assert pod.at(13).over


def test_deleting_a_pod_that_never_ran_is_over_at_once() -> None:
    """Containers that never started end as ContainerStatusUnknown, as the kubelet reports them."""
    pod = Pod(make_pod())
    run = pod.stop(1, 30)
    assert run.phase == "Failed"
    assert run.containers[0].ended is not None
    assert run.containers[0].ended.reason == "ContainerStatusUnknown"


def test_no_restart_while_stopping() -> None:
    """A crash loop ends with the deletion: its last end is what is shown."""
    pod = Pod(make_pod())
    pod.strike(10, crash(7, "a"))
    pod.strike(12, crash(7, "b"))
    run = pod.stop(13, 30)
    assert run.over
    assert run.containers[0].ended is not None
    assert run.containers[0].ended.code == 7


def test_a_fault_strikes_once() -> None:
    """The same id again, at any time, does nothing; another id strikes again."""
    pod = Pod(make_pod())
    pod.strike(10, crash(3, "a"))
    pod.strike(12, crash(3, "a"))
    assert pod.at(12).containers[0].restarts == 1
    assert pod.run.containers[0].stage is Stage.RUNNING
    assert pod.strike(13, crash(3, "b")).containers[0].stage is Stage.CRASH_BACKOFF


def test_a_crash_waits_for_a_container_that_runs() -> None:
    """A fault that comes before the start is carried out after it, not lost."""
    pod = Pod(make_pod())
    assert pod.strike(1, crash(3, "a")).fault == ""
    run = pod.strike(3, crash(3, "a"))
    assert (run.fault, run.containers[0].stage) == ("a", Stage.EXITED)


def test_a_crash_of_no_container_in_particular_hits_the_first_regular_one() -> None:
    """Init containers and sidecars are not meant unless named."""
    pod = Pod(make_pod(containers=("a", "b"), init=({"name": "proxy", "restartPolicy": "Always"},)))
    run = pod.strike(20, crash(3))
    assert [entry.stage for entry in run.containers] == [Stage.RUNNING, Stage.EXITED, Stage.RUNNING]


def test_a_fault_on_an_unknown_container_is_spent() -> None:
    """It is remembered, so that it does not come to life later."""
    assert Pod(make_pod()).strike(10, crash(container="nobody")).fault == "a"


def test_fail_ends_the_pod_with_a_reason() -> None:
    """An evicted pod: Failed, killed, not restarted."""
    pod = Pod(make_pod())
    run = pod.strike(10, Fault(id="x", action="fail", reason="Evicted", message="low on memory"))
    assert (run.phase, run.reason, run.message) == ("Failed", "Evicted", "low on memory")
    assert run.containers[0].ended is not None
    assert run.containers[0].ended.code == 137
    assert pod.at(1000) == run


def test_unready_takes_readiness_away_for_a_while() -> None:
    """A failing readiness probe restarts nothing and passes again."""
    pod = Pod(make_pod())
    run = pod.strike(10, Fault(id="x", action="unready", seconds=30))
    assert not run.containers[0].ready(START + 39)
    assert run.next_due(START + 10) == START + 40
    assert pod.at(40).containers[0].ready(START + 40)
    assert run.containers[0].restarts == 0


def test_finish_keeps_what_had_ended() -> None:
    """A pod that others declared Failed: what runs is killed, earlier ends stay."""
    pod = Pod(make_pod(containers=("a", "b"), policy="Never"))
    pod.strike(10, crash(0, container="a"))
    run = finish(pod.run, now=START + 11, phase="Failed", reason="NodeLost", message="")
    codes = [entry.ended.code for entry in run.containers if entry.ended]
    assert (codes, run.reason) == ([0, 137], "NodeLost")


def test_container_restart_rules_come_before_the_policy() -> None:
    """restartPolicyRules: exit 42 restarts in a pod that never restarts, others do not."""
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    pod = make_pod(containers=({"name": "main", "restartPolicy": "Never", "restartPolicyRules": rules},), policy="Never")
    assert not Pod(pod).strike(10, crash(42)).over
    assert Pod(pod).strike(10, crash(41)).phase == "Failed"


def test_a_fault_annotation_is_read_into_the_plan() -> None:
    """What ``kubectl annotate`` writes is what strikes."""
    pod = make_pod()
    meta = msgspec.structs.replace(pod.metadata, raw_annotations={FAULT: "crash container=main code=9 id=k"})
    found = plan(msgspec.structs.replace(pod, metadata=meta), OPTIONS).fault
    assert found == replace(crash(9, "k"), container="main")


def test_a_changed_image_begins_the_container_anew() -> None:
    """An update in place: the container that ran is stopped, counts as a restart, and the new image is pulled and started; its
    pod never was Pending. It happens when the kubelet sees the change, not before."""
    pod = Pod(make_pod())
    assert pod.at(10).containers[0].image == "img/main"
    pod.plan = replace(pod.plan, containers=tuple(replace(entry, image="img/other") for entry in pod.plan.containers))
    (entry,) = pod.at(20).containers
    assert (entry.stage, entry.restarts, entry.image) == (Stage.PULLING, 1, "img/other")
    assert entry.last is not None
    assert entry.last.finished == START + 20
    (entry,) = pod.at(23).containers
    assert (entry.stage, entry.since, entry.restarts) == (Stage.RUNNING, START + 23, 1)
    assert pod.at(500).containers[0].restarts == 1


def test_a_changed_image_ends_a_back_off() -> None:
    """A pull that fails and a crash loop are of the old image."""
    pulling = Pod(make_pod(), images=Images(refused=("img/main",)))
    assert pulling.stages(30) in ([Stage.PULL_BACKOFF], [Stage.PULL_FAILED], [Stage.PULLING])
    crashing = Pod(make_pod(annotations={"exit-after": "1s", "exit-code": "3"}))
    assert crashing.stages(20) == [Stage.CRASH_BACKOFF]
    for pod in (pulling, crashing):
        pod.plan = replace(
            pod.plan, containers=tuple(replace(entry, image="img/other", run_for=None) for entry in pod.plan.containers)
        )
        pod.at(40)
        assert pod.stages(44) == [Stage.RUNNING]
        assert pod.run.containers[0].crashes == 0
