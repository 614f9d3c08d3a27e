"""The in-process transport: the server's function called directly, with the same bytes and time limits as over a socket.

It runs under virtual time, because nothing in it waits for the outside world.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from regroup.wire.errors import ConnectionFailed
from regroup.wire.transport import Request, Response, Stream


class Answered(Protocol):
    """An answer that comes in pieces, as the server gives it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]: ...


Handle = Callable[[Request], Awaitable[Any]]


@dataclass(slots=True)
class _Stream:
    status: int
    headers: Mapping[str, str]
    source: AsyncIterator[bytes]
    read_timeout: float

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self.read_timeout):
                    piece = await anext(self.source)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise ConnectionFailed(f"nothing came for {self.read_timeout:g} s", maybe_done=True) from None
            if piece:
                yield piece

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.chunks()])


class InProcessTransport:
    """A ``Transport`` over a server's ``handle``."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._closed = False

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send and get the whole answer. Raises ``ConnectionFailed``."""
        self._check()
        # A turn of the loop lies between asking and answering, as it does with a socket.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(timeout):
                answer = await self._handle(request)
                if isinstance(answer, Response):
                    return answer
                stream = cast("Answered", answer)
                body = b"".join([piece async for piece in stream.chunks()])
                return Response(stream.status, stream.headers, body)
        except TimeoutError:
            raise ConnectionFailed(f"no answer within {timeout:g} s", maybe_done=True) from None

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        """Open a stream. Raises ``ConnectionFailed``."""
        self._check()
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(connect_timeout):
                answer = await self._handle(request)
        except TimeoutError:
            raise ConnectionFailed(f"no answer within {connect_timeout:g} s", maybe_done=True) from None
        if isinstance(answer, Response):
            yield _Stream(answer.status, answer.headers, _once(answer.body), read_timeout)
            return
        source = cast("Answered", answer).chunks()
        try:
            yield _Stream(answer.status, answer.headers, source, read_timeout)
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()

    async def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise ConnectionFailed("the client is closed")


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
