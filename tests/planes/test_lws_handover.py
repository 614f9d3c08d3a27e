"""One operator stops and another goes on: case C126. Both elect their leader by the lease, as two replicas do.

On sockets only, where the operator is whole; in virtual time the same is in ``tests/operator/test_operator_start.py``.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.planes.plane import Plane, end, group_names, lws_manifest, pod_template
from tests.planes.realplane.ports import free_port
from tests.planes.socket_plane import SocketPlane

from regroup.kube.resources import LEASES
from regroup.leaderworkerset import keys
from regroup.operator.config import LEASE
from regroup.operator.config import NAMESPACE as HOME
from regroup.wire.errors import NotFound

ON_SOCKETS = [pytest.param("sandbox-http", marks=pytest.mark.http), pytest.param("real", marks=pytest.mark.real)]
GROUP = group_names(size=2)
IN_TIME = 5.0
"""Seconds that a stop and the next operator's first deed may take."""


async def holder(plane: Plane) -> str:
    lease: dict[str, Any] = await plane.client.get(LEASES, LEASE, namespace=HOME)
    return lease["spec"].get("holderIdentity") or ""


@asynccontextmanager
async def two_operators(bare: Plane) -> AsyncIterator["asyncio.Task[None]"]:
    """The plane with a group on it, and the operator that leads; another one waits for the lease."""
    assert isinstance(bare, SocketPlane)
    async with bare as plane, AsyncExitStack() as ending:
        manifest = lws_manifest(size=2, template={"maxGroupRestarts": 5}, worker=pod_template(grace=1))
        await plane.apply(manifest)
        await plane.wait_available()
        await plane.end_operators()
        one = await plane.start_candidate("one")
        ending.push_async_callback(end, one)
        await plane.wait_for(lambda: _holds(plane, "one"), timeout=30)
        two = await plane.start_candidate("two")
        ending.push_async_callback(end, two)
        assert await holder(plane) == "one"
        yield one


async def _holds(plane: Plane, who: str) -> bool:
    try:
        return await holder(plane) == who
    except NotFound:
        return False


async def stop(plane: Plane, operator: "asyncio.Task[None]") -> None:
    """What SIGTERM does to ``regroup run``."""
    began = plane.clock.monotonic()
    await end(operator)
    assert plane.clock.monotonic() - began < IN_TIME


@pytest.mark.parametrize("plane", ON_SOCKETS, indirect=True)
async def test_an_idle_operator_hands_over_at_once(plane: Plane) -> None:
    """Case C126 step 1: the stop gives the lease back, and a worker that fails a second later is answered by the other within
    five seconds."""
    async with two_operators(plane) as one:
        old = await plane.uids()
        await stop(plane, one)
        assert await holder(plane) in ("", "two"), "given back"
        await asyncio.sleep(1)
        await plane.delete_pod("demo-0-1", grace=0)

        async def answered() -> bool:
            leader = (await plane.pods()).get("demo-0")
            return leader is None or leader.deleting or leader.metadata.uid != old["demo-0"]

        await plane.wait_for(answered, timeout=IN_TIME)
        assert await holder(plane) == "two"
        await plane.wait_recreated(old, GROUP)
        await plane.wait_available()
        assert (await plane.lws()).metadata.annotations[keys.RESTART_COUNTS].endswith('/0":1}')


@pytest.mark.parametrize("plane", ON_SOCKETS, indirect=True)
async def test_a_stop_in_the_middle_of_a_recreation(plane: Plane) -> None:
    """Case C126 step 2: with a second of latency a write is on its way at the stop; it is done or not, and the group is
    recreated and counted once."""
    async with two_operators(plane) as one:
        old = await plane.uids()
        mark = len(plane.requests)
        plane.line.delay = 1.0
        await plane.delete_pod("demo-0-1", grace=0)
        await plane.wait_for(lambda: plane.writes(since=mark), what="the recreation has begun")
        await stop(plane, one)
        new = await plane.wait_recreated(old, GROUP, timeout=90)
        plane.line.clear()
        await plane.wait_available()
        await plane.sleep(20)
        assert await plane.uids() == new
        assert (await plane.lws()).metadata.annotations[keys.RESTART_COUNTS].endswith('/0":1}')


@pytest.mark.parametrize("plane", ON_SOCKETS, indirect=True)
async def test_the_command_ends_on_sigterm(plane: Plane, tmp_path: Path) -> None:
    """Case C126 step 1 for the process: ``regroup run`` that leads ends with 0 within five seconds, its lease given back."""
    assert isinstance(plane, SocketPlane)
    async with plane:
        await plane.end_operators()
        access = plane.access(plane.token)
        cluster = {"server": access.server} | ({"certificate-authority": str(access.ca)} if access.ca else {})
        user = {"token": access.identity.token} if access.identity.token else {}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "current-context": "it",
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        port = str(free_port())
        options = ("--webhook-url", f"https://127.0.0.1:{port}", "--webhook-port", port, "--metrics-port", "0")
        command = (sys.executable, "-m", "regroup.cli", "run", "--kubeconfig", str(kubeconfig), "--host", "127.0.0.1", *options)
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        try:

            async def leads() -> bool:
                assert process.returncode is None, f"ended with {process.returncode}"
                return await _held(plane)

            await plane.wait_for(leads, timeout=30)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(IN_TIME):
                assert await process.wait() == 0
            assert await holder(plane) == ""
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _held(plane: Plane) -> bool:
    try:
        return await holder(plane) != ""
    except NotFound:
        return False
