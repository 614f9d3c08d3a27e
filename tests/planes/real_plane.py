"""A real control plane as a plane: Kubernetes' own API server, controllers and scheduler; pods are run by our kubelets.

The operator runs outside the cluster with the rights that we ship and nothing more: the ServiceAccount of ``regroup manifests``,
a token from the API server, RBAC on, its webhooks registered by URL on loopback.
"""

import asyncio
import random
import socket
from typing import Any, Self

from tests.planes.plane import NAMESPACE, Plane, end, ready_or_dead
from tests.planes.realplane.controlplane import ControlPlane, Options
from tests.planes.sandbox_plane import RecordingTransport

from regroup.kube.resources import CONFIGMAPS, CRDS, NAMESPACES
from regroup.leaderworkerset.controller.setup import Settings
from regroup.operator import manifests
from regroup.operator.config import NAMESPACE as HOME
from regroup.operator.config import SERVICE_ACCOUNT, OperatorConfig
from regroup.operator.start import Operator
from regroup.runtime.clock import SystemClock
from regroup.sandbox.faults import Faults
from regroup.sandbox.kubelet.kubelets import Kubelets
from regroup.sandbox.kubelet.node import default_nodes
from regroup.sandbox.kubelet.options import KubeletOptions
from regroup.wire.client import Client
from regroup.wire.errors import NotFound
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess, Identity
from regroup.wire.resource import Resource

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
TOKEN_SECONDS = 3600


class RealPlane(Plane):
    """One control plane, one operator with the shipped rights, and simulated nodes."""

    def __init__(
        self, *, nodes: int = 4, seed: int = 1, settings: Settings | None = None, options: Options | None = None
    ) -> None:
        super().__init__(clock=SystemClock())
        self._nodes = nodes
        self._rng = random.Random(seed)
        self._settings = settings or Settings()
        self.control = ControlPlane(options=options)
        self._kubelets: asyncio.Task[None] | None = None
        self._clients: list[Client] = []
        self.token = ""
        """The operator's credentials."""

    async def __aenter__(self) -> Self:
        # Not in a thread: the children are tied to the life of the thread that starts them.
        self.control.__enter__()
        try:
            self.client = self._client(self.control.admin_token, name="kubectl")
            self.faults = Faults(self.client, clock=self.clock)
            await self._install()
            await self.start_nodes()
            await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            await self.start_operator()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if exc and exc[0] is not None:
            self.control.keep_logs()
        await self._end()

    async def start_operator(self) -> None:
        port = free_port()
        client = Client(RecordingTransport(HttpTransport(self._access(self.token)), self), user_agent="regroup")
        self._clients.append(client)
        config = OperatorConfig(
            identity="test",
            leader_elect=False,
            host="127.0.0.1",
            metrics_port=None,
            webhook_port=port,
            webhook_url=f"https://127.0.0.1:{port}",
            node_loss_grace=self._settings.node_loss_grace,
            workers=self._settings.workers,
            scheduler_provider=self._settings.scheduler_provider,
            config_namespace=HOME,
        )
        operator = Operator(client, config=config, clock=self.clock, rng=self._rng)
        self._operator = asyncio.create_task(operator.run(), name="operator")
        await ready_or_dead(operator.ready, self._operator)

    async def _install(self) -> None:
        """What ``regroup manifests --only crds,namespace,rbac | kubectl apply --server-side -f -`` does, and a token."""
        for body in manifests.manifests(
            manifests.ManifestOptions(scheduler_provider=self._settings.scheduler_provider),
            only=("crds", "namespace", "rbac", "config"),
        ):
            meta = body["metadata"]
            await self.client.apply(_INSTALLED[body["kind"]], meta["name"], body, namespace=meta.get("namespace"))
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": TOKEN_SECONDS}}
        answer: dict[str, Any] = await self.client.create(
            _ACCOUNTS, request, namespace=HOME, name=SERVICE_ACCOUNT, subresource="token"
        )
        self.token = answer["status"]["token"]
        await self.wait_for(self._established, timeout=30, what="the CRD is served")

    async def _established(self) -> bool:
        name = "leaderworkersets.leaderworkerset.x-k8s.io"
        crd: dict[str, Any] = await self.client.get(CRDS, name)
        conditions = (crd.get("status") or {}).get("conditions") or []
        return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)

    async def start_nodes(self) -> None:
        """Start whatever runs the pods and wait until its nodes are registered."""
        await self.wait_for(self._lease_namespace, timeout=30, what="namespace kube-node-lease is there")
        options = KubeletOptions(
            pull_time=0.05,
            init_time=0.05,
            start_delay=0.05,
            ready_delay=0.05,
            stop_delay=0.05,
            crash_loop_backoff=2.0,
            lease_interval=1.0,
        )
        kubelets = Kubelets(
            self._client(self.control.admin_token, name="kubelet"),
            clock=self.clock,
            rng=self._rng,
            nodes=default_nodes(self._nodes),
            options=options,
        )
        self._kubelets = asyncio.create_task(kubelets.run(), name="kubelets")
        await ready_or_dead(kubelets.ready, self._kubelets)

    async def _lease_namespace(self) -> bool:
        try:
            await self.client.get(NAMESPACES, "kube-node-lease")
        except NotFound:
            return False
        return True

    def _access(self, token: str) -> ClusterAccess:
        return ClusterAccess(server=self.control.url, identity=Identity(token=token), ca=self.control.ca, source="the real plane")

    def _client(self, token: str, *, name: str) -> Client:
        client = Client(HttpTransport(self._access(token)), user_agent=name, field_manager=name)
        self._clients.append(client)
        return client

    async def _end(self) -> None:
        await self.stop_operator()
        if self._kubelets is not None:
            await end(self._kubelets)
        for client in self._clients:
            await client.close()
        self.control.stop()


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port
