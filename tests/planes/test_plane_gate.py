"""The gate in front of the operator's webhooks."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.planes.gate import gate
from tests.planes.plane import Line

pytestmark = pytest.mark.http
LIMIT = 10.0


@asynccontextmanager
async def parrot() -> AsyncIterator[int]:
    """A server that says back what it hears, and never hangs up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_it_leads_through_and_closes_what_is_open_at_its_end() -> None:
    """A connection that an API server keeps for its next question ends with the gate, on both sides: else it is found open when
    the loop is closed, and fails whichever test runs then."""
    async with parrot() as port:
        async with gate(Line(), target=port) as door:
            reader, writer = await asyncio.open_connection("127.0.0.1", door)
            writer.write(b"hello")
            assert await asyncio.wait_for(reader.readexactly(5), LIMIT) == b"hello"
            before = asyncio.all_tasks()
        assert await asyncio.wait_for(reader.read(), LIMIT) == b""
        assert all(task.done() for task in before - {asyncio.current_task()} if "meet" in repr(task))
        writer.close()
        await writer.wait_closed()
    gc.collect()  # what is left open is a warning, and a warning fails the test


async def test_it_hangs_up_while_nobody_is_to_be_reached() -> None:
    """``Line.webhooks`` False: the caller meets a closed connection."""
    line = Line()
    line.webhooks = False
    async with parrot() as port, gate(line, target=port) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door)
        assert await asyncio.wait_for(reader.read(), LIMIT) == b""
        writer.close()
        await writer.wait_closed()


async def test_nobody_at_home() -> None:
    """A target that is not there: the same."""
    async with parrot() as port:
        pass
    async with gate(Line(), target=port) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door)
        assert await asyncio.wait_for(reader.read(), LIMIT) == b""
        writer.close()
        await writer.wait_closed()
