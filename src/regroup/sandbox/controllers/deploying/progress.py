"""The status of a Deployment: counts, and the conditions that say how its rollout goes. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from regroup.kube.meta import find_condition
from regroup.runtime.clock import timestamp
from regroup.sandbox.controllers.deploying.replicas import ReplicaSet
from regroup.sandbox.controllers.deploying.rollout import Deployment, DeploymentCondition, complete

_COUNTS = {
    "observedGeneration": "observed_generation",
    "replicas": "replicas",
    "updatedReplicas": "updated_replicas",
    "readyReplicas": "ready_replicas",
    "availableReplicas": "available_replicas",
    "unavailableReplicas": "unavailable_replicas",
}


def status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], *, created: bool, failure: str, now: datetime
) -> dict[str, Any]:
    """The status to be written. ``created``: this pass has made ``new``; ``failure``: why it could not make or scale a set."""
    sets = (*old, new) if new is not None else tuple(old)
    total = sum(rs.status.replicas for rs in sets)
    available = sum(rs.status.available_replicas for rs in sets)
    counts: dict[str, Any] = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": total,
        "updatedReplicas": new.status.replicas if new is not None else 0,
        "readyReplicas": sum(rs.status.ready_replicas for rs in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(max(sum(rs.replicas for rs in sets), total) - available, 0),
        "terminatingReplicas": sum(rs.status.terminating_replicas or 0 for rs in sets),
    }
    conditions = [
        _available(deployment, available),
        _progressing(deployment, new, counts, created=created, failure=failure, now=now),
    ]
    refused = failure or _refused(sets)
    if refused:
        conditions.append(("ReplicaFailure", "True", "FailedCreate", refused[:1024]))
    counts["conditions"] = [
        _written(deployment, entry, moved=_moved(deployment, counts), now=now) for entry in conditions if entry is not None
    ]
    return counts


def needs_writing(deployment: Deployment, body: Mapping[str, Any]) -> bool:
    """Whether the Deployment's status says anything else. Times do not count."""
    live = deployment.status
    if any(body[name] != getattr(live, attribute) for name, attribute in _COUNTS.items()):
        return True
    if body["terminatingReplicas"] != (live.terminating_replicas or 0):
        return True
    before = {entry.type: (entry.status, entry.reason, entry.message) for entry in live.raw_conditions or ()}
    after = {entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in body["conditions"]}
    return before != after


def progress_deadline_in(deployment: Deployment, now: datetime) -> float | None:
    """Seconds until a rollout that stands still is to be called stuck; None when none is under way."""
    seconds = deployment.spec.progress_deadline_seconds
    condition = deployment.status.condition("Progressing")
    if seconds is None or seconds >= 2**31 - 1 or condition is None or condition.status != "True":
        return None
    if condition.reason == "NewReplicaSetAvailable" or condition.last_update_time is None:
        return None
    passed = (now - condition.last_update_time).total_seconds()
    return max(seconds - passed, 0.0) + 1.0


Entry = tuple[str, str, str, str]
"""Type, status, reason, message."""


def _available(deployment: Deployment, available: int) -> Entry:
    if available >= deployment.replicas - deployment.limits()[1]:
        return "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
    return "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."


def _progressing(
    deployment: Deployment,
    new: ReplicaSet | None,
    counts: Mapping[str, Any],
    *,
    created: bool,
    failure: str,
    now: datetime,
) -> Entry | None:
    if deployment.spec.progress_deadline_seconds is None:
        return None
    if deployment.spec.paused:
        return "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"
    present = deployment.status.condition("Progressing")
    what = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{deployment.name}"'
    if failure:
        return "Progressing", "False", "ReplicaSetCreateError", f"Failed to create new replica set: {failure}"[:1024]
    if new is not None and (created or present is None):
        return "Progressing", "True", "NewReplicaSetCreated", f'Created new replica set "{new.name}"'
    settled = complete(
        deployment,
        updated=counts["updatedReplicas"],
        total=counts["replicas"],
        available=counts["availableReplicas"],
    )
    if settled:
        return "Progressing", "True", "NewReplicaSetAvailable", f"{what} has successfully progressed."
    if present is None or _moved(deployment, counts):
        return "Progressing", "True", "ReplicaSetUpdated", f"{what} is progressing."
    if present.reason == "DeploymentPaused":
        return "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed"
    if _timed_out(deployment, present, now):
        return "Progressing", "False", "ProgressDeadlineExceeded", f"{what} has timed out progressing."
    return present.type, present.status, present.reason, present.message


def _moved(deployment: Deployment, counts: Mapping[str, Any]) -> bool:
    """Whether the rollout came on since the last status."""
    live = deployment.status
    old_now: int = counts["replicas"] - counts["updatedReplicas"]
    old_then = live.replicas - live.updated_replicas
    return bool(
        counts["updatedReplicas"] > live.updated_replicas
        or old_now < old_then
        or counts["readyReplicas"] > live.ready_replicas
        or counts["availableReplicas"] > live.available_replicas
    )


def _timed_out(deployment: Deployment, present: DeploymentCondition, now: datetime) -> bool:
    if present.reason in {"NewReplicaSetAvailable", "DeploymentPaused", "DeploymentResumed"}:
        return False
    if present.reason == "ProgressDeadlineExceeded":
        return True
    seconds = deployment.spec.progress_deadline_seconds
    since = present.last_update_time
    return seconds is not None and since is not None and (now - since).total_seconds() > seconds


def _refused(sets: Sequence[ReplicaSet]) -> str:
    for rs in sets:
        condition = find_condition(rs.status.raw_conditions, "ReplicaFailure")
        if condition is not None and condition.status == "True":
            return condition.message
    return ""


def _written(deployment: Deployment, entry: Entry, *, moved: bool, now: datetime) -> dict[str, Any]:
    """A condition as written. ``lastUpdateTime`` of ``Progressing`` moves with every progress."""
    kind, state, reason, message = entry
    present = deployment.status.condition(kind)
    since = present.last_transition_time if present is not None and present.status == state else None
    same = present is not None and (present.status, present.reason) == (state, reason)
    updated = present.last_update_time if present is not None and same and not (kind == "Progressing" and moved) else None
    return {
        "type": kind,
        "status": state,
        "reason": reason,
        "message": message,
        "lastUpdateTime": timestamp(updated or now),
        "lastTransitionTime": timestamp(since or now),
    }
