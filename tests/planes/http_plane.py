"""The sandbox on sockets and in real time: what a user of ``regroup sandbox`` has, with the operator as its own client.

What virtual time and the in-process transport hide is met here: HTTP, TLS to the webhooks, keep-alive, streams that are cut.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Self

from tests.planes.plane import NAMESPACE, end, ready_or_dead
from tests.planes.socket_plane import QUICK, SocketPlane

from regroup.kube.resources import NAMESPACES
from regroup.leaderworkerset.controller.setup import Settings
from regroup.sandbox.cluster import Cluster
from regroup.sandbox.faults import Faults
from regroup.sandbox.httpfront import serve
from regroup.sandbox.nodelifecycle.rules import LifecycleOptions
from regroup.wire.kubeconfig import ClusterAccess, Identity

NODE_MONITOR_GRACE = 4.0
"""As on the real plane."""


class SandboxHttpPlane(SocketPlane):
    """A sandbox cluster behind a socket and one operator."""

    quiet = 1.5

    def __init__(self, *, nodes: int = 4, seed: int = 1, settings: Settings | None = None) -> None:
        super().__init__(nodes=nodes, seed=seed, settings=settings)
        self._stack = AsyncExitStack()
        self._url = ""

    async def __aenter__(self) -> Self:
        lifecycle = LifecycleOptions(grace=NODE_MONITOR_GRACE)
        cluster = Cluster(clock=self.clock, rng=self._rng, nodes=self._nodes, kubelet=QUICK, lifecycle=lifecycle)
        task = asyncio.create_task(cluster.run(), name="cluster")
        self._stack.push_async_callback(end, task)
        try:
            await ready_or_dead(cluster.ready, task)
            self._url = await self._stack.enter_async_context(serve(cluster.server))
            self._stack.push_async_callback(self.close_clients)
            self.client = self.new_client(name="kubectl")
            self.faults = Faults(self.client, clock=self.clock)
            await self.install(token=False)
            await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            self._stack.push_async_callback(self.end_operators)
            await self.start_operator()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    def access(self, token: str) -> ClusterAccess:
        return ClusterAccess(server=self._url, identity=Identity(), source="the sandbox")
