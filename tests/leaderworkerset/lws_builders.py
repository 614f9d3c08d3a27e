"""Pods, sets and nodes of a small LeaderWorkerSet ``demo`` in namespace ``t``, for tables."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset.view import GroupKey, GroupView, LeaderSet, Owner, Policy, Rules, WorkerSet

NOW = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
P = "leaderworkerset.sigs.k8s.io/"
LWS_UID = "lws-uid"


def at(seconds: float) -> str:
    """RFC 3339, ``seconds`` from NOW."""
    return (NOW + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def pod(
    index: int = 0,
    *,
    uid: str = "",
    group: int = 0,
    phase: str = "Running",
    restarts: int = 0,
    init_restarts: int = 0,
    ready: bool = True,
    deleted: float | None = None,
    grace: int | None = None,
    age: float = 3600,
    revision: str = "r1",
    scheduled: str | None = "True",
    node: str = "n1",
    gated: bool = False,
    claim: bool = False,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    finalizers: Sequence[str] = (),
    owner: dict[str, Any] | None = None,
    exit_code: int = 1,
    size: int = 3,
) -> Pod:
    """A member of group ``group``; index 0 is the leader. ``deleted``: seconds from NOW of its deletionTimestamp;
    ``scheduled``: "True", a reason for False, or None for no condition."""
    name = f"demo-{group}" if index == 0 else f"demo-{group}-{index}"
    conditions = []
    if scheduled is not None:
        placed = scheduled == "True"
        conditions.append(
            {"type": "PodScheduled", "status": "True" if placed else "False", "reason": "" if placed else scheduled}
        )
    if ready:
        conditions.append({"type": "Ready", "status": "True"})
    last = {"terminated": {"exitCode": exit_code, "reason": "Error", "finishedAt": at(-1)}}
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": [{"name": "main", "restartCount": restarts}],
    }
    if restarts:
        status["containerStatuses"][0]["lastState"] = last
    if init_restarts:
        status["initContainerStatuses"] = [{"name": "init", "restartCount": init_restarts, "lastState": last}]
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "t",
        "uid": uid or f"uid-{group}-{index}",
        "creationTimestamp": at(-age),
        "labels": {
            f"{P}name": "demo",
            f"{P}group-index": str(group),
            f"{P}worker-index": str(index),
            f"{P}template-revision-hash": revision,
            **(labels or {}),
        },
        "annotations": {f"{P}size": str(size), **(annotations or {})},
        "finalizers": list(finalizers),
        "ownerReferences": [owner or set_owner(group)] if index else [leader_set_owner()],
    }
    if deleted is not None:
        meta["deletionTimestamp"] = at(deleted)
        meta["deletionGracePeriodSeconds"] = 30 if grace is None else grace
    spec: dict[str, Any] = {"nodeName": node if scheduled == "True" else ""}
    if gated:
        spec["schedulingGates"] = [{"name": f"{P}group-replacement"}]
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Pod)


def set_owner(group: int = 0, *, uid: str = "") -> dict[str, Any]:
    """The owner reference of a worker."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": f"demo-{group}",
        "uid": uid or f"set-{group}",
        "controller": True,
    }


def leader_set_owner() -> dict[str, Any]:
    """The owner reference of a leader."""
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo", "uid": "leader-set", "controller": True}


def stateful_set(
    group: int = 0,
    *,
    uid: str = "",
    replicas: int = 2,
    revision: str = "r1",
    owner: tuple[str, str, str] | None = None,
    deleted: bool = False,
    generation: int = 1,
    update_revision: str = "",
) -> StatefulSet:
    """The worker set; ``owner`` is (kind, name, uid), the leader by default."""
    kind, name, owner_uid = owner or ("Pod", f"demo-{group}", f"uid-{group}-0")
    meta: dict[str, Any] = {
        "name": f"demo-{group}",
        "namespace": "t",
        "uid": uid or f"set-{group}",
        "generation": generation,
        "labels": {f"{P}name": "demo", f"{P}group-index": str(group), f"{P}template-revision-hash": revision},
        "ownerReferences": [{"kind": kind, "name": name, "uid": owner_uid, "controller": True}],
    }
    if deleted:
        meta["deletionTimestamp"] = at(-1)
    status = {"observedGeneration": generation, "updateRevision": update_revision, "currentRevision": update_revision}
    return msgspec.convert({"metadata": meta, "spec": {"replicas": replicas}, "status": status}, StatefulSet)


def node(name: str = "n1", *, ready: str = "True", since: float = -3600, taints: Sequence[tuple[str, float | None]] = ()) -> Node:
    """A node; taints are (key, seconds from NOW when added or None)."""
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "spec": {
                "taints": [
                    {"key": key, "effect": "NoExecute", **({"timeAdded": at(added)} if added is not None else {})}
                    for key, added in taints
                ]
            },
            "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(since)}]},
        },
        Node,
    )


_DEFAULT: Any = object()


def view(
    *,
    leader: Any = _DEFAULT,
    workers: Any = _DEFAULT,
    worker_set: Any = _DEFAULT,
    rules: Rules | None = None,
    owner: Any = _DEFAULT,
    leader_set: Any = _DEFAULT,
    drift: Sequence[str] = (),
    **more: Any,
) -> GroupView:
    """Group 0 of size 3, complete and healthy, except for what is said."""
    made = stateful_set() if worker_set is _DEFAULT else worker_set
    values: dict[str, Any] = {
        "nodes": {"n1": node()},
        "key": GroupKey("t", "demo", "0"),
        "owner": Owner(LWS_UID) if owner is _DEFAULT else owner,
        "rules": rules or Rules(Policy.ON_POD_RESTART, size=3),
        "leader_set": LeaderSet("leader-set", 1, revision="r1") if leader_set is _DEFAULT else leader_set,
        "leader": pod(0) if leader is _DEFAULT else leader,
        "workers": (pod(1), pod(2)) if workers is _DEFAULT else workers,
        "worker_set": WorkerSet(made, drift) if made is not None else None,
        **more,
    }
    return GroupView(**values)


NONE = Rules(Policy.NONE, size=3)
AFTER = Rules(Policy.AFTER_START, size=3, guard_start=True)
LWS_OWNED = ("LeaderWorkerSet", "demo", LWS_UID)
