"""The two clusters that commands are typed to, each with one simulated node of the same size: the sandbox, and Kubernetes."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.planes.plane import end, ready_or_dead
from tests.planes.realplane.controlplane import ControlPlane
from tests.planes.socket_plane import QUICK

from regroup.kube.resources import NAMESPACES
from regroup.runtime.clock import SystemClock
from regroup.runtime.events import EventRecorder
from regroup.sandbox.cluster import Cluster
from regroup.sandbox.httpfront import kubeconfig, serve
from regroup.sandbox.kubelet.kubelets import Kubelets
from regroup.sandbox.kubelet.node import LEASE_NAMESPACE, default_nodes
from regroup.wire.client import Client
from regroup.wire.errors import NotFound
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess, Identity

NODES = default_nodes(1)


@asynccontextmanager
async def sandbox() -> AsyncIterator[str]:
    """A fresh sandbox on a socket; gives a kubeconfig."""
    cluster = Cluster(clock=SystemClock(), rng=random.Random(1), nodes=NODES, kubelet=QUICK)
    task = asyncio.create_task(cluster.run())
    try:
        await ready_or_dead(cluster.ready, task)
        async with serve(cluster.server) as url:
            yield kubeconfig(url)
    finally:
        await end(task)


@asynccontextmanager
async def kubernetes() -> AsyncIterator[str]:
    """A fresh control plane of Kubernetes; gives a kubeconfig. Raises ``PlaneFailed`` when a part of it dies."""
    with ControlPlane() as control:
        access = ClusterAccess(
            server=control.url, identity=Identity(token=control.admin_token), ca=control.ca, source="the real control plane"
        )
        client = Client(HttpTransport(access), user_agent="kubelet", field_manager="kubelet")
        recorder = EventRecorder(client, component="kubelet", instance="sandbox", clock=SystemClock())
        kubelets = Kubelets(client, clock=SystemClock(), rng=random.Random(1), nodes=NODES, options=QUICK, recorder=recorder)
        tasks = [asyncio.create_task(recorder.run())]
        try:
            await _lease_namespace(client)
            tasks.append(task := asyncio.create_task(kubelets.run()))
            await ready_or_dead(kubelets.ready, task)
            yield control.kubeconfig()
            control.check()
        finally:
            for started in reversed(tasks):
                await end(started)
            await client.close()


async def _lease_namespace(client: Client) -> None:
    """Until the namespace of the nodes' Leases is there, which the API server makes when it has started."""
    async with asyncio.timeout(30):
        while True:
            with suppress(NotFound):
                await client.get(NAMESPACES, LEASE_NAMESPACE)
                return
            await asyncio.sleep(0.1)
