"""A user's own cluster as a plane, by hand: ``REGROUP_KUBECONFIG=file pytest -m cluster tests/planes``.

What the suites make stands in one namespace, which must not be there before and is removed after. Where the cluster has no nodes,
ours join it for the time of a test; where it has nodes of its own, suites that break something cannot run and say so.
"""

import os
from dataclasses import replace
from typing import Self

import pytest
from tests.planes.plane import NAMESPACE, end
from tests.planes.socket_plane import SocketPlane
from tests.planes.wiping import wipe

from regroup.kube.node import Node
from regroup.kube.resources import NAMESPACES, NODES
from regroup.leaderworkerset.controller.setup import Settings
from regroup.sandbox.faults import Faults
from regroup.wire.errors import AlreadyExists, NotFound
from regroup.wire.kubeconfig import ClusterAccess, Identity, load_kubeconfig

VARIABLE = "REGROUP_KUBECONFIG"
OWNER = "regroup.dev/made-by"
GONE_LIMIT = 120.0


class ForeignNamespace(Exception):
    """The namespace of the suites is there and was not made by them: it is not touched."""


class ClusterPlane(SocketPlane):
    """The cluster that a kubeconfig names."""

    def __init__(self, *, nodes: int = 4, seed: int = 1, settings: Settings | None = None) -> None:
        super().__init__(nodes=nodes, seed=seed, settings=settings)
        self._access = load_kubeconfig(os.environ[VARIABLE])
        self._made = False

    async def __aenter__(self) -> Self:
        self.client = self.new_client(name="kubectl")
        try:
            await self._make_namespace()
            await self.install()
            if (await self.client.list_all(NODES, type=Node)).items:
                self.faults = _NoFaults(self.client, clock=self.clock)
            else:
                self.faults = Faults(self.client, clock=self.clock)
                await self.start_nodes()
            await self.start_operator()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._end()

    def access(self, token: str) -> ClusterAccess:
        return replace(self._access, identity=Identity(token=token)) if token else self._access

    async def _make_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {OWNER: "tests"}}}
        try:
            await self.client.create(NAMESPACES, body)
        except AlreadyExists:
            raise ForeignNamespace(f"namespace {NAMESPACE} is there already: remove it, or use another cluster") from None
        self._made = True

    async def _end(self) -> None:
        await self.end_operators()
        if self._kubelets is not None:
            await end(self._kubelets)
        try:
            if self._made:
                await wipe(self.client, nodes=self._kubelets is not None, definitions=False)
                await self.client.delete(NAMESPACES, NAMESPACE)
                await self.wait_for(self._gone, timeout=GONE_LIMIT, what=f"namespace {NAMESPACE} is gone")
        finally:
            await self.close_clients()

    async def _gone(self) -> bool:
        try:
            await self.client.get(NAMESPACES, NAMESPACE)
        except NotFound:
            return True
        return False


class _NoFaults(Faults):
    """Real kubelets obey no annotations."""

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_"):
            pytest.skip(f"faults.{name} needs simulated nodes, and this cluster has its own")
        return super().__getattribute__(name)
