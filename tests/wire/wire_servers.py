"""Small real servers and access to them, for the tests of credentials and of the HTTP transport."""

import asyncio
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess, Identity
from regroup.wire.transport import Request

GET = Request("GET", "/version", (), None, {"user-agent": "test"})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Connection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(handler: Handler, *, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """An HTTP server; gives its address, ``host:port``."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def listening(connection: Connection) -> AsyncIterator[str]:
    """A bare TCP server, for answers that no HTTP server would give; gives its address."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await connection(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def transport_to(server: str, *, identity: Identity | None = None, **access: Any) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(ClusterAccess(server=server, identity=identity or Identity(), **access))
    try:
        yield transport
    finally:
        await transport.close()


def script(folder: Path, body: str, *, name: str = "plugin") -> str:
    """A real little program; gives its path."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)
