"""Reads one LeaderWorkerSet and all that belongs to it through a plain client, and explains its groups.

No cache and no memory: what only a running operator knows (workers that are gone, writes of its own that are still on their
way) is not seen here. Reads only.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from regroup.kube.meta import HasMeta
from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, NODES, PODS, REPLICASETS, SERVICES, STATEFULSETS
from regroup.kube.workloads import ControllerRevision, Deployment, ReplicaSet, Service, StatefulSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.gangs import Gangs
from regroup.leaderworkerset.controller.history_query import read_history
from regroup.leaderworkerset.controller.memory import Departures, Groups
from regroup.leaderworkerset.controller.observe import Observer
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.controller.stores import BY_GROUP, BY_LEADERS, BY_LWS, BY_NODE, Stores
from regroup.leaderworkerset.groups.census import by_age
from regroup.leaderworkerset.keys import GROUP_INDEX, LEADERWORKERSETS, NAME
from regroup.leaderworkerset.telling.explain import GroupReport, explain_group
from regroup.leaderworkerset.view import GroupKey, NodeLossRule, is_group_index, is_hash_key, worker_index
from regroup.runtime.clock import SystemClock
from regroup.runtime.store import Store
from regroup.wire.client import Client
from regroup.wire.errors import Forbidden, NotFound

NODES_AT_ONCE = 16
"""Nodes that are read at the same time."""
GROUPS_LIMIT = 10_000
NAMED = 5
"""Pods that a note names at most."""
SHORT_KEY = 4
"""Digits of a group key that are enough to name it."""


class NoSuchGroup(LookupError):
    """The LeaderWorkerSet has no group of that index. The message names those that it has."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the operator sees and would do for each group of one LeaderWorkerSet."""

    namespace: str
    name: str
    replicas: int
    groups: Sequence[GroupReport]
    notes: Sequence[str] = ()
    """What could not be read, and what that means."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "replicas": self.replicas,
            "groups": [group.to_dict() for group in self.groups],
            "notes": list(self.notes),
        }


async def explain(
    client: Client, namespace: str, name: str, *, group: str | None, now: datetime, settings: Settings
) -> Explanation:
    """Explain all groups, or only ``group``. Raises ``WireError`` (``NotFound`` for the LeaderWorkerSet) and ``NoSuchGroup``."""
    lws = await client.get(LEADERWORKERSETS, name, namespace=namespace, type=LeaderWorkerSet)
    stores, notes = await _read(client, lws)
    keys = _keys(stores, lws)
    wanted = keys if group is None else _chosen(keys, group)
    # The reads were one after the other: a group that changed meanwhile can show a mix, which the next call does not.
    gangs = Gangs(client, None, provider=settings.scheduler_provider, clock=SystemClock(), namespaces=[namespace])
    await gangs.read_once(namespace=namespace, label_selector=f"{NAME}={name}")
    groups = Groups()
    for key in keys:
        groups.note(key)
    observer = Observer(stores, Departures(), groups, node_loss=NodeLossRule(settings.node_loss_grace), gangs=gangs)
    reports = [explain_group(observer.group(key), now=now) for key in wanted]
    if any(report.last_failure is None for report in reports):
        reports, told = await _with_past(client, lws, reports)
        notes = [*notes, *told]
    return Explanation(namespace, name, lws.spec.replicas, tuple(reports), notes)


async def _with_past(
    client: Client, lws: LeaderWorkerSet, reports: Sequence[GroupReport]
) -> tuple[list[GroupReport], Sequence[str]]:
    """The last failure of groups whose pods show none, from the events that tell of their recreation."""
    try:
        past = await read_history(client, lws.metadata.namespace, lws.metadata.name, group=None)
    except Forbidden:
        return list(reports), ["events may not be read with these credentials: past failures are not seen"]
    newest = {entry.group: entry for entry in past.entries if entry.failed_at is not None or entry.container}
    return [
        replace(report, last_failure=newest[report.group].failure())
        if report.last_failure is None and report.group in newest
        else report
        for report in reports
    ], []


async def _read(client: Client, lws: LeaderWorkerSet) -> tuple[Stores, list[str]]:
    namespace, selector = lws.metadata.namespace, f"{NAME}={lws.metadata.name}"
    pods, sets, deployments, replica_sets, services, revisions = await asyncio.gather(
        client.list_all(PODS, namespace=namespace, label_selector=selector, type=Pod),
        client.list_all(STATEFULSETS, namespace=namespace, label_selector=selector, type=StatefulSet),
        client.list_all(DEPLOYMENTS, namespace=namespace, label_selector=selector, type=Deployment),
        client.list_all(REPLICASETS, namespace=namespace, label_selector=selector, type=ReplicaSet),
        client.list_all(SERVICES, namespace=namespace, label_selector=selector, type=Service),
        client.list_all(CONTROLLER_REVISIONS, namespace=namespace, label_selector=selector, type=ControllerRevision),
    )
    nodes, notes = await _nodes(client, sorted({pod.spec.node_name for pod in pods.items if pod.spec.node_name}))
    stores = Stores(
        lws=Store(),
        pods=Store(indexers={BY_GROUP: _group_index, BY_NODE: lambda pod: (pod.spec.node_name,), BY_LEADERS: _leader_index}),
        sets=Store(),
        deployments=Store(),
        replica_sets=Store(),
        services=Store(),
        revisions=Store(indexers={BY_LWS: lambda found: (f"{namespace}/{found.metadata.labels.get(NAME, '')}",)}),
        nodes=Store(),
    )
    stores.lws.replace([lws])
    stores.pods.replace(pods.items)
    stores.sets.replace(sets.items)
    stores.deployments.replace(deployments.items)
    stores.replica_sets.replace(replica_sets.items)
    stores.services.replace(services.items)
    stores.revisions.replace(revisions.items)
    stores.nodes.replace(nodes)
    return stores, [*notes, *_without_leader_set(stores, lws), *_without_identity(pods.items)]


def _without_leader_set(stores: Stores, lws: LeaderWorkerSet) -> list[str]:
    """Nothing makes leaders: not yet, or because the API server refused it, which only the events tell (3.1, 3.2)."""
    meta = lws.metadata
    kind, makers = ("Deployment", stores.deployments) if lws.hash_mode else ("StatefulSet", stores.sets)
    found = makers.get(meta.namespace, meta.name)
    if meta.deleting or found is not None:
        return []
    return [f"{kind} {meta.name}, which makes the leaders, does not exist; a FailedCreate event of lws/{meta.name} tells why"]


def _without_identity(pods: Iterable[Pod]) -> list[str]:
    """Pods of which nobody can say what they are: without the webhook they got neither labels nor environment, and the operator
    does not count them (B30, C112)."""
    names = sorted(pod.metadata.name for pod in pods if GROUP_INDEX not in pod.metadata.labels)
    if not names:
        return []
    some = f"{', '.join(names[:NAMED])}{f' and {len(names) - NAMED} more' if len(names) > NAMED else ''}"
    return [f"made while the operator's webhook was not registered, so of no group until deleted and made anew: {some}"]


async def _nodes(client: Client, names: Sequence[str]) -> tuple[list[Node], list[str]]:
    """The nodes that still exist. Whoever may not read nodes gets the rest of the explanation."""
    few = asyncio.Semaphore(NODES_AT_ONCE)

    async def one(name: str) -> Node | None:
        async with few:
            try:
                return await client.get(NODES, name, type=Node)
            except NotFound:
                return None

    try:
        found = await asyncio.gather(*(one(name) for name in names))
    except Forbidden:
        return [], ["nodes may not be read with these credentials: lost nodes and exclusive topology are not seen"]
    return [node for node in found if node is not None], []


def _keys(stores: Stores, lws: LeaderWorkerSet) -> list[GroupKey]:
    """The groups that shall be there, and those that still are: in their order, or by the age of their leaders in Hash mode."""
    found: Iterable[HasMeta] = (*stores.pods.values(), *stores.sets.values())
    labels = {one.metadata.labels.get(GROUP_INDEX, "") for one in found}
    namespace, name = lws.metadata.namespace, lws.metadata.name
    if lws.hash_mode:
        leaders = sorted(stores.pods.index(BY_LEADERS, f"{namespace}/{name}"), key=by_age)
        in_order = dict.fromkeys(pod.metadata.labels.get(GROUP_INDEX, "") for pod in leaders)
        keys = [*in_order, *sorted(labels - in_order.keys())]
        return [GroupKey(namespace, name, key) for key in keys if is_hash_key(key)]
    there = {int(label) for label in labels if is_group_index(label) and not is_hash_key(label)}
    wanted = range(min(lws.spec.replicas, GROUPS_LIMIT))
    return [GroupKey(namespace, name, str(index)) for index in sorted(there.union(wanted))]


def _leader_index(pod: Pod) -> Iterable[str]:
    meta = pod.metadata
    return (f"{meta.namespace}/{meta.labels.get(NAME, '')}",) if worker_index(pod) == 0 else ()


def _group_index(pod: Pod) -> Iterable[str]:
    labels = pod.metadata.labels
    return (str(GroupKey(pod.metadata.namespace, labels.get(NAME, ""), labels.get(GROUP_INDEX, ""))),)


def _chosen(keys: Sequence[GroupKey], group: str) -> list[GroupKey]:
    """The group of that index; a Hash key may be cut short, as in host names."""
    found = [key for key in keys if key.index == group]
    if not found and len(group) >= SHORT_KEY:
        found = [key for key in keys if is_hash_key(key.index) and key.index.startswith(group)]
    if found:
        return found
    shown = ", ".join(key.index for key in keys[:20]) or "none"
    raise NoSuchGroup(f"there is no group {group!r}; groups: {shown}{', ...' if len(keys) > 20 else ''}")
