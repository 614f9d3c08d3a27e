"""Keeps the leader StatefulSet of an Ordinal LeaderWorkerSet where its rollout stands (spec/leaderworkerset.md 3.1, 6.2).

Writes only what differs. Where the rollout goes is decided in ``rollout``.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from regroup.kube.canonical import canonical, covers
from regroup.kube.resources import STATEFULSETS
from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset import objects, rollout
from regroup.leaderworkerset.controller.ownership import refuse_stranger
from regroup.leaderworkerset.controller.stores import Stores
from regroup.leaderworkerset.controller.telling import Teller
from regroup.leaderworkerset.keys import REPLICAS
from regroup.leaderworkerset.status import GroupFacts
from regroup.leaderworkerset.types import LeaderWorkerSet
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import ApiError, Conflict, NotFound

Key = tuple[str, str]


class LeaderSets:
    """The leader StatefulSets of all Ordinal LeaderWorkerSets."""

    def __init__(self, client: Client, *, stores: Stores, expectations: Expectations[Key], teller: Teller) -> None:
        self._client = client
        self._stores = stores
        self._expectations = expectations
        self._teller = teller
        self._as_applied: dict[Key, tuple[Any, ...]] = {}
        self._agreed: dict[Key, tuple[object, ...]] = {}
        """What was last found to be as wanted: a pass on which nothing of it moved compares no templates."""
        self._log = structlog.get_logger("leaderworkerset.set")

    def forget(self, key: Key) -> None:
        """The LeaderWorkerSet is gone."""
        self._as_applied.pop(key, None)
        self._agreed.pop(key, None)

    def find(self, lws: LeaderWorkerSet) -> StatefulSet | None:
        """The one that there is. Raises ``Taken``."""
        found = self._stores.sets.get(lws.namespace, lws.name)
        if found is not None:
            refuse_stranger(found, lws, kind="StatefulSet")
        return found

    def as_before(self, lws: LeaderWorkerSet, existing: StatefulSet, *, revision: str) -> bool:
        """Whether the template is what the spec asks for, under the name ``revision``."""
        wanted = objects.leader_set(lws, revision=revision, replicas=existing.replicas, partition=existing.partition)
        return _template_covers(existing, wanted)

    async def roll(
        self,
        key: Key,
        lws: LeaderWorkerSet,
        *,
        current: str,
        is_new: bool,
        facts: Sequence[GroupFacts],
    ) -> StatefulSet | None:
        """Bring the leader set to where the rollout stands. Gives it as it is now. Raises ``ApiError``, ``Taken``."""
        existing = self.find(lws)
        config = lws.spec.rollout_strategy.rolling_update
        target = rollout.plan(
            replicas=lws.spec.replicas,
            strategy=rollout.Strategy(config.partition, config.max_unavailable, config.max_surge),
            current=_current(existing),
            states={group.index: group.state for group in facts},
            new_revision=is_new and existing is not None,
        )
        asked = _asked(lws, existing, current=current, replicas=target.replicas, partition=target.partition)
        if existing is not None and self._agreed.get(key) == asked:
            return existing
        wanted = objects.leader_set(lws, revision=current, replicas=target.replicas, partition=target.partition)
        if existing is not None and self._says(key, existing, wanted):
            self._agreed[key] = asked
            return existing
        if existing is None:
            await self._see_that_name_is_free(lws)
        else:
            # A set of that name with another UID is refused instead of taken over.
            wanted["metadata"]["uid"] = existing.metadata.uid
            if _template_covers(existing, wanted):
                # Another operator under our name (the Go controller) may have said more in it: an apply that leaves that out
                # would take it away, and so replace every leader of groups that only scale.
                wanted["spec"]["template"] = msgspec.json.decode(existing.spec.template)
        try:
            applied = await self._client.apply(
                STATEFULSETS, lws.name, wanted, namespace=lws.namespace, type=StatefulSet, force=True, field_manager="lws"
            )
        except (Conflict, NotFound) as error:
            self._log.info("leader set changed hands", lws=lws.metadata.key, error=str(error))
            return existing
        except ApiError as error:
            reason = "FailedCreate" if existing is None else "FailedUpdate"
            self._teller.tell(lws, "Warning", reason, f"Leader set {lws.name} was not written: {error}")
            raise
        meta, by_uid = applied.metadata, self._stores.sets.by_uid
        if existing is None:
            self._expectations.expect_created(key, uid=meta.uid, by_uid=by_uid)
        else:
            self._expectations.expect_version(key, uid=meta.uid, resource_version=meta.resource_version, by_uid=by_uid)
        self._tell_rollout(lws, existing, applied, why=target.why)
        return applied

    def _says(self, key: Key, existing: StatefulSet, wanted: dict[str, Any]) -> bool:
        """Whether the leader set already is as wanted. The template is compared once for each version of both."""
        metadata, spec = wanted["metadata"], wanted["spec"]
        strategy = spec["updateStrategy"]["rollingUpdate"]
        if existing.replicas != spec["replicas"] or existing.partition != strategy["partition"]:
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
            found = await self._client.get(STATEFULSETS, lws.name, namespace=lws.namespace, type=StatefulSet)
        except NotFound:
            return
        refuse_stranger(found, lws, kind="StatefulSet")

    def _tell_rollout(self, lws: LeaderWorkerSet, before: StatefulSet | None, after: StatefulSet, *, why: str) -> None:
        if before is None:
            self._teller.tell(lws, "Normal", "GroupsProgressing", f"Created leader set {lws.name} with {after.replicas} groups")
            return
        if after.partition < before.partition:
            what = f"Updating groups {after.partition} to {before.partition - 1}: {why}"
            self._teller.tell(lws, "Normal", "GroupsUpdating", what)
        if lws.spec.replicas <= after.replicas < before.replicas and before.metadata.annotations.get(REPLICAS) == str(
            lws.spec.replicas
        ):
            self._teller.tell(
                lws, "Normal", "GroupsProgressing", f"Removed surge groups {after.replicas} to {before.replicas - 1}"
            )


def _asked(
    lws: LeaderWorkerSet, existing: StatefulSet | None, *, current: str, replicas: int, partition: int
) -> tuple[object, ...]:
    """Everything that the comparison of a leader set with what is wanted rests on."""
    meta = existing.metadata if existing is not None else None
    live = (meta.uid, meta.generation, meta.raw_labels, meta.raw_annotations) if meta is not None else ()
    owner = lws.metadata
    return (live, owner.uid, owner.generation, owner.raw_labels, owner.raw_annotations, current, replicas, partition)


def _current(existing: StatefulSet | None) -> rollout.Current | None:
    if existing is None:
        return None
    noted = existing.metadata.annotations.get(REPLICAS, "")
    return rollout.Current(existing.replicas, existing.partition, int(noted) if noted.isdigit() else None)


def _template_covers(existing: StatefulSet, wanted: dict[str, Any]) -> bool:
    live = msgspec.json.decode(existing.spec.template) if existing.spec.template else {}
    return covers(canonical(live), canonical(wanted["spec"]["template"]))
