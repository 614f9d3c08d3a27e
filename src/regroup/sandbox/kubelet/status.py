"""The status that a kubelet reports for a pod: rendered from the machine, and compared with what the API has. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from regroup.kube.meta import Condition, find_condition
from regroup.runtime.clock import timestamp
from regroup.sandbox.kubelet.machine import ContainerRun, Ended, PodRun, Stage, crash_backoff
from regroup.sandbox.kubelet.options import ContainerPlan, KubeletOptions, PodPlan
from regroup.sandbox.kubelet.views import PREFIX, KubeletPod, PodStatus

FAULT_CONDITION = PREFIX + "Fault"
"""Condition, ours: names the fault that was carried out last, so that a kubelet that starts anew does not repeat it."""

_COMING = frozenset((Stage.BLOCKED, Stage.PULLING, Stage.PULL_FAILED, Stage.PULL_BACKOFF, Stage.STARTING))


def render(pod: KubeletPod, run: PodRun, plan: PodPlan, options: KubeletOptions, *, now: float, host_ip: str) -> dict[str, Any]:
    """``status`` as this kubelet sees it at ``now``. Times of conditions that keep their status are kept."""
    pairs = list(zip(run.containers, plan.containers, strict=True))
    initialized = all(_init_done(entry, spec) for entry, spec in pairs if spec.init)
    with_init = any(spec.init for spec in plan.containers)

    def statuses(*, init: bool) -> list[dict[str, Any]]:
        return [_container(pod, entry, spec, options, now=now, with_init=with_init) for entry, spec in pairs if spec.init == init]

    address = host_ip if pod.spec.host_network else run.ip
    status: dict[str, Any] = {
        "phase": run.phase or _phase(pairs, initialized=initialized),
        "startTime": _time(run.started),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "containerStatuses": statuses(init=False),
    }
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if with_init:
        status["initContainerStatuses"] = statuses(init=True)
    if run.reason:
        status |= {"reason": run.reason, "message": run.message}
    status["conditions"] = _conditions(pod, run, pairs, initialized=initialized, now=now)
    return status


def same(current: PodStatus, wanted: PodStatus) -> bool:
    """Whether the API already has all of ``wanted``. Conditions that are not the kubelet's are not looked at."""
    if any(find_condition(current.conditions, entry.type) != entry for entry in wanted.conditions or ()):
        return False
    reason, message = wanted.reason or current.reason, wanted.message or current.message
    wanted = msgspec.structs.replace(wanted, conditions=current.conditions, reason=reason, message=message)
    return current == wanted


def parse(status: dict[str, Any]) -> PodStatus:
    """``status`` as a view, to compare."""
    return msgspec.convert(status, PodStatus)


def _phase(pairs: Sequence[tuple[ContainerRun, ContainerPlan]], *, initialized: bool) -> str:
    # A container that has run before and is on its way again does not make the pod Pending.
    waits = any(entry.stage in _COMING and entry.last is None for entry, spec in pairs if not spec.init)
    return "Pending" if waits or not initialized else "Running"


def _init_done(entry: ContainerRun, spec: ContainerPlan) -> bool:
    if spec.sidecar:
        return entry.stage not in _COMING
    return entry.stage is Stage.DONE and entry.ended is not None and entry.ended.code == 0


def _container(
    pod: KubeletPod, entry: ContainerRun, spec: ContainerPlan, options: KubeletOptions, *, now: float, with_init: bool
) -> dict[str, Any]:
    running = entry.stage is Stage.RUNNING
    status: dict[str, Any] = {
        "name": entry.name,
        "image": entry.image or spec.image,
        "imageID": "",
        "ready": _container_ready(entry, spec, now),
        "started": running,
        "restartCount": entry.restarts,
        "state": _state(pod, entry, spec, options, with_init=with_init),
        "lastState": {"terminated": _terminated(entry.last)} if entry.last else {},
    }
    if entry.stage not in _COMING and not (entry.ended and entry.ended.reason == "ContainerStatusUnknown"):
        status["imageID"] = _image_id(entry.image or spec.image)
        status["containerID"] = f"sandbox://{run_id(pod.metadata.uid, entry.name, entry.restarts)}"
    return status


def _container_ready(entry: ContainerRun, spec: ContainerPlan, now: float) -> bool:
    return _init_done(entry, spec) if spec.init and not spec.sidecar else entry.ready(now)


def _state(
    pod: KubeletPod, entry: ContainerRun, spec: ContainerPlan, options: KubeletOptions, *, with_init: bool
) -> dict[str, Any]:
    if entry.stage is Stage.RUNNING:
        return {"running": {"startedAt": _time(entry.since)}}
    if entry.ended is not None:
        return {"terminated": _terminated(entry.ended)}
    if entry.stage is Stage.CRASH_BACKOFF:
        meta = pod.metadata
        text = (
            f"back-off {crash_backoff(entry, options):.4g}s restarting failed container={entry.name} "
            f"pod={meta.name}_{meta.namespace}({meta.uid})"
        )
        return {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    if entry.stage is Stage.PULL_FAILED:
        return {"waiting": {"reason": "ErrImagePull", "message": pull_error(spec.image)}}
    if entry.pull_failures:
        text = f'Back-off pulling image "{spec.image}": ErrImagePull: {pull_error(spec.image)}'
        return {"waiting": {"reason": "ImagePullBackOff", "message": text}}
    return {"waiting": {"reason": "PodInitializing" if with_init else "ContainerCreating"}}


def pull_error(image: str) -> str:
    """What a runtime says of an image that it cannot have."""
    return f'failed to pull and unpack image "{image}": failed to resolve reference: not found'


def _terminated(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = {"exitCode": ended.code, "reason": ended.reason}
    if ended.message:
        found["message"] = ended.message
    return found | {"startedAt": _time(ended.started), "finishedAt": _time(ended.finished)}


def _conditions(
    pod: KubeletPod, run: PodRun, pairs: Sequence[tuple[ContainerRun, ContainerPlan]], *, initialized: bool, now: float
) -> list[dict[str, Any]]:
    not_done = [entry.name for entry, spec in pairs if spec.init and not _init_done(entry, spec)]
    unready = [entry.name for entry, spec in pairs if (not spec.init or spec.sidecar) and not entry.ready(now)]
    ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(run.phase, "")
    if run.phase == "Succeeded":
        init = ("True", "PodCompleted", "")
    elif initialized:
        init = ("True", "", "")
    else:
        init = ("False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(not_done)}]")
    if ended:
        containers = ("False", ended, "")
    elif unready:
        containers = ("False", "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    else:
        containers = ("True", "", "")
    ready = containers if containers[0] == "False" else _gates(pod)
    sandbox = "False" if run.over else "True"
    wanted = {
        "PodReadyToStartContainers": (sandbox, "", ""),
        "Initialized": init,
        "Ready": ready,
        "ContainersReady": containers,
    }
    if run.fault:
        wanted[FAULT_CONDITION] = ("True", "Handled", run.fault)
    return [_condition(pod, kind, facts, now) for kind, facts in wanted.items()]


def _gates(pod: KubeletPod) -> tuple[str, str, str]:
    """``Ready`` of a pod whose containers are ready: its readiness gates decide."""
    texts = []
    for gate in pod.spec.readiness_gates or ():
        found = find_condition(pod.conditions, gate.condition_type)
        if found is None:
            texts.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif found.status != "True":
            texts.append(f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {found.status}')
    return ("False", "ReadinessGatesNotReady", ", ".join(texts)) if texts else ("True", "", "")


def _condition(pod: KubeletPod, kind: str, facts: tuple[str, str, str], now: float) -> dict[str, Any]:
    status, reason, message = facts
    known: Condition | None = find_condition(pod.conditions, kind)
    since = _time(now)
    if known is not None and known.status == status and known.last_transition_time is not None:
        since = timestamp(known.last_transition_time)
    entry: dict[str, Any] = {"type": kind, "status": status, "lastTransitionTime": since}
    # Both are always written for a condition that was there: a merge would keep what they said before.
    if reason or (known is not None and known.reason):
        entry["reason"] = reason
    if message or (known is not None and known.message):
        entry["message"] = message
    return entry


def _time(moment: float) -> str:
    return _second(int(moment))


@lru_cache(maxsize=4096)
def _second(moment: int) -> str:
    return timestamp(datetime.fromtimestamp(moment, UTC))


def run_id(uid: str, container: str, restarts: int) -> str:
    """A container's id: the same for the same run of the same container."""
    return sha256(f"{uid}/{container}/{restarts}".encode()).hexdigest()


@lru_cache(maxsize=1024)
def _image_id(image: str) -> str:
    return f"{image}@sha256:{sha256(image.encode()).hexdigest()}"
