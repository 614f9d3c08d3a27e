"""Taking over a pod that ran before this kubelet started: the machine is read back from the status in the API. Pure."""

from dataclasses import replace
from datetime import datetime

from regroup.kube.meta import find_condition
from regroup.kube.pod import ContainerState, Terminated
from regroup.sandbox.kubelet.machine import NEVER, ContainerRun, Ended, PodRun, Stage, crash_backoff, new_run
from regroup.sandbox.kubelet.options import ContainerPlan, KubeletOptions, PodPlan
from regroup.sandbox.kubelet.status import FAULT_CONDITION
from regroup.sandbox.kubelet.views import ContainerStatus, KubeletPod


def adopt(pod: KubeletPod, plan: PodPlan, options: KubeletOptions, *, now: float, ip: str) -> PodRun:
    """The run of ``pod`` as its status tells it: running containers run on, ended ones are judged by their policy."""
    status = pod.status
    known = {entry.name: entry for entry in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    fault = find_condition(status.conditions, FAULT_CONDITION)
    run = new_run(pod.metadata.uid, plan, now=now, ip=status.pod_ip or ip)
    containers = tuple(
        _container(known[spec.name], spec, options, now=now) if spec.name in known else entry
        for entry, spec in zip(run.containers, plan.containers, strict=True)
    )
    return replace(
        run,
        started=_seconds(status.start_time, now),
        containers=containers,
        phase=status.phase if pod.terminal else "",
        reason=status.reason if pod.terminal else "",
        message=status.message if pod.terminal else "",
        fault=fault.message if fault else "",
    )


def _container(known: ContainerStatus, plan: ContainerPlan, options: KubeletOptions, *, now: float) -> ContainerRun:
    last = known.last_state.terminated if known.last_state else None
    base = ContainerRun(
        name=plan.name,
        since=now,
        restarts=known.restart_count,
        crashes=known.restart_count,
        last=_ended(last, now) if last else None,
        image=known.image,
    )
    state = known.state or ContainerState()
    if state.running is not None:
        since = _seconds(state.running.started_at, now)
        return replace(
            base,
            stage=Stage.RUNNING,
            since=since,
            due=NEVER if plan.run_for is None else max(now, since + plan.run_for),
            ready_at=now if known.ready else max(now, since + plan.ready_delay),
            exits_with=plan.exit_code,
        )
    base = replace(base, crashes=base.crashes + 1)
    if state.terminated is not None:
        ended = _ended(state.terminated, now)
        again = plan.restarts_after(ended.code)
        stage, due = (Stage.EXITED, now + plan.start_delay) if again else (Stage.DONE, NEVER)
        return replace(base, stage=stage, since=ended.finished, due=due, ended=ended)
    if base.last is not None:
        return replace(base, stage=Stage.CRASH_BACKOFF, due=now + crash_backoff(base, options))
    return ContainerRun(plan.name)


def _ended(state: Terminated, now: float) -> Ended:
    started, finished = _seconds(state.started_at, now), _seconds(state.finished_at, now)
    return Ended(state.exit_code, state.reason, started, finished, state.message)


def _seconds(moment: datetime | None, otherwise: float) -> float:
    return moment.timestamp() if moment is not None else otherwise
