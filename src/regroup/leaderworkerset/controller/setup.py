"""Wires the LeaderWorkerSet controllers to a manager: informers, indexes, and which change concerns which key
(spec/leaderworkerset.md 8.2). Maps only; what a change means is for the looks to find out.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, NODES, PODS, REPLICASETS, SERVICES, STATEFULSETS
from regroup.kube.workloads import ControllerRevision, Deployment, ReplicaSet, Service, StatefulSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.act import Actor
from regroup.leaderworkerset.controller.counters import Counters
from regroup.leaderworkerset.controller.endings import Endings
from regroup.leaderworkerset.controller.gangs import Gangs
from regroup.leaderworkerset.controller.groups import GroupLooks
from regroup.leaderworkerset.controller.mapping import (
    POD_INDEXES,
    SetKey,
    both,
    group_of,
    leader_set_moved,
    lws_index,
    lws_of,
    lws_of_deployment,
    lws_of_leader_set,
    lws_of_resized,
    lws_of_whole_gang,
    own_key,
    standing,
)
from regroup.leaderworkerset.controller.memory import Departures, Groups, Pace, Rejections
from regroup.leaderworkerset.controller.observe import Observer
from regroup.leaderworkerset.controller.relevance import (
    health_of,
    recounted,
    same_pod,
    same_worker_set,
    says_otherwise,
    unless,
)
from regroup.leaderworkerset.controller.sets import SetPasses
from regroup.leaderworkerset.controller.statuses import Statuses
from regroup.leaderworkerset.controller.stores import BY_GROUP, BY_LEADERS, BY_LWS, BY_NODE, Stores
from regroup.leaderworkerset.controller.tallies import Tallies
from regroup.leaderworkerset.controller.telling import Teller
from regroup.leaderworkerset.controller.workloads import Workloads
from regroup.leaderworkerset.groups.failure import was_refused
from regroup.leaderworkerset.keys import GROUP_INDEX, LEADER, LEADERWORKERSETS, NAME, ROLE, SCHEDULING_LEVEL, WORKER_INDEX
from regroup.leaderworkerset.objects.gang import Level, PodGroup, Provider, Workload
from regroup.leaderworkerset.view import (
    GroupKey,
    NodeLossRule,
    is_exhausted,
    is_gated,
    is_group_index,
    is_hash_key,
    worker_index,
)
from regroup.runtime.cache import Informer
from regroup.runtime.controller import Controller
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.runtime.manager import Manager
from regroup.runtime.metrics import Metrics
from regroup.runtime.store import Change

_REVISIONS = f"{NAME},!{GROUP_INDEX},!{WORKER_INDEX}"
"""Revisions of LeaderWorkerSets. Those of their StatefulSets carry the labels of pods: as many as there are groups, each with a
whole pod template, and each recreation takes one away and makes another."""
_CALM = 0.03
"""Seconds that a change which asks for nothing at once may wait for the next one of its group."""

_PASS_INTERVAL = 0.1
"""Seconds between two passes over one LeaderWorkerSet on account of its groups: a storm in a thousand groups is looked at as a
whole a few times a second, not a thousand times."""
_PASS_INTERVAL_PER_GROUP = 0.0002
"""Seconds more for each group: a pass reads them all."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an administrator chooses. Times in seconds."""

    node_loss_grace: float = 60.0
    """How long a node must be lost before a member that is stuck on it is forced (Q29); 0 means never."""
    workers: int = 8
    """Groups that are worked on at the same time."""
    status_interval: float = 0.25
    """Least time between two writes of one status."""
    scheduler_provider: Provider = Provider.NONE
    """Who schedules gangs."""


def setup(
    manager: Manager,
    *,
    recorder: EventRecorder,
    settings: Settings,
    metrics: Metrics | None = None,
    rng: random.Random | None = None,
) -> "Wiring":
    """Add both controllers to ``manager``."""
    return Wiring(manager, recorder=recorder, settings=settings, metrics=metrics, rng=rng or manager.rng)


class Wiring:
    """The two controllers, and the handlers that give them their keys."""

    def __init__(
        self, manager: Manager, *, recorder: EventRecorder, settings: Settings, metrics: Metrics | None, rng: random.Random
    ) -> None:
        cache, client, clock = manager.cache, manager.client, manager.clock
        self._clock = clock
        lws = cache.informer(LEADERWORKERSETS, type=LeaderWorkerSet)
        self._pods = pods = cache.informer(PODS, type=Pod, label_selector=NAME, indexers=POD_INDEXES)
        sets = cache.informer(STATEFULSETS, type=StatefulSet, label_selector=NAME)
        deployments = cache.informer(DEPLOYMENTS, type=Deployment, label_selector=NAME)
        replica_sets = cache.informer(REPLICASETS, type=ReplicaSet, label_selector=NAME, indexers={BY_LWS: lws_index})
        services = cache.informer(SERVICES, type=Service, label_selector=NAME)
        revisions = cache.informer(
            CONTROLLER_REVISIONS, type=ControllerRevision, label_selector=_REVISIONS, indexers={BY_LWS: lws_index}
        )
        nodes = cache.informer(NODES, type=Node)
        self._stores = Stores(
            lws=lws.store,
            pods=pods.store,
            sets=sets.store,
            deployments=deployments.store,
            replica_sets=replica_sets.store,
            services=services.store,
            revisions=revisions.store,
            nodes=nodes.store,
        )
        self._departures = Departures()
        self._groups = Groups()
        self._rejections = Rejections()
        self._pace: Pace[SetKey] = Pace(clock=clock)
        self._gangs = Gangs(
            client,
            cache,
            provider=settings.scheduler_provider,
            clock=clock,
            namespaces=manager.namespaces,
            on_served=self._gangs_served,
        )
        endings = Endings(client, clock=clock, on_told=self._told)
        manager.add(endings.run, name="endings")
        self._observer = Observer(
            self._stores,
            self._departures,
            self._groups,
            node_loss=NodeLossRule(settings.node_loss_grace),
            gangs=self._gangs,
            rejections=self._rejections,
            telling=endings.tells,
        )
        self._tallies = Tallies(metrics, exhausted=self._groups.exhausted)
        counters = Counters(client, rng=rng)
        group_writes: Expectations[GroupKey] = Expectations(clock=clock)
        set_writes: Expectations[SetKey] = Expectations(clock=clock)
        self._looks = GroupLooks(
            client,
            clock=clock,
            stores=self._stores,
            observer=self._observer,
            departures=self._departures,
            groups=self._groups,
            actor=Actor(
                client,
                recorder=recorder,
                counters=counters,
                stores=self._stores,
                expectations=group_writes,
                gangs=self._gangs,
                clock=clock,
                endings=endings,
            ),
            expectations=group_writes,
            on_change=self._group_changed,
            tallies=self._tallies,
            gangs=self._gangs,
            rejections=self._rejections,
        )
        passes = SetPasses(
            client,
            clock=clock,
            stores=self._stores,
            observer=self._observer,
            groups=self._groups,
            counters=counters,
            expectations=set_writes,
            teller=Teller(recorder),
            statuses=Statuses(
                client,
                clock=clock,
                expectations=set_writes,
                stores=self._stores,
                recorder=recorder,
                interval=settings.status_interval,
            ),
            workloads=Workloads(client, gangs=self._gangs, stores=self._stores, expectations=set_writes, recorder=recorder),
        )
        self.groups: Controller[GroupKey] = Controller(
            "lws-group", self._looks.look, clock=clock, workers=settings.workers, metrics=metrics
        )
        self.sets: Controller[SetKey] = Controller(
            "lws", passes.look, clock=clock, workers=max(1, settings.workers // 2), metrics=metrics
        )
        self.groups.watches(pods, unless(same_pod, self._groups_of_pod))
        self.groups.watches(sets, self._groups_of_set)
        self.groups.watches(lws, self._groups_of_lws)
        self.groups.watches(deployments, self._groups_of_deployment)
        self.groups.watches(services, self._groups_of_service)
        self.groups.watches(revisions, self._groups_of_revision)
        self.groups.watches(nodes, self._groups_of_node)
        self.sets.watches(lws, own_key)
        self.sets.watches(sets, lws_of_leader_set)
        self.sets.watches(deployments, lws_of_deployment)
        self.sets.watches(replica_sets, lws_of_resized)
        self.sets.watches(services, lws_of)
        self.sets.watches(revisions, lws_of)
        manager.add_controller(self.groups)
        manager.add_controller(self.sets)

    def _gangs_served(self, groups: Informer[PodGroup], workloads: Informer[Workload] | None) -> None:
        """The cluster serves what gangs are placed by: changes of it concern groups and LeaderWorkerSets from now on."""
        self.groups.watches(groups, self._groups_of_pod_group)
        self.sets.watches(groups, lws_of_whole_gang)
        if workloads is not None:
            self.sets.watches(workloads, lws_of)
            self.groups.watches(workloads, self._groups_of_workload)

    def _told(self, key: GroupKey) -> None:
        self.groups.queue.add(key)

    def _group_changed(self, namespace: str, name: str) -> None:
        """A group amounts to something else: its LeaderWorkerSet is passed over, at once unless it just was."""
        key = (namespace, name)
        interval = _PASS_INTERVAL + _PASS_INTERVAL_PER_GROUP * len(self._groups.of(namespace, name))
        self.sets.queue.add_after(key, self._pace.wait(key, interval=interval))

    # -- which groups a change concerns

    def _groups_of_pod(self, change: Change[Pod]) -> Iterable[GroupKey]:
        for pod in both(change):
            key = group_of(pod)
            if key is None:
                continue
            if change.new is None and worker_index(pod) > 0:
                # The chain is resolved now, while its set is most likely still there (8.3).
                self._departures.add(key, pod, leader_uid=self._observer.chain_end(pod), at=self._clock.now())
            if is_hash_key(key.index) and was_refused(pod):
                # Noted now: by the next look another group may be in its place.
                self._rejections.note(key, now=self._clock.now())
            self._groups.note(key)
            if self._pods.synced and self._can_wait(change, key):
                self.groups.queue.add_after(key, _CALM)
                continue
            yield key
            if is_hash_key(key.index) and self._moves_others(change, key):
                yield from self._dependent_groups(key.namespace, key.lws)

    def _can_wait(self, change: Change[Pod], key: GroupKey) -> bool:
        """Whether a change of a worker asks for nothing at once, so that one look serves for several such: it is made, placed or
        gets ready, or it goes with a group that is on its way out already and is not the last of it (4.4, 5.1). Hash groups tell
        their Deployments about their workers, and their leaders' turns depend on each other: they never wait."""
        pod = change.object
        if worker_index(pod) < 1 or is_hash_key(key.index):
            return False
        if change.new is not None and not pod.deleting:
            return not pod.terminal and pod.restarts <= (change.old.restarts if change.old is not None else 0)
        members = self._stores.pods.index(BY_GROUP, str(key))
        leader = next((one for one in members if worker_index(one) == 0), None)
        if leader is None or leader.deleting:
            return True
        return is_gated(leader) and len(members) > 1

    def _moves_others(self, change: Change[Pod], key: GroupKey) -> bool:
        """Whether places, turns or counters of other Hash groups may be different now (4.5): a leader came, went or changed its
        standing, or the last pod of a group is gone."""
        old, new = change.old, change.new
        if worker_index(change.object) != 0:
            return new is None and not self._stores.pods.index(BY_GROUP, str(key))
        return old is None or new is None or standing(old) != standing(new)

    def _dependent_groups(self, namespace: str, name: str) -> Iterable[GroupKey]:
        """Hash groups whose leader waits for its turn or is retained."""
        for pod in self._stores.pods.index(BY_LEADERS, f"{namespace}/{name}"):
            key = group_of(pod)
            if key is not None and (is_gated(pod) or is_exhausted(pod)):
                yield key

    def _groups_of_deployment(self, change: Change[Deployment]) -> Iterable[GroupKey]:
        """Those that depend on its replicas, revision or existence."""
        if leader_set_moved(change):
            meta = change.object.metadata
            yield from self._dependent_groups(meta.namespace, meta.labels.get(NAME, ""))

    def _groups_of_set(self, change: Change[StatefulSet]) -> Iterable[GroupKey]:
        found = change.new or change.old
        if found is None:
            return
        labels = found.metadata.labels
        if GROUP_INDEX in labels:
            if change.new is None:
                self._observer.forget_set(found.metadata.uid)
            elif change.old is not None and same_worker_set(change.old, change.new):
                return
            key = group_of(found)
            if key is not None:
                self._groups.note(key)
                yield key
        elif labels.get(ROLE) == LEADER and leader_set_moved(change):
            yield from self._groups.keys(found.metadata.namespace, labels.get(NAME, ""))

    def _groups_of_lws(self, change: Change[LeaderWorkerSet]) -> Iterable[GroupKey]:
        """All of them when the spec, the deletion or an annotation changed; a status is our own doing, and of restart counters
        only those that are different."""
        old, new = change.old, change.new
        found = new or old
        if found is None:
            return
        if new is None:
            self._observer.forget(found.metadata.uid)
            self._tallies.forget(found.namespace, found.name)
            self._looks.forget(found.namespace, found.name)
            self._rejections.forget(found.namespace, found.name)
        if old is None or new is None or says_otherwise(old, new) or (indexes := recounted(old, new)) is None:
            yield from self._groups.keys(found.namespace, found.name)
        else:
            yield from (GroupKey(found.namespace, found.name, index) for index in indexes if is_group_index(index))

    def _groups_of_service(self, change: Change[Service]) -> Iterable[GroupKey]:
        """The Service of one replica came or went."""
        if change.old is not None and change.new is not None:
            return
        found = change.object
        index = (found.spec.selector or {}).get(GROUP_INDEX)
        if index:
            yield GroupKey(found.metadata.namespace, found.metadata.labels.get(NAME, ""), index)

    def _groups_of_pod_group(self, change: Change[PodGroup]) -> Iterable[GroupKey]:
        """The PodGroup of a gang came, went or is going."""
        if change.old is None or change.new is None or change.old.metadata.deleting != change.new.metadata.deleting:
            key, meta = group_of(change.object), change.object.metadata
            if key is not None:
                yield key
            elif meta.labels.get(SCHEDULING_LEVEL) == Level.ALL:
                yield from self._groups.keys(meta.namespace, meta.labels.get(NAME, ""))

    def _groups_of_workload(self, change: Change[Workload]) -> Iterable[GroupKey]:
        """Groups that wait for the Workload to appear."""
        if change.new is not None and change.old is None:
            meta = change.new.metadata
            yield from self._groups.keys(meta.namespace, meta.labels.get(NAME, ""))

    def _groups_of_revision(self, change: Change[ControllerRevision]) -> Iterable[GroupKey]:
        """Groups that wait for a revision to appear."""
        if change.new is None or change.old is not None:
            return
        meta = change.new.metadata
        name = meta.labels.get(NAME, "")
        for index, summary in list(self._groups.of(meta.namespace, name).items()):
            if summary is None or not summary.ready:
                yield GroupKey(meta.namespace, name, index)

    def _groups_of_node(self, change: Change[Node]) -> Iterable[GroupKey]:
        """Groups with a member that is leaving a node whose health changed (Q29), or that wait for its labels (3.3)."""
        if change.old is not None and change.new is not None and health_of(change.old) == health_of(change.new):
            return
        found = change.new or change.old
        if found is None:
            return
        for pod in self._stores.pods.index(BY_NODE, found.metadata.name):
            key = group_of(pod)
            if key is not None and (pod.deleting or worker_index(pod) == 0):
                yield key
