"""Puts right the note that a Hash rollout stands still for (spec/leaderworkerset.md 6.3). What holds it up: ``standstill``."""

import structlog

from regroup.kube.resources import REPLICASETS
from regroup.kube.workloads import Deployment, ReplicaSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.leader_writer import Key
from regroup.leaderworkerset.controller.stores import BY_LWS, Stores
from regroup.leaderworkerset.objects import standstill
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import Conflict, Forbidden, NotFound


class Unblocker:
    """The ReplicaSets of all leader Deployments."""

    def __init__(self, client: Client, *, stores: Stores, expectations: Expectations[Key]) -> None:
        self._client = client
        self._stores = stores
        self._expectations = expectations
        self._log = structlog.get_logger("leaderworkerset.set")

    async def unblock(self, key: Key, lws: LeaderWorkerSet, deployment: Deployment) -> None:
        """Write the note as it should be, where it holds up the rollout. Raises ``ApiError``."""
        uid, by_lws = deployment.metadata.uid, self._stores.replica_sets.index(BY_LWS, f"{lws.namespace}/{lws.name}")
        owned = [found for found in by_lws if found.metadata.controlled_by(uid)]
        found = standstill.holds_up(deployment, owned)
        if found is None:
            return
        meta = found.metadata
        note = {standstill.DESIRED: str(deployment.replicas)}
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": note}}
        try:
            written = await self._client.merge_patch(REPLICASETS, meta.name, patch, namespace=meta.namespace, type=ReplicaSet)
        except (Conflict, NotFound, Forbidden) as error:
            # It moved on meanwhile; or these are the rights of an earlier version, and only scaling it can help.
            self._log.info("a rollout stands still", lws=lws.metadata.key, replica_set=meta.name, error=str(error))
            return
        version, by_uid = written.metadata.resource_version, self._stores.replica_sets.by_uid
        self._expectations.expect_version(key, uid=meta.uid, resource_version=version, by_uid=by_uid)
