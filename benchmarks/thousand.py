"""What do 1,000 groups of 8 cost in the sandbox: cluster, operator and 8,000 pods in one process, under virtual time?

From the moment that the LeaderWorkerSet is applied until its status says that all groups are ready. Virtual seconds are those of
the simulated cluster (images that are pulled, containers that start); real ones are this machine's. Memory is the whole process.
"""

import asyncio
import resource
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import looptime
from tests.planes.plane import lws_manifest
from tests.planes.sandbox_plane import SandboxPlane

from benchmarks.memory import resident
from benchmarks.report import Answer

T = TypeVar("T")

GROUPS, SIZE = 1000, 8
ROOM = 110
"""Pods that a node has room for."""


async def _create(groups: int, size: int) -> dict[str, float]:
    async with SandboxPlane(nodes=1 + groups * size // ROOM) as plane:
        before = resident() / 2**20
        loop = asyncio.get_running_loop()
        virtual, real, cpu = loop.time(), time.perf_counter(), time.process_time()
        await plane.apply(lws_manifest(replicas=groups, size=size))
        await plane.wait_for(lambda: _ready(plane, groups), timeout=3600, what="all groups are ready")
        spent = {
            "virtual_s": loop.time() - virtual,
            "real_s": time.perf_counter() - real,
            "cpu_s": time.process_time() - cpu,
        }
        return {
            **spent,
            "cpu_ms_per_pod": spent["cpu_s"] * 1000 / (groups * size),
            "resident_mib": resident() / 2**20,
            "kib_per_pod": (resident() / 2**20 - before) * 1024 / (groups * size),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "writes_per_group": len(plane.writes()) / groups,
            "refused_writes": sum(1 for entry in plane.writes() if entry.status >= 300),
        }


async def _ready(plane: SandboxPlane, groups: int) -> bool:
    return (await plane.lws()).status.ready_replicas == groups


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` on a loop whose time is virtual: nobody waits for anything."""
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(main)


def create(*, groups: int, size: int) -> dict[str, float]:
    """The figures of one creation."""
    return run_virtually(_create(groups, size))


def measure() -> Answer:
    return Answer(question="1,000 groups of 8 in the sandbox with the operator", figures=create(groups=GROUPS, size=SIZE))
