"""The pod garbage collector: pods that no kubelet will ever finish are finished here.

Those are pods of nodes that do not exist any more, terminating pods that were never scheduled, terminating pods of nodes that are
out of service, and ended pods beyond a large number.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from regroup.kube.node import OUT_OF_SERVICE_TAINT, Node
from regroup.kube.resources import NODES, PODS
from regroup.runtime.clock import timestamp
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.sandbox.controllers.informers import pod_informer
from regroup.sandbox.controllers.views import Pod
from regroup.wire.errors import NotFound, WireError

NAME = "podgc"
PERIOD = 20.0
"""Seconds between two looks."""
QUARANTINE = 40.0
"""Seconds that a node has to be missing before its pods are deleted."""
TERMINATED_LIMIT = 12500
"""Ended pods that are kept."""

Why = Literal["orphaned", "unscheduled", "out-of-service", "terminated"]


@dataclass(frozen=True, slots=True)
class Doomed:
    """A pod to be deleted by force."""

    pod: Pod
    why: Why


def doomed(
    pods: Iterable[Pod], nodes: Mapping[str, Node], lost: frozenset[str], *, limit: int = TERMINATED_LIMIT
) -> list[Doomed]:
    """The pods to delete, each once. ``lost``: nodes that are known not to exist."""
    found: list[Doomed] = []
    ended: list[Pod] = []
    for pod in pods:
        node = nodes.get(pod.spec.node_name)
        if pod.spec.node_name in lost:
            found.append(Doomed(pod, "orphaned"))
        elif pod.deleting and not pod.spec.node_name:
            found.append(Doomed(pod, "unscheduled"))
        elif pod.deleting and node is not None and _out_of_service(node):
            found.append(Doomed(pod, "out-of-service"))
        elif pod.terminal:
            ended.append(pod)
    ended.sort(key=_age)
    return found + [Doomed(pod, "terminated") for pod in ended[: max(len(ended) - limit, 0)]]


def failure(pod: Pod, why: Why, *, now: str) -> dict[str, Any] | None:
    """The status patch that goes before the deletion: whoever looks at the pod must see that it failed. None if it has ended."""
    if pod.terminal:
        return None
    status: dict[str, Any] = {"phase": "Failed"}
    if why == "orphaned":
        status["conditions"] = [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": now,
            }
        ]
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


class PodCollector:
    """Looks at all pods every ``PERIOD`` seconds."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._pods = pod_informer(manager)
        self._nodes = manager.cache.informer(NODES, type=Node)
        self._missing_since: dict[str, float] = {}
        self._log = structlog.get_logger(NAME)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(PERIOD)
            await self.collect()

    async def collect(self) -> None:
        """One look. What cannot be deleted now is tried again at the next one."""
        nodes = {node.metadata.name: node for node in self._nodes.store.values()}
        lost = await self._lost_nodes(nodes)
        for entry in doomed(self._pods.store.values(), nodes, lost):
            try:
                await self._delete(entry)
            except NotFound:
                continue
            except WireError as error:
                self._log.warning("pod not collected", pod=entry.pod.metadata.key, why=entry.why, error=str(error)[:300])

    async def _lost_nodes(self, nodes: Mapping[str, Node]) -> frozenset[str]:
        """Nodes that pods name, that have been missing for the whole quarantine and that a live read does not find."""
        named = {pod.spec.node_name for pod in self._pods.store.values() if pod.spec.node_name}
        now = self._clock.monotonic()
        self._missing_since = {name: self._missing_since.get(name, now) for name in sorted(named) if name not in nodes}
        lost: set[str] = set()
        for name, since in self._missing_since.items():
            if now - since >= QUARANTINE and not await self._exists(name):
                lost.add(name)
        return frozenset(lost)

    async def _exists(self, node: str) -> bool:
        try:
            await self._client.get(NODES, node, type=Node)
        except NotFound:
            return False
        except WireError as error:
            self._log.warning("node not read", node=node, error=str(error)[:300])
        return True

    async def _delete(self, entry: Doomed) -> None:
        meta = entry.pod.metadata
        patch = failure(entry.pod, entry.why, now=timestamp(self._clock.now()))
        if patch is not None:
            await self._client.strategic_patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        # Another pod may have taken the name since the look: the UID keeps the deletion off it.
        await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_period_seconds=0)
        self._log.info("pod collected", pod=meta.key, why=entry.why)


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:  # noqa: ARG001 - every controller is set up alike
    """Add the collector to the manager. It tells no events, as in a real cluster."""
    manager.add(PodCollector(manager).run, name=NAME)


def _out_of_service(node: Node) -> bool:
    ready = node.ready
    return node.taint(OUT_OF_SERVICE_TAINT) is not None and (ready is None or ready.status != "True")


def _age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0, pod.metadata.name)
