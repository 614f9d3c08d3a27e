"""A gate in front of the operator's webhooks: what an API server meets there is what the suite wants (``Line.webhooks``)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.planes.plane import Line

CHUNK = 64 * 1024


@asynccontextmanager
async def gate(line: Line, *, target: int) -> AsyncIterator[int]:
    """A port of loopback that leads to ``target``, or hangs up while the line says that webhooks cannot be reached."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if line.webhooks:
                inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", target)
                await asyncio.gather(_pump(line, reader, inner_writer), _pump(line, inner_reader, writer))
        except OSError:
            pass  # nobody is at home: the caller sees a closed connection
        finally:
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _pump(line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            if not line.webhooks:
                break
            writer.write(data)
            await writer.drain()
    writer.close()
