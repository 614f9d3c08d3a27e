"""LeaderWorkerSets and pods as plain dicts, for tables about the API."""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from regroup.kube.pod import Pod
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import LeaderWorkerSet, decode

NAMESPACE = "t"
LWS_UID = "lws-uid"
CONTAINER = {"name": "worker", "image": "worker-image:latest"}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}


def lws_dict(
    *,
    name: str = "demo",
    spec: Mapping[str, Any] | None = None,
    template: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A LeaderWorkerSet; ``spec`` and ``template`` are laid over ``replicas: 2`` and ``size: 4``."""
    inner = {"size": 4, "workerTemplate": TEMPLATE, **(template or {})}
    body: dict[str, Any] = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": LWS_UID},
        "spec": {"replicas": 2, **(spec or {}), "leaderWorkerTemplate": inner},
    }
    if annotations:
        body["metadata"]["annotations"] = dict(annotations)
    if labels:
        body["metadata"]["labels"] = dict(labels)
    return copy.deepcopy(body)


def lws(
    *,
    name: str = "demo",
    spec: Mapping[str, Any] | None = None,
    template: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> LeaderWorkerSet:
    """The view of ``lws_dict``."""
    return decode(lws_dict(name=name, spec=spec, template=template, annotations=annotations, labels=labels))


def rolling(**config: Any) -> dict[str, Any]:
    """A ``spec`` with this rolling update configuration."""
    return {"rolloutStrategy": {"rollingUpdateConfiguration": config}}


def pod_dict(
    name: str,
    *,
    index: str | None = None,
    size: int = 4,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    owner: str | None = "StatefulSet",
) -> dict[str, Any]:
    """A pod as its workload creates it: a leader with ``index="0"``, else a worker without an index."""
    own = {keys.NAME: "demo"} | ({keys.WORKER_INDEX: index} if index is not None else {})
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "labels": {**own, **(labels or {})},
            "annotations": {keys.SIZE: str(size), **(annotations or {})},
        },
        "spec": {"hostname": name, "subdomain": "demo", "containers": [copy.deepcopy(CONTAINER)], **(spec or {})},
    }
    if owner is not None:
        pod["metadata"]["ownerReferences"] = [{"kind": owner, "name": "x", "uid": "x-uid", "controller": True}]
    return copy.deepcopy(pod)


def leader(group: int = 0, *, revision: str = "r1", subdomain: str = "demo", uid: str = "leader-uid") -> Pod:
    """An admitted Ordinal leader of ``demo``."""
    name = f"demo-{group}"
    labels = {
        keys.NAME: "demo",
        keys.WORKER_INDEX: "0",
        keys.GROUP_INDEX: str(group),
        keys.GROUP_KEY: f"key-{group}",
        keys.REVISION: revision,
    }
    metadata = {"name": name, "namespace": NAMESPACE, "uid": uid, "labels": labels}
    return msgspec.convert({"metadata": metadata, "spec": {"hostname": name, "subdomain": subdomain}}, Pod)
