"""Keeps the leader Deployment of a Hash LeaderWorkerSet as its spec says (spec/leaderworkerset.md 3.2, 6.3).

The rollout is the Deployment's own: its leaders are ready only as groups, and the gates pace what replaces them. Writes only
what differs.
"""

from typing import Any

import msgspec
import structlog

from regroup.kube.canonical import canonical, covers
from regroup.kube.resources import DEPLOYMENTS
from regroup.kube.workloads import Deployment
from regroup.leaderworkerset import objects
from regroup.leaderworkerset.controller.ownership import refuse_stranger
from regroup.leaderworkerset.controller.stores import Stores
from regroup.leaderworkerset.controller.telling import Teller
from regroup.leaderworkerset.keys import REVISION
from regroup.leaderworkerset.status_hash import Report
from regroup.leaderworkerset.types import LeaderWorkerSet
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import ApiError, Conflict, NotFound

Key = tuple[str, str]


class LeaderDeployments:
    """The leader Deployments of all Hash LeaderWorkerSets."""

    def __init__(self, client: Client, *, stores: Stores, expectations: Expectations[Key], teller: Teller) -> None:
        self._client = client
        self._stores = stores
        self._expectations = expectations
        self._teller = teller
        self._as_applied: dict[Key, tuple[Any, ...]] = {}
        self._log = structlog.get_logger("leaderworkerset.set")

    def forget(self, key: Key) -> None:
        """The LeaderWorkerSet is gone."""
        self._as_applied.pop(key, None)

    def find(self, lws: LeaderWorkerSet) -> Deployment | None:
        """The one that there is. Raises ``Taken``."""
        found = self._stores.deployments.get(lws.namespace, lws.name)
        if found is not None:
            refuse_stranger(found, lws, kind="Deployment")
        return found

    def as_before(self, lws: LeaderWorkerSet, existing: Deployment, *, revision: str) -> bool:
        """Whether the template is what the spec asks for, under the name ``revision``."""
        return _template_covers(existing, objects.leader_deployment(lws, revision=revision))

    async def bring(self, key: Key, lws: LeaderWorkerSet, *, current: str) -> Deployment | None:
        """Bring the Deployment to what the spec says. Gives it as it is now. Raises ``ApiError``, ``Taken``."""
        existing = self.find(lws)
        wanted = objects.leader_deployment(lws, revision=current)
        if existing is not None and self._says(key, existing, wanted):
            return existing
        if existing is None:
            await self._see_that_name_is_free(lws)
        else:
            # A Deployment of that name with another UID is refused instead of taken over.
            wanted["metadata"]["uid"] = existing.metadata.uid
            if _template_covers(existing, wanted):
                # What another operator under our name said beyond it stays, or scaling would replace every leader.
                wanted["spec"]["template"] = msgspec.json.decode(existing.spec.template)
        try:
            applied = await self._client.apply(
                DEPLOYMENTS, lws.name, wanted, namespace=lws.namespace, type=Deployment, force=True, field_manager="lws"
            )
        except (Conflict, NotFound) as error:
            self._log.info("leader deployment changed hands", lws=lws.metadata.key, error=str(error))
            return existing
        except ApiError as error:
            reason = "FailedCreate" if existing is None else "FailedUpdate"
            self._teller.tell(lws, "Warning", reason, f"Leader Deployment {lws.name} was not written: {error}")
            raise
        meta, by_uid = applied.metadata, self._stores.deployments.by_uid
        if existing is None:
            self._expectations.expect_created(key, uid=meta.uid, by_uid=by_uid)
            what = f"Created leader Deployment {lws.name} with {applied.replicas} groups"
            self._teller.tell(lws, "Normal", "GroupsProgressing", what)
        else:
            self._expectations.expect_version(key, uid=meta.uid, resource_version=meta.resource_version, by_uid=by_uid)
            if existing.metadata.labels.get(REVISION) != current:
                self._teller.tell(lws, "Normal", "GroupsUpdating", f"Updating all groups to revision {current}")
        return applied

    def _says(self, key: Key, existing: Deployment, wanted: dict[str, Any]) -> bool:
        """Whether it already is as wanted. The template is compared once for each version of both."""
        metadata, spec = wanted["metadata"], wanted["spec"]
        if existing.replicas != spec["replicas"] or not _rolls_as(existing, spec["strategy"]):
            return False
        if not covers(dict(existing.metadata.labels), metadata["labels"]):
            return False
        if not covers(dict(existing.metadata.annotations), metadata["annotations"]):
            return False
        version = (existing.metadata.uid, existing.metadata.generation, msgspec.json.encode(spec["template"]))
        if self._as_applied.get(key) == version:
            return True
        if not _template_covers(existing, wanted):
            return False
        self._as_applied[key] = version
        return True

    async def _see_that_name_is_free(self, lws: LeaderWorkerSet) -> None:
        """An apply would take over an object that the cache does not show because it lacks our label (C98, C112)."""
        try:
            found = await self._client.get(DEPLOYMENTS, lws.name, namespace=lws.namespace, type=Deployment)
        except NotFound:
            return
        refuse_stranger(found, lws, kind="Deployment")


def report_of(deployment: Deployment) -> Report:
    """What the Deployment says of itself, for the status."""
    status = deployment.status
    return Report(
        revision=deployment.metadata.labels.get(REVISION, ""),
        observed=status.observed_generation >= deployment.metadata.generation,
        replicas=status.replicas,
        updated=status.updated_replicas,
        ready=status.ready_replicas,
    )


def _rolls_as(existing: Deployment, wanted: dict[str, Any]) -> bool:
    strategy = existing.spec.strategy
    rolling = strategy.rolling_update if strategy is not None else None
    if strategy is None or rolling is None:
        return False
    config = wanted["rollingUpdate"]
    return (strategy.type, rolling.max_unavailable, rolling.max_surge) == (
        wanted["type"],
        config["maxUnavailable"],
        config["maxSurge"],
    )


def _template_covers(existing: Deployment, wanted: dict[str, Any]) -> bool:
    live = msgspec.json.decode(existing.spec.template) if existing.spec.template else {}
    return covers(canonical(live), canonical(wanted["spec"]["template"]))
