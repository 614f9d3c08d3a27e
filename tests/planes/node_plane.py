"""Real nodes as a plane: Kubernetes' own control plane and kubelets, real containers, and the operator as a process of its own.

The operator is ``regroup run``, as a user starts it outside of a cluster: with the kubeconfig of the ServiceAccount that we ship
and nothing more, its webhooks registered by URL on loopback. What a person does here is done with kubectl.
"""

import asyncio
import contextlib
import inspect
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.planes.nodeplane.images import BUSYBOX
from tests.planes.nodeplane.machine import Machine
from tests.planes.plane import NAMESPACE, Plane, lws_manifest, pod_template
from tests.planes.realplane.binaries import find_helm
from tests.planes.realplane.ports import free_port

from regroup.kube.pod import Pod
from regroup.kube.resources import NAMESPACES, PODS
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.omenative.keys import MAIN_CONTAINER, SERVING_RUNTIMES
from regroup.operator.config import NAMESPACE as HOME
from regroup.operator.config import SERVICE_ACCOUNT
from regroup.runtime.clock import SystemClock
from regroup.sandbox.faults import Faults
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, NotFound
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess, Identity

NODE_LOSS_GRACE = 5.0
OPERATOR_LIMIT = 60.0
COMMAND_LIMIT = 60.0
HELM_LIMIT = 150.0
"""It waits for rollouts, for less than that."""
STOP_LIMIT = 10.0
GONE_LIMIT = 120.0
_SERVED = "inferenceservices,servingruntimes"
_MADE = f"leaderworkersets,{_SERVED},inferencereplicas,pods,statefulsets,services,controllerrevisions,poddisruptionbudgets"
_CRDS = (
    "leaderworkersets.leaderworkerset.x-k8s.io",
    *(f"{kind}.ome.io" for kind in _SERVED.split(",")),
    "inferencereplicas.ome.io",
)
_BIN = Path(sys.executable).parent
_WORK = (
    'trap "exit 0" TERM; trap "exit 3" USR1; trap "exit 1" HUP; '
    # In the container's first process, so that it is the one that the kernel ends.
    "trap 'x=regroup; while :; do x=$x$x; done' USR2; "
    "echo ready on $(hostname); while :; do sleep 1 & wait $!; done"
)
"""What a container does: it waits, and a signal makes it exit with code 3 or 1, or eat memory without end."""


class NodePlane(Plane):
    """One namespace on the machine, and one life of the operator."""

    def __init__(self, machine: Machine, *, folder: Path) -> None:
        super().__init__(clock=SystemClock())
        self.machine = machine
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._admin = folder / "admin.kubeconfig"

    async def __aenter__(self) -> Self:
        control = self.machine.control
        self._admin.write_text(control.kubeconfig())
        identity = Identity(token=control.admin_token)
        access = ClusterAccess(server=control.url, identity=identity, ca=control.ca, source="the node plane")
        self.client = Client(HttpTransport(access), user_agent="kubectl", field_manager="kubectl")
        self.faults = Faults(self.client, clock=self.clock)
        try:
            await self._install()
            with contextlib.suppress(AlreadyExists):  # by an earlier test
                await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            await self.start_operator()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if exc and exc[0] is not None:
            self.machine.control.keep_logs()
            await self._tell()
        await self._end()

    async def start_operator(self) -> None:
        webhooks, probes = free_port(), free_port()
        log = (self._folder / "operator.log").open("ab")
        arguments = [
            *("run", "--kubeconfig", str(self._folder / "operator.kubeconfig"), "--host", "127.0.0.1"),
            *("--webhook-port", str(webhooks), "--webhook-url", f"https://127.0.0.1:{webhooks}"),
            *("--metrics-port", str(probes), "--node-loss-grace", f"{NODE_LOSS_GRACE:g}", "--config-namespace", HOME),
        ]
        with log:
            self._process = await asyncio.create_subprocess_exec(
                str(_BIN / "regroup"), *arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        await self.wait_for(lambda: self._serves(probes), timeout=OPERATOR_LIMIT, what="the operator is ready")

    async def stop_operator(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        self._process = None

    async def wait_for(self, predicate: Callable[[], Awaitable[Any] | Any], *, timeout: float = 60.0, what: str = "") -> Any:
        """As everywhere; a part of the machine that dies meanwhile ends the wait with its last log lines."""

        async def look() -> Any:
            self.machine.check()
            answer = predicate()
            return await answer if inspect.isawaitable(answer) else answer

        return await super().wait_for(look, timeout=timeout, what=what or inspect.getsource(predicate).strip()[:300])

    # -- what a person does

    async def kubectl(self, *arguments: str, ok: bool = True, namespace: str | None = NAMESPACE) -> str:
        """Run kubectl in a namespace and give what it printed. Fails when it does, unless ``ok`` is False."""
        program = shutil.which("kubectl", path=str(_BIN)) or "kubectl"
        where = ["--namespace", namespace] if namespace else []
        return await _run(program, "--kubeconfig", str(self._admin), *where, *arguments, ok=ok)

    async def regroup(self, *arguments: str, timeout: float = COMMAND_LIMIT) -> str:
        """Run a command of ours with the admin's kubeconfig and give what it printed. Fails when it does."""
        command, *rest = arguments
        return await _run(str(_BIN / "regroup"), command, "--kubeconfig", str(self._admin), *rest, timeout=timeout)

    async def helm(self, *arguments: str) -> str:
        """Run Helm in the operator's namespace and give what it printed. Fails when it does."""
        command = [str(find_helm(build=False)), "--kubeconfig", str(self._admin), "--namespace", HOME, *arguments]
        return await _run(*command, timeout=HELM_LIMIT)

    async def manifests(self, *arguments: str) -> str:
        """What ``regroup manifests`` prints."""
        return await _run(str(_BIN / "regroup"), "manifests", *arguments)

    async def exit_with_3(self, pod: str) -> None:
        """Make the container's process end with code 3."""
        await self._signal(pod, "USR1")

    async def exit_with_1(self, pod: str) -> None:
        """Make the container's process end with code 1."""
        await self._signal(pod, "HUP")

    async def eat_memory(self, pod: str) -> None:
        """Make the container's process take memory until it is stopped: only for containers with a limit."""
        await self._signal(pod, "USR2")

    # -- within

    async def _signal(self, pod: str, name: str) -> None:
        """A moment later: what runs in a container ends with it, and this kubectl must not."""
        later = f"(sleep 0.3; kill -{name} 1) </dev/null >/dev/null 2>&1 &"
        await self.kubectl("exec", pod, "--", "/bin/sh", "-c", later)

    async def _install(self) -> None:
        """``regroup manifests | kubectl apply``, but for the Deployment, and a token for the ServiceAccount."""
        bundle = self._folder / "bundle.yaml"
        bundle.write_text(await self.manifests("--only", "crds,namespace,rbac,config"))
        await self.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(bundle), namespace=None)
        await self.kubectl("wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{name}" for name in _CRDS))
        token = await self.kubectl("create", "token", SERVICE_ACCOUNT, "--duration", "1h", namespace=HOME)
        config = self.machine.control.kubeconfig(token=token.strip())
        (self._folder / "operator.kubeconfig").write_text(config)

    async def _serves(self, port: int) -> bool:
        self.machine.check()
        process = self._process
        assert process is not None
        assert process.returncode is None, f"the operator ended:\n{self._operator_log()}"
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        try:
            writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
            await writer.drain()
            return b" 200 " in await reader.readline()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _tell(self) -> None:
        """For whoever reads the failure: what was there, and the last words of all parts."""
        for words in (["get", "lws,isvc,irep,pods,sts,nodes", "-o", "wide"], ["get", "events", "--sort-by=.lastTimestamp"]):
            with contextlib.suppress(Exception):
                _say(await self.kubectl(*words, ok=False))
        _say(self._operator_log())
        for node in self.machine.nodes.values():
            _say(f"{node.name}\n{node.tail()}")

    def _operator_log(self) -> str:
        log = self._folder / "operator.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-40:]) if log.exists() else ""

    async def _end(self) -> None:
        try:
            # With the operator still there: it takes its finalizers off.
            await self._empty()
        finally:
            if self._process is not None and self._process.returncode is None:
                self._process.terminate()  # it gives its lease back, and the next test need not wait for its end
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), STOP_LIMIT)
            await self.stop_operator()
            await self.client.close()

    async def _empty(self) -> None:
        """Take away what the test made. Pods of nodes that are off are forced: nobody else would let them go.

        The namespace itself stays: Kubernetes takes its time with one, and it holds nothing then that a test could stumble over.
        """
        for lws in (await self.client.list_all(LEADERWORKERSETS, namespace=NAMESPACE, type=LeaderWorkerSet)).items:
            await self.client.delete(LEADERWORKERSETS, lws.metadata.name, namespace=NAMESPACE)
        await self.kubectl("delete", _SERVED, "--all", "--wait=false")
        off = {node.name for node in self.machine.nodes.values() if not node.on}

        async def gone() -> bool:
            self.machine.check()
            for pod in (await self.client.list_all(PODS, namespace=NAMESPACE, type=Pod)).items:
                if pod.spec.node_name in off:
                    with contextlib.suppress(NotFound):
                        await self.client.delete(PODS, pod.metadata.name, namespace=NAMESPACE, grace_period_seconds=0)
            return not await self.kubectl("get", _MADE, "-o", "name")

        await self.wait_for(gone, timeout=GONE_LIMIT, what="all that the test made is gone")
        await self.kubectl("delete", "events", "--all")


def workload(*, size: int = 3, policy: str = "RecreateGroupOnPodRestart", memory: str = "", **more: Any) -> dict[str, Any]:
    """A LeaderWorkerSet of real containers. ``memory`` limits each of them; ``more`` goes to ``lws_manifest``."""
    return lws_manifest(size=size, policy=policy, worker=more.pop("worker", None) or real_pod(memory=memory), **more)


def real_pod(*, image: str = BUSYBOX, memory: str = "", **spec: Any) -> dict[str, Any]:
    """A pod template that runs, with little patience for lost nodes."""
    container: dict[str, Any] = {"command": ["/bin/sh", "-c", _WORK], "imagePullPolicy": "IfNotPresent"}
    if memory:
        container["resources"] = {"limits": {"memory": memory}, "requests": {"memory": memory}}
    return pod_template(image=image, container=container, grace=5, **{"tolerations": IMPATIENT, **spec})


def serving_runtime(*, name: str = "real", workers: int = 1) -> dict[str, Any]:
    """A ServingRuntime whose engine is a leader and workers of real containers, each of them the kubelet's to restart."""
    runner = {"name": MAIN_CONTAINER, "image": BUSYBOX, "command": ["/bin/sh", "-c", _WORK], "imagePullPolicy": "IfNotPresent"}
    part = {"runner": runner, "terminationGracePeriodSeconds": 5}
    return {
        "apiVersion": SERVING_RUNTIMES.api_version,
        "kind": SERVING_RUNTIMES.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"engineConfig": {"leader": part, "worker": {**part, "size": workers}}},
    }


IMPATIENT: Sequence[dict[str, Any]] = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
]
GROUP_ON_TWO_NODES = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "podAffinityTerm": {
                    "labelSelector": {"matchLabels": {keys.NAME: "demo"}},
                    "topologyKey": "kubernetes.io/hostname",
                },
            }
        ]
    }
}
"""Spread while both nodes are there, and together when only one is."""


async def _run(*command: str, ok: bool = True, timeout: float = COMMAND_LIMIT) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout)
    text = output.decode(errors="replace")
    assert not ok or process.returncode == 0, f"{' '.join(command)}: {text}"
    return text


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
