"""Watches nodes, their Leases and their pods, and carries the rules out. One key a node. Pods of nodes that are gone or out of
service are the pod collector's business.

A Lease renewal only moves a time in memory: a node is looked at again when its grace period would be over, not at every renewal.
"""

from collections.abc import Iterable
from datetime import datetime

from regroup.kube.meta import ObjectRef, ObjectView, View
from regroup.kube.node import Node
from regroup.kube.resources import LEASES, NODES, PODS
from regroup.runtime.clock import timestamp
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.kubelet.node import LEASE_NAMESPACE
from regroup.sandbox.nodelifecycle.rules import (
    BoundPod,
    LifecycleOptions,
    disrupted,
    evicted_at,
    ready_status,
    silent_conditions,
    wanted_taints,
)
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
            return (name,)
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
        now = self._clock.now()
        quiet = self._clock.monotonic() - self._heard.setdefault(name, self._clock.monotonic())
        waits = []
        if quiet >= self._options.grace:
            node = await self._mark_silent(node, now=now)
        else:
            waits.append(self._options.grace - quiet)
        evict = any(ready_status(other) == "True" for other in self._nodes.store.values())
        taints = wanted_taints(node, evict=evict, now=now)
        if taints is not None:
            guard = {"resourceVersion": node.metadata.resource_version}
            node = await self._client.merge_patch(NODES, name, {"metadata": guard, "spec": {"taints": taints}}, type=Node)
        pods = self._pods.store.index("node", name)
        if ready_status(node) != "True":
            for pod in pods:
                await self._mark_not_ready(pod, now=now)
        for pod in pods:
            wait = await self._evict(pod, node, now=now)
            if wait is not None:
                waits.append(wait)
        return Result(requeue_after=max(0.001, min(waits))) if waits else Result()

    async def _mark_silent(self, node: Node, *, now: datetime) -> Node:
        conditions = silent_conditions(node, now=now)
        if not conditions:
            return node
        was_ready = ready_status(node) == "True"
        patch = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": conditions}}
        node = await self._client.strategic_patch(NODES, node.metadata.name, patch, subresource="status", type=Node)
        if was_ready:
            name = node.metadata.name
            regarding = ObjectRef(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
            text = f"Node {name} status is now: NodeNotReady"
            self._recorder.event(regarding, type="Normal", reason="NodeNotReady", message=text, action="NodeLifecycle")
        return node

    async def _mark_not_ready(self, pod: BoundPod, *, now: datetime) -> None:
        """A pod whose node is silent serves nobody: ``Ready`` becomes False until its kubelet says otherwise."""
        if not pod.ready:
            return
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": timestamp(now)}
        if await self._patch_status(pod, {"conditions": [condition]}):
            text = "Node is not ready"
            self._recorder.event(_ref(pod), type="Warning", reason="NodeNotReady", message=text, action="NodeLifecycle")

    async def _evict(self, pod: BoundPod, node: Node, *, now: datetime) -> float | None:
        """Take the pod away if its time has come; else the seconds until then."""
        if pod.metadata.deleting:
            return None
        moment = evicted_at(pod, node.spec.taints, now=now)
        if moment is None:
            return None
        if moment > now:
            return (moment - now).total_seconds()
        text = f"Marking for deletion Pod {pod.metadata.key}"
        self._recorder.event(_ref(pod), type="Normal", reason="TaintManagerEviction", message=text, action="Evicting")
        condition = disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", now=now)
        if await self._patch_status(pod, {"conditions": [condition]}):
            await self._delete(pod)
        return None

    async def _patch_status(self, pod: BoundPod, status: dict[str, object]) -> bool:
        """Patch this very pod. False when it is gone or replaced."""
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            await self._client.strategic_patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        except (NotFound, Conflict):
            return False
        return True

    async def _delete(self, pod: BoundPod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return  # Gone or replaced: what was judged is no more.


def _ref(pod: BoundPod) -> ObjectRef:
    meta = pod.metadata
    return ObjectRef(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
