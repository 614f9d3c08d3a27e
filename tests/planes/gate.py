"""A gate in front of the operator's webhooks: what an API server meets there is what the suite wants (``Line.webhooks``)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.planes.plane import Line

CHUNK = 64 * 1024
_ACCEPTING = 8
"""Rounds of the loop within which a connection that was accepted has become a talk."""


@asynccontextmanager
async def gate(line: Line, *, target: int) -> AsyncIterator[int]:
    """A port of loopback that leads to ``target``, or hangs up while the line says that webhooks cannot be reached. What is open
    at the end is closed: API servers keep their connections for the next question."""
    open_now: set[asyncio.Task[None] | None] = set()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(talk := asyncio.current_task())
        try:
            if line.webhooks:
                await _lead(line, reader, writer, target=target)
        except (OSError, asyncio.CancelledError):
            # Nobody is at home: the caller sees a closed connection. Or the gate is taken away, and to asyncio's streams a task
            # that ended as cancelled is an error.
            pass
        finally:
            writer.transport.abort()  # nobody waits for what is not sent yet
            open_now.discard(talk)

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for _ in range(_ACCEPTING):
            await asyncio.sleep(0)
        while talks := [talk for talk in open_now if talk is not None]:
            for talk in talks:
                talk.cancel()
            await asyncio.gather(*talks, return_exceptions=True)


async def _lead(line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, target: int) -> None:
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", target)
    try:
        await asyncio.gather(_pump(line, reader, inner_writer), _pump(line, inner_reader, writer))
    finally:
        inner_writer.transport.abort()


async def _pump(line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            if not line.webhooks:
                break
            writer.write(data)
            await writer.drain()
    writer.close()
