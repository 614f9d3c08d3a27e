"""The scheduler's shell: watches pods, nodes and namespaces, asks ``place`` for one pod at a time, binds, and tells.

A pod counts on its node as soon as the decision is taken, before the binding is written, so that the next one sees it.
"""

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import Any, Literal

import structlog

from regroup.kube.meta import ObjectRef, find_condition
from regroup.kube.resources import NAMESPACES, NODES, PODS
from regroup.runtime.clock import Clock, timestamp
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.resources import PERSISTENT_VOLUME_CLAIMS
from regroup.sandbox.scheduler.facts import PodFacts, facts
from regroup.sandbox.scheduler.placement import Placement, place, refused_by_claim
from regroup.sandbox.scheduler.queue import SchedulingQueue
from regroup.sandbox.scheduler.state import ClusterState
from regroup.sandbox.scheduler.views import Claim, Namespace, SchedulerNode, SchedulerPod
from regroup.wire.client import Client
from regroup.wire.errors import Conflict, NotFound, WireError

WRITES = 64
"""Bindings and reports under way at once."""
TICK = 0.001
"""Seconds that a timer may fire early: what is due within them is due now, or a loop with coarse time would turn without end."""
GATED = "Scheduling is blocked due to non-empty scheduling gates"


class Scheduler:
    """One scheduler of the name ``name``. ``run()`` until cancelled."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Random,
        recorder: EventRecorder | None = None,
        name: str = "default-scheduler",
        log: Any = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._name = name
        self._log = log or structlog.get_logger("scheduler")
        self._state = ClusterState()
        self._queue = SchedulingQueue()
        self._assumed: set[str] = set()
        self._changed_for_all = self._changed_for_affinity = False
        self._wake = asyncio.Event()
        self._writes: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(WRITES)
        self._manager = Manager(client, clock=clock, rng=rng, log=self._log)
        cache = self._manager.cache
        self._pods = cache.informer(PODS, type=SchedulerPod)
        cache.informer(NAMESPACES, type=Namespace).add_handler(self._changed_namespace)
        cache.informer(NODES, type=SchedulerNode).add_handler(self._changed_node)
        self._claims = cache.informer(PERSISTENT_VOLUME_CLAIMS, type=Claim)
        self._claims.add_handler(lambda _: self._retry())
        self._pods.add_handler(self._changed_pod)
        self._manager.add(self._schedule, name="scheduling")

    async def run(self) -> None:
        """Place pods until cancelled."""
        try:
            await self._manager.run()
        finally:
            writes = list(self._writes)
            for task in writes:
                task.cancel()
            await asyncio.gather(*writes, return_exceptions=True)

    # What the watches bring

    def _changed_namespace(self, change: Change[Namespace]) -> None:
        namespace = change.new or change.old
        if namespace is not None:
            labels = change.new.metadata.labels if change.new is not None else None
            self._state.set_namespace(namespace.metadata.name, labels)
            self._retry(with_affinity=True)

    def _changed_node(self, change: Change[SchedulerNode]) -> None:
        if change.new is None:
            if change.old is not None:
                self._state.remove_node(change.old.metadata.name)
            self._retry()
        elif self._state.set_node(change.new):
            self._retry()

    def _changed_pod(self, change: Change[SchedulerPod]) -> None:
        old, new = change.old, change.new
        if new is None or new.terminal:
            gone = new or old
            if gone is not None:
                self._leave(gone.metadata.uid)
            return
        uid = new.metadata.uid
        unchanged = old is not None and old.spec == new.spec and old.metadata.labels == new.metadata.labels
        if new.spec.node_name:
            if unchanged and uid not in self._assumed:
                return
            self._assumed.discard(uid)
            self._queue.remove(uid)
            pod = self._facts(new)
            if pod is not None:
                self._state.add_pod(pod, new.spec.node_name)
                self._retry(with_affinity=True)
        elif new.spec.scheduler_name != self._name or uid in self._assumed:
            return
        elif new.spec.scheduling_gates:
            self._queue.remove(uid)
            if not new.metadata.deleting:
                self._write(self._report(new, reason="SchedulingGated", message=GATED))
        elif not unchanged or uid not in self._queue:
            pod = self._facts(new)
            if pod is not None and not new.metadata.deleting:
                self._queue.add(pod)
                self._wake.set()

    def _facts(self, pod: SchedulerPod) -> PodFacts | None:
        try:
            return facts(pod)
        except ValueError as error:
            self._log.warning("pod cannot be read", pod=pod.metadata.key, error=str(error))
            return None

    def _leave(self, uid: str) -> None:
        self._queue.remove(uid)
        self._assumed.discard(uid)
        if self._state.remove_pod(uid):
            self._retry()

    def _retry(self, *, with_affinity: bool = False) -> None:
        """Something has changed that pods without a place may gain by; ``with_affinity``: only those that look at others."""
        self._changed_for_all |= not with_affinity
        self._changed_for_affinity = True
        self._wake.set()

    def _pop(self) -> PodFacts | None:
        """The next pod to place. Parked pods are looked through once for all changes, when nothing else is to be done."""
        now = self._clock.monotonic() + TICK
        pod = self._queue.pop(now=now)
        if pod is None and self._changed_for_affinity:
            everyone = self._changed_for_all
            self._changed_for_all = self._changed_for_affinity = False
            self._queue.cluster_changed(lambda parked: everyone or bool(parked.affinity or parked.spread))
            pod = self._queue.pop(now=now)
        return pod

    # Placing

    async def _schedule(self) -> None:
        await self._manager.cache.wait_synced()  # A pod must not be placed by half of the nodes.
        while True:
            # A free slot is waited for before a pod is taken in hand, so that the decision rests on the newest state.
            async with self._slots:
                pass
            # Many pods at once must not keep the loop from everybody else, nor the writes from beginning.
            await asyncio.sleep(0)
            pod = self._pop()
            if pod is None:
                await self._rest()
                continue
            known = self._pods.store.get(pod.namespace, pod.name)
            if known is None or known.metadata.uid != pod.uid or known.spec.node_name or known.metadata.deleting:
                self._queue.remove(pod.uid)
                continue
            problem = self._claim_problem(known)
            if problem is not None:
                placement = Placement(None, refused_by_claim(problem, len(self._state.nodes)))
            else:
                placement = place(pod, self._state)
            if placement.node is None:
                self._no_place(known, pod, placement)
            else:
                self._queue.remove(pod.uid)
                self._assumed.add(pod.uid)
                self._state.add_pod(pod, placement.node)
                self._write(self._bind(pod, placement.node))

    async def _rest(self) -> None:
        """Until something changes or a back-off ends."""
        self._wake.clear()
        due = self._queue.next_due()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._clock.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            return

    def _no_place(self, known: SchedulerPod, pod: PodFacts, placement: Placement) -> None:
        self._queue.park(pod, now=self._clock.monotonic())
        self._tell(pod, type="Warning", reason="FailedScheduling", message=placement.message)
        self._write(self._report(known, reason="Unschedulable", message=placement.message))

    def _claim_problem(self, pod: SchedulerPod) -> str | None:
        """Why the claims of ``pod`` keep it from being placed."""
        for volume in pod.spec.volumes or ():
            if not volume.is_claim:
                continue
            source = volume.persistent_volume_claim
            name = source.claim_name if source is not None else f"{pod.metadata.name}-{volume.name}"
            claim = self._claims.store.get(pod.metadata.namespace, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim.metadata.deleting:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if not claim.spec.volume_name:
                return "pod has unbound immediate PersistentVolumeClaims"
        return None

    # Writing

    def _write(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            async with self._slots:
                await work

        task = asyncio.create_task(run())
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _bind(self, pod: PodFacts, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create(PODS, body, namespace=pod.namespace, subresource="binding", name=pod.name)
        except NotFound:
            self._leave(pod.uid)
        except WireError as error:
            # Whether it was done may be unknown: if so the watch says it, and a second binding is refused.
            self._log.warning("binding failed", pod=pod.key, node=node, error=str(error))
            self._take_back(pod)
        else:
            self._tell(pod, type="Normal", reason="Scheduled", message=f"Successfully assigned {pod.key} to {node}")

    def _take_back(self, pod: PodFacts) -> None:
        known = self._pods.store.get(pod.namespace, pod.name)
        if pod.uid not in self._assumed:
            return  # The watch has confirmed the binding, or the pod is gone.
        self._assumed.discard(pod.uid)
        self._state.remove_pod(pod.uid)
        if known is not None and known.metadata.uid == pod.uid and not known.spec.node_name:
            self._queue.park(pod, now=self._clock.monotonic())
            self._queue.retry(pod.uid)
        self._retry()

    async def _report(self, pod: SchedulerPod, *, reason: str, message: str) -> None:
        """Condition ``PodScheduled=False``, written only when it says something new."""
        meta = pod.metadata
        current = self._pods.store.get(meta.namespace, meta.name) or pod
        known = find_condition(current.status.conditions, "PodScheduled")
        if known is not None and (known.status, known.reason, known.message) == ("False", reason, message):
            return
        condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = timestamp(self._clock.now())
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.strategic_patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        except (NotFound, Conflict):
            return  # Gone or replaced.
        except WireError as error:
            self._log.warning("condition not written", pod=meta.key, error=str(error))

    def _tell(self, pod: PodFacts, *, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        if self._recorder is not None:
            ref = ObjectRef(api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
            self._recorder.event(ref, type=type, reason=reason, message=message, action="Scheduling")
