"""What happens to a pod between two looks of its kubelet."""

import asyncio
from contextlib import AbstractAsyncContextManager
from random import Random

import pytest
from tests.sandbox.cluster_fixtures import QUICK, START, Pods, container

from regroup.runtime.clock import LoopClock
from regroup.sandbox.cluster import Cluster
from regroup.wire.transport import Request, Response, Stream, Transport

pytestmark = pytest.mark.looptime


class Between:
    """A way to the API server on which somebody crashes the pod just before the first report that it runs arrives."""

    def __init__(self, inner: Transport, cluster: "Meddled") -> None:
        self._inner = inner
        self._cluster = cluster

    async def request(self, request: Request, *, timeout: float) -> Response:
        told = request.method == "PATCH" and request.path.endswith("/pods/p/status") and b'"running"' in (request.body or b"")
        if told and not self._cluster.done.is_set():
            self._cluster.done.set()
            await self._cluster.faults().crash("default", "p")
        return await self._inner.request(request, timeout=timeout)

    def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request, connect_timeout=connect_timeout, read_timeout=read_timeout)

    async def close(self) -> None:
        await self._inner.close()


class Meddled(Cluster):
    """A cluster whose parts speak over such a way."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        super().__init__(clock=LoopClock(start=START), rng=Random(1), nodes=1, kubelet=QUICK)

    def transport(self) -> Transport:
        return Between(super().transport(), self)


async def test_a_fault_that_comes_while_the_kubelet_reports() -> None:
    """The answer to the report has the fault already, the watch tells of it with an older version: it strikes all the same."""
    cluster = Meddled()
    task = asyncio.create_task(cluster.run())
    try:
        await cluster.ready.wait()
        pods = Pods(cluster.client("test"))
        await pods.create("p")
        await pods.until("p", lambda pod: container(pod)["restartCount"] == 1)
        assert cluster.done.is_set()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
