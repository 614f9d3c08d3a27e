"""One pass over one LeaderWorkerSet: its revision, Service, leaders, rollout, status and clean-up. Writes only what differs.

Rules: spec/leaderworkerset.md 3, 6, 7.
"""

from collections.abc import Sequence

from regroup.kube.meta import Condition
from regroup.kube.resources import CONTROLLER_REVISIONS, SERVICES
from regroup.kube.workloads import ControllerRevision, Deployment, Service
from regroup.leaderworkerset.api.types import SHARED, LeaderWorkerSet
from regroup.leaderworkerset.controller.counters import Counters
from regroup.leaderworkerset.controller.leader_deployments import LeaderDeployments, report_of
from regroup.leaderworkerset.controller.leader_sets import LeaderSets
from regroup.leaderworkerset.controller.leaders import LeaderWorkload
from regroup.leaderworkerset.controller.memory import Groups
from regroup.leaderworkerset.controller.observe import Observer
from regroup.leaderworkerset.controller.ownership import Taken, is_owned, refuse_stranger
from regroup.leaderworkerset.controller.statuses import Statuses
from regroup.leaderworkerset.controller.stores import BY_LWS, Stores
from regroup.leaderworkerset.controller.telling import Teller
from regroup.leaderworkerset.controller.workloads import Workloads
from regroup.leaderworkerset.groups import budget
from regroup.leaderworkerset.groups.census import counter_room, owned_counters
from regroup.leaderworkerset.keys import RESTART_COUNTS, REVISION
from regroup.leaderworkerset.objects import gang, revision, rollout
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.status.facts import Summary, summarize
from regroup.leaderworkerset.status.hashed import WantedHash, tally_hash
from regroup.leaderworkerset.status.ordinal import GroupFacts, Tally, Wanted, tally
from regroup.leaderworkerset.view import GroupKey
from regroup.runtime.clock import Clock
from regroup.runtime.controller import Result
from regroup.runtime.events import EventType
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, Conflict, NotFound

Key = tuple[str, str]

_DELETING_AGAIN = 5.0
"""Seconds until another look while the leader set is being deleted (6.10)."""
_BEHIND = 0.5
"""Seconds until another look should the event of an own write get lost."""
_TAKEN_AGAIN = 10.0
"""Seconds until another look while a stranger has a name that we need."""


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
        teller: Teller,
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
        self._teller = teller
        self._leader_sets = LeaderSets(client, stores=stores, expectations=expectations, teller=teller)
        self._deployments = LeaderDeployments(client, stores=stores, expectations=expectations, teller=teller)
        self._statuses = statuses
        self._workloads = workloads
        self._told: dict[Key, str] = {}
        self._facts_of: dict[Key, dict[str, tuple[Summary, str, GroupFacts]]] = {}
        """What each group amounts to, with the summary and the revision that it rests on: most groups stay as they are."""
        self._matched: dict[Key, tuple[object, ControllerRevision | None]] = {}
        """The revision that a spec was found to be at, with what that rests on."""

    async def look(self, key: Key) -> Result:
        """One pass. Raises ``WireError`` for what must be tried again with back-off."""
        lws = self._stores.lws.get(*key)
        if lws is None:
            self._forget(key)
            return Result()
        if lws.metadata.deleting:
            return Result()  # garbage collection has it; groups see to their own leave-taking (6.10, B28)
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
        existing = self._deployments.find(lws) if lws.hash_mode else self._leader_sets.find(lws)
        if existing is not None and existing.metadata.deleting:
            return Result(requeue_after=_DELETING_AGAIN)
        current, is_new = await self._revision(key, lws, existing)
        await self._service(key, lws)
        self._told.pop(key, None)
        facts = self._facts(key, current)
        placing = await self._workloads.keep(key, lws, count=self._gang_of_all(lws, facts))
        also = [placing.condition] if placing.condition is not None else []
        leaders: LeaderWorkload | None
        if lws.hash_mode:
            leaders = deployment = await self._deployments.bring(key, lws, current=current, workload=placing.workload)
            result = self._tally_hash(lws, facts, deployment, current=current, also=also)
        else:
            leaders = await self._leader_sets.roll(
                key, lws, current=current, is_new=is_new, facts=facts, workload=placing.workload
            )
            result = self._tally(lws, facts, also=also)
        again = await self._statuses.write(lws, result, replicas=leaders.status.replicas if leaders is not None else 0)
        if leaders is not None:
            await self._clean_up(lws, leaders, current=current, done=result.update_done)
        times = [time for time in (again, placing.again) if time is not None]
        return Result(requeue_after=min(times, default=None))

    def _tally(self, lws: LeaderWorkerSet, facts: Sequence[GroupFacts], *, also: Sequence[Condition]) -> Tally:
        wanted = Wanted(lws.spec.replicas, lws.spec.rollout_strategy.rolling_update.partition, lws.metadata.generation)
        return tally(wanted, facts, old=lws.status.conditions, now=self._clock.now(), also=also)

    def _tally_hash(
        self,
        lws: LeaderWorkerSet,
        facts: Sequence[GroupFacts],
        deployment: Deployment | None,
        *,
        current: str,
        also: Sequence[Condition],
    ) -> Tally:
        rolling = any(revision.revision_key(one) != current for one in self._revisions(lws))
        wanted = WantedHash(lws.spec.replicas, lws.metadata.generation, revision=current, rolling=rolling)
        report = report_of(deployment) if deployment is not None else None
        return tally_hash(wanted, facts, report, old=lws.status.conditions, now=self._clock.now(), also=also)

    def _forget(self, key: Key) -> None:
        self._expectations.forget(key)
        self._statuses.forget(key)
        self._workloads.forget(key)
        self._leader_sets.forget(key)
        self._deployments.forget(key)
        self._told.pop(key, None)
        self._matched.pop(key, None)
        self._facts_of.pop(key, None)

    # -- revision

    async def _revision(self, key: Key, lws: LeaderWorkerSet, leaders: LeaderWorkload | None) -> tuple[str, bool]:
        """The key of the revision that the spec is at, made if need be, and whether it is new (3.5, 6.1)."""
        known = self._revisions(lws)
        found = self._matching(key, lws, known)
        if found is not None:
            current = revision.revision_key(found)
            carried = leaders.metadata.labels.get(REVISION, "") if leaders is not None else current
            return current, carried != current
        data = revision.revision_data(lws)
        name = revision.revision_hash(data)
        lost = leaders.metadata.labels.get(REVISION, "") if leaders is not None else ""
        if lost and all(revision.revision_key(one) != lost for one in known) and self._as_before(lws, leaders, lost):
            name = lost  # the object of the revision that everything runs at was deleted: made again under its key (C93)
        body = objects.revision_object(lws, data=data, key=name, number=revision.next_number(known))
        try:
            made = await self._client.create(CONTROLLER_REVISIONS, body, namespace=lws.namespace, type=ControllerRevision)
        except AlreadyExists:
            made = await self._client.get(
                CONTROLLER_REVISIONS, body["metadata"]["name"], namespace=lws.namespace, type=ControllerRevision
            )
            refuse_stranger(made, lws, kind="ControllerRevision")
        self._expectations.expect_created(key, uid=made.metadata.uid, by_uid=self._stores.revisions.by_uid)
        self._tell(lws, "Normal", "CreatingRevision", f"Created revision {name}")
        return name, leaders is not None and name != lost

    def _matching(self, key: Key, lws: LeaderWorkerSet, known: Sequence[ControllerRevision]) -> ControllerRevision | None:
        """The revision that the spec is at. Compared once for each version of both: specs are large."""
        seen = (lws.metadata.uid, lws.metadata.generation, [(one.metadata.uid, one.metadata.resource_version) for one in known])
        before = self._matched.get(key)
        if before is None or before[0] != seen:
            before = (seen, revision.find_revision(lws, known))
            self._matched[key] = before
        return before[1]

    def _as_before(self, lws: LeaderWorkerSet, leaders: LeaderWorkload | None, carried: str) -> bool:
        """Whether the leaders' template is what the spec asks for, revision label apart."""
        if isinstance(leaders, Deployment):
            return self._deployments.as_before(lws, leaders, revision=carried)
        return leaders is not None and self._leader_sets.as_before(lws, leaders, revision=carried)

    def _revisions(self, lws: LeaderWorkerSet) -> list[ControllerRevision]:
        return [found for found in self._stores.revisions.index(BY_LWS, f"{lws.namespace}/{lws.name}") if is_owned(found, lws)]

    # -- Service

    async def _service(self, key: Key, lws: LeaderWorkerSet) -> None:
        """The shared headless Service (3.4)."""
        if lws.spec.subdomain_policy != SHARED:
            return
        found = self._stores.services.get(lws.namespace, lws.name)
        if found is None:
            wanted = objects.shared_service(lws)
            try:
                found = await self._client.create(SERVICES, wanted, namespace=lws.namespace, type=Service)
            except AlreadyExists:
                # Not in our cache: it lacks our label, so it is somebody else's, or the cache is behind.
                found = await self._client.get(SERVICES, lws.name, namespace=lws.namespace, type=Service)
            if is_owned(found, lws):
                self._expectations.expect_created(key, uid=found.metadata.uid, by_uid=self._stores.services.by_uid)
        if not is_owned(found, lws):
            raise Taken(f"Service {lws.name} exists and belongs to somebody else")

    # -- groups, clean-up

    def _gang_of_all(self, lws: LeaderWorkerSet, facts: Sequence[GroupFacts]) -> int:
        """Pods that a gang of all replicas can count on (3.6)."""
        if gang.used_level(lws) is not gang.Level.ALL:
            return 1
        known = (self._observer.at_revision(lws, revision.revision_key(one)) for one in self._revisions(lws))
        sizes = {lws.template.size, *(one.template.size for one in known if one is not None)}
        return gang.members_of_all(replicas=lws.spec.replicas, lost=sum(one.exhausted for one in facts), sizes=sizes)

    def _facts(self, key: Key, current: str) -> list[GroupFacts]:
        before, now = self._facts_of.get(key, {}), {}
        facts = []
        for index, summary in sorted(self._groups.of(*key).items()):
            known = summary if summary is not None else self._work_out(key, index)
            if known is None:
                continue
            kept = before.get(index)
            if kept is None or kept[0] is not known or kept[1] != current:
                kept = (known, current, known.facts(revision=current))
            now[index] = kept
            facts.append(kept[2])
        self._facts_of[key] = now
        return facts

    def _work_out(self, key: Key, index: str) -> Summary | None:
        """A group that was not looked at yet, as after a start."""
        return summarize(self._observer.group(GroupKey(*key, index)), now=self._clock.now())

    async def _clean_up(self, lws: LeaderWorkerSet, leaders: LeaderWorkload, *, current: str, done: bool) -> None:
        """Old revisions and counters, once nothing needs them (3.5, 5.5). ``done``: nothing is left of earlier revisions."""
        limit = max(leaders.replicas, lws.spec.replicas)
        await self._workloads.clean_up(lws, current=current, replicas=limit)
        if lws.metadata.annotations.get(RESTART_COUNTS):
            await self._prune_counters(lws, limit, current=current, done=done)
        if not done:
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
        census = self._observer.leaders.census(lws) if lws.hash_mode else None

        def change(counts: dict[str, int], counted: dict[str, str]) -> tuple[dict[str, int], dict[str, str]]:
            if census is None:
                kept = budget.pruned(counts, replicas=replicas, revision=current, update_done=done)
            else:
                surge = rollout.scaled(lws.spec.rollout_strategy.rolling_update.max_surge, lws.spec.replicas, up=True)
                room = counter_room(census, current, surge=surge)
                kept = budget.pruned_hash(counts, revision=current, owned=owned_counters(census), room=room, update_done=done)
            return kept, {name: digest for name, digest in counted.items() if name in kept}

        try:
            # Once: the census is of this moment, and must not judge what others write meanwhile.
            written = await self._counters.change(lws, change, attempts=1)
        except budget.CorruptCounts as error:
            self._tell(lws, "Warning", "FailedRestartCount", str(error))
        except (Conflict, NotFound):
            return  # others write it now: the next pass prunes
        else:
            if written is not lws:
                meta, by_uid = written.metadata, self._stores.lws.by_uid
                key = (lws.namespace, lws.name)
                self._expectations.expect_version(key, uid=meta.uid, resource_version=meta.resource_version, by_uid=by_uid)

    def _tell(self, lws: LeaderWorkerSet, kind: EventType, reason: str, message: str) -> None:
        self._teller.tell(lws, kind, reason, message)
