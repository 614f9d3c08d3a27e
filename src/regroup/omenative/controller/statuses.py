"""Writes the status of an InferenceReplica: once a pass, only when it says something new, on the version that was judged."""

from datetime import datetime
from typing import Any

import msgspec

from regroup.kube.meta import Condition, find_condition
from regroup.omenative.api.replica import InferenceReplica, InferenceReplicaStatus
from regroup.omenative.controller.stores import ReplicaKey, Stores
from regroup.omenative.engine.conditions import READY
from regroup.omenative.keys import INFERENCE_REPLICAS
from regroup.runtime.clock import timestamp
from regroup.runtime.conditions import to_wire
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client

_COUNTS = (
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "servingReplicas",
    "availableReplicas",
    "updatedReplicas",
    "updatedReadyReplicas",
)
"""Written even when they are 0: ``kubectl get`` and autoscalers read them."""
_PATIENCE = 1.0
"""Seconds that numbers alone are held back: pods come and go one by one, and each step would be a write of its own."""


class Statuses:
    """The status writer of the replica controller."""

    def __init__(self, client: Client, *, stores: Stores, expectations: Expectations[ReplicaKey]) -> None:
        self._client = client
        self._stores = stores
        self._expectations = expectations
        self._held: dict[ReplicaKey, float] = {}

    def wait(self, replica: InferenceReplica, status: InferenceReplicaStatus, *, now: float) -> float:
        """Seconds that the write may still be held back: more than 0 only where nothing but numbers has changed, and not for
        long. ``now`` is monotonic."""
        key = (replica.namespace, replica.name)
        old = replica.raw_status
        if old is None or says(old, status) or not may_wait(old, status):
            self._held.pop(key, None)
            return 0.0
        return max(0.0, self._held.setdefault(key, now) + _PATIENCE - now)

    def forget(self, key: ReplicaKey) -> None:
        """The replica is gone."""
        self._held.pop(key, None)

    async def write(self, replica: InferenceReplica, status: InferenceReplicaStatus) -> InferenceReplica:
        """Write ``status`` if it differs; gives the replica as it stands then. Raises ``Conflict`` when the replica has moved
        on: nothing of the pass may be done then."""
        if replica.raw_status is not None and says(replica.raw_status, status):
            return replica
        self._held.pop((replica.namespace, replica.name), None)
        meta = replica.metadata
        body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": patch(replica, status)}
        written = await self._client.merge_patch(
            INFERENCE_REPLICAS,
            replica.name,
            body,
            namespace=replica.namespace,
            subresource="status",
            type=InferenceReplica,
        )
        self._expectations.expect_version(
            (replica.namespace, replica.name),
            uid=meta.uid,
            resource_version=written.metadata.resource_version,
            by_uid=self._stores.replicas.by_uid,
        )
        return written


def says(there: InferenceReplicaStatus, status: InferenceReplicaStatus) -> bool:
    """Whether ``there`` says what ``status`` says. What is equal is written alike: hundreds of rows that nothing happened to are
    not encoded to be compared."""
    return there == status or encode(there) == encode(status)


def may_wait(old: InferenceReplicaStatus, new: InferenceReplicaStatus) -> bool:
    """Nothing but numbers differs, or what follows from them: pods of Ready Instances that are not ready at the moment. That may
    wait, for a container that ended is most often started again within moments, or its Instance restarts; good news does not."""
    good = _ready(new) and not _ready(old)
    return not good and says(_numberless(old), _numberless(new))


def _numberless(status: InferenceReplicaStatus) -> InferenceReplicaStatus:
    """The status without numbers, conditions without their messages, and without what follows from numbers."""
    rows = tuple(msgspec.structs.replace(row, pod_count=0, serving_pod_count=0, available_pod_count=0) for row in status.rows)
    signs = tuple(
        Condition(type=one.type, status=one.status, reason=one.reason) for one in status.conditions if one.type != READY
    )
    return msgspec.structs.replace(
        status,
        replicas=0,
        ready_replicas=0,
        serving_replicas=0,
        available_replicas=0,
        updated_replicas=0,
        updated_ready_replicas=0,
        raw_rows=rows or None,
        raw_conditions=signs or None,
    )


def _ready(status: InferenceReplicaStatus) -> bool:
    condition = find_condition(status.conditions, READY)
    return condition is not None and condition.status == "True"


def encode(status: InferenceReplicaStatus) -> dict[str, Any]:
    """A status as it is written: counts always, everything else where it is set."""
    plain: dict[str, Any] = msgspec.to_builtins(status, builtin_types=(datetime,))
    body: dict[str, Any] = {**dict.fromkeys(_COUNTS, 0), **_whole_seconds(plain), "conditions": to_wire(status.conditions)}
    return {name: value for name, value in body.items() if value not in (None, "", [])}


def _whole_seconds(value: Any) -> Any:
    """Times as Kubernetes has them; whatever else is in ``value`` as it is."""
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, dict):
        return {name: _whole_seconds(one) for name, one in value.items()}
    return [_whole_seconds(one) for one in value] if isinstance(value, list | tuple) else value


def patch(replica: InferenceReplica, status: InferenceReplicaStatus) -> dict[str, Any]:
    """The merge patch that makes the live status say ``status``: what is not said any more is taken away. Lists are whole;
    fields that we do not know stay."""
    old = encode(replica.raw_status) if replica.raw_status is not None else {}
    new = encode(status)
    changed: dict[str, Any] = {name: value for name, value in new.items() if old.get(name) != value}
    for name, value in changed.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            changed[name] = {**dict.fromkeys(old[name]), **value}
    return {**dict.fromkeys(set(old) - set(new)), **changed}
