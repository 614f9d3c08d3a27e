"""The embedded cluster in one process: API server, built-in controllers, scheduler, kubelets and node lifecycle, put together.

Every part but the server is an ordinary client of its API. Nothing here opens a socket: whoever wants one serves ``server`` with
``sandbox.httpfront``. Time is the running loop's, so a cluster runs under virtual time and at any speed.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import structlog

from regroup.kube.resources import NAMESPACES, PODS
from regroup.runtime.clock import Clock
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.sandbox.apiserver.podwork import topology_labels
from regroup.sandbox.apiserver.server import ApiServer, WebhookCaller
from regroup.sandbox.apiserver.storage import Storage
from regroup.sandbox.controllers.assembly import setup_built_in
from regroup.sandbox.faults import Faults
from regroup.sandbox.journal import FileJournal, open_storage
from regroup.sandbox.kubelet.kubelets import Kubelets
from regroup.sandbox.kubelet.node import SimulatedNode, default_nodes
from regroup.sandbox.kubelet.options import KubeletOptions
from regroup.sandbox.nodelifecycle.controller import setup as setup_nodelifecycle
from regroup.sandbox.nodelifecycle.rules import LifecycleOptions, default_toleration_seconds
from regroup.sandbox.scheduler.scheduler import Scheduler
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists
from regroup.wire.resource import Resource
from regroup.wire.transport import Transport

EXPIRY_PERIOD = 300.0
"""Seconds between two looks for events that are too old."""
BUILT_IN_NAMESPACES = ("default", "kube-system", "kube-node-lease", "kube-public")


class Cluster:
    """One cluster. ``run()`` until cancelled; ``ready`` is set when its nodes are registered and its controllers work.

    With a ``data_dir`` it goes on with the objects that an earlier one left there. Raises ``DataDirError``.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Random,
        nodes: int | Sequence[SimulatedNode] = 4,
        data_dir: Path | None = None,
        webhook_caller: WebhookCaller | None = None,
        kubelet: KubeletOptions | None = None,
        lifecycle: LifecycleOptions | None = None,
        controllers: bool = True,
        log: Any = None,
    ) -> None:
        self.ready = asyncio.Event()
        self._clock = clock
        self._rng = rng
        self._log = log or structlog.get_logger("sandbox")
        storage: Storage | None = None
        self._journal: FileJournal | None = None
        if data_dir is not None:
            storage, self._journal = open_storage(data_dir)
        self.server = ApiServer(clock=clock, rng=rng, storage=storage, webhook_caller=webhook_caller)
        self.server.admission.mutations.append(self._admit_pod)
        options = kubelet or KubeletOptions()
        self._recorders: list[EventRecorder] = []
        self.kubelets = Kubelets(
            self.client("kubelet"),
            clock=clock,
            rng=rng,
            nodes=default_nodes(nodes) if isinstance(nodes, int) else tuple(nodes),
            options=options,
            recorder=self._recorder("kubelet") if options.events else None,
            log=self._log,
        )
        self.server.logs = self.kubelets.logs
        scheduler_events = self._recorder("default-scheduler") if options.events else None
        self._scheduler = Scheduler(self.client("kube-scheduler"), clock=clock, rng=rng, recorder=scheduler_events, log=self._log)
        self._manager = Manager(self.client("kube-controller-manager"), clock=clock, rng=rng, log=self._log)
        if controllers:
            setup_built_in(self._manager, recorder_for=self._recorder)
            setup_nodelifecycle(self._manager, recorder=self._recorder("node-controller"), options=lifecycle)

    def transport(self) -> Transport:
        """The way to the API server inside this process."""
        return self.server.transport()

    def client(self, name: str) -> Client:
        """A client that calls itself ``name``, as user agent and as field manager."""
        return Client(self.transport(), user_agent=name, field_manager=name, rng=self._rng)

    def faults(self) -> Faults:
        """To break something."""
        return Faults(self.client("faults"), clock=self._clock)

    async def run(self) -> None:
        """All parts, until cancelled. The death of any part ends this with its error."""
        try:
            await self._create_namespaces()
            async with asyncio.TaskGroup() as parts:
                for recorder in self._recorders:
                    parts.create_task(recorder.run(), name="events")
                parts.create_task(self._manager.run(), name="controllers")
                parts.create_task(self._scheduler.run(), name="scheduler")
                parts.create_task(self.kubelets.run(), name="kubelets")
                parts.create_task(self._expire_events(), name="expiry of events")
                await self._manager.ready.wait()
                await self.kubelets.ready.wait()
                self.ready.set()
        finally:
            self.ready.clear()
            await self.server.close()
            if self._journal is not None:
                self._journal.close()

    async def _expire_events(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_PERIOD)
            self.server.expire_events()

    async def _create_namespaces(self) -> None:
        client = self.client("kube-apiserver")
        for name in BUILT_IN_NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                await client.create(NAMESPACES, body)
            except AlreadyExists:
                continue  # There from before (data directory).

    def _recorder(self, component: str) -> EventRecorder:
        client = self.client(component)
        recorder = EventRecorder(client, component=component, instance="sandbox", clock=self._clock, log=self._log)
        self._recorders.append(recorder)
        return recorder

    def _admit_pod(self, resource: Resource, operation: str, obj: dict[str, Any]) -> None:
        """What built-in admission plugins do to a new pod."""
        if resource != PODS or operation != "CREATE":
            return
        default_toleration_seconds(obj)
        if labels := topology_labels(self.server.storage, obj["spec"].get("nodeName", "")):
            obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **labels}
