"""What a client sees of a cluster's objects while controllers work, in words that are the same on every cluster.

Names that controllers make up become numbers in the order of the objects' ages. Of kinds whose status is written as the
controller gets to it only the last state of a step is kept: how many writes it took is not to be compared.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from regroup.kube.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    STATEFULSETS,
)
from regroup.wire.client import Client
from regroup.wire.resource import Resource

Obj = dict[str, Any]
Words = Callable[[Obj], str]
Seen = dict[str, list[str]]
"""By object, what was seen of it."""

SETTLED: frozenset[Resource] = frozenset({DEPLOYMENTS, POD_DISRUPTION_BUDGETS, ENDPOINT_SLICES, STATEFULSETS, NODES})
"""Kinds of which only the last state of a step counts."""
_MADE_UP = re.compile(r"-[a-z0-9]{5}$")


class Witness:
    """Watches kinds in one namespace, from ``start`` to ``stop``."""

    def __init__(self, client: Client, *, namespace: str, kinds: Sequence[Resource]) -> None:
        self._client = client
        self._namespace = namespace
        self._kinds = kinds
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: Seen = {}
        self._last: dict[str, str] = {}
        self._numbers: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._events = 0

    async def start(self) -> None:
        for resource in self._kinds:
            namespace = self._namespace if resource.namespaced else None
            page = await self._client.list_all(resource, namespace=namespace, type=dict)
            self._tasks.append(asyncio.create_task(self._watch(resource, page.resource_version)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def rest(self, *, quiet: float, least: float) -> Seen:
        """What was seen since the last rest, when nothing has been for ``quiet`` seconds and ``least`` have passed."""
        before = -1
        await asyncio.sleep(least)
        while before != self._events:
            before = self._events
            await asyncio.sleep(quiet)
        seen = {name: self._seen[name] for name in sorted(self._seen)}
        self._seen = {}
        return seen

    async def _watch(self, resource: Resource, version: str) -> None:
        namespace = self._namespace if resource.namespaced else None
        async with self._client.watch(
            resource, type=dict, namespace=namespace, resource_version=version, timeout_seconds=3000
        ) as events:
            async for event in events:
                if event.object is not None:
                    self._note(resource, event.type, event.object)

    def _note(self, resource: Resource, kind: str, obj: Obj) -> None:
        if mark := (obj["metadata"].get("labels") or {}).get("pod-template-hash"):
            self._hashes.setdefault(mark, f"<{len(self._hashes) + 1}>")
        words = self._plain("gone" if kind == "DELETED" else WORDS[resource](obj))
        name = self._plain(self._name(resource, obj))
        if words == "" or self._last.get(name) == words:
            return
        self._events += 1
        self._last[name] = words
        kept = self._seen.setdefault(name, [])
        if resource in SETTLED:
            kept.clear()
        kept.append(words)

    def _plain(self, text: str) -> str:
        """``text`` with the hashes of templates, which every cluster makes in its own way, as numbers."""
        for mark, number in self._hashes.items():
            text = text.replace(mark, number)
        return text

    def _name(self, resource: Resource, obj: Obj) -> str:
        meta = obj["metadata"]
        name = str(meta["name"])
        if resource in {PODS, ENDPOINT_SLICES} and (meta.get("generateName") or _MADE_UP.search(name)):
            stem = f"{resource.kind} {_MADE_UP.sub('', name)}"
            if meta["uid"] not in self._numbers:
                count = sum(entry.startswith(f"{stem} #") for entry in self._numbers.values())
                self._numbers[meta["uid"]] = f"{stem} #{count + 1}"
            return self._numbers[meta["uid"]]
        return f"{resource.kind} {name}"


def _going(obj: Obj) -> str:
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp"):
        return ""
    held = list(meta.get("finalizers") or [])
    return f" going{' held by ' + ' '.join(held) if held else ''}"


def _owners(obj: Obj) -> str:
    owners = obj["metadata"].get("ownerReferences") or []
    return "".join(f" of {owner['name']}" for owner in owners)


def _conditions(obj: Obj, *, kinds: Sequence[str] = ()) -> str:
    found = (obj.get("status") or {}).get("conditions") or []
    shown = [
        f"{entry['type']}={entry['status']}{'/' + entry['reason'] if entry.get('reason') else ''}"
        for entry in sorted(found, key=lambda entry: entry["type"])
        if not kinds or entry["type"] in kinds
    ]
    return f" [{' '.join(shown)}]" if shown else ""


def _pod(obj: Obj) -> str:
    image = obj["spec"]["containers"][0]["image"]
    conditions = _conditions(obj, kinds=("Ready", "DisruptionTarget"))
    return f"{obj['status']['phase']} {image}{conditions}{_going(obj)}{_owners(obj)}"


def _replica_set(obj: Obj) -> str:
    # Numbers that only one of two counters has reached yet are left to the next event.
    status = obj.get("status") or {}
    image = obj["spec"]["template"]["spec"]["containers"][0]["image"]
    revision = (obj["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision", "")
    if status.get("observedGeneration") != obj["metadata"]["generation"]:
        return ""
    return f"wants {obj['spec']['replicas']} {image} revision {revision}{_going(obj)}{_owners(obj)}"


def _counts(obj: Obj, names: Sequence[str]) -> str:
    status = obj.get("status") or {}
    return " ".join(f"{name}={status[name]}" for name in names if status.get(name))


def _deployment(obj: Obj) -> str:
    # Whether a new set is still told of or already its progress depends on how many writes its controller needed.
    conditions = re.sub("(NewReplicaSetCreated|FoundNewReplicaSet|ReplicaSetUpdated)", "UnderWay", _conditions(obj))
    counts = ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    return f"{_counts(obj, counts)}{conditions}{_going(obj)}"


def _stateful_set(obj: Obj) -> str:
    counts = ("observedGeneration", "replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    return f"{_counts(obj, counts)}{_going(obj)}{_owners(obj)}"


def _budget(obj: Obj) -> str:
    counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods", "observedGeneration")
    return f"{_counts(obj, counts)}{_conditions(obj)}"


def _config_map(obj: Obj) -> str:
    return "" if obj["metadata"]["name"] == "kube-root-ca.crt" else f"there{_going(obj)}{_owners(obj)}"


def _node(obj: Obj) -> str:
    taints = sorted(f"{taint['key']}:{taint['effect']}" for taint in obj["spec"].get("taints") or [])
    return f"{' '.join(taints) or 'no taints'}{_conditions(obj, kinds=('Ready',))}"


def _slice(obj: Obj) -> str:
    ports = [f"{port.get('name') or '-'}:{port.get('port')}/{port.get('protocol')}" for port in obj.get("ports") or []]
    points = [
        f"{','.join(point['addresses'])} {_flags(point.get('conditions') or {})}"
        f"{' on ' + point['nodeName'] if point.get('nodeName') else ''}"
        f"{' host ' + point['hostname'] if point.get('hostname') else ''}"
        f" {(point.get('targetRef') or {}).get('kind', '-')}"
        for point in sorted(obj.get("endpoints") or [], key=lambda point: point["addresses"])
    ]
    labels = obj["metadata"]["labels"]
    prefix = f" from {obj['metadata'].get('generateName', 'no prefix')}"
    headless = " headless" if "service.kubernetes.io/headless" in labels else ""
    return (
        f"{obj['addressType']} {' '.join(ports) or 'no ports'}: {'; '.join(points) or 'nobody'}{headless}{_owners(obj)}{prefix}"
    )


def _flags(conditions: Obj) -> str:
    return "+".join(name for name in ("ready", "serving", "terminating") if conditions.get(name)) or "none"


WORDS: Mapping[Resource, Words] = {
    PODS: _pod,
    REPLICASETS: _replica_set,
    DEPLOYMENTS: _deployment,
    STATEFULSETS: _stateful_set,
    POD_DISRUPTION_BUDGETS: _budget,
    CONFIGMAPS: _config_map,
    NODES: _node,
    ENDPOINT_SLICES: _slice,
}
"""How each kind is told. Empty words are passed over."""
