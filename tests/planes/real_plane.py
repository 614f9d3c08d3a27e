"""A real control plane as a plane: Kubernetes' own API server, controllers and scheduler; pods are run by our kubelets.

A suite shares one control plane; what a test made is removed after it. A control plane that dies fails the test that it died in
with its last log lines; the next test starts another.
"""

from contextlib import AsyncExitStack, suppress
from typing import Self

from tests.planes.placing import SchedulerFaults
from tests.planes.plane import NAMESPACE, end
from tests.planes.realplane.controlplane import ControlPlane, Options, PlaneFailed
from tests.planes.socket_plane import SocketPlane
from tests.planes.wiping import VOLUMES, NotWiped, wipe

from regroup.kube.resources import NAMESPACES
from regroup.leaderworkerset.controller.setup import Settings
from regroup.wire.errors import AlreadyExists, WireError
from regroup.wire.kubeconfig import ClusterAccess, Identity

__all__ = ["RealPlane", "SharedControl"]


class SharedControl:
    """One control plane for many tests, started at the first need."""

    def __init__(self) -> None:
        self._control: ControlPlane | None = None

    def get(self) -> ControlPlane:
        """The running control plane. Raises ``PlaneFailed`` when a part of it has died."""
        if self._control is None:
            control = ControlPlane()
            control.__enter__()  # in the main thread, whose life its processes are tied to
            self._control = control
        control = self._control
        try:
            control.check()
        except PlaneFailed:
            self.stop()
            raise
        return control

    def stop(self) -> None:
        """Stop it; the next test starts another."""
        if self._control is not None:
            self._control.stop()
            self._control = None


class RealPlane(SocketPlane):
    """One operator with the shipped rights and simulated nodes, on a control plane of its own or a shared one."""

    control: ControlPlane

    def __init__(
        self,
        *,
        nodes: int = 4,
        seed: int = 1,
        settings: Settings | None = None,
        options: Options | None = None,
        shared: SharedControl | None = None,
    ) -> None:
        super().__init__(nodes=nodes, seed=seed, settings=settings)
        self._shared = shared
        self._placing: SchedulerFaults | None = None
        if shared is None:
            self.control = ControlPlane(options=options)

    async def __aenter__(self) -> Self:
        if self._shared is not None:
            self.control = self._shared.get()
        else:
            self.control.__enter__()  # not in a thread: the children are tied to the life of the thread that starts them
        try:
            self.client = self.new_client(name="kubectl")
            self.faults = self._placing = SchedulerFaults(self.client, clock=self.clock)
            await self.install()
            await self.start_nodes()
            with suppress(AlreadyExists):  # from an earlier test on the same control plane
                await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            await self.start_operator()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        failed = bool(exc) and exc[0] is not None
        if failed:
            self.control.keep_logs()
        try:
            if failed:
                self.control.check()  # a dead part is the reason, not what the test saw of it
        finally:
            await self._end()

    def access(self, token: str) -> ClusterAccess:
        identity = Identity(token=token or self.control.admin_token)
        return ClusterAccess(server=self.control.url, identity=identity, ca=self.control.ca, source="the real plane")

    async def provide_volumes(self, count: int) -> None:
        """Volumes on no disk, for claims that name no class; wiping removes them."""
        for number in range(count):
            body = {
                "apiVersion": VOLUMES.api_version,
                "kind": VOLUMES.kind,
                "metadata": {"name": f"volume-{number}"},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": f"/nowhere/{number}"},
                    "persistentVolumeReclaimPolicy": "Retain",
                },
            }
            await self.client.create(VOLUMES, body)

    async def _end(self) -> None:
        async with AsyncExitStack() as ending:  # from the last to the first, whatever fails on the way
            ending.push_async_callback(self.close_clients)
            if self._shared is None:
                ending.callback(self.control.stop)
            else:
                ending.push_async_callback(self._leave, self._shared)
            if self._kubelets is not None:
                ending.push_async_callback(end, self._kubelets)
            if self._placing is not None:
                ending.push_async_callback(self._placing.close)
            ending.push_async_callback(self.end_operators)

    async def _leave(self, shared: SharedControl) -> None:
        """Leave a shared control plane as it was found, or to nobody."""
        try:
            self.control.check()
            await wipe(self.client)
        except (PlaneFailed, NotWiped, WireError):
            self.control.keep_logs()
            shared.stop()
            raise
