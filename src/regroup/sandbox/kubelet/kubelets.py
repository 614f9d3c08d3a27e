"""Simulated nodes against any API server, the sandbox's or a real one: watches pods bound to them, runs them, reports.

One shared informer serves all nodes. The machine of each pod lives in memory, as containers do in a runtime; a kubelet that
starts anew reads it back from the API. Knows no API of ours, and nothing of the sandbox but its own package.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import structlog

from regroup.kube.meta import ObjectRef
from regroup.kube.resources import LEASES, NODES, PODS
from regroup.runtime.clock import Clock, micro_timestamp
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.kubelet.addresses import AddressPool
from regroup.sandbox.kubelet.adopt import adopt
from regroup.sandbox.kubelet.logs import LogStore
from regroup.sandbox.kubelet.machine import NEVER, Images, PodRun, Stage, advance, finish, new_run, stop, strike
from regroup.sandbox.kubelet.node import LEASE_NAMESPACE, SimulatedNode, lease_object, node_object, node_status, well
from regroup.sandbox.kubelet.options import KubeletOptions, PodPlan, plan
from regroup.sandbox.kubelet.status import parse, render, same
from regroup.sandbox.kubelet.telling import lines, notes
from regroup.sandbox.kubelet.versions import OwnWrites, newer
from regroup.sandbox.kubelet.views import KubeletNode, KubeletPod
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, Conflict, NotFound, WireError

RETRY = 1.0
"""Seconds after a failed registration or heartbeat."""


class PodKey(NamedTuple):
    """A pod's name."""

    namespace: str
    name: str


@dataclass(slots=True)
class _Tracked:
    """One pod that a node of ours has taken in."""

    pod: KubeletPod
    """The newest version known: from the watch, or the answer to our own write."""
    plan: PodPlan
    run: PodRun
    removed: bool = False


class _Node:
    """One node: what it is, the images that it has, and the bell that wakes its heartbeat."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self.images: set[str] = set()
        self.wake = asyncio.Event()
        self.status_written = -NEVER
        self.writes = OwnWrites()


class Kubelets:
    """The kubelets of ``nodes``. ``run()`` until cancelled; ``ready`` is set when every node is registered."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Random,
        nodes: Sequence[SimulatedNode],
        options: KubeletOptions | None = None,
        recorder: EventRecorder | None = None,
        log: Any = None,
    ) -> None:
        self.ready = asyncio.Event()
        self.logs = LogStore()
        self._client = client
        self._clock = clock
        self._rng = rng
        self._options = options or KubeletOptions()
        self._recorder = recorder if self._options.events else None
        self._log = log or structlog.get_logger("kubelet")
        self._mine = {node.name: _Node(node) for node in nodes}
        self._tracked: dict[PodKey, _Tracked] = {}
        self._addresses = AddressPool()
        self._manager = Manager(client, clock=clock, rng=rng, log=self._log)
        cache = self._manager.cache
        self._pods = cache.informer(
            PODS, type=KubeletPod, field_selector="spec.nodeName!=", indexers={"node": lambda pod: (pod.spec.node_name,)}
        )
        self._nodes = cache.informer(NODES, type=KubeletNode)
        controller: Controller[PodKey] = Controller("kubelet", self._reconcile, clock=clock, workers=self._options.workers)
        controller.watches(self._pods, self._changed_pod)
        controller.watches(self._nodes, self._changed_node)
        self._manager.add_controller(controller)
        self._manager.add(self._heartbeats, name="heartbeats")

    async def run(self) -> None:
        """Register the nodes and run their pods until cancelled."""
        await self._manager.run()

    # Pods

    def _changed_pod(self, change: Change[KubeletPod]) -> Iterable[PodKey]:
        pod = change.new or change.old
        if pod is None or pod.spec.node_name not in self._mine:
            return ()
        key = PodKey(pod.metadata.namespace, pod.metadata.name)
        tracked = self._tracked.get(key)
        if change.new is not None and tracked is not None and _version(tracked.pod) == _version(change.new):
            return ()  # The echo of our own write.
        return (key,)

    def _changed_node(self, change: Change[KubeletNode]) -> Iterable[PodKey]:
        node = change.new or change.old
        mine = self._mine.get(node.metadata.name) if node else None
        if mine is None:
            return ()
        mine.wake.set()
        old, new = change.old, change.new
        if old is not None and new is not None and (old.down, old.refused_images) == (new.down, new.refused_images):
            return ()
        return [PodKey(pod.metadata.namespace, pod.metadata.name) for pod in self._pods.store.index("node", mine.node.name)]

    async def _reconcile(self, key: PodKey) -> Result:
        pod = self._pods.store.get(key.namespace, key.name)
        tracked = self._tracked.get(key)
        if tracked is not None and (pod is None or pod.metadata.uid != tracked.run.uid):
            self._forget(key, tracked)
            tracked = None
        mine = self._mine.get(pod.spec.node_name) if pod is not None else None
        if pod is None or mine is None:
            return Result()
        node = self._nodes.store.get("", mine.node.name)
        if node is None or node.down:
            return Result()  # Cut off: the containers run on; the node's return brings the pod here again.
        now = self._clock.now().timestamp()
        images = Images(mine.images, node.refused_images)
        tracked, before = self._look(key, pod, tracked, now=now, images=images)
        run = tracked.run
        for entry, spec in zip(run.containers, tracked.plan.containers, strict=True):
            if entry.stage in {Stage.STARTING, Stage.RUNNING}:
                mine.images.add(spec.image)
        self._tell(tracked, before)
        await self._report(tracked, mine, now=now)
        due = run.next_due(now)
        return Result() if run.over or due == NEVER else Result(requeue_after=max(0.0, due - now))

    def _look(
        self, key: PodKey, pod: KubeletPod, tracked: _Tracked | None, *, now: float, images: Images
    ) -> tuple[_Tracked, PodRun | None]:
        """Bring the pod's machine to ``now``. Also gives the run as it was before, None for a pod that is new here."""
        options = self._options
        before = None
        if tracked is None:
            tracked, adopted = self._take_in(pod, now=now)
            self._tracked[key] = tracked
            before = tracked.run if adopted else None
        else:
            before = tracked.run
            if newer(pod, _version(tracked.pod)):
                self._take_over(tracked, pod)
        pod, todo = tracked.pod, tracked.plan
        run = advance(tracked.run, todo, options, now=now, images=images)
        if todo.fault is not None:
            run = strike(run, todo, options, todo.fault, now=now)
        if pod.terminal and not run.over:
            run = finish(run, now=now, phase=pod.status.phase, reason=pod.status.reason, message=pod.status.message)
        if pod.metadata.deleting:
            run = stop(run, todo, options, now=now, grace=float(pod.metadata.deletion_grace_period_seconds or 0))
        tracked.run = advance(run, todo, options, now=now, images=images)
        return tracked, before

    def _take_in(self, pod: KubeletPod, *, now: float) -> tuple[_Tracked, bool]:
        """Start to track ``pod``. Also says whether it ran before."""
        todo = plan(pod, self._options)
        for problem in todo.problems:
            self._event(pod, "Warning", "InvalidAnnotation", problem, "Reading")
        if pod.status.container_statuses or pod.status.init_container_statuses or pod.terminal:
            ip = self._addresses.take(pod.metadata.uid, wanted=pod.status.pod_ip)
            run = adopt(pod, todo, self._options, now=now, ip=ip)
            for line in lines(None, run, todo):
                self.logs.append(run.uid, line)
            return _Tracked(pod, todo, run), True
        ip = self._addresses.take(pod.metadata.uid)
        return _Tracked(pod, todo, new_run(pod.metadata.uid, todo, now=now, ip=ip)), False

    def _take_over(self, tracked: _Tracked, pod: KubeletPod) -> None:
        """A newer version of the pod, which may ask for something else: an image, a fault."""
        if (pod.spec, pod.metadata.annotations) != (tracked.pod.spec, tracked.pod.metadata.annotations):
            tracked.plan = plan(pod, self._options)
        tracked.pod = pod

    async def _report(self, tracked: _Tracked, mine: _Node, *, now: float) -> None:
        pod, run = tracked.pod, tracked.run
        name, namespace, uid = pod.metadata.name, pod.metadata.namespace, pod.metadata.uid
        try:
            if not (run.over and pod.terminal):
                status = render(pod, run, tracked.plan, self._options, now=now, host_ip=mine.node.address)
                if not same(pod.status, parse(status)):
                    # The uid in the patch makes it fail on a replacement of the same name.
                    written = await self._client.strategic_patch(
                        PODS,
                        name,
                        {"metadata": {"uid": uid}, "status": status},
                        namespace=namespace,
                        subresource="status",
                        type=KubeletPod,
                    )
                    # The pod may have been deleted or changed meanwhile. The watch brings us here again, with an older version
                    # than this one: what the change asks for has to be taken over now.
                    if newer(written, _version(tracked.pod)):
                        self._take_over(tracked, written)
                    pod = tracked.pod
            if run.over and pod.metadata.deleting and not tracked.removed:
                tracked.removed = True
                if pod.metadata.deletion_grace_period_seconds:
                    await self._client.delete(PODS, name, namespace=namespace, uid=uid, grace_period_seconds=0)
        except (NotFound, Conflict):
            return  # Gone, or replaced: nothing of ours is left to report on.
        except WireError:
            tracked.removed = False
            raise

    def _forget(self, key: PodKey, tracked: _Tracked) -> None:
        del self._tracked[key]
        self._addresses.give_back(tracked.run.uid)
        self.logs.forget(tracked.run.uid, tuple(entry.name for entry in tracked.plan.containers))

    def _tell(self, tracked: _Tracked, before: PodRun | None) -> None:
        if before is tracked.run:
            return
        for line in lines(before, tracked.run, tracked.plan):
            self.logs.append(tracked.run.uid, line)
        if self._recorder is not None:
            for note in notes(before, tracked.run, tracked.plan):
                self._event(tracked.pod, note.type, note.reason, note.message, note.action, container=note.container)

    def _event(self, pod: KubeletPod, kind: Any, reason: str, message: str, action: str, *, container: str = "") -> None:
        if self._recorder is None:
            return
        meta = pod.metadata
        path = f"spec.containers{{{container}}}" if container else ""
        regarding = ObjectRef(
            api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid, field_path=path
        )
        self._recorder.event(regarding, type=kind, reason=reason, message=message, action=action)

    # Nodes

    async def _heartbeats(self) -> None:
        async with asyncio.TaskGroup() as group:
            registered = [group.create_task(self._register(mine)) for mine in self._mine.values()]
            for task in registered:
                await task
            self.ready.set()
            for mine in self._mine.values():
                group.create_task(self._heartbeat(mine))
            await asyncio.Event().wait()  # without any node too: it runs as long as the cluster

    async def _register(self, mine: _Node) -> None:
        """Create the node unless it is there from before, and report it once."""
        while True:
            try:
                try:
                    view = await self._client.create(NODES, node_object(mine.node), type=KubeletNode)
                except AlreadyExists:
                    view = await self._client.get(NODES, mine.node.name, type=KubeletNode)
                if not view.down:
                    await self._beat(mine, view)
            except WireError as error:
                self._log.warning("node cannot be registered yet", node=mine.node.name, error=str(error))
                await asyncio.sleep(RETRY)
            else:
                return

    async def _heartbeat(self, mine: _Node) -> None:
        wait = self._options.lease_interval * (1 + 0.04 * self._rng.random())
        while True:
            try:
                async with asyncio.timeout(wait):
                    await self._news(mine)
            except TimeoutError:
                pass
            wait = self._options.lease_interval
            node = self._nodes.store.get("", mine.node.name)
            if node is None or node.down:
                continue  # Deleted or cut off. A deleted node is registered again by the next start only.
            try:
                await self._beat(mine, node)
            except WireError as error:
                self._log.warning("heartbeat failed", node=mine.node.name, error=str(error))
                wait = RETRY

    async def _news(self, mine: _Node) -> None:
        """Wait until the node is not down and others say of it what is not so."""
        while True:
            await mine.wake.wait()
            mine.wake.clear()
            node = self._nodes.store.get("", mine.node.name)
            if node is not None and not (node.down or well(node.conditions) or mine.writes.stale(node)):
                return

    async def _beat(self, mine: _Node, node: KubeletNode) -> None:
        """Renew the Lease, and write the node's status when it is due or when what the API has is not so."""
        now, name = self._clock.now(), mine.node.name
        renewal = {"spec": {"renewTime": micro_timestamp(now), "holderIdentity": name}}
        try:
            await self._client.merge_patch(LEASES, name, renewal, namespace=LEASE_NAMESPACE)
        except NotFound:
            lease = lease_object(mine.node, node_uid=node.metadata.uid, duration=self._options.lease_duration, now=now)
            await self._client.create(LEASES, lease, namespace=LEASE_NAMESPACE)
        elapsed = self._clock.monotonic() - mine.status_written
        if elapsed >= self._options.status_interval or not (well(node.conditions) or mine.writes.stale(node)):
            status = node_status(mine.node, known=node.conditions, now=now)
            patch = {"metadata": {"uid": node.metadata.uid}, "status": status}
            mine.writes.wrote(await self._client.strategic_patch(NODES, name, patch, subresource="status", type=KubeletNode))
            mine.status_written = self._clock.monotonic()


def _version(pod: KubeletPod) -> str:
    return pod.metadata.resource_version
