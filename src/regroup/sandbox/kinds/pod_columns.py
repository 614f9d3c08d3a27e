"""The row of a pod as ``kubectl get pods`` shows it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from regroup.sandbox.kinds.columns import AGE, NAME, cell, text
from regroup.sandbox.kinds.definition import Column
from regroup.sandbox.schema.columns import age

Obj = dict[str, Any]


@dataclass(slots=True)
class _Summary:
    """What is counted while the containers are looked at."""

    reason: str
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count(self, container: Obj) -> None:
        self.restarts += container.get("restartCount") or 0
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)


def _summary(pod: Obj) -> _Summary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    conditions = {entry["type"]: entry for entry in status.get("conditions") or []}
    result = _Summary(status.get("reason") or status.get("phase") or "")
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        result.reason = "SchedulingGated"
    sidecars = {entry["name"] for entry in spec.get("initContainers") or [] if entry.get("restartPolicy") == "Always"}
    result.total = len(spec.get("containers") or []) + len(sidecars)
    kept = _Summary("")
    initializing = _initial(spec, status, sidecars, result, kept)
    if not initializing or (conditions.get("Initialized") or {}).get("status") == "True":
        result.restarts, result.last_restart = kept.restarts, kept.last_restart
        _running(status, conditions, result)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            result.reason = "Unknown"
        elif status.get("phase") not in {"Succeeded", "Failed"}:
            result.reason = "Terminating"
    return result


def _initial(spec: Obj, status: Obj, sidecars: set[str], result: _Summary, kept: _Summary) -> bool:
    """Look at the init containers; True when one of them holds the pod up. ``kept`` counts restarts of sidecars alone."""
    for number, container in enumerate(status.get("initContainerStatuses") or []):
        result.count(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason") or ""
        sidecar = container.get("name") in sidecars
        if sidecar:
            kept.count(container)
        if terminated and not terminated.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            result.ready += bool(container.get("ready"))
            continue
        if terminated:
            result.reason = f"Init:{_ending(terminated)}"
        elif waiting and waiting != "PodInitializing":
            result.reason = f"Init:{waiting}"
        else:
            result.reason = f"Init:{number}/{len(spec.get('initContainers') or [])}"
        return True
    return False


def _running(status: Obj, conditions: Mapping[str, Obj], result: _Summary) -> None:
    running, failed = False, ""
    for container in reversed(status.get("containerStatuses") or []):
        result.count(container)
        state = container.get("state") or {}
        waiting = (state.get("waiting") or {}).get("reason")
        terminated = state.get("terminated")
        if waiting:
            result.reason = waiting
        elif terminated:
            result.reason = _ending(terminated)
            failed = result.reason if terminated.get("exitCode") else failed
        elif container.get("ready") and state.get("running") is not None:
            running = True
            result.ready += 1
    if result.reason == "Completed":
        if running and (conditions.get("Ready") or {}).get("status") == "True":
            result.reason = "Running"
        elif failed:
            result.reason = failed
        elif running:
            result.reason = "NotReady"


def _ending(terminated: Obj) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _ready(pod: Obj, _: datetime) -> str:
    summary = _summary(pod)
    return f"{summary.ready}/{summary.total}"


def _restarts(pod: Obj, now: datetime) -> str:
    summary = _summary(pod)
    if summary.restarts and summary.last_restart:
        return f"{summary.restarts} ({age(summary.last_restart, now)} ago)"
    return str(summary.restarts)


def row_conditions(pod: Obj) -> list[Obj]:
    """What the row of a pod that has ended says beside its cells."""
    match (pod.get("status") or {}).get("phase"):
        case "Succeeded":
            reason, message = "Succeeded", "The pod has completed successfully."
        case "Failed":
            reason, message = "Failed", "The pod failed."
        case _:
            return []
    return [{"type": "Completed", "status": "True", "reason": reason, "message": message}]


def _ip(pod: Obj, _: datetime) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or []
    return (addresses[0].get("ip") if addresses else "") or "<none>"


def _gates(pod: Obj, _: datetime) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or []
    if not gates:
        return "<none>"
    states = {entry["type"]: entry.get("status") for entry in (pod.get("status") or {}).get("conditions") or []}
    passed = sum(states.get(gate["conditionType"]) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


COLUMNS: tuple[Column, ...] = (
    NAME,
    Column("Ready", _ready, description="Containers that are ready, of all of the pod."),
    Column("Status", lambda pod, _: _summary(pod).reason, description="What the pod's containers are at, in one word."),
    Column("Restarts", _restarts, description="How often containers were restarted, and when the last time was."),
    AGE,
    cell("IP", _ip, "Address of the pod.", wide=True),
    cell("Node", text("spec.nodeName", "<none>"), "Node that the pod is bound to.", wide=True),
    cell("Nominated Node", text("status.nominatedNodeName", "<none>"), "Node that the pod may get by preemption.", wide=True),
    cell("Readiness Gates", _gates, "Readiness gates that are met, of all.", wide=True),
)
