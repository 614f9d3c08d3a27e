"""The in-process way to the API server: the semantics of HTTP without a socket, so that a cluster runs under virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from regroup.sandbox.apifaults import Disconnected
from regroup.sandbox.apiserver.reading import ServerStream
from regroup.wire.errors import ConnectionFailed
from regroup.wire.transport import Request, Response, Stream

Handle = Callable[[Request], Awaitable[Response | ServerStream]]


class InProcessTransport:
    """A ``Transport`` that calls the server's handler. Bytes go in and come out, as over a socket."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._closed = False

    async def request(self, request: Request, *, timeout: float) -> Response:
        answer = await self._ask(request, timeout)
        if isinstance(answer, Response):
            return answer
        stream = _InProcessStream(answer, read_timeout=timeout)
        try:
            async with asyncio.timeout(timeout):
                return Response(answer.status, answer.headers, await stream.read())
        except TimeoutError:
            raise ConnectionFailed(f"the answer was not complete within {timeout:g} s", maybe_done=True) from None
        finally:
            await answer.close()

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        answer = await self._ask(request, connect_timeout)
        if isinstance(answer, Response):
            answer = ServerStream(answer.status, answer.headers, _once(answer.body))
        try:
            yield _InProcessStream(answer, read_timeout=read_timeout)
        finally:
            await answer.close()

    async def close(self) -> None:
        self._closed = True

    async def _ask(self, request: Request, timeout: float) -> Response | ServerStream:
        if self._closed:
            raise ConnectionFailed("the transport is closed")
        try:
            async with asyncio.timeout(timeout):
                await asyncio.sleep(0)  # other tasks get their turn, as while bytes travel
                return await self._handle(request)
        except TimeoutError:
            raise ConnectionFailed(f"no answer within {timeout:g} s", maybe_done=True) from None
        except Disconnected as error:
            raise ConnectionFailed(str(error), maybe_done=error.maybe_done) from None


class _InProcessStream:
    """The body of an answer, with a limit for silence."""

    def __init__(self, answer: ServerStream, *, read_timeout: float) -> None:
        self._answer = answer
        self._read_timeout = read_timeout

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._read_timeout):
                    chunk = await anext(self._answer.body)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise ConnectionFailed(f"nothing came for {self._read_timeout:g} s", maybe_done=True) from None
            except Disconnected as error:
                raise ConnectionFailed(str(error), maybe_done=error.maybe_done) from None
            yield chunk

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
