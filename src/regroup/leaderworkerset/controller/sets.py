"""One pass over one LeaderWorkerSet: its revision, Service, leader set, rollout, status and clean-up. Writes only what differs.

Rules: spec/leaderworkerset.md 3, 6, 7.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from regroup.kube.canonical import canonical, covers
from regroup.kube.meta import HasMeta
from regroup.kube.resources import CONTROLLER_REVISIONS, SERVICES, STATEFULSETS
from regroup.kube.workloads import ControllerRevision, Service, StatefulSet
from regroup.leaderworkerset import budget, objects, revision, rollout
from regroup.leaderworkerset.controller.act import reference
from regroup.leaderworkerset.controller.counters import Counters
from regroup.leaderworkerset.controller.memory import Groups
from regroup.leaderworkerset.controller.observe import BY_LWS, Observer, Stores
from regroup.leaderworkerset.controller.statuses import Statuses
from regroup.leaderworkerset.controller.workloads import Workloads
from regroup.leaderworkerset.facts import Summary, summarize
from regroup.leaderworkerset.keys import REPLICAS, RESTART_COUNTS, REVISION
from regroup.leaderworkerset.status import GroupFacts, Tally, Wanted, tally
from regroup.leaderworkerset.types import SHARED, LeaderWorkerSet
from regroup.leaderworkerset.view import GroupKey
from regroup.runtime.clock import Clock
from regroup.runtime.controller import Result
from regroup.runtime.events import EventRecorder, EventType
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, ApiError, Conflict, NotFound

Key = tuple[str, str]

_DELETING_AGAIN = 5.0
"""Seconds until another look while the leader set is being deleted (6.10)."""
_BEHIND = 0.5
"""Seconds until another look should the event of an own write get lost."""
_TAKEN_AGAIN = 10.0
"""Seconds until another look while a stranger has a name that we need."""


class Taken(Exception):
    """A name that we need belongs to somebody else, whose object is never touched."""


class SetPasses:
    """The LeaderWorkerSet controller's pass."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        stores: Stores,
        observer: Observer,
        groups: Groups,
        counters: Counters,
        expectations: Expectations[Key],
        recorder: EventRecorder,
        statuses: Statuses,
        workloads: Workloads,
    ) -> None:
        self._client = client
        self._clock = clock
        self._stores = stores
        self._observer = observer
        self._groups = groups
        self._counters = counters
        self._expectations = expectations
        self._recorder = recorder
        self._statuses = statuses
        self._workloads = workloads
        self._as_applied: dict[Key, tuple[Any, ...]] = {}
        self._told: dict[Key, str] = {}
        self._log = structlog.get_logger("leaderworkerset.set")

    async def look(self, key: Key) -> Result:
        """One pass. Raises ``WireError`` for what must be tried again with back-off."""
        lws = self._stores.lws.get(*key)
        if lws is None:
            self._forget(key)
            return Result()
        if lws.metadata.deleting:
            return Result()  # garbage collection has it; groups see to their own leave-taking (6.10, B28)
        if lws.hash_mode:
            # Refused at admission; one that got past it is left as it is rather than taken for an Ordinal one.
            self._tell(lws, "Warning", "Unsupported", "groupIdentity Hash is not supported by this version of regroup yet")
            return Result()
        if not self._expectations.satisfied(key):
            return Result(requeue_after=_BEHIND)
        try:
            return await self._pass(key, lws)
        except Taken as error:
            if self._told.get(key) != str(error):
                self._told[key] = str(error)
                self._tell(lws, "Warning", "FailedCreate", str(error))
            return Result(requeue_after=_TAKEN_AGAIN)

    async def _pass(self, key: Key, lws: LeaderWorkerSet) -> Result:
        existing = self._leader_set(lws)
        if existing is not None and existing.metadata.deleting:
            return Result(requeue_after=_DELETING_AGAIN)
        current, is_new = await self._revision(key, lws, existing)
        await self._service(key, lws)
        self._told.pop(key, None)
        scheduling, scheduling_again = await self._workloads.keep(key, lws)
        facts = self._facts(key, current)
        leader_set = await self._roll(key, lws, existing, current=current, is_new=is_new, facts=facts)
        config = lws.spec.rollout_strategy.rolling_update
        result = tally(
            Wanted(lws.spec.replicas, config.partition, lws.metadata.generation),
            facts,
            old=lws.status.conditions,
            now=self._clock.now(),
            also=[scheduling] if scheduling is not None else [],
        )
        again = await self._statuses.write(lws, result, replicas=leader_set.status.replicas if leader_set is not None else 0)
        await self._clean_up(lws, leader_set, current=current, result=result)
        times = [time for time in (again, scheduling_again) if time is not None]
        return Result(requeue_after=min(times, default=None))

    def _forget(self, key: Key) -> None:
        self._expectations.forget(key)
        self._statuses.forget(key)
        self._workloads.forget(key)
        self._as_applied.pop(key, None)
        self._told.pop(key, None)

    # -- revision

    async def _revision(self, key: Key, lws: LeaderWorkerSet, leader_set: StatefulSet | None) -> tuple[str, bool]:
        """The key of the revision that the spec is at, made if need be, and whether it is new (3.5, 6.1)."""
        known = self._revisions(lws)
        found = revision.find_revision(lws, known)
        if found is not None:
            current = revision.revision_key(found)
            carried = leader_set.metadata.labels.get(REVISION, "") if leader_set is not None else current
            return current, carried != current
        data = revision.revision_data(lws)
        name = revision.revision_hash(data)
        lost = leader_set.metadata.labels.get(REVISION, "") if leader_set is not None else ""
        if lost and all(revision.revision_key(one) != lost for one in known) and self._as_before(lws, leader_set, lost):
            name = lost  # the object of the revision that everything runs at was deleted: made again under its key (C93)
        body = objects.revision_object(lws, data=data, key=name, number=revision.next_number(known))
        try:
            made = await self._client.create(CONTROLLER_REVISIONS, body, namespace=lws.namespace, type=ControllerRevision)
        except AlreadyExists:
            made = await self._client.get(
                CONTROLLER_REVISIONS, body["metadata"]["name"], namespace=lws.namespace, type=ControllerRevision
            )
            owner = made.metadata.controller
            if owner is None or owner.uid != lws.metadata.uid:
                raise Taken(f"ControllerRevision {made.metadata.name} exists and is not ours") from None
        self._expectations.expect_created(key, uid=made.metadata.uid, by_uid=self._stores.revisions.by_uid)
        self._tell(lws, "Normal", "CreatingRevision", f"Created revision {name}")
        return name, leader_set is not None and name != lost

    def _as_before(self, lws: LeaderWorkerSet, leader_set: StatefulSet | None, carried: str) -> bool:
        """Whether the leader set's template is what the spec asks for, revision label apart."""
        if leader_set is None:
            return False
        wanted = objects.leader_set(lws, revision=carried, replicas=leader_set.replicas, partition=leader_set.partition)
        return _template_covers(leader_set, wanted)

    def _revisions(self, lws: LeaderWorkerSet) -> list[ControllerRevision]:
        return [
            found
            for found in self._stores.revisions.index(BY_LWS, f"{lws.namespace}/{lws.name}")
            if (owner := found.metadata.controller) is not None and owner.uid == lws.metadata.uid
        ]

    # -- Service

    async def _service(self, key: Key, lws: LeaderWorkerSet) -> None:
        """The shared headless Service (3.4)."""
        if lws.spec.subdomain_policy != SHARED:
            return
        wanted = objects.shared_service(lws)
        found = self._stores.services.get(lws.namespace, lws.name)
        if found is None:
            try:
                found = await self._client.create(SERVICES, wanted, namespace=lws.namespace, type=Service)
            except AlreadyExists:
                # Not in our cache: it lacks our label, so it is somebody else's, or the cache is behind.
                found = await self._client.get(SERVICES, lws.name, namespace=lws.namespace, type=Service)
            if self._owned(found, lws):
                self._expectations.expect_created(key, uid=found.metadata.uid, by_uid=self._stores.services.by_uid)
        if not self._owned(found, lws):
            raise Taken(f"Service {lws.name} exists and belongs to somebody else")

    # -- leader set

    def _leader_set(self, lws: LeaderWorkerSet) -> StatefulSet | None:
        found = self._stores.sets.get(lws.namespace, lws.name)
        if found is not None and not self._owned(found, lws):
            owner = found.metadata.controller
            whose = f"{owner.kind} {owner.name}" if owner is not None else "nobody"
            raise Taken(f"StatefulSet {lws.name} exists and belongs to {whose}")
        return found

    async def _roll(
        self,
        key: Key,
        lws: LeaderWorkerSet,
        existing: StatefulSet | None,
        *,
        current: str,
        is_new: bool,
        facts: Sequence[GroupFacts],
    ) -> StatefulSet | None:
        """Bring the leader set to where the rollout stands (6.2). Gives it as it is now."""
        config = lws.spec.rollout_strategy.rolling_update
        target = rollout.plan(
            replicas=lws.spec.replicas,
            strategy=rollout.Strategy(config.partition, config.max_unavailable, config.max_surge),
            current=_current(existing),
            states={group.index: group.state for group in facts},
            new_revision=is_new and existing is not None,
        )
        wanted = objects.leader_set(lws, revision=current, replicas=target.replicas, partition=target.partition)
        if existing is not None and self._says(key, existing, wanted):
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
            self._tell(lws, "Warning", reason, f"Leader set {lws.name} was not written: {error}")
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
        if not self._owned(found, lws):
            raise Taken(f"StatefulSet {lws.name} exists and belongs to somebody else")

    def _tell_rollout(self, lws: LeaderWorkerSet, before: StatefulSet | None, after: StatefulSet, *, why: str) -> None:
        if before is None:
            self._tell(lws, "Normal", "GroupsProgressing", f"Created leader set {lws.name} with {after.replicas} groups")
            return
        if after.partition < before.partition:
            what = f"Updating groups {after.partition} to {before.partition - 1}: {why}"
            self._tell(lws, "Normal", "GroupsUpdating", what)
        if lws.spec.replicas <= after.replicas < before.replicas and before.metadata.annotations.get(REPLICAS) == str(
            lws.spec.replicas
        ):
            self._tell(lws, "Normal", "GroupsProgressing", f"Removed surge groups {after.replicas} to {before.replicas - 1}")

    # -- groups, clean-up

    def _facts(self, key: Key, current: str) -> list[GroupFacts]:
        facts = []
        for index, summary in sorted(self._groups.of(*key).items()):
            known = summary if summary is not None else self._work_out(key, index)
            if known is not None:
                facts.append(known.facts(revision=current))
        return facts

    def _work_out(self, key: Key, index: str) -> Summary | None:
        """A group that was not looked at yet, as after a start."""
        return summarize(self._observer.group(GroupKey(*key, index)), now=self._clock.now())

    async def _clean_up(self, lws: LeaderWorkerSet, leader_set: StatefulSet | None, *, current: str, result: Tally) -> None:
        """Old revisions and counters, once nothing needs them (3.5, 5.5)."""
        if leader_set is None:
            return
        await self._workloads.clean_up(lws, current=current, replicas=max(leader_set.replicas, lws.spec.replicas))
        if lws.metadata.annotations.get(RESTART_COUNTS):
            limit = max(leader_set.replicas, lws.spec.replicas)
            await self._prune_counters(lws, limit, current=current, done=result.update_done)
        if not result.update_done:
            return
        for old in self._revisions(lws):
            if revision.revision_key(old) == current:
                continue
            try:
                await self._client.delete(CONTROLLER_REVISIONS, old.metadata.name, namespace=lws.namespace, uid=old.metadata.uid)
            except (NotFound, Conflict):
                continue

    async def _prune_counters(self, lws: LeaderWorkerSet, replicas: int, *, current: str, done: bool) -> None:
        """Counters of groups that are gone, and of old revisions after a rollout (5.5). What cannot be read is told and left."""

        def change(counts: dict[str, int], counted: dict[str, str]) -> tuple[dict[str, int], dict[str, str]]:
            kept = budget.pruned(counts, replicas=replicas, revision=current, update_done=done)
            return kept, {name: digest for name, digest in counted.items() if name in kept}

        try:
            written = await self._counters.change(lws, change)
        except budget.CorruptCounts as error:
            self._tell(lws, "Warning", "FailedRestartCount", str(error))
        except (Conflict, NotFound):
            return  # others write it now: the next pass prunes
        else:
            if written is not lws:
                meta, by_uid = written.metadata, self._stores.lws.by_uid
                key = (lws.namespace, lws.name)
                self._expectations.expect_version(key, uid=meta.uid, resource_version=meta.resource_version, by_uid=by_uid)

    def _owned(self, found: HasMeta, lws: LeaderWorkerSet) -> bool:
        owner = found.metadata.controller
        return owner is not None and owner.uid == lws.metadata.uid

    def _tell(self, lws: LeaderWorkerSet, kind: EventType, reason: str, message: str) -> None:
        self._recorder.event(reference(lws), type=kind, reason=reason, message=message, action=reason)


def _current(existing: StatefulSet | None) -> rollout.Current | None:
    if existing is None:
        return None
    noted = existing.metadata.annotations.get(REPLICAS, "")
    return rollout.Current(existing.replicas, existing.partition, int(noted) if noted.isdigit() else None)


def _template_covers(existing: StatefulSet, wanted: dict[str, Any]) -> bool:
    live = msgspec.json.decode(existing.spec.template) if existing.spec.template else {}
    return covers(canonical(live), canonical(wanted["spec"]["template"]))
