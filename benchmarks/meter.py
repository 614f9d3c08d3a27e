"""CPU of one part of a process in which many live: of the operator, where API server, controllers and kubelets run beside it.

Tasks that are started inside of ``Meter.inside`` are timed step by step, and so are the tasks that they start. What they run of
somebody else's, such as an API server's handler over the in-process transport, is taken off again with ``outside``. A garbage
collection goes through everybody's heap and is nobody's.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, ContextVar
from typing import Any, TypeVar

from regroup.wire.transport import Request, Response, Stream, Transport

T = TypeVar("T")

_now = time.thread_time


class Meter:
    """Seconds of CPU of what runs inside of it. One event loop, in one thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = 0
        """How deep inside the step under way is: positive while it is ours."""
        self._inside: ContextVar[bool] = ContextVar("inside", default=False)
        self._collecting = 0.0

    @contextmanager
    def installed(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Time the tasks of ``loop`` that are inside."""
        loop.set_task_factory(self._task)
        gc.callbacks.append(self._collection)
        try:
            yield
        finally:
            gc.callbacks.remove(self._collection)
            loop.set_task_factory(None)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Tasks that are started here are ours."""
        token = self._inside.set(True)
        try:
            yield
        finally:
            self._inside.reset(token)

    async def ours(self, work: Coroutine[Any, Any, T]) -> T:
        """Time ``work``, wherever it is awaited."""
        return await _Timed(work, self, 1)

    async def outside(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` of somebody else, whose time is not ours."""
        if not self._inside.get():
            return await work
        token = self._inside.set(False)
        try:
            return await _Timed(work, self, -1)
        finally:
            self._inside.reset(token)

    def add(self, sign: int, seconds: float) -> None:
        self.seconds += sign * seconds

    def enter(self, sign: int) -> None:
        self._running += sign

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        mine = self._inside.get() if context is None else context.get(self._inside, False)
        if mine and asyncio.iscoroutine(coro):
            coro = self.ours(coro)
        return asyncio.Task(coro, loop=loop, context=context)

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        del info
        if self._running <= 0:
            return
        if phase == "start":
            self._collecting = _now()
        else:
            self.seconds -= _now() - self._collecting


class _Timed(Awaitable[T]):
    """A coroutine whose steps are timed; what it waits for is passed on."""

    def __init__(self, coro: Coroutine[Any, Any, T], meter: Meter, sign: int) -> None:
        self._coro, self._meter, self._sign = coro, meter, sign

    def __await__(self) -> Generator[Any, Any, T]:
        coro, meter, sign = self._coro, self._meter, self._sign
        error: BaseException | None = None
        while True:
            meter.enter(sign)
            began = _now()
            try:
                waits_for = coro.send(None) if error is None else coro.throw(error)
            except StopIteration as end:
                value: T = end.value
                return value
            finally:
                meter.add(sign, _now() - began)
                meter.enter(-sign)
            error = None
            try:
                yield waits_for
            except BaseException as thrown:  # noqa: BLE001 - whatever is thrown in belongs to the coroutine
                error = thrown


class MeteredTransport:
    """A transport whose other end is not ours."""

    def __init__(self, inner: Transport, meter: Meter) -> None:
        self._inner, self._meter = inner, meter

    async def request(self, request: Request, *, timeout: float) -> Response:
        return await self._meter.outside(_request(self._inner, request, timeout))

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        async with self._inner.stream(request, connect_timeout=connect_timeout, read_timeout=read_timeout) as stream:
            yield _MeteredStream(stream, self._meter)

    async def close(self) -> None:
        await self._inner.close()


class _MeteredStream:
    def __init__(self, inner: Stream, meter: Meter) -> None:
        self._inner, self._meter = inner, meter
        self.status, self.headers = inner.status, inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        chunks = self._inner.chunks()
        while (chunk := await self._meter.outside(_next(chunks))) is not None:
            yield chunk

    async def read(self) -> bytes:
        return await self._meter.outside(_read(self._inner))


async def _request(inner: Transport, request: Request, timeout: float) -> Response:
    return await inner.request(request, timeout=timeout)


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _read(stream: Stream) -> bytes:
    return await stream.read()
