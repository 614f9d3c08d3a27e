"""One look at one group: observe, decide, confirm on fresh reads where the decision is grave, act (design 3)."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import structlog
from msgspec import structs

from regroup.kube.meta import ObjectView
from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.resources import NAMESPACES, NODES, PODS
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.act import Actor
from regroup.leaderworkerset.controller.gangs import Gangs
from regroup.leaderworkerset.controller.memory import Departures, Groups, Rejections
from regroup.leaderworkerset.controller.observe import Fresh, Observer
from regroup.leaderworkerset.controller.podwrites import Overtaken
from regroup.leaderworkerset.controller.stores import Stores
from regroup.leaderworkerset.controller.tallies import Tallies
from regroup.leaderworkerset.controller.target import Target
from regroup.leaderworkerset.groups import pacing
from regroup.leaderworkerset.groups.decide import RETAINED, decide
from regroup.leaderworkerset.groups.decisions import (
    Admit,
    CreateWorkers,
    Decision,
    Defer,
    Force,
    PodId,
    Stay,
    Wait,
    needs_fresh_reads,
)
from regroup.leaderworkerset.keys import GATE, LEADERWORKERSETS
from regroup.leaderworkerset.status.facts import is_ready, summarize
from regroup.leaderworkerset.view import GroupKey, GroupView, is_hash_key
from regroup.runtime.clock import Clock
from regroup.runtime.controller import Result
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import Forbidden, NotFound
from regroup.wire.resource import Resource

T = TypeVar("T")

_SOON = 1.0
"""Seconds until another look where the cluster was faster than our cache, or where a name is still taken."""
_LONG = 20.0
"""Seconds after which a worker pod that is not made is looked into."""
_RETAINED_LOOK = 30.0
"""Seconds between two looks at the namespace of retained groups."""
_BEHIND = 0.5
_FALLBACK = 10.0
"""Seconds until a group that waits for others is looked at again even if no event comes (4.3)."""


_REMEMBERED = 4096
"""Groups whose last admission is kept: those that were let in last."""
_POLLED = frozenset({"lws 3.3", "lws 3.4", "lws 3.6", "lws 4.4", "lws 4.5.2", "lws 4.5.3", "lws 5.9"})
"""Rules whose waits end with an event that may be about an object that we do not watch."""


class GroupLooks:
    """The group controller's pass. A key is never in two hands, so nothing of one group runs beside itself."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        stores: Stores,
        observer: Observer,
        departures: Departures,
        groups: Groups,
        actor: Actor,
        expectations: Expectations[GroupKey],
        on_change: Callable[[str, str], None],
        tallies: Tallies,
        gangs: Gangs,
        rejections: Rejections,
    ) -> None:
        self._client = client
        self._rejections = rejections
        self._clock = clock
        self._stores = stores
        self._observer = observer
        self._departures = departures
        self._groups = groups
        self._actor = actor
        self._expectations = expectations
        self._on_change = on_change
        self._tallies = tallies
        self._gangs = gangs
        self._told: dict[GroupKey, tuple[str, str]] = {}
        self._missing: dict[GroupKey, float] = {}
        self._asked: dict[str, float] = {}
        """When a namespace with a retained group was seen to stay."""
        self._admitted: OrderedDict[GroupKey, pacing.Admitted] = OrderedDict()
        self._log = structlog.get_logger("leaderworkerset.group")

    def forget(self, namespace: str, lws: str) -> None:
        """The LeaderWorkerSet is gone."""
        for key in [key for key in self._admitted if (key.namespace, key.lws) == (namespace, lws)]:
            del self._admitted[key]

    async def look(self, key: GroupKey) -> Result:
        """One look. Raises ``WireError`` for what must be tried again with back-off."""
        if not self._expectations.satisfied(key):
            # Our own last writes do not show in the cache yet. Their events bring the key back; the time is for a lost one.
            return Result(requeue_after=_BEHIND)
        await self._gangs.ready()
        view = self._observer.group(key)
        now = self._clock.now()
        self._summarize(view)
        if view.not_before is not None and is_ready(view):
            self._rejections.over(key)
        decision = decide(view, now)
        lws = self._stores.lws.get(key.namespace, key.lws)
        if needs_fresh_reads(decision):
            fresh = await self._read(view, decision)
            if _uid(fresh.leader) != _uid(view.leader):
                # Gone or replaced: what was judged does not exist any more (5.2 step 6). The cache will show it.
                return Result(requeue_after=_SOON)
            lws = fresh.lws
            # Across these reads the cache may have moved on as well: the view is built anew on both.
            view = self._observer.group(key, fresh=fresh)
            decision = decide(view, self._clock.now())
        view, decision = await self._end_with_namespace(view, decision)
        target = Target(view, lws, self._observer.at_revision(lws, view.revision) if lws is not None else None)
        decision = await self._find_squatter(key, decision)
        decision = self._paced(key, decision, target)
        try:
            await self._act(key, decision, target)
        except Overtaken as error:
            self._log.info("overtaken", group=str(key), decision=decision.name, why=str(error))
            return Result(requeue_after=_SOON)
        if _judged(view, decision):
            self._departures.settle(key, view.departed)
        return self._again(decision)

    async def _go_on(self, key: GroupKey, target: Target) -> None:
        """The leader was let in: its workers are made at once, not when the cache shows the lifted gate."""
        # Across the write the cache may have moved on: the view is built anew, with the leader as that write left it.
        view = self._observer.group(key, fresh=Fresh(target.lws, without_gate(target.leader)))
        decision = decide(view, self._clock.now())
        if isinstance(decision, CreateWorkers):
            await self._act(key, decision, replace(target, view=view))

    async def _act(self, key: GroupKey, decision: Decision, target: Target) -> None:
        if isinstance(decision, Wait):
            if self._is_news(key, decision):
                await self._actor.carry_out(decision, target)
            return
        held = self._told.pop(key, None)
        if isinstance(decision, Stay) or (isinstance(decision, Defer) and decision.marked):
            return
        self._log.info(
            "decision", group=str(key), decision=decision.name, rule=decision.rule, why=decision.why, facts=list(decision.facts)
        )
        await self._actor.carry_out(decision, target)
        if isinstance(decision, Admit) and held is not None and held[0] == "GroupReplacementDeferred":
            self._actor.tell_admitted(target, why=decision.why)
        self._tallies.count(key, decision)
        if isinstance(decision, Admit):
            await self._go_on(key, target)

    async def _end_with_namespace(self, view: GroupView, decision: Decision) -> tuple[GroupView, Decision]:
        """A retained group goes with its namespace (5.6.5). Kubernetes takes all pods out of a namespace before it deletes
        anything else there, so retained pods and their LeaderWorkerSet would wait for each other for ever."""
        namespace, now = view.key.namespace, self._clock.monotonic()
        if decision.rule != RETAINED or view.owner is None or now - self._asked.get(namespace, -_RETAINED_LOOK) < _RETAINED_LOOK:
            return view, decision
        try:
            found = await self._get(NAMESPACES, namespace, ObjectView)
        except Forbidden:  # rights of an earlier version: then a person has to delete the LeaderWorkerSet first
            found = None
        if found is None or not found.metadata.deleting:
            self._asked = {name: at for name, at in self._asked.items() if now - at < _RETAINED_LOOK} | {namespace: now}
            return view, decision
        view = replace(view, owner=replace(view.owner, deleting=True, namespace_deleting=True))
        return view, decide(view, self._clock.now())

    def _paced(self, key: GroupKey, decision: Decision, target: Target) -> Decision:
        """A leader whose predecessors ended the moment they were let in waits a little longer each time (case C136). Kept in
        memory only: after a restart of ours the next one is let in at once."""
        if not isinstance(decision, Admit):
            return decision
        now = self._clock.now()
        before, last = self._predecessor(key)
        until = pacing.hold_until(last, target.leader, now=now)
        if until is not None:
            why = f"{last.quick + 1 if last is not None else 1} leader(s) in a row ended the moment they started"
            return Wait(rule="case C136", why=why, event="GroupReplacementDeferred", pod=decision.leader, again_at=until)
        self._admitted.pop(before, None)
        self._admitted[key] = pacing.admitted(last, target.leader, now=now)
        while len(self._admitted) > _REMEMBERED:
            self._admitted.popitem(last=False)
        return decision

    def _predecessor(self, key: GroupKey) -> tuple[GroupKey, pacing.Admitted | None]:
        """The leader that was let in before this one: of the same index, or in Hash mode, where each has a new key, the last one
        of the LeaderWorkerSet that has ended."""
        own = self._admitted.get(key)
        if own is not None or not is_hash_key(key.index):
            return key, own
        owner = (key.namespace, key.lws)
        gone = [
            (one, last)
            for one, last in self._admitted.items()
            if (one.namespace, one.lws) == owner and self._ended(last.leader_uid)
        ]
        return max(gone, key=lambda found: found[1].at, default=(key, None))

    def _ended(self, uid: str) -> bool:
        pod = self._stores.pods.by_uid(uid)
        return pod is None or pod.deleting or pod.terminal

    async def _find_squatter(self, key: GroupKey, decision: Decision) -> Decision:
        """A member that its set cannot make for long: look once a while whether a stranger has its name (C104). Such a pod need
        not carry our labels, so the cache does not show it. It is told, never touched."""
        if not isinstance(decision, Wait) or not decision.missing:
            self._missing.pop(key, None)
            return decision
        now = self._clock.monotonic()
        since = self._missing.setdefault(key, now)
        if now - since < _LONG:
            return decision
        name = decision.missing[0]
        pod = await self._get(PODS, name, Pod, namespace=key.namespace)
        if pod is None or self._stores.pods.by_uid(pod.metadata.uid) is not None:
            return decision
        why = f"pod {name} exists and is not part of group {key.index}: its worker cannot be made"
        return replace(decision, why=why, event="FailedCreate", warning=True, pod=PodId(name, pod.metadata.uid))

    def _is_news(self, key: GroupKey, decision: Wait) -> bool:
        """Whether this episode of waiting was not told yet; a new reason or another pod is a new episode."""
        if not decision.event:
            return False
        episode = (decision.event, decision.pod.uid if decision.pod is not None else decision.why)
        if self._told.get(key) == episode:
            return False
        self._told[key] = episode
        return True

    async def _read(self, view: GroupView, decision: Decision) -> Fresh:
        """The LeaderWorkerSet, the leader and, before a pod is forced, its node, as the API server has them now (8.4)."""
        key = view.key
        name = view.leader.metadata.name if view.leader is not None else ""
        node_name = decision.node if isinstance(decision, Force) else ""
        lws, leader, node = await asyncio.gather(
            self._get(LEADERWORKERSETS, key.lws, LeaderWorkerSet, namespace=key.namespace),
            self._get(PODS, name, Pod, namespace=key.namespace),
            self._get(NODES, node_name, Node),
        )
        return Fresh(lws, leader, {node_name: node} if node_name else {})

    async def _get(self, resource: Resource, name: str, kind: type[T], *, namespace: str | None = None) -> T | None:
        if not name:
            return None
        try:
            return await self._client.get(resource, name, namespace=namespace, type=kind)
        except NotFound:
            return None

    def _summarize(self, view: GroupView) -> None:
        summary = summarize(view, now=self._clock.now())
        if self._groups.put(view.key, summary):
            self._on_change(view.key.namespace, view.key.lws)
        if summary is None:
            self._told.pop(view.key, None)
            self._missing.pop(view.key, None)
            self._expectations.forget(view.key)

    def _again(self, decision: Decision) -> Result:
        if decision.again_at is not None:
            # Never zero: a timer that fires a moment early must come back, not spin (case C38).
            return Result(requeue_after=max(0.01, (decision.again_at - self._clock.now()).total_seconds()))
        if decision.rule == RETAINED:
            return Result(requeue_after=_RETAINED_LOOK)
        if isinstance(decision, Wait) and decision.rule in _POLLED:
            return Result(requeue_after=_FALLBACK)
        return Result()


def _uid(pod: Pod | None) -> str:
    return pod.metadata.uid if pod is not None else ""


def without_gate(leader: Pod) -> Pod:
    """The leader with our gate lifted."""
    gates = tuple(gate for gate in leader.spec.scheduling_gates if gate.name != GATE)
    return structs.replace(leader, spec=structs.replace(leader.spec, raw_scheduling_gates=gates))


def _judged(view: GroupView, decision: Decision) -> bool:
    """Whether the workers that are gone were taken into account, so that they may be forgotten (B2)."""
    unreadable = isinstance(decision, Wait) and decision.rule == "lws 5.5"
    return not unreadable and (view.leader is None or view.rules is not None)
