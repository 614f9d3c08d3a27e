"""A transport that answers from a script, for the client's own tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from regroup.wire.errors import ConnectionFailed
from regroup.wire.transport import Request, Response, Stream

Answer = Response | ConnectionFailed


def answer(status: int, body: bytes = b"{}", **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


class ScriptedTransport:
    """Gives its answers in order and keeps the requests. The last answer is given for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []

    async def request(self, request: Request, *, timeout: float) -> Response:
        self.requests.append(request)
        given = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(given, ConnectionFailed):
            raise given
        return given

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        yield _Pieces(await self.request(request, timeout=connect_timeout))

    async def close(self) -> None:
        self._answers = [ConnectionFailed("closed")]


class _Pieces:
    """The body in pieces of seven bytes, so that every line is cut."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    async def chunks(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), 7):
            yield self._body[start : start + 7]

    async def read(self) -> bytes:
        return self._body
