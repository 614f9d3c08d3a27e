"""Probes and the metrics page over real HTTP (design 4)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from regroup.runtime.health import HealthServer
from regroup.runtime.metrics import Metrics

pytestmark = pytest.mark.http


@asynccontextmanager
async def serving(server: HealthServer) -> AsyncIterator[str]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(server.serve(host="127.0.0.1", port=0, ready=port.set_result))
    try:
        yield f"http://127.0.0.1:{await port}"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_each_probe_follows_its_own_checks() -> None:
    """Not ready is not dead: liveness and readiness fail apart, and a check that recovers passes again."""
    problem: list[str | None] = ["no webhooks"]
    server = HealthServer(liveness={"watches": lambda: None}, readiness={"webhooks": lambda: problem[0]})
    async with serving(server) as url:
        assert await get(f"{url}/healthz") == (200, "ok")
        assert await get(f"{url}/livez") == (200, "ok")
        assert await get(f"{url}/readyz") == (500, "[-]webhooks failed: no webhooks\n")
        problem[0] = None
        assert await get(f"{url}/readyz") == (200, "ok")
        assert await get(f"{url}/readyz?verbose") == (200, "[+]webhooks ok\n")
        assert (await get(f"{url}/metrics"))[0] == 404


async def test_a_port_that_is_taken_is_an_error(unused_tcp_port: int) -> None:
    """The bind's OSError reaches the caller."""
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", unused_tcp_port)
    async with taken:
        with pytest.raises(OSError, match=str(unused_tcp_port)):
            await HealthServer(liveness={}, readiness={}).serve(host="127.0.0.1", port=unused_tcp_port)


async def test_the_metrics_page_is_read_when_it_is_asked_for() -> None:
    """Gauges show the moment of the scrape."""
    metrics, depth = Metrics(), [1.0]
    metrics.gauges("workqueue_depth", "Waiting", ("name",), lambda: [(("groups",), depth[0])])
    async with serving(HealthServer(liveness={}, readiness={}, metrics=metrics)) as url:
        assert 'workqueue_depth{name="groups"} 1.0' in (await get(f"{url}/metrics"))[1]
        depth[0] = 7.0
        assert 'workqueue_depth{name="groups"} 7.0' in (await get(f"{url}/metrics"))[1]
