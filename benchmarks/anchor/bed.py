"""Where the anchor is measured: a real control plane with an audit log, light nodes, and the operator as its own process."""

import asyncio
import statistics
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.planes.plane import NAMESPACE, lws_manifest, pod_template
from tests.planes.real_plane import RealPlane
from tests.planes.realplane.controlplane import Options
from tests.planes.realplane.ports import free_port

from benchmarks.anchor.audit import AuditLog, Write, by_operator, conflict, is_event
from benchmarks.anchor.child import Child
from benchmarks.anchor.nodes import AGENT
from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.keys import LEADERWORKERSETS, NAME
from regroup.operator.config import NAMESPACE as HOME
from regroup.operator.config import SERVICE_ACCOUNT
from regroup.runtime.clock import timestamp
from regroup.wire.errors import NotFound

NODES = 20
SET = "demo"
IMAGE = "server:1"
USER = "kubectl"
"""User agent of what the measurement itself does, such as reporting failures."""
OPERATOR = f"system:serviceaccount:{HOME}:{SERVICE_ACCOUNT}"
START_LIMIT = 60.0
QUIET = 11.0
"""Seconds until the operator has written all that it holds back: changes of a status that nobody waits for wait for 10."""
_NEVER_LOST = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What the operator wrote in a stretch of time."""

    writes: Sequence[Write]
    """Without events and leases."""
    events: int
    conflicts: int

    def __str__(self) -> str:
        return "\n".join(map(str, self.writes))


class Bed(RealPlane):
    """``async with Bed() as bed:`` is one measurement's world. ``qps``: requests/s that the controller manager may send."""

    def __init__(self, *, qps: int = 1000, nodes: int = NODES) -> None:
        super().__init__(nodes=nodes, options=Options(controller_qps=qps, audit=True, node_monitor_grace=_NEVER_LOST))
        self.log = AuditLog(self.control.folder / "audit.log")
        self._children: list[Child] = []
        self.operator: Child

    async def start_nodes(self) -> None:
        """Start the nodes' process."""
        kubeconfig = self._kubeconfig("nodes", self.control.admin_token)
        child = self._start("nodes", ["-m", "benchmarks.anchor.nodes", str(kubeconfig), str(self._nodes)])
        await self.wait_for(lambda: "registered" in child.log.read_text(), timeout=START_LIMIT, what="the nodes are there")

    async def start_operator(self) -> None:
        """Start ``regroup run`` and wait until it leads."""
        kubeconfig = self._kubeconfig("operator", self.token)
        webhooks, metrics = free_port(), free_port()
        flags = ["--kubeconfig", str(kubeconfig), "--host", "127.0.0.1", "--webhook-port", str(webhooks)]
        flags += [
            "--config-namespace",
            HOME,
            "--webhook-url",
            f"https://127.0.0.1:{webhooks}",
            "--metrics-port",
            str(metrics),
            "--log-format",
            "json",
        ]
        self.operator = self._start("operator", ["-m", "regroup.cli", "run", *flags])
        await self.wait_for(lambda: self._leads(metrics), timeout=START_LIMIT, what="the operator leads")

    async def stop_operator(self) -> None:
        """Stop all processes of this bed but the control plane."""
        for child in self._children:
            child.stop()
        self._children.clear()

    def check(self) -> None:
        """Raise when a process has died."""
        self.control.check()
        for child in self._children:
            child.check()

    # -- doing

    async def settle(self) -> None:
        """Wait until nothing is written any more."""
        await self.sleep(QUIET, exact=True)
        self.check()

    async def create(self, *, replicas: int, size: int, name: str = SET, **options: Any) -> float:
        """Make a set and wait until all of it is Ready; gives the seconds."""
        began = time.monotonic()
        worker = pod_template(image=IMAGE, grace=30)
        await self.apply(lws_manifest(name, replicas=replicas, size=size, worker=worker, **options))
        await self.until_ready(name, replicas)
        return time.monotonic() - began

    async def until_ready(self, name: str, groups: int, *, timeout: float = 900.0) -> LeaderWorkerSet:
        """Wait until the status says that so many groups are ready."""
        end = time.monotonic() + timeout
        async with self.client.watch(
            LEADERWORKERSETS,
            type=LeaderWorkerSet,
            namespace=NAMESPACE,
            field_selector=f"metadata.name={name}",
            timeout_seconds=3600,
            read_timeout=timeout,
            send_initial_events=True,
        ) as events:
            async for event in events:
                if event.object is not None and event.object.status.ready_replicas == groups:
                    return event.object
                if time.monotonic() > end:
                    break
        raise AssertionError(f"{name} has not {groups} ready groups within {timeout:g} s")

    async def fail(self, pod: str, *, restarts: int = 1, container: str = "main") -> str:
        """Report that the container of ``pod`` exited and was restarted, as its kubelet would. Gives the pod's UID."""
        now = timestamp(datetime.now(UTC))
        entry = {
            "name": container,
            "image": IMAGE,
            "imageID": IMAGE,
            "ready": True,
            "started": True,
            "restartCount": restarts,
            "state": {"running": {"startedAt": now}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}},
        }
        patch = {"status": {"containerStatuses": [entry]}}
        answer = await self.client.strategic_patch(PODS, pod, patch, namespace=NAMESPACE, subresource="status", type=Pod)
        return answer.metadata.uid

    async def recreated(self, mark: int, names: Sequence[str], *, timeout: float = 600.0) -> float:
        """Wait until each of ``names`` was reported ready after ``mark``; gives the time of the last report."""
        times: dict[str, float] = await self.until(
            lambda: (found := ready_reports(self.log.since(mark))).keys() >= set(names) and found,
            what=f"{len(names)} pods are ready again",
            timeout=timeout,
        )
        return max(times[name] for name in names)

    async def pods_of(self, name: str = SET) -> list[Pod]:
        return (await self.client.list_all(PODS, namespace=NAMESPACE, type=Pod, label_selector=f"{NAME}={name}")).items

    # -- looking

    def counted(self, mark: int) -> Counted:
        """What the operator wrote since ``mark``."""
        found = list(by_operator(self.log.since(mark), user=OPERATOR))
        writes = [write for write in found if not is_event(write)]
        return Counted(writes, len(found) - len(writes), sum(map(conflict, found)))

    async def until(self, done: Callable[[], Any], *, what: str, timeout: float = 600.0) -> Any:
        """Wait until ``done`` gives something true; looks often, and at the log only."""
        end = time.monotonic() + timeout
        while not (answer := done()):
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout:g} s: {what}")
            await asyncio.sleep(0.02)
        return answer

    def _leads(self, port: int) -> Awaitable[bool]:
        self.check()
        return asyncio.to_thread(_leads, port)

    def _start(self, name: str, arguments: Iterable[str]) -> Child:
        child = Child([sys.executable, *arguments], log=self.control.folder / f"{name}.log")
        self._children.append(child)
        return child

    def _kubeconfig(self, name: str, token: str) -> Path:
        path = self.control.folder / f"{name}.kubeconfig"
        path.write_text(self.control.kubeconfig(token=token))
        return path


def _leads(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return b'leader_election_master_status{name="regroup"} 1.0' in answer.read()
    except OSError:
        return False


def deletions(writes: Iterable[Write]) -> list[Write]:
    """The operator's deletions of leaders among ``writes``."""
    return [write for write in writes if write.user == OPERATOR and write.verb == "delete" and write.resource == "pods"]


def failures(writes: Iterable[Write]) -> dict[str, float]:
    """When the failure of each pod was reported, by name."""
    return {write.name: write.answered for write in writes if write.agent == USER and write.resource == "pods/status"}


def ready_reports(writes: Iterable[Write]) -> dict[str, float]:
    """When each pod was first reported ready, by name."""
    times: dict[str, float] = {}
    for write in writes:
        if write.agent == AGENT and write.resource == "pods/status" and write.verb == "patch" and write.code == 200:
            times.setdefault(write.name, write.answered)
    return times


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of all are not above, by rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


async def gone(bed: Bed, name: str = SET) -> None:
    """Delete a set and wait until its pods are gone."""
    try:
        await bed.client.delete(LEADERWORKERSETS, name, namespace=NAMESPACE)
    except NotFound:
        return
    while await bed.pods_of(name):  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.2)
