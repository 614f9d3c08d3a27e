"""Views built from the cache: who belongs to a group, at which revision, with which counters."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tests.leaderworkerset.lws_builders import LWS_OWNED, LWS_UID, NOW, node, pod, stateful_set

from regroup.kube.meta import HasMeta
from regroup.kube.pod import Pod
from regroup.kube.workloads import ControllerRevision, Service, StatefulSet
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import LeaderWorkerSet, NetworkConfig, decode
from regroup.leaderworkerset.controller.memory import Departures, Groups, Memo
from regroup.leaderworkerset.controller.observe import Fresh, Observer
from regroup.leaderworkerset.controller.stores import BY_GROUP, BY_LEADERS, BY_LWS, Stores
from regroup.leaderworkerset.groups.budget import COUNTED, counted_digest
from regroup.leaderworkerset.groups.members import MEMBERS_CONDITION, entry_of, format_record
from regroup.leaderworkerset.objects import revision
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.status.facts import Summary
from regroup.leaderworkerset.view import GroupKey, NodeLossRule, Policy, ServiceState, worker_index
from regroup.runtime.store import Store

KEY = GroupKey("t", "demo", "0")


def lws(
    *, uid: str = LWS_UID, generation: int = 1, annotations: dict[str, str] | None = None, **template: Any
) -> LeaderWorkerSet:
    group = {"size": 3, "restartPolicy": "RecreateGroupOnPodRestart", "workerTemplate": {"spec": {"containers": []}}, **template}
    return decode(
        {
            "metadata": {
                "name": "demo",
                "namespace": "t",
                "uid": uid,
                "generation": generation,
                "annotations": annotations or {},
            },
            "spec": {"replicas": 1, "leaderWorkerTemplate": group},
        }
    )


def leader_set(*, uid: str = "leader-set", owner: str = LWS_UID) -> StatefulSet:
    found = stateful_set(0, uid=uid, owner=("LeaderWorkerSet", "demo", owner))
    meta = msgspec.structs.replace(
        found.metadata, name="demo", raw_labels={keys.NAME: "demo", keys.ROLE: "leader", keys.REVISION: "r1"}
    )
    return msgspec.structs.replace(found, metadata=meta)


def revision_of(source: LeaderWorkerSet, key: str = "r1") -> ControllerRevision:
    body = objects.revision_object(source, data=revision.revision_data(source), key=key, number=1)
    body["metadata"]["uid"] = f"revision-{key}"
    return msgspec.convert(body, ControllerRevision)


def _group(found: HasMeta) -> tuple[str, ...]:
    labels = found.metadata.labels
    return (f"t/{labels.get(keys.NAME)}/{labels.get(keys.GROUP_INDEX)}",)


def _lws(found: HasMeta) -> tuple[str, ...]:
    return (f"t/{found.metadata.labels.get(keys.NAME)}",)


def _leaders(found: Pod) -> tuple[str, ...]:
    return _lws(found) if worker_index(found) == 0 else ()


@dataclass
class World:
    """A cache with one complete group in it."""

    departures: Departures = field(default_factory=Departures)
    groups: Groups = field(default_factory=Groups)
    stores: Stores = field(
        default_factory=lambda: Stores(
            lws=Store(),
            pods=Store(indexers={BY_GROUP: _group, BY_LEADERS: _leaders}),
            sets=Store(),
            deployments=Store(),
            replica_sets=Store(),
            services=Store(),
            revisions=Store(indexers={BY_LWS: _lws}),
            nodes=Store(),
        )
    )

    def __post_init__(self) -> None:
        self.observer = Observer(self.stores, self.departures, self.groups, node_loss=NodeLossRule())
        self.put(lws(), leader_set(), stateful_set(), pod(0), pod(1), pod(2), revision_of(lws()), node())

    def put(self, *objects_: Any) -> None:
        places: dict[type[Any], Store[Any]] = {
            LeaderWorkerSet: self.stores.lws,
            Pod: self.stores.pods,
            StatefulSet: self.stores.sets,
            Service: self.stores.services,
            ControllerRevision: self.stores.revisions,
        }
        for one in objects_:
            places.get(type(one), self.stores.nodes).upsert(one)


def names(pods: Any) -> list[str]:
    return [one.metadata.name for one in pods]


def test_a_complete_group() -> None:
    view = World().observer.group(KEY)
    assert view.leader is not None
    assert (view.leader.metadata.uid, names(view.workers), names(view.remnants)) == ("uid-0-0", ["demo-0-1", "demo-0-2"], [])
    assert view.rules is not None
    assert (view.rules.policy, view.rules.size) == (Policy.ON_POD_RESTART, 3)
    assert view.leader_set is not None
    assert list(view.nodes) == ["n1"]


def test_strangers_are_in_no_list() -> None:
    """Case C104: no owner, another LeaderWorkerSet, a leader's name made by somebody else."""
    world = World()
    orphan = pod(1, uid="p1", owner={"kind": "StatefulSet", "name": "demo-0", "uid": "set-0", "controller": False})
    renamed = msgspec.structs.replace(orphan, metadata=msgspec.structs.replace(orphan.metadata, name="p1"))
    world.put(renamed)
    view = world.observer.group(KEY)
    assert "p1" not in {one.metadata.uid for one in view.pods}


@pytest.mark.parametrize("owner", ["another-lws", LWS_UID])
def test_a_leader_set_of_another_leaderworkerset_makes_no_leader(owner: str) -> None:
    """Case C112: names may collide, UIDs do not."""
    world = World()
    world.stores.sets.remove(leader_set())
    world.put(leader_set(uid="other-set", owner=owner))
    view = world.observer.group(KEY)
    assert view.leader is None or owner != LWS_UID
    if owner == LWS_UID:
        assert names(view.remnants) == ["demo-0", "demo-0-1", "demo-0-2"], "the leader of an earlier leader set holds its name"


def test_a_group_is_judged_by_its_own_revision() -> None:
    """Spec 5.2, 6.4, behaviour 46: policy and size of the revision, knobs of the live object; unreadable ones decide nothing."""
    world = World()
    world.put(lws(generation=2, size=5, restartPolicy="None", maxGroupRestarts=3))
    view = world.observer.group(KEY)
    assert view.rules is not None
    assert (view.rules.policy, view.rules.size, view.rules.max_restarts) == (Policy.ON_POD_RESTART, 3, 3)
    world.stores.revisions.replace([])
    world.put(lws(generation=3))
    assert world.observer.group(KEY).rules is None
    damaged = msgspec.structs.replace(revision_of(lws()), data={"spec": 3})
    world.put(damaged)
    assert world.observer.group(KEY).rules is None


def test_counters_belong_to_group_and_revision() -> None:
    """Spec 5.5: and the note that a recreation of this very leader is in the count already."""
    world = World()
    notes = {COUNTED: msgspec.json.encode({"r1/0": counted_digest("uid-0-0")}).decode()}
    world.put(lws(generation=2, annotations={keys.RESTART_COUNTS: '{"r1/0":2,"r0/0":7,"r1/1":5}', **notes}))
    view = world.observer.group(KEY)
    assert (view.count, view.counted, view.counter_error) == (2, True, "")
    world.put(lws(generation=3, annotations={keys.RESTART_COUNTS: "null"}))
    assert "group-restart-counts" in world.observer.group(KEY).counter_error


def test_fresh_objects_take_the_place_of_cached_ones() -> None:
    """Spec 8.4, behaviour 77: a decision on fresh reads sees nothing of the stale cache; a node that is gone is gone."""
    world = World()
    fresh = Fresh(lws(annotations={keys.RESTART_COUNTS: '{"r1/0":1}'}), pod(0, deleted=5), {"n1": None})
    view = world.observer.group(KEY, fresh=fresh)
    assert view.leader is not None
    assert (view.count, view.leader.deleting, dict(view.nodes)) == (1, True, {})


def test_drift_is_looked_for_only_in_sets_that_changed() -> None:
    """Spec Q30, design 8: a set of generation 1 was never touched."""
    world = World()
    world.put(stateful_set(replicas=5, generation=1))
    assert world.observer.group(KEY).worker_set is not None
    assert not world.observer.group(KEY).worker_set.drift  # type: ignore[union-attr]  # just asserted
    world.stores.sets.remove(stateful_set())
    world.put(stateful_set(replicas=5, generation=2))
    assert "spec.replicas" in world.observer.group(KEY).worker_set.drift  # type: ignore[union-attr]  # it is there


def test_none_keeps_its_workers_without_a_leader() -> None:
    """Spec 5.3: between two leaders the workers belong to the LeaderWorkerSet."""
    world = World()
    world.stores.pods.remove(pod(0))
    world.stores.sets.remove(stateful_set())
    world.put(stateful_set(owner=LWS_OWNED))
    view = world.observer.group(KEY)
    assert (view.leader, names(view.workers)) == (None, ["demo-0-1", "demo-0-2"])


def test_what_the_status_remembers() -> None:
    """Own extension B27: only for this leader and this version of the worker set."""
    entry = entry_of("uid-0-0", ["uid-0-1", "uid-0-2"], set_generation=1)
    condition = {"type": MEMBERS_CONDITION, "status": "True", "message": format_record({"0": entry})}
    world = World()
    plain = lws(generation=2)
    status = msgspec.convert({"conditions": [condition]}, type(plain.status))
    world.put(msgspec.structs.replace(plain, raw_status=status))
    assert world.observer.group(KEY).recorded_workers == entry.workers


def test_the_service_of_a_replica() -> None:
    """Spec 3.4: missing, ours, or somebody else's."""
    world = World()
    plain = lws(generation=2)
    network = NetworkConfig(subdomain_policy="UniquePerReplica")
    unique = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, network_config=network))
    world.put(unique)
    world.stores.revisions.replace([revision_of(unique)])
    assert world.observer.group(KEY).service is ServiceState.MISSING
    for owner, expected in (("uid-0-0", ServiceState.THERE), ("earlier", ServiceState.FOREIGN)):
        owners = [{"kind": "Pod", "uid": owner, "controller": True}]
        body = {"metadata": {"name": "demo-0", "namespace": "t", "uid": owner, "ownerReferences": owners}}
        world.stores.services.replace([msgspec.convert(body, Service)])
        assert world.observer.group(KEY).service is expected


class TestMemory:
    """What is kept beside the cache."""

    def test_departures_are_kept_until_settled(self) -> None:
        """B2: what came in during a look is not forgotten with what the look has seen."""
        departures = Departures()
        departures.add(KEY, pod(1, uid="a"), leader_uid="l", at=NOW)
        seen = departures.of(KEY)
        departures.add(KEY, pod(1, uid="b"), leader_uid="l", at=NOW)
        departures.settle(KEY, seen)
        assert [one.pod.metadata.uid for one in departures.of(KEY)] == ["b"]
        departures.settle(KEY, departures.of(KEY))
        assert len(departures) == 0

    def test_groups_know_what_changed(self) -> None:
        groups = Groups()
        groups.note(KEY)
        assert groups.of("t", "demo") == {"0": None}
        assert groups.put(KEY, Summary(0)) is True
        assert groups.put(KEY, Summary(0)) is False
        assert groups.put(KEY, Summary(0, ready=True)) is True
        groups.note(KEY)
        assert groups.of("t", "demo") == {"0": Summary(0, ready=True)}
        assert groups.put(KEY, None) is True
        assert len(groups) == 0

    def test_memo_works_out_each_text_once(self) -> None:
        calls: list[str] = []

        def work(text: str) -> int:
            calls.append(text)
            return len(calls)

        memo = Memo(work)
        assert [memo.of("a", "x"), memo.of("a", "x"), memo.of("a", "y"), memo.of("b", "y")] == [1, 1, 2, 3]
