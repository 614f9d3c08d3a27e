"""Single writes to pods that others own.

They test the UID that was judged, so that a replacement of the same name is never hit, and touch only our own list entries, so
that foreign finalizers and gates never come back (case C121).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.leaderworkerset.groups.decisions import PodId
from regroup.leaderworkerset.keys import CLEANUP_FINALIZER, GATE, GATED_DELETION_COST, GROUP_READY, POD_DELETION_COST
from regroup.runtime.clock import timestamp
from regroup.wire.client import Client
from regroup.wire.errors import Conflict, Forbidden, Invalid, NotFound
from regroup.wire.patches import Operation, pointer

_ATTEMPTS = 5
_MESSAGE = 512
"""Characters of a condition's message."""


class Overtaken(Exception):
    """The object that was judged is not what it was: another look, on newer objects, decides anew."""


async def annotate(client: Client, pod: PodId, annotations: Mapping[str, str], *, namespace: str) -> Pod | None:
    """Set annotations on this very pod. None when it is gone."""
    ops = [_same(pod), *({"op": "add", "path": _annotation(key), "value": value} for key, value in annotations.items())]
    try:
        return await client.json_patch(PODS, pod.name, ops, namespace=namespace, type=Pod)
    except (NotFound, Conflict, Invalid):
        return None


async def lift_gate(client: Client, pod: Pod) -> Pod:
    """Take our scheduling gate off and leave all others; the deletion cost of a gated leader goes with it, unless somebody set
    another one (4.3). Raises ``Overtaken``."""
    meta = pod.metadata
    place = next(index for index, gate in enumerate(pod.spec.scheduling_gates) if gate.name == GATE)
    path = f"/spec/schedulingGates/{place}"
    ops: list[Operation] = [
        _same(PodId(meta.name, meta.uid)),
        {"op": "test", "path": f"{path}/name", "value": GATE},
        {"op": "remove", "path": path},
    ]
    if meta.annotations.get(POD_DELETION_COST) == GATED_DELETION_COST:
        cost = _annotation(POD_DELETION_COST)
        ops += [{"op": "test", "path": cost, "value": GATED_DELETION_COST}, {"op": "remove", "path": cost}]
    try:
        return await client.json_patch(PODS, meta.name, ops, namespace=meta.namespace, type=Pod)
    except (NotFound, Conflict, Invalid) as error:
        raise Overtaken(f"leader {meta.name}: {error}") from error


async def tell_ready(client: Client, pod: Pod, *, ready: bool, message: str, now: datetime) -> Pod:
    """Write the condition group-ready of a Hash leader; all other conditions are their writers'. Raises ``Overtaken``."""
    meta = pod.metadata
    condition = {
        "type": GROUP_READY,
        "status": "True" if ready else "False",
        "reason": "WorkerStatefulSetReady" if ready else "WorkerStatefulSetNotReady",
        "message": message[:_MESSAGE],
        "lastTransitionTime": timestamp(now),
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "status": {"conditions": [condition]},
    }
    try:
        return await client.apply(
            PODS, meta.name, body, namespace=meta.namespace, type=Pod, force=True, field_manager="lws", subresource="status"
        )
    except (NotFound, Conflict) as error:
        raise Overtaken(f"leader {meta.name}: {error}") from error


async def retain(client: Client, pod: Pod, *, annotations: Mapping[str, str | None]) -> None:
    """Add our finalizer and set annotations (None removes one), under the resourceVersion that was read.

    A pod that is already deleting cannot take a finalizer and is left (5.6.1). Raises ``Overtaken`` when others keep writing.
    """
    for _ in range(_ATTEMPTS):
        meta = pod.metadata
        if CLEANUP_FINALIZER in meta.finalizers and all(meta.annotations.get(key) == value for key, value in annotations.items()):
            return
        finalizers = [*meta.finalizers, *([] if CLEANUP_FINALIZER in meta.finalizers else [CLEANUP_FINALIZER])]
        body: dict[str, Any] = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}
        if annotations:
            body["annotations"] = dict(annotations)
        try:
            await client.merge_patch(PODS, meta.name, {"metadata": body}, namespace=meta.namespace)
        except Conflict:
            # Somebody else wrote to the pod, most likely its kubelet: read it again.
            fresh = await _read(client, PodId(meta.name, meta.uid), namespace=meta.namespace)
            if fresh is None or fresh.deleting:
                return
            pod = fresh
        except (NotFound, Forbidden, Invalid):
            return
        else:
            return
    raise Overtaken(f"pod {pod.metadata.name} is written to too often")


async def let_go(client: Client, pod: PodId, *, namespace: str, drop: Sequence[str] = ()) -> None:
    """Take our finalizer off this very pod, and the annotations ``drop`` with it. Nothing to do when it is gone or was let go."""
    for _ in range(_ATTEMPTS):
        found = await _read(client, pod, namespace=namespace)
        if found is None or CLEANUP_FINALIZER not in found.metadata.finalizers:
            return
        place = list(found.metadata.finalizers).index(CLEANUP_FINALIZER)
        path = f"/metadata/finalizers/{place}"
        ops: list[Operation] = [
            _same(pod),
            *({"op": "remove", "path": _annotation(key)} for key in drop if key in found.metadata.annotations),
            {"op": "test", "path": path, "value": CLEANUP_FINALIZER},
            {"op": "remove", "path": path},
        ]
        try:
            await client.json_patch(PODS, pod.name, ops, namespace=namespace)
        except NotFound:
            return
        except (Conflict, Invalid):
            continue  # the list moved between our read and our write: read again
        else:
            return
    raise Overtaken(f"pod {pod.name} is written to too often")


async def _read(client: Client, pod: PodId, *, namespace: str) -> Pod | None:
    try:
        found = await client.get(PODS, pod.name, namespace=namespace, type=Pod)
    except NotFound:
        return None
    return found if found.metadata.uid == pod.uid else None


def _same(pod: PodId) -> Operation:
    return {"op": "test", "path": "/metadata/uid", "value": pod.uid}


def _annotation(key: str) -> str:
    return pointer("metadata", "annotations", key)
