"""The narrow waist between clients and API servers: requests, responses and streams, without a word on sockets.

Two transports exist: ``wire.http`` (aiohttp, TLS) and the sandbox's in-process one, which calls the server's handler directly
so that a whole cluster runs under virtual time. Whoever speaks to an API server takes a ``Transport``.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request to an API server. ``path`` is already percent-encoded and has no query."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case: ``content-type``, ``accept``, ``user-agent``, ..."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer. Any status code is an answer; only the client turns codes into errors."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Stream(Protocol):
    """An answer whose body comes in pieces: a watch, or followed logs."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Pieces of the body as they come, cut anywhere. Ends at a clean end; raises ``ConnectionFailed`` at a cut or when
        nothing came for the read time limit."""
        ...

    async def read(self) -> bytes:
        """The rest of the body, for error answers."""
        ...


class Transport(Protocol):
    """How requests reach one API server, with its authentication. Raises only ``WireError``."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send and read the whole answer within ``timeout`` seconds. Raises ``ConnectionFailed``."""
        ...

    def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AbstractAsyncContextManager[Stream]:
        """Open a stream; ``read_timeout`` is the longest silence in seconds that is taken for life."""
        ...

    async def close(self) -> None: ...
