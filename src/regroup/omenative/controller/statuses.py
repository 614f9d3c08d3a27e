"""Writes the status of an InferenceReplica: once a pass, only when it says something new, on the version that was judged."""

from datetime import datetime
from typing import Any

import msgspec

from regroup.omenative.api.replica import InferenceReplica, InferenceReplicaStatus
from regroup.omenative.controller.stores import ReplicaKey, Stores
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


_OF_COUNTS = frozenset(_COUNTS) - {"observedGeneration"}
_OF_ROW_COUNTS = frozenset({"podCount", "servingPodCount", "availablePodCount"})
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
        old = encode(replica.raw_status) if replica.raw_status is not None else {}
        new = encode(status)
        if old == new or not old or _without_counts(old) != _without_counts(new):
            self._held.pop(key, None)
            return 0.0
        return max(0.0, self._held.setdefault(key, now) + _PATIENCE - now)

    def forget(self, key: ReplicaKey) -> None:
        """The replica is gone."""
        self._held.pop(key, None)

    async def write(self, replica: InferenceReplica, status: InferenceReplicaStatus) -> InferenceReplica:
        """Write ``status`` if it differs; gives the replica as it stands then. Raises ``Conflict`` when the replica has moved
        on: nothing of the pass may be done then."""
        if replica.raw_status is not None and encode(replica.raw_status) == encode(status):
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


def encode(status: InferenceReplicaStatus) -> dict[str, Any]:
    """A status as it is written: counts always, everything else where it is set."""
    plain: dict[str, Any] = msgspec.to_builtins(status, builtin_types=(datetime,))
    body: dict[str, Any] = {**dict.fromkeys(_COUNTS, 0), **_whole_seconds(plain), "conditions": to_wire(status.conditions)}
    return {name: value for name, value in body.items() if value not in (None, "", [])}


def _without_counts(body: dict[str, Any]) -> dict[str, Any]:
    """What a status says beside numbers: conditions that tell numbers in their message change with them."""
    rows = [
        {name: value for name, value in row.items() if name not in _OF_ROW_COUNTS} for row in body.get("instanceStatuses", ())
    ]
    signs = [(one["type"], one["status"], one.get("reason")) for one in body.get("conditions", ())]
    rest = {name: value for name, value in body.items() if name not in _OF_COUNTS}
    return {**rest, "instanceStatuses": rows, "conditions": signs}


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
