"""Builds the view of one group from the cache. Reads stores only: no request is made here, nothing is decided here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from regroup.kube.meta import find_condition
from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.workloads import Deployment, StatefulSet
from regroup.leaderworkerset.api.types import LEADER_READY, UNIQUE_PER_REPLICA, LeaderWorkerSet
from regroup.leaderworkerset.controller.gangs import Gangs
from regroup.leaderworkerset.controller.leaders import Leaders
from regroup.leaderworkerset.controller.memory import Departures, Groups, Memo, Rejections
from regroup.leaderworkerset.controller.stores import BY_GROUP, BY_LWS, Stores
from regroup.leaderworkerset.groups.budget import COUNTED, CorruptCounts, counted_digest, counter_key, parse_counted, parse_counts
from regroup.leaderworkerset.groups.members import MEMBERS_CONDITION, parse_record, recorded_workers
from regroup.leaderworkerset.groups.node_loss import rule_for
from regroup.leaderworkerset.keys import EXCLUSIVE_TOPOLOGY, GROUP_INDEX, LEADER_UID, RESTART_COUNTS, REVISION
from regroup.leaderworkerset.objects import revision
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.objects.identity import hash_host_name, leader_pod_name
from regroup.leaderworkerset.view import (
    Backoff,
    GroupKey,
    GroupView,
    LeaderSet,
    Membership,
    NodeLossRule,
    Owner,
    PodGroups,
    Policy,
    Rules,
    ServiceState,
    WorkerSet,
    by_index,
    classify_worker,
    is_exhausted,
    is_gated,
    is_hash_key,
    revision_of,
    worker_index,
    worker_leader_uid,
)


@dataclass(frozen=True, slots=True)
class Fresh:
    """Objects read from the API server just now, in the place of cached ones. ``leader`` is None when it is gone."""

    lws: LeaderWorkerSet | None
    leader: Pod | None
    nodes: Mapping[str, Node | None] = field(default_factory=dict)
    """By name; None for a node that does not exist."""


class Observer:
    """Views of groups. Keeps only what it worked out from objects that did not change since."""

    def __init__(
        self,
        stores: Stores,
        departures: Departures,
        groups: Groups,
        *,
        node_loss: NodeLossRule,
        gangs: Gangs | None = None,
        rejections: Rejections | None = None,
        telling: Callable[[GroupKey], bool] = lambda _: False,
    ) -> None:
        self._rejections = rejections
        self._telling = telling
        self._stores = stores
        self._gangs = gangs
        self._departures = departures
        self.leaders = Leaders(stores, groups)
        self._node_loss = node_loss
        self._log = structlog.get_logger("leaderworkerset")
        self._counts: Memo[tuple[dict[str, int], str]] = Memo(_read_counts)
        self._counted: Memo[dict[str, str]] = Memo(parse_counted)
        self._records = Memo(parse_record)
        self._restored: dict[str, tuple[int, dict[str, LeaderWorkerSet]]] = {}
        self._drift: dict[str, tuple[int, tuple[str, ...]]] = {}

    def group(self, key: GroupKey, *, fresh: Fresh | None = None) -> GroupView:
        """The group as the cache has it now, with ``fresh`` objects in the place of cached ones."""
        stores = self._stores
        lws = fresh.lws if fresh is not None else stores.lws.get(key.namespace, key.lws)
        hashed = is_hash_key(key.index)
        name = hash_host_name(key.lws, key.index) if hashed else leader_pod_name(key.lws, int(key.index))
        pods = stores.pods.index(BY_GROUP, str(key))
        makes, leader = self.leaders.find(key, pods, lws=lws, name=name)
        if fresh is not None:
            leader = fresh.leader
        set_object = self._worker_set(key, name, leader)
        workers, remnants = self._members(pods, name=name, leader=leader, lws=lws, hashed=hashed)
        revision_key = _revision(leader, set_object)
        at_revision = self.at_revision(lws, revision_key) if lws is not None else None
        rules = rules_of(at_revision, live=lws) if at_revision is not None and lws is not None else None
        topology = self._topology(leader, rules)
        drift: tuple[str, ...] = ()
        if set_object is not None and at_revision is not None:
            drift = self._drift_of(set_object, at_revision, leader, topology)
        count, counted, counter_error = self._counter(lws, key, revision_key, leader)
        return GroupView(
            key=key,
            owner=Owner(lws.metadata.uid, lws.metadata.deleting, lws.spec.replicas) if lws is not None else None,
            rules=rules,
            leader_set=_leader_set_facts(makes),
            leader=leader,
            workers=workers,
            remnants=remnants,
            impostors=_impostors(pods, leader, members=(*workers, *remnants)),
            telling=self._telling(key),
            departed=self._departures.of(key),
            worker_set=WorkerSet(set_object, drift) if set_object is not None else None,
            service=self._service(key, leader, rules),
            pod_groups=self._gangs.state(leader, lws) if self._gangs is not None else PodGroups(),
            nodes=self._nodes((*pods, leader) if leader is not None else pods, fresh),
            node_loss=rule_for(lws.metadata.annotations, default=self._node_loss) if lws is not None else self._node_loss,
            count=count,
            counted=counted,
            counter_error=counter_error,
            recorded_workers=self._recorded(lws, key, leader, set_object),
            topology_value=topology,
            not_before=self._rejections.until(key) if self._rejections is not None else None,
            census=self.leaders.census(lws) if hashed and lws is not None and _needs_census(leader) else None,
        )

    def _worker_set(self, key: GroupKey, name: str, leader: Pod | None) -> StatefulSet | None:
        """The set of that name. Two keys may begin alike: without a leader another group's set is none of ours (4.2)."""
        found = self._stores.sets.get(key.namespace, name)
        if found is not None and leader is None and found.metadata.labels.get(GROUP_INDEX) != key.index:
            return None
        return found

    def _drift_of(
        self, worker_set: StatefulSet, at_revision: LeaderWorkerSet, leader: Pod | None, topology_value: str | None
    ) -> tuple[str, ...]:
        """What somebody changed by hand. Generation 1: nothing was ever changed, which spares almost every comparison."""
        meta = worker_set.metadata
        if leader is None or meta.generation <= 1 or meta.deleting:
            return ()
        known = self._drift.get(meta.uid)
        if known is None or known[0] != meta.generation:
            wanted = objects.worker_set(at_revision, leader=leader, topology_value=topology_value)
            known = (meta.generation, objects.worker_set_drift(worker_set, wanted))
            self._drift[meta.uid] = known
        return known[1]

    def at_revision(self, lws: LeaderWorkerSet, key: str) -> LeaderWorkerSet | None:
        """The LeaderWorkerSet as it was at a revision (5.2, 6.4): the live one for an empty key, None when nobody knows it."""
        if not key:
            return lws
        generation, known = self._restored.get(lws.metadata.uid, (0, {}))
        if generation != lws.metadata.generation:
            known = {}
            self._restored[lws.metadata.uid] = (lws.metadata.generation, known)
        if key in known:
            return known[key]
        for found in self._stores.revisions.index(BY_LWS, f"{lws.metadata.namespace}/{lws.metadata.name}"):
            if found.metadata.labels.get(REVISION) == key and found.metadata.controlled_by(lws.metadata.uid):
                try:
                    known[key] = revision.restore(lws, found)
                except revision.RevisionDamaged as error:
                    self._log.warning("revision cannot be read", lws=lws.metadata.key, revision=key, error=str(error))
                    return None
                return known[key]
        return None

    def forget(self, lws_uid: str) -> None:
        """The LeaderWorkerSet is gone."""
        self._restored.pop(lws_uid, None)
        for memo in (self._counts, self._counted, self._records):
            memo.forget(lws_uid)

    def forget_set(self, uid: str) -> None:
        """The worker set is gone."""
        self._drift.pop(uid, None)

    def counts(self, lws: LeaderWorkerSet) -> tuple[Mapping[str, int], str]:
        """All counters, and why they cannot be read (empty when they can)."""
        return self._counts.of(lws.metadata.uid, lws.metadata.annotations.get(RESTART_COUNTS, ""))

    def _members(
        self, pods: Sequence[Pod], *, name: str, leader: Pod | None, lws: LeaderWorkerSet | None, hashed: bool
    ) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
        """Workers of the current leader, and pods of earlier incarnations; strangers are in neither (C104)."""
        leader_uid = leader.metadata.uid if leader is not None else ""
        lws_uid = lws.metadata.uid if lws is not None else ""
        sets = self._owners_of(pods)
        members, remnants = [], []
        for pod in pods:
            if pod.metadata.uid == leader_uid:
                continue
            if worker_index(pod) < 1:
                owner = pod.metadata.controller
                if pod.metadata.name == name and owner is not None and owner.kind == "StatefulSet" and owner.name + "-" in name:
                    remnants.append(pod)
                continue
            place = classify_worker(
                pod,
                sets=sets,
                set_name=name,
                leader_uid=leader_uid,
                lws_uid=lws_uid,
                leader_name=None if hashed else name,
            )
            if place is Membership.MEMBER:
                members.append(pod)
            elif place is Membership.REMNANT:
                remnants.append(pod)
        return by_index(members), by_index(remnants)

    def _owners_of(self, pods: Sequence[Pod]) -> dict[str, StatefulSet]:
        uids = {owner.uid for pod in pods if (owner := pod.metadata.controller) is not None}
        found = ((uid, self._stores.sets.by_uid(uid)) for uid in uids)
        return {uid: one for uid, one in found if one is not None}

    def chain_end(self, pod: Pod) -> str:
        """UID that the owner chain of a worker ends at, as far as it can still be followed."""
        return worker_leader_uid(pod, self._owners_of((pod,)))

    def _counter(
        self, lws: LeaderWorkerSet | None, key: GroupKey, revision_key: str, leader: Pod | None
    ) -> tuple[int, bool, str]:
        if lws is None:
            return 0, False, ""
        counts, error = self.counts(lws)
        name = counter_key(revision_key, key.index)
        if error or name not in counts:
            return 0, False, error
        noted = self._counted.of(lws.metadata.uid, lws.metadata.annotations.get(COUNTED, ""))
        return counts[name], leader is not None and noted.get(name) == counted_digest(leader.metadata.uid), ""

    def _recorded(self, lws: LeaderWorkerSet | None, key: GroupKey, leader: Pod | None, worker_set: StatefulSet | None) -> str:
        condition = find_condition(lws.status.conditions, MEMBERS_CONDITION) if lws is not None else None
        if lws is None or condition is None or leader is None or worker_set is None:
            return ""
        return recorded_workers(
            self._records.of(lws.metadata.uid, condition.message),
            index=key.index,
            leader_uid=leader.metadata.uid,
            set_generation=worker_set.metadata.generation,
        )

    def _service(self, key: GroupKey, leader: Pod | None, rules: Rules | None) -> ServiceState:
        if leader is None or rules is None or not rules.service_per_replica:
            return ServiceState.NOT_WANTED
        found = self._stores.services.get(key.namespace, leader.spec.subdomain or leader.metadata.name)
        if found is None:
            return ServiceState.MISSING
        ours = found.metadata.controlled_by(leader.metadata.uid) and not found.metadata.deleting
        return ServiceState.THERE if ours else ServiceState.FOREIGN

    def _nodes(self, pods: Sequence[Pod], fresh: Fresh | None) -> dict[str, Node]:
        nodes = {}
        for pod in pods:
            name = pod.spec.node_name
            node = self._stores.nodes.get("", name) if name else None
            if node is not None:
                nodes[name] = node
        for name, read in fresh.nodes.items() if fresh is not None else ():
            nodes.pop(name, None)
            if read is not None:
                nodes[name] = read
        return nodes

    def _topology(self, leader: Pod | None, rules: Rules | None) -> str | None:
        if leader is None or rules is None or not rules.exclusive_topology:
            return None
        node = self._stores.nodes.get("", leader.spec.node_name) if leader.spec.node_name else None
        return node.metadata.labels.get(rules.exclusive_topology) if node is not None else None


def rules_of(at_revision: LeaderWorkerSet, *, live: LeaderWorkerSet) -> Rules:
    """What governs a group: its template and network from its own revision, the knobs from the live object (3.5, 5.2)."""
    template, knobs = at_revision.template, live.template
    backoff = knobs.restart_backoff
    policy = Policy(template.restart_policy)
    return Rules(
        policy=policy,
        size=template.size,
        guard_start=at_revision.guards_start,
        max_restarts=knobs.max_group_restarts,
        backoff=Backoff(backoff.base, backoff.cap) if backoff is not None else None,
        leader_ready_first=live.spec.startup_policy == LEADER_READY,
        parallel=live.parallel,
        service_per_replica=at_revision.spec.subdomain_policy == UNIQUE_PER_REPLICA,
        exclusive_topology=live.metadata.annotations.get(EXCLUSIVE_TOPOLOGY, ""),
    )


def _impostors(pods: Sequence[Pod], leader: Pod | None, *, members: Sequence[Pod]) -> bool:
    """Whether somebody else's pod carries this incarnation's label."""
    if leader is None:
        return False
    ours = {pod.metadata.uid for pod in members}
    uid = leader.metadata.uid
    return any(pod.metadata.labels.get(LEADER_UID) == uid and pod.metadata.uid not in ours for pod in pods)


def _revision(leader: Pod | None, worker_set: StatefulSet | None) -> str:
    """The revision that the group was built from: the leader's, else that of the workers that outlived it."""
    if leader is not None:
        return revision_of(leader)
    return worker_set.metadata.labels.get(REVISION, "") if worker_set is not None else ""


def _leader_set_facts(found: StatefulSet | Deployment | None) -> LeaderSet | None:
    if found is None:
        return None
    meta = found.metadata
    partition = found.partition if isinstance(found, StatefulSet) else 0
    return LeaderSet(meta.uid, found.replicas, partition, meta.labels.get(REVISION, ""), meta.deleting)


def _needs_census(leader: Pod | None) -> bool:
    """Only a leader that waits for its turn or is retained depends on other groups."""
    return leader is not None and (is_gated(leader) or is_exhausted(leader))


def _read_counts(text: str) -> tuple[dict[str, int], str]:
    try:
        return parse_counts(text), ""
    except CorruptCounts as error:
        return {}, str(error)
