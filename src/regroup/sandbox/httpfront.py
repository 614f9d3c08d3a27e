"""The API server on a socket: aiohttp.web in front of ``handle``. Plain HTTP, for this machine only."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from email.utils import format_datetime
from typing import Protocol

import yaml
from aiohttp import web

from regroup.runtime.clock import Clock
from regroup.sandbox.apifaults import Disconnected
from regroup.sandbox.apiserver.reading import ServerStream
from regroup.wire.transport import Request, Response

BODY_LIMIT = 8 * 1024 * 1024
"""Bytes of a request's body that are read; the API server has its own, lower limit."""


class Handler(Protocol):
    """What is served: an ``ApiServer``."""

    @property
    def clock(self) -> Clock: ...

    def handle(self, request: Request) -> Awaitable[Response | ServerStream]: ...


class PortTaken(OSError):
    """The port cannot be had; the message says which."""


@asynccontextmanager
async def serve(server: Handler, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve until the block is left; gives the URL. Port 0 takes a free one. Raises ``PortTaken``."""
    front = _Front(server)
    app = web.Application(client_max_size=BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", front.answer)
    # A client that goes away ends its watch at once.
    runner = web.AppRunner(app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            if error.errno not in {errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL}:
                raise
            why = "is in use by another process" if error.errno == errno.EADDRINUSE else "cannot be had here"
            raise PortTaken(error.errno, f"port {port} of {host} {why}") from error
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        front.end()
        await runner.cleanup()


def kubeconfig(url: str, *, name: str = "sandbox") -> str:
    """A kubeconfig for ``url`` as YAML text."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
            "current-context": name,
        },
        sort_keys=False,
    )


class _Front:
    """Requests and answers between aiohttp and the handler."""

    def __init__(self, server: Handler) -> None:
        self._server = server
        self._streaming: set[asyncio.Task[object]] = set()

    def end(self) -> None:
        """End all open streams."""
        for task in self._streaming:
            task.cancel()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._server.handle(
                Request(
                    request.method,
                    request.rel_url.raw_path,
                    tuple(request.rel_url.query.items()),
                    await request.read() if request.can_read_body else None,
                    {name.lower(): value for name, value in request.headers.items()},
                )
            )
            if isinstance(answer, ServerStream):
                return await self._stream(request, answer)
        except Disconnected:
            return _hang_up(request)
        # Not aiohttp's own, which is the wall's: a client has to be able to ask what time it is here, at any speed.
        date = format_datetime(self._server.clock.now(), usegmt=True)
        return web.Response(status=answer.status, headers={**answer.headers, "date": date}, body=answer.body)

    async def _stream(self, request: web.Request, answer: ServerStream) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.enable_chunked_encoding()
        task = asyncio.current_task()
        if task is not None:
            self._streaming.add(task)
        try:
            await response.prepare(request)
            async for chunk in answer.body:
                await response.write(chunk)
            await response.write_eof()
        except ConnectionResetError:
            pass  # The client is gone.
        finally:
            if task is not None:
                self._streaming.discard(task)
            await answer.close()
        return response


def _hang_up(request: web.Request) -> web.StreamResponse:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
