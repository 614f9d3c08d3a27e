"""``kubectl ome instance status`` as values: one Instance, its operation, its last failure and its pods (7.2). Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from regroup.cli.ome.instances import API_VERSION, evidence_of
from regroup.cli.ome.reading import POD_LIMIT, PodEvent, Service
from regroup.kube.meta import find_condition
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.row import LastFailure, Operation, Row
from regroup.omenative.keys import OMENATIVE, SERVING_GATE
from regroup.omenative.service.resolve import declared_mode
from regroup.omenative.view import InstancePod
from regroup.runtime.clock import timestamp

VALUE_LIMIT = 120
"""Characters of a value in a table; longer ones end in ``...``."""

REPORTED = "Reported"
MISSING = "Missing"
NOT_PROJECTED = "NotProjected"
NOT_OMENATIVE = "NotOMENative"

Field = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """One Instance. ``row`` is None where the replica does not report it, ``replica`` where there is none."""

    service: Service
    component: str
    index: int
    replica: InferenceReplica | None
    row: Row | None
    pods: Sequence[InstancePod]
    events: Sequence[PodEvent]

    @property
    def state(self) -> str:
        """How much is known."""
        if self.row is not None:
            return REPORTED
        if self.replica is not None:
            return MISSING
        spec = self.service.service.spec
        mode = declared_mode(spec.deployment_mode or "", spec.component(self.component) or {})
        return NOT_PROJECTED if mode in {"", OMENATIVE} else NOT_OMENATIVE


def compact(status: InstanceStatus) -> Iterator[Field]:
    """The default view: related values share a line."""
    yield "state", f"{status.state} {status.component}[{status.index}] evidence={_evidence(status)}"
    yield "deployment", f"mode={OMENATIVE if status.replica is not None else '-'}"
    row, replica = status.row, status.replica
    if replica is not None:
        yield "encoding", f"name={replica.status.encoding} evidence=Reported reason=-"
    if replica is not None and row is not None:
        yield "instance", f"{replica.name} inc={row.incarnation} phase={row.phase or '-'} admitted={_bool(row.admitted)}"
        yield "revisions", f"running={row.running_revision or '-'} target={row.target_revision or '-'}"
        yield "persisted", f"pods={row.pod_count} serving={row.serving_pod_count} available={row.available_pod_count}"
        yield "lifecycle", f"activeOrdinal={row.active_ordinal} readySince={_time(row.ready_since)}"
        yield "condition", _condition(replica)
        yield "announced", ",".join(row.announced) or "-"
        yield from _operation(row.operation)
        yield from _failure(row.last_failure)
    for pod in status.pods[:POD_LIMIT]:
        yield "pod", _pod(pod)
    for event in status.events:
        yield "event", f"Pod/{event.regarding.name} reason={event.reason} count={event.count}"
    for issue in _issues(status):
        yield "issue", issue


def wide(status: InstanceStatus) -> Iterator[Field]:
    """One field a line."""
    row, replica = status.row, status.replica
    yield "state", status.state
    yield "component", status.component
    yield "index", str(status.index)
    yield "evidence", _evidence(status)
    if replica is not None and row is not None:
        yield "replica", replica.name
        yield "phase", row.phase or "-"
        yield "incarnation", str(row.incarnation)
        yield "admitted", _bool(row.admitted)
        yield "running revision", row.running_revision or "-"
        yield "target revision", row.target_revision or "-"
        yield "pods", str(row.pod_count)
        yield "serving pods", str(row.serving_pod_count)
        yield "available pods", str(row.available_pod_count)
        yield "active ordinal", str(row.active_ordinal)
        yield "ready since", _time(row.ready_since)
        yield "condition", _condition(replica)
        yield "announced", ",".join(row.announced) or "-"
        yield from _wide_operation(row.operation)
        yield from _wide_failure(row.last_failure)
    for number, pod in enumerate(status.pods[:POD_LIMIT]):
        yield f"pod[{number}] name", pod.name
        yield f"pod[{number}] runner", pod.runner or "-"
        yield f"pod[{number}] phase", pod.phase or "-"
        yield f"pod[{number}] ready", _bool(pod.ready)
        yield f"pod[{number}] serving ready", _bool(_serves(pod))
        yield f"pod[{number}] restarts", str(pod.restarts)
        yield f"pod[{number}] node", pod.spec.node_name or "-"
        yield f"pod[{number}] deleting", _bool(pod.deleting)
    for number, event in enumerate(status.events):
        yield f"event[{number}]", f"Pod/{event.regarding.name} reason={event.reason} count={event.count}"
    for issue in _issues(status):
        yield "issue", issue


def status_report(status: InstanceStatus) -> dict[str, Any]:
    """The same for scripts: the row as it is stored, and the live pods."""
    row = msgspec.to_builtins(status.row, builtin_types=(datetime,)) if status.row is not None else None
    return {
        "apiVersion": API_VERSION,
        "kind": "InstanceStatusReport",
        "metadata": {"namespace": status.service.namespace, "name": status.service.name},
        "component": status.component,
        "index": status.index,
        "state": status.state,
        "evidence": _evidence(status),
        "instance": _plain(row),
        "pods": [
            {
                "name": pod.name,
                "runner": pod.runner,
                "phase": pod.phase,
                "ready": pod.ready,
                "serving": _serves(pod),
                "restarts": pod.restarts,
                "node": pod.spec.node_name,
                "deleting": pod.deleting,
            }
            for pod in status.pods[:POD_LIMIT]
        ],
        "events": [{"pod": event.regarding.name, "reason": event.reason, "count": event.count} for event in status.events],
        "issues": list(_issues(status)),
    }


def _operation(operation: Operation | None) -> Iterator[Field]:
    if operation is None:
        yield "operation", "-"
        return
    yield "operation", f"{operation.type}/{operation.step} id={operation.id} reason={operation.reason or '-'}"
    yield "op target", f"revision={operation.target_revision or '-'} retry={operation.retry_count}"
    times = (_time(operation.started_at), _time(operation.last_progress_at), _time(operation.deadline))
    yield "op timing", "started={} progress={} deadline={}".format(*times)
    yield "op hold", operation.waiting or "-"
    yield "op strategy", operation.strategy or "-"
    yield "op nodes", f"from={operation.from_node or '-'} to={','.join(operation.hint_target_nodes or ()) or '-'}"


def _wide_operation(operation: Operation | None) -> Iterator[Field]:
    one = operation or Operation()
    yield "operation type", one.type or "-"
    yield "operation step", one.step or "-"
    yield "operation reason", one.reason or "-"
    yield "operation id", one.id or "-"
    yield "operation started", _time(one.started_at)
    yield "operation progress", _time(one.last_progress_at)
    yield "operation deadline", _time(one.deadline)
    yield "operation retries", str(one.retry_count) if operation is not None else "-"
    yield "operation target", one.target_revision or "-"
    yield "operation strategy", one.strategy or "-"
    yield "operation hold", one.waiting or "-"
    yield "operation surge index", "-" if one.surge_index is None else str(one.surge_index)


def _failure(failure: LastFailure | None) -> Iterator[Field]:
    if failure is None:
        yield "failure", "-"
        return
    code = "-" if failure.exit_code is None else str(failure.exit_code)
    yield "failure", f"{failure.pod_name} container={failure.container_name or '-'} reason={failure.reason or '-'} exit={code}"
    yield "fail time", _time(failure.time)


def _wide_failure(failure: LastFailure | None) -> Iterator[Field]:
    one = failure or LastFailure()
    yield "failure pod", one.pod_name or "-"
    yield "failure container", one.container_name or "-"
    yield "failure reason", one.reason or "-"
    yield "failure exit code", "-" if one.exit_code is None else str(one.exit_code)
    yield "failure message", one.message or "-"
    yield "failure time", _time(one.time)


def _pod(pod: InstancePod) -> str:
    words = [
        pod.name,
        f"{pod.runner or '-'}/{pod.phase or '-'}",
        f"ready={_bool(pod.ready)}",
        f"serving={_bool(_serves(pod))}",
        f"restarts={pod.restarts}",
        f"node={pod.spec.node_name or '-'}",
    ]
    return " ".join([*words, "deleting=true"] if pod.deleting else words)


def _issues(status: InstanceStatus) -> Iterator[str]:
    if status.state == NOT_PROJECTED:
        yield f"{status.component} has no InferenceReplica yet: see the conditions of the InferenceService"
    if status.state == NOT_OMENATIVE:
        yield f"{status.component} does not run in OMENative mode: it has no Instances"
    if status.state == MISSING:
        yield f"no Instance {status.index} is reported: `instance list` names those that are"
    if len(status.pods) > POD_LIMIT:
        yield f"{len(status.pods) - POD_LIMIT} more pods are not shown"


def _evidence(status: InstanceStatus) -> str:
    return REPORTED if status.row is not None else evidence_of(status.service, status.replica)


def _condition(replica: InferenceReplica) -> str:
    ready = find_condition(replica.status.conditions, "Ready")
    return "-" if ready is None else f"Ready={ready.status} reason={ready.reason or '-'} {ready.message}".strip()


def _serves(pod: InstancePod) -> bool:
    gate = find_condition(pod.status.conditions, SERVING_GATE)
    return pod.containers_ready and gate is not None and gate.status == "True"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _time(moment: datetime | None) -> str:
    return "-" if moment is None else timestamp(moment)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
