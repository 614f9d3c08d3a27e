"""Watches nodes, their Leases and their pods, and carries the rules out. One key a node. Pods of nodes that are gone or out of
service are the pod collector's business.

A Lease renewal only moves a time in memory: a node is looked at again when its grace period would be over, not at every renewal.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import structs

from regroup.kube.meta import ObjectRef, ObjectView, View
from regroup.kube.node import Node, Taint
from regroup.kube.resources import LEASES, NODES, PODS
from regroup.runtime.clock import timestamp
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.kubelet.node import LEASE_NAMESPACE
from regroup.sandbox.kubelet.versions import OwnWrites
from regroup.sandbox.nodelifecycle.rules import (
    OURS,
    BoundPod,
    LifecycleOptions,
    disrupted,
    evicted_at,
    ready_status,
    silent_conditions,
    wanted_taints,
)
from regroup.sandbox.nodelifecycle.zones import spacing, zone_of
from regroup.wire.errors import Conflict, NotFound


class LeaseSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a Lease."""

    renew_time: datetime | None = None


class Lease(ObjectView, frozen=True, gc=False, kw_only=True):
    """A node's Lease."""

    spec: LeaseSpec = LeaseSpec()


def setup(manager: Manager, *, recorder: EventRecorder, options: LifecycleOptions | None = None) -> None:
    """Add the node lifecycle to ``manager``."""
    NodeLifecycle(manager, recorder=recorder, options=options or LifecycleOptions())


class NodeLifecycle:
    """The controller; registers itself with ``manager``."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder, options: LifecycleOptions) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._recorder = recorder
        self._options = options
        self._heard: dict[str, float] = {}
        """When each node was last heard of, on our own monotonic clock: clocks of nodes are not trusted."""
        self._seen: dict[str, dict[str, datetime]] = {}
        """By node and key: when a taint that does not say when it was added (``kubectl taint``) was seen first."""
        self._writes = OwnWrites()
        self._turns: dict[tuple[str, str], float] = {}
        """When in each zone pods of a lost node were told to go last, on our monotonic clock."""
        self._evicted: set[str] = set()
        """Pods deleted by us that are still there."""
        self._nodes = manager.cache.informer(NODES, type=Node)
        self._leases = manager.cache.informer(LEASES, type=Lease)
        self._pods = manager.cache.informer(
            PODS, type=BoundPod, field_selector="spec.nodeName!=", indexers={"node": lambda pod: (pod.spec.node_name,)}
        )
        controller: Controller[str] = Controller("nodelifecycle", self._reconcile, clock=manager.clock, workers=4)
        controller.watches(self._nodes, self._changed_node)
        controller.watches(self._leases, self._changed_lease)
        controller.watches(self._pods, self._changed_pod)
        manager.add_controller(controller)

    def _changed_node(self, change: Change[Node]) -> Iterable[str]:
        node = change.new or change.old
        if node is None:
            return ()
        name = node.metadata.name
        if change.new is None:
            self._heard.pop(name, None)
            self._seen.pop(name, None)
            self._writes.forget(node.metadata.uid)
            # With the last node that was well all evictions end, on the nodes that are left as well.
            return {name, *(other.metadata.name for other in self._nodes.store.values() if ready_status(other) != "True")}
        if change.old is not None and change.old.ready == change.new.ready and change.old.spec == change.new.spec:
            return ()
        self._heard.setdefault(name, self._clock.monotonic())
        if ready_status(change.new) == "True":
            self._heard[name] = self._clock.monotonic()
        # Whether any node is well decides about the taints of all that are not.
        return {name, *(other.metadata.name for other in self._nodes.store.values() if ready_status(other) != "True")}

    def _changed_lease(self, change: Change[Lease]) -> Iterable[str]:
        lease = change.new
        if lease is not None and lease.metadata.namespace == LEASE_NAMESPACE:
            known = change.old is not None and change.old.spec.renew_time == lease.spec.renew_time
            if not known:
                self._heard[lease.metadata.name] = self._clock.monotonic()
        return ()

    def _changed_pod(self, change: Change[BoundPod]) -> Iterable[str]:
        pod = change.new
        if change.old is not None and (pod is None or pod.metadata.uid != change.old.metadata.uid):
            self._writes.forget(change.old.metadata.uid)
            self._evicted.discard(change.old.metadata.uid)
        if pod is None:
            return ()
        node = self._nodes.store.get("", pod.spec.node_name)
        # A pod matters here only on a node that is silent or throws pods out.
        if node is None or (ready_status(node) == "True" and all(taint.effect != "NoExecute" for taint in node.spec.taints)):
            return ()
        return (pod.spec.node_name,)

    async def _reconcile(self, name: str) -> Result:
        node = self._nodes.store.get("", name)
        if node is None:
            return Result()  # Its pods are the pod collector's.
        if self._writes.stale(node):
            return Result()  # The event of our own write brings it here again.
        now = self._clock.now()
        quiet = self._clock.monotonic() - self._heard.setdefault(name, self._clock.monotonic())
        waits = []
        if quiet >= self._options.grace:
            node = await self._mark_silent(node, now=now)
        else:
            waits.append(self._options.grace - quiet)
        turn = self._turn(node)
        if turn:
            waits.append(turn)
        taints = wanted_taints(node, evict=turn == 0, now=now)
        if taints is not None:
            if turn == 0 and ready_status(node) != "True" and not _evicting(node):
                # Taken before the write: nobody else of the zone may take the same turn while the server answers.
                self._turns[zone_of(node)] = self._clock.monotonic()
            guard = {"resourceVersion": node.metadata.resource_version}
            node = await self._client.merge_patch(NODES, name, {"metadata": guard, "spec": {"taints": taints}}, type=Node)
            self._writes.wrote(node)
        pods = [pod for pod in self._pods.store.index("node", name) if not self._writes.stale(pod)]
        taints_now = self._with_times(node, now=now)
        for pod in pods:
            wait = await self._judge(pod, node, taints_now, now=now)
            if wait is not None:
                waits.append(wait)
        return Result(requeue_after=max(0.001, min(waits))) if waits else Result()

    def _turn(self, node: Node) -> float | None:
        """Seconds until the pods of a node that is not ready may be told to go; None while nobody's are."""
        if ready_status(node) == "True":
            return 0.0
        others = list(self._nodes.store.values())
        ready = [(other, ready_status(other) == "True") for other in others if other.metadata.name != node.metadata.name]
        ready.append((node, False))
        if not any(well for _, well in ready):
            return None
        if _evicting(node):
            return 0.0
        gap = spacing(ready, zone_of(node), self._options.rates)
        last = self._turns.get(zone_of(node))
        if gap is None:
            return None
        return 0.0 if last is None else max(0.0, last + gap - self._clock.monotonic())

    async def _mark_silent(self, node: Node, *, now: datetime) -> Node:
        conditions = silent_conditions(node, now=now)
        if not conditions:
            return node
        was_ready = ready_status(node) == "True"
        patch = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": conditions}}
        node = await self._client.strategic_patch(NODES, node.metadata.name, patch, subresource="status", type=Node)
        self._writes.wrote(node)
        if was_ready:
            name = node.metadata.name
            regarding = ObjectRef(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
            text = f"Node {name} status is now: NodeNotReady"
            self._recorder.event(regarding, type="Normal", reason="NodeNotReady", message=text, action="NodeLifecycle")
        return node

    def _with_times(self, node: Node, *, now: datetime) -> list[Taint]:
        """The node's taints, each with the time from which tolerations count."""
        known = self._seen.get(node.metadata.name, {})
        seen = {taint.key: known.get(taint.key, now) for taint in node.spec.taints if taint.time_added is None}
        self._seen[node.metadata.name] = seen
        return [
            taint if taint.time_added is not None else structs.replace(taint, time_added=seen[taint.key])
            for taint in node.spec.taints
        ]

    async def _judge(self, pod: BoundPod, node: Node, taints: Sequence[Taint], *, now: datetime) -> float | None:
        """Take the pod away if its time has come; else the seconds until then. A pod whose node is silent serves nobody: its
        ``Ready`` becomes False until its kubelet says otherwise."""
        conditions = []
        if ready_status(node) != "True" and pod.ready_since_before(node):
            conditions.append({"type": "Ready", "status": "False", "lastTransitionTime": timestamp(now)})
        moment = None if pod.metadata.deleting or pod.metadata.uid in self._evicted else evicted_at(pod, taints, now=now)
        evicted = moment is not None and moment <= now
        if evicted:
            text = "Taint manager: deleting due to NoExecute taint"
            conditions.append(disrupted("DeletionByTaintManager", text, now=now))
        if not conditions or not await self._patch_status(pod, {"conditions": conditions}):
            return None if moment is None or evicted else (moment - now).total_seconds()
        if conditions[0]["type"] == "Ready":
            self._recorder.event(
                _ref(pod), type="Warning", reason="NodeNotReady", message="Node is not ready", action="NodeLifecycle"
            )
        if evicted:
            text = f"Marking for deletion Pod {pod.metadata.key}"
            self._recorder.event(_ref(pod), type="Normal", reason="TaintManagerEviction", message=text, action="Evicting")
            await self._delete(pod)
            self._evicted.add(pod.metadata.uid)
        return None if moment is None or evicted else (moment - now).total_seconds()

    async def _patch_status(self, pod: BoundPod, status: dict[str, object]) -> bool:
        """Patch this very pod. False when it is gone or replaced."""
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            written = await self._client.strategic_patch(
                PODS, meta.name, patch, namespace=meta.namespace, subresource="status", type=BoundPod
            )
        except (NotFound, Conflict):
            return False
        self._writes.wrote(written)
        return True

    async def _delete(self, pod: BoundPod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return  # Gone or replaced: what was judged is no more.


def _evicting(node: Node) -> bool:
    """Whether its pods are told to go already."""
    return any((taint.key, taint.effect) in OURS and taint.effect == "NoExecute" for taint in node.spec.taints)


def _ref(pod: BoundPod) -> ObjectRef:
    meta = pod.metadata
    return ObjectRef(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
