"""What the operator sees of each Instance and would do now, and why: the same pass that it runs, told to a person. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from regroup.omenative.api.row import LastFailure, Row
from regroup.omenative.engine import passes, plan, repair
from regroup.omenative.outcome import Action, Outcome
from regroup.omenative.view import InstancePod, ReplicaView
from regroup.runtime.clock import timestamp

SETTLED = "3.3"
"""Rule of an Instance with nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReport:
    """A pod as it is now."""

    name: str
    uid: str
    runner: str
    phase: str
    ready: bool
    restarts: int
    node: str
    deleting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """One Instance: the row as it stands, and what the next pass makes of it. Times are RFC 3339, empty where there is none."""

    index: int
    incarnation: int
    phase: str
    next_phase: str
    """The phase that the pass leaves it in; empty where the row is dropped."""
    pods: Sequence[PodReport]
    rule: str
    why: str
    actions: Sequence[str]
    events: Sequence[str]
    operation: str
    deadline: str
    ready_since: str
    running_revision: str
    last_failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentReport:
    """One component: the values in force and its Instances."""

    component: str
    replica: str
    desired: int
    restart_policy: str
    restart_policy_from: str
    """``InferenceService``, ``runtime`` or ``default``."""
    update_strategy: str
    paused: str
    """Empty, ``true`` or ``freeze``."""
    ready_timeout: float | None
    stuck_pod_grace: float | None
    repair_batch: int | None
    max_unavailable: int | None
    out_of_service: int
    """Instances that count against ``maxUnavailable`` now."""
    target_revision: str
    wake: str
    """When the operator looks again even if nothing changes."""
    instances: Sequence[InstanceReport]
    problems: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def explain_component(view: ReplicaView, *, policy_from: str) -> ComponentReport:
    """Explain one replica. ``policy_from``: where its restart policy comes from."""
    wanted, outcome = plan.make(view), passes.run(view)
    replica = view.replica
    rows = {row.index: row for row in replica.status.rows}
    after = {row.index: row for row in outcome.status.rows}
    indices = sorted({*rows, *after})
    strategy = replica.spec.restart_policy
    return ComponentReport(
        component=wanted.component,
        replica=replica.name,
        desired=wanted.desired,
        restart_policy=strategy,
        restart_policy_from=policy_from,
        update_strategy=wanted.strategy,
        paused="freeze" if wanted.frozen else "true" if wanted.paused else "",
        ready_timeout=wanted.timeout,
        stuck_pod_grace=wanted.grace,
        repair_batch=view.settings.start.repair_batch_size,
        max_unavailable=wanted.max_unavailable,
        out_of_service=repair.out_of_service(rows.values()),
        target_revision=wanted.target,
        wake=_time(view.now + timedelta(seconds=outcome.wake)) if outcome.wake is not None else "",
        instances=[_instance(index, rows.get(index), after.get(index), view, outcome) for index in indices],
        problems=[*wanted.problems, *outcome.problems],
    )


def _instance(index: int, row: Row | None, after: Row | None, view: ReplicaView, outcome: Outcome) -> InstanceReport:
    shown = row or after
    assert shown is not None  # noqa: S101 - the index comes from one of the two
    reason = next((one for one in outcome.reasons if one.index == index), None)
    operation = shown.operation
    return InstanceReport(
        index=index,
        incarnation=shown.incarnation,
        phase=row.phase if row is not None else "",
        next_phase=after.phase if after is not None else "",
        pods=[_pod(pod) for pod in sorted(view.pods, key=lambda pod: pod.name) if pod.index == index],
        rule=reason.rule if reason is not None else SETTLED,
        why=reason.why if reason is not None else "all pods serve and nothing is to be done",
        actions=[_action(action) for action in outcome.actions if action.index == index],
        events=[f"{told.reason}: {told.message}" for told in outcome.events if told.index == index],
        operation=f"{operation.type}/{operation.step}: {operation.reason}" if operation is not None else "",
        deadline=_time(operation.deadline) if operation is not None else "",
        ready_since=_time(shown.ready_since),
        running_revision=shown.running_revision,
        last_failure=_failure(shown.last_failure),
    )


def _pod(pod: InstancePod) -> PodReport:
    return PodReport(
        name=pod.name,
        uid=pod.uid,
        runner=pod.runner,
        phase=pod.phase,
        ready=pod.ready,
        restarts=pod.restarts,
        node=pod.spec.node_name,
        deleting=pod.deleting,
    )


def _action(action: Action) -> str:
    name = getattr(action, "name", "")
    return f"{type(action).__name__} {name}".strip()


def _failure(failure: LastFailure | None) -> str:
    if failure is None:
        return ""
    container = f" container {failure.container_name}" if failure.container_name else ""
    code = "" if failure.exit_code is None else f" (exit {failure.exit_code})"
    return f"{_time(failure.time) or 'at an unknown time'} pod {failure.pod_name}{container}: {failure.reason}{code}"


def _time(moment: datetime | None) -> str:
    return timestamp(moment) if moment is not None else ""
