"""Simulated nodes that cost next to nothing: ``python -m benchmarks.anchor.nodes KUBECONFIG COUNT``, a process of its own.

A pod that is bound is reported Running once, ``READY`` seconds later, and Ready as soon as all its readiness gates are open; a
pod that is told to go is removed ``GONE`` seconds later. Containers are none: what fails, the benchmark itself reports. The
sandbox's kubelet does far more (pulls, probes, back-off, events), which on a small machine would be what is measured. Ends with
its parent.
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from regroup.kube.meta import Condition, ObjectView, View, find_condition
from regroup.kube.resources import NODES, PODS
from regroup.runtime.clock import timestamp
from regroup.runtime.loop import run
from regroup.wire.client import Client
from regroup.wire.errors import ConnectionFailed, Gone, NotFound, WireError
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import load_kubeconfig

READY = GONE = 0.05
"""Seconds."""
AGENT = "nodes"
"""User agent, by which the audit log tells them from others."""


class _Container(View, frozen=True, gc=False, kw_only=True):
    name: str = ""
    image: str = ""


class _Gate(View, frozen=True, gc=False, kw_only=True):
    condition_type: str = ""


class _Spec(View, frozen=True, gc=False, kw_only=True):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    readiness_gates: tuple[_Gate, ...] = ()


class _Status(View, frozen=True, gc=False, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class _Pod(ObjectView, frozen=True, gc=False, kw_only=True):
    spec: _Spec = _Spec()
    status: _Status = _Status()


class Nodes:
    """All nodes of the cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._running: set[str] = set()
        self._leaving: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._address = 0

    async def register(self, count: int, *, pods: int = 400) -> None:
        """Create ``count`` nodes with room for ``pods`` each. They are never lost: nobody waits for their heartbeats."""
        now = timestamp(datetime.now(UTC))
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        capacity = {"cpu": "64", "memory": "512Gi", "pods": str(pods)}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [{**condition, "lastTransitionTime": now}]}
        for number in range(count):
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}, "status": status}
            await self._client.create(NODES, body)

    async def run(self) -> None:
        """Run the pods until cancelled."""
        version = ""
        while True:
            try:
                async with self._client.watch(
                    PODS,
                    type=_Pod,
                    field_selector="spec.nodeName!=",
                    resource_version=version,
                    timeout_seconds=3600,
                    read_timeout=3600.0,
                    send_initial_events=not version,
                ) as events:
                    async for event in events:
                        version = event.resource_version or version
                        if event.object is not None:
                            self._take(event.type, event.object)
            except Gone:
                version = ""
            except ConnectionFailed:
                await asyncio.sleep(0.1)

    def _take(self, kind: str, pod: _Pod) -> None:
        uid = pod.metadata.uid
        if kind == "DELETED":
            self._running.discard(uid)
            self._leaving.discard(uid)
        elif pod.metadata.deleting:
            if uid not in self._leaving:
                self._leaving.add(uid)
                self._later(GONE, self._remove(pod))
        elif uid not in self._running:
            self._running.add(uid)
            if pod.status.phase != "Running":
                self._later(READY, self._report(pod))
        elif pod.spec.readiness_gates and pod.status.phase == "Running" and _says(pod, "Ready") is not _ready(pod):
            self._later(0.0, self._report_gates(pod))

    def _later(self, seconds: float, work: Any) -> None:
        async def do() -> None:
            await asyncio.sleep(seconds)
            # What is gone or replaced meanwhile needs nothing.
            with suppress(WireError):
                await work

        task = asyncio.create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report(self, pod: _Pod) -> None:
        if pod.metadata.uid in self._leaving:
            return
        self._address += 1
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": _running(pod, address=self._address)}
        await self._client.strategic_patch(PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace, subresource="status")

    async def _report_gates(self, pod: _Pod) -> None:
        """What a kubelet does when a readiness gate opens or closes."""
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [_condition("Ready", ready=_ready(pod))]}}
        await self._client.strategic_patch(PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace, subresource="status")

    async def _remove(self, pod: _Pod) -> None:
        meta = pod.metadata
        with suppress(NotFound):
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_period_seconds=0)


def _running(pod: _Pod, *, address: int) -> Mapping[str, Any]:
    """The status of a pod that runs and is ready."""
    now = timestamp(datetime.now(UTC))
    ip = f"10.{address // 65536 % 256}.{address // 256 % 256}.{address % 256}"
    return {
        "phase": "Running",
        "startTime": now,
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [
            _condition("Initialized", ready=True),
            _condition("ContainersReady", ready=True),
            _condition("Ready", ready=_gates_open(pod)),
        ],
        "containerStatuses": [
            {
                "name": container.name,
                "image": container.image,
                "imageID": container.image,
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
                "lastState": {},
            }
            for container in pod.spec.containers
        ],
    }


def _condition(kind: str, *, ready: bool) -> Mapping[str, Any]:
    return {"type": kind, "status": "True" if ready else "False", "lastTransitionTime": timestamp(datetime.now(UTC))}


def _says(pod: _Pod, kind: str) -> bool:
    condition = find_condition(pod.status.conditions, kind)
    return condition is not None and condition.status == "True"


def _gates_open(pod: _Pod) -> bool:
    return all(_says(pod, gate.condition_type) for gate in pod.spec.readiness_gates)


def _ready(pod: _Pod) -> bool:
    return _says(pod, "ContainersReady") and _gates_open(pod)


async def _main(kubeconfig: str, count: int) -> None:
    nodes = Nodes(Client(HttpTransport(load_kubeconfig(kubeconfig, None)), user_agent=AGENT, field_manager=AGENT))
    await nodes.register(count)
    print("registered", flush=True)
    await nodes.run()


if __name__ == "__main__":
    run(_main(sys.argv[1], int(sys.argv[2])))
