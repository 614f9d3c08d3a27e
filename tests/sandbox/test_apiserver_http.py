"""The server on a real socket."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
import yaml

from regroup.kube.resources import CONFIGMAPS, NAMESPACES
from regroup.runtime.clock import SystemClock
from regroup.sandbox.apifaults import Match
from regroup.sandbox.apiserver.server import ApiServer
from regroup.sandbox.httpfront import PortTaken, kubeconfig, serve

pytestmark = pytest.mark.http
PATH = CONFIGMAPS.path(namespace="default")


@pytest.fixture
def server() -> ApiServer:
    server = ApiServer(clock=SystemClock(), rng=random.Random(1))
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default", "uid": "u"}}
    server.storage.put(NAMESPACES, ("", "default"), namespace)
    return server


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


def body(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def test_requests_and_watches(server: ApiServer, session: aiohttp.ClientSession) -> None:
    """Encoded names, queries and bodies arrive; a watch delivers as things happen and ends at its time."""
    async with serve(server) as url:
        async with session.post(f"{url}{PATH}?fieldManager=a%20b", json=body("a.b")) as answer:
            assert (answer.status, answer.content_type) == (201, "application/json")
            assert (await answer.json())["metadata"].get("managedFields") is None
        async with session.get(f"{url}{PATH}?watch=true&resourceVersion=1&timeoutSeconds=1") as watch:
            assert b"a.b" in await watch.content.readline()
            async with session.put(f"{url}{PATH}/a%2Eb", json={"metadata": {"name": "a.b"}, "data": {"k": "v"}}) as answer:
                assert answer.status == 200
            assert b"MODIFIED" in await watch.content.readline()
            assert await watch.content.readline() == b""


async def test_a_busy_port(server: ApiServer) -> None:
    """An error that says which port, not a traceback of the socket layer."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is in use by another process"):
            async with serve(server, port=port):
                raise AssertionError("not reached")


async def test_the_end_does_not_wait_for_watches(server: ApiServer, session: aiohttp.ClientSession) -> None:
    """Leaving the block ends open watches at once."""
    async with serve(server) as url:
        watch = await session.get(f"{url}{PATH}?watch=true")
        assert server.faults.watches() == 1
        start = asyncio.get_running_loop().time()
    assert server.faults.watches() == 0
    assert asyncio.get_running_loop().time() - start < 5
    watch.close()


async def test_a_client_that_goes_away(server: ApiServer, session: aiohttp.ClientSession) -> None:
    """Its watch is given back although nothing was sent on it."""
    async with serve(server) as url:
        watch = await session.get(f"{url}{PATH}?watch=true")
        assert server.faults.watches() == 1
        watch.close()
        async with asyncio.timeout(10):
            while server.faults.watches():  # noqa: ASYNC110 - nobody tells when it is gone
                await asyncio.sleep(0.01)


async def test_faults_on_the_wire(server: ApiServer, session: aiohttp.ClientSession) -> None:
    """A lost answer and a cut watch are broken connections for a real client too."""
    async with serve(server) as url:
        server.faults.lose(match=Match(verb="create"), times=1)
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(f"{url}{PATH}", json=body("a"))
        async with session.get(f"{url}{PATH}") as answer:
            assert [item["metadata"]["name"] for item in (await answer.json())["items"]] == ["a"]
        async with session.get(f"{url}{PATH}?watch=true") as watch:
            assert b"ADDED" in await watch.content.readline()
            server.faults.cut_watches(within_line=True)
            with pytest.raises(aiohttp.ClientError):
                await watch.content.read()


def test_a_kubeconfig() -> None:
    """One cluster, user and context, which is the current one."""
    config = yaml.safe_load(kubeconfig("http://127.0.0.1:1234", name="x"))
    assert config["clusters"] == [{"name": "x", "cluster": {"server": "http://127.0.0.1:1234"}}]
    assert (config["current-context"], config["contexts"][0]["context"]["namespace"]) == ("x", "default")
