"""Small builders for the objects that the built-in controllers read. Views are decoded from JSON, as the wire does it."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from regroup.sandbox.controllers.stateful.model import StatefulSet
from regroup.sandbox.controllers.views import Claim, ControllerRevision, Pod

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def decode(body: dict[str, Any], type_: type[Any]) -> Any:
    return msgspec.convert(msgspec.json.decode(msgspec.json.encode(body)), type_)


def stateful_set(
    *, replicas: int = 3, status: dict[str, Any] | None = None, deleting: bool = False, generation: int = 1, **spec: Any
) -> StatefulSet:
    """A set named ``web`` with UID ``set-uid``; further keywords are fields of its spec."""
    metadata: dict[str, Any] = {"name": "web", "namespace": "default", "uid": "set-uid", "generation": generation}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T11:59:00Z"
    body = {
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            **spec,
        },
        "status": status or {},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=StatefulSet)


def set_pod(
    ordinal: int,
    *,
    phase: str = "Running",
    ready: bool = True,
    ready_since: str = "2026-03-01T11:00:00Z",
    revision: str = "web-new",
    deleting: bool = False,
    labelled: bool = True,
    volumes: list[dict[str, Any]] | None = None,
    uid: str = "",
) -> Pod:
    """Pod ``web-<ordinal>`` of that set."""
    name = f"web-{ordinal}"
    labels = {"app": "web", "controller-revision-hash": revision}
    if labelled:
        labels["statefulset.kubernetes.io/pod-name"] = name
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid or f"{name}-uid", "labels": labels}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T11:59:30Z"
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": ready_since}
    body = {
        "metadata": metadata,
        "spec": {"containers": [{"name": "c"}], "volumes": volumes or []},
        "status": {"phase": phase, "conditions": [condition]},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


def revision(name: str, number: int, data: Any) -> ControllerRevision:
    body = {"metadata": {"name": name, "namespace": "default", "uid": f"{name}-uid"}, "revision": number, "data": data}
    return msgspec.json.decode(msgspec.json.encode(body), type=ControllerRevision)


def claim(name: str, *, owners: list[dict[str, Any]] | None = None, deleting: bool = False) -> Claim:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"{name}-uid", "ownerReferences": owners or []}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T11:59:00Z"
    return msgspec.json.decode(msgspec.json.encode({"metadata": metadata}), type=Claim)
