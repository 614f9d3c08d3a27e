"""What the Go controller leaves in a cluster, in the shape that spec/leaderworkerset.md 2-3 describes. Written anew, not with our
own builders: a mistake of theirs must not hide in both.

Go writes out what it never set (``resources: {}``, ``creationTimestamp: null``), copies all annotations of the LeaderWorkerSet
down, knows nothing of our own keys, and has its own hash for a revision.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from tests.planes.plane import NAMESPACE

P = "leaderworkerset.sigs.k8s.io/"
REVISION = "6d8f7c9b54"
"""A revision key of the Go controller: another hash than ours."""


def owner(kind: str, name: str, uid: str) -> dict[str, Any]:
    api = {"Pod": "v1", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}[kind]
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}


def written_out(template: Mapping[str, Any]) -> dict[str, Any]:
    """A pod template as Go prints it."""
    spec = dict(template["spec"])
    spec["containers"] = [{"resources": {}, **container} for container in spec["containers"]]
    return {"metadata": {"creationTimestamp": None, **template.get("metadata", {})}, "spec": spec}


def revision(lws: Mapping[str, Any], *, key: str = REVISION) -> dict[str, Any]:
    """The ControllerRevision of ``lws`` as it stands in the API."""
    template = lws["spec"]["leaderWorkerTemplate"]
    stored = {**template, "workerTemplate": written_out(template["workerTemplate"]), "$patch": "replace"}
    stored.pop("maxGroupRestarts", None)
    stored.pop("restartBackoff", None)
    name = lws["metadata"]["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{name}-{key}-1",
            "namespace": NAMESPACE,
            "labels": {f"{P}name": name, f"{P}template-revision-hash": key},
            "ownerReferences": [owner("LeaderWorkerSet", name, lws["metadata"]["uid"])],
        },
        "data": {"spec": {"leaderWorkerTemplate": stored, "networkConfig": {"subdomainPolicy": "Shared", "$patch": "replace"}}},
        "revision": 1,
    }


def leader_set(lws: Mapping[str, Any], *, key: str = REVISION, replicas: int | None = None) -> dict[str, Any]:
    """The leader StatefulSet, as it is applied."""
    name, spec = lws["metadata"]["name"], lws["spec"]
    size, wanted = spec["leaderWorkerTemplate"]["size"], spec["replicas"]
    template = written_out(spec["leaderWorkerTemplate"]["workerTemplate"])
    template["metadata"] |= {
        "labels": {
            **template["metadata"].get("labels", {}),
            f"{P}name": name,
            f"{P}worker-index": "0",
            f"{P}template-revision-hash": key,
        },
        # Newer versions of the Go controller write the policy always, ours only when it is Parallel.
        "annotations": {f"{P}size": str(size), f"{P}pod-termination-policy": "Default"},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {f"{P}name": name, f"{P}template-revision-hash": key, f"{P}role": "leader"},
            "annotations": {**lws["metadata"].get("annotations", {}), f"{P}replicas": str(wanted)},
            "ownerReferences": [owner("LeaderWorkerSet", name, lws["metadata"]["uid"])],
        },
        "spec": {
            "replicas": wanted if replicas is None else replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {f"{P}name": name, f"{P}worker-index": "0"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
            "template": template,
        },
    }


def leader_deployment(lws: Mapping[str, Any], *, key: str = REVISION) -> dict[str, Any]:
    """The leader Deployment of Hash groups, as it is applied."""
    made, name = leader_set(lws, key=key), lws["metadata"]["name"]
    template = made["spec"]["template"]
    template["metadata"]["annotations"][f"{P}group-identity"] = "Hash"
    template["spec"] |= {"subdomain": name, "readinessGates": [{"conditionType": f"{P}group-ready"}]}
    return {
        **made,
        "kind": "Deployment",
        "spec": {
            "replicas": made["spec"]["replicas"],
            "selector": made["spec"]["selector"],
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": template,
        },
    }


def hash_worker_set(lws: Mapping[str, Any], *, leader: Mapping[str, Any], key: str = REVISION) -> dict[str, Any]:
    """The worker StatefulSet of a Hash group: named after its leader's host name."""
    meta, host = leader["metadata"], leader["spec"]["hostname"]
    made = worker_set(lws, group=0, leader_uid=meta["uid"], key=key)
    name = lws["metadata"]["name"]
    labels = {
        f"{P}name": name,
        f"{P}group-index": meta["labels"][f"{P}group-index"],
        f"{P}group-key": meta["labels"][f"{P}group-key"],
    }
    made["metadata"] |= {
        "name": host,
        "labels": {**labels, f"{P}template-revision-hash": key, f"{P}role": "worker"},
        "ownerReferences": [owner("Pod", meta["name"], meta["uid"])],
    }
    made["spec"]["selector"] = {"matchLabels": labels}
    made["spec"]["template"]["metadata"] |= {
        "labels": {**made["spec"]["template"]["metadata"]["labels"], **labels},
        "annotations": {
            f"{P}size": str(lws["spec"]["leaderWorkerTemplate"]["size"]),
            f"{P}leader-name": meta["name"],
            f"{P}leader-address": f"{host}.{name}.{NAMESPACE}",
            f"{P}group-identity": "Hash",
        },
    }
    return made


def worker_set(lws: Mapping[str, Any], *, group: int, leader_uid: str, key: str = REVISION) -> dict[str, Any]:
    """The worker StatefulSet of one group."""
    name, size = lws["metadata"]["name"], lws["spec"]["leaderWorkerTemplate"]["size"]
    leader = f"{name}-{group}"
    labels = {
        f"{P}name": name,
        f"{P}group-index": str(group),
        f"{P}group-key": hashlib.sha1(f"{NAMESPACE}/{leader}".encode()).hexdigest(),
    }
    template = written_out(lws["spec"]["leaderWorkerTemplate"]["workerTemplate"])
    template["metadata"] |= {
        "labels": {**template["metadata"].get("labels", {}), **labels, f"{P}template-revision-hash": key},
        "annotations": {
            f"{P}size": str(size),
            f"{P}leader-name": leader,
            f"{P}leader-address": f"{leader}.{name}.{NAMESPACE}",
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": leader,
            "namespace": NAMESPACE,
            "labels": {**labels, f"{P}template-revision-hash": key, f"{P}role": "worker"},
            "ownerReferences": [owner("Pod", leader, leader_uid)],
        },
        "spec": {
            "replicas": size - 1,
            "ordinals": {"start": 1},
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def service(lws: Mapping[str, Any]) -> dict[str, Any]:
    """The shared headless Service."""
    name = lws["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {f"{P}name": name},
            "ownerReferences": [owner("LeaderWorkerSet", name, lws["metadata"]["uid"])],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {f"{P}name": name}},
    }
