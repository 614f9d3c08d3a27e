"""Planes behind a socket and in real time: what the real control plane, a user's cluster and our own server share.

The operator runs outside the cluster with the rights that we ship and nothing more: the ServiceAccount of ``regroup manifests``,
a token from the API server, RBAC on, its webhooks registered by URL on loopback.
"""

import asyncio
import random
from abc import abstractmethod
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

from tests.planes.gate import gate
from tests.planes.plane import Plane, end, ready_or_dead
from tests.planes.realplane.ports import free_port
from tests.planes.sandbox_plane import RecordingTransport

from regroup.kube.resources import CONFIGMAPS, CRDS, LEASES, MUTATING_WEBHOOKS, NAMESPACES
from regroup.leaderworkerset.controller.setup import Settings
from regroup.operator import manifests
from regroup.operator.config import LEASE, SERVICE_ACCOUNT, OperatorConfig
from regroup.operator.config import NAMESPACE as HOME
from regroup.operator.start import Operator
from regroup.runtime.clock import SystemClock, micro_timestamp
from regroup.sandbox.kubelet.kubelets import Kubelets
from regroup.sandbox.kubelet.node import default_nodes
from regroup.sandbox.kubelet.options import KubeletOptions
from regroup.wire.client import Client
from regroup.wire.errors import NotFound
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess
from regroup.wire.resource import Resource

QUICK = KubeletOptions(
    pull_time=0.05,
    init_time=0.05,
    start_delay=0.05,
    ready_delay=0.05,
    stop_delay=0.05,
    crash_loop_backoff=2.0,
    lease_interval=1.0,
)
"""Kubelets that do not keep a suite waiting."""
NODE_LOSS_GRACE = 5.0
"""A short grace for lost nodes: spec/leaderworkerset.md Q29 makes it a setting."""
TOKEN_SECONDS = 3600
_RBAC = "rbac.authorization.k8s.io"
_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
_INSTALLED = {
    "ConfigMap": CONFIGMAPS,
    "CustomResourceDefinition": CRDS,
    "Namespace": NAMESPACES,
    "ServiceAccount": _ACCOUNTS,
    "ClusterRole": Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    "Role": Resource(_RBAC, "v1", "roles", "Role"),
    "RoleBinding": Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
}


class ForwardClock(SystemClock):
    """The machine's clock, put forward."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead


class SocketPlane(Plane):
    """The operator as its own client of an API server on a socket. Times are the world's."""

    config_namespace = HOME
    slow_start = "15s"
    stuck_grace = 15.0
    latest: Operator
    """The one that was started last."""
    quiet = 2.0
    """Seconds after which nothing will happen any more: many times what the operator needs for anything."""

    def __init__(self, *, nodes: int, seed: int, settings: Settings | None) -> None:
        super().__init__(clock=SystemClock())
        self._operators_clock = ForwardClock()
        self._nodes = nodes
        self._rng = random.Random(seed)
        self._settings = settings or Settings(node_loss_grace=NODE_LOSS_GRACE)
        self._kubelets: asyncio.Task[None] | None = None
        self._standby: asyncio.Task[None] | None = None
        self._gates = AsyncExitStack()
        self._clients: list[Client] = []
        self.token = ""
        """The operator's credentials."""

    @abstractmethod
    def access(self, token: str) -> ClusterAccess:
        """How to reach the API server with a token; without one as the administrator."""

    async def sleep(self, seconds: float, *, exact: bool = False) -> None:
        await asyncio.sleep(seconds if exact else min(seconds, self.quiet))

    async def age(self, seconds: float) -> None:
        self._operators_clock.ahead += timedelta(seconds=seconds)

    async def start_operator(self) -> None:
        self._operator = await self._started(self._operators_client(), identity="test", leader_elect=False)
        await self._end_standby()

    async def start_candidate(self, identity: str) -> asyncio.Task[None]:
        """One more operator, which serves its webhooks and leads when it gets the lease. The caller ends it."""
        return await self._started(self._operators_client(), identity=identity, leader_elect=True)

    def _operators_client(self) -> Client:
        return Client(RecordingTransport(HttpTransport(self.access(self.token)), self), user_agent="regroup")

    async def stop_operator(self) -> None:
        if self._operator is None:
            return
        await super().stop_operator()
        await self._start_standby()

    async def _start_standby(self) -> None:
        """A second replica that never leads: it goes on serving the webhooks, without which no pod of a group could be made."""
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": LEASE, "namespace": HOME},
            "spec": {
                "holderIdentity": "test",
                "leaseDurationSeconds": TOKEN_SECONDS,
                "renewTime": micro_timestamp(self.clock.now()),
            },
        }
        await self.client.apply(LEASES, LEASE, lease, namespace=HOME, force=True)
        client = Client(HttpTransport(self.access(self.token)), user_agent="regroup")
        self._standby = await self._started(client, identity="standby", leader_elect=True)

    async def _end_standby(self) -> None:
        if self._standby is not None:
            await end(self._standby)
            self._standby = None

    async def end_operators(self) -> None:
        """No operator at all any more."""
        await super().stop_operator()
        await self._end_standby()
        await self._gates.aclose()

    async def _started(self, client: Client, *, identity: str, leader_elect: bool) -> asyncio.Task[None]:
        """An operator whose webhooks are registered, and whose caches are filled if it leads."""
        self._clients.append(client)
        port = free_port()
        # API servers keep connections open: a new gate for each operator, so that none leads to an old one.
        door = await self._gates.enter_async_context(gate(self.line, target=port))
        config = OperatorConfig(
            identity=identity,
            leader_elect=leader_elect,
            host="127.0.0.1",
            metrics_port=None,
            webhook_port=port,
            webhook_url=f"https://127.0.0.1:{door}",
            node_loss_grace=self._settings.node_loss_grace,
            workers=self._settings.workers,
            scheduler_provider=self._settings.scheduler_provider,
            config_namespace=HOME,
        )
        self.latest = operator = Operator(client, config=config, clock=self._operators_clock, rng=self._rng)
        task = asyncio.create_task(operator.run(), name=identity)
        if leader_elect:
            await self.wait_for(lambda: task.done() or self._registered(door), timeout=30, what="the standby is registered")
        else:
            await ready_or_dead(operator.ready, task)
        return task

    async def _registered(self, port: int) -> bool:
        found = (await self.client.list_all(MUTATING_WEBHOOKS, type=dict[str, Any])).items
        return any(f":{port}/" in hook["clientConfig"].get("url", "") for one in found for hook in one.get("webhooks") or [])

    async def install(self, *, token: bool = True) -> None:
        """What ``regroup manifests --only crds,namespace,rbac | kubectl apply --server-side -f -`` does, and a token."""
        options = manifests.ManifestOptions(scheduler_provider=self._settings.scheduler_provider)
        for body in manifests.manifests(options, only=("crds", "namespace", "rbac", "config")):
            meta = body["metadata"]
            await self.client.apply(_INSTALLED[body["kind"]], meta["name"], body, namespace=meta.get("namespace"))
        if token:
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            }
            answer: dict[str, Any] = await self.client.create(
                _ACCOUNTS, request, namespace=HOME, name=SERVICE_ACCOUNT, subresource="token"
            )
            self.token = answer["status"]["token"]
        await self.wait_for(self._established, timeout=30, what="the CRD is served")

    async def _established(self) -> bool:
        crd: dict[str, Any] = await self.client.get(CRDS, "leaderworkersets.leaderworkerset.x-k8s.io")
        conditions = (crd.get("status") or {}).get("conditions") or []
        return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)

    async def start_nodes(self) -> None:
        """Start whatever runs the pods and wait until its nodes are registered."""
        await self.wait_for(self._lease_namespace, timeout=30, what="namespace kube-node-lease is there")
        kubelets = Kubelets(
            self.new_client(name="kubelet"), clock=self.clock, rng=self._rng, nodes=default_nodes(self._nodes), options=QUICK
        )
        self._kubelets = asyncio.create_task(kubelets.run(), name="kubelets")
        await ready_or_dead(kubelets.ready, self._kubelets)

    async def _lease_namespace(self) -> bool:
        try:
            await self.client.get(NAMESPACES, "kube-node-lease")
        except NotFound:
            return False
        return True

    def new_client(self, *, name: str) -> Client:
        """An administrator's client, closed at the end."""
        client = Client(HttpTransport(self.access("")), user_agent=name, field_manager=name)
        self._clients.append(client)
        return client

    async def close_clients(self) -> None:
        for client in self._clients:
            await client.close()
        self._clients.clear()
