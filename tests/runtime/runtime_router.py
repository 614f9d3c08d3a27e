"""Several scripted collections behind one address."""

from contextlib import AbstractAsyncContextManager

from tests.runtime.runtime_server import ScriptedServer

from regroup.wire.transport import Request, Response, Stream


class Router:
    """A ``Transport`` that gives each request to the collection that its path ends with."""

    def __init__(self, **servers: ScriptedServer) -> None:
        self.servers = servers

    def _of(self, request: Request) -> ScriptedServer:
        return self.servers[request.path.rsplit("/", 1)[-1]]

    async def request(self, request: Request, *, timeout: float) -> Response:
        return await self._of(request).request(request, timeout=timeout)

    def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AbstractAsyncContextManager[Stream]:
        return self._of(request).stream(request, connect_timeout=connect_timeout, read_timeout=read_timeout)

    async def close(self) -> None:
        return
