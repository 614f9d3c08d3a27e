"""Faults of the API server, for tests: slow and failing answers, lost ones, watches that are cut, silent or late; and a record
of what was asked. The server passes every request through its ``FaultPlan``; an empty plan costs next to nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from regroup.runtime.clock import Clock
from regroup.sandbox.apiserver.failures import Failure
from regroup.sandbox.apiserver.reading import ServerStream
from regroup.sandbox.apiserver.routing import parse_path, query_of, verb_of
from regroup.wire.transport import Request, Response

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

Handle = Callable[[Request], Awaitable[Response | ServerStream]]


class Disconnected(Exception):
    """The connection dies in the place of an answer. ``maybe_done`` is False only when the request cannot have been read."""

    def __init__(self, message: str, *, maybe_done: bool) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


@dataclass(slots=True)
class Recorded:
    """One request. ``code`` is 0 as long as there is no answer, and for ever when it was lost."""

    time: float
    """The loop's seconds at which it came."""
    user_agent: str
    verb: str
    """Kubernetes' verb, or the HTTP method in lower case when the path is no resource."""
    group: str
    resource: str
    """The plural, or the whole path when it is no resource."""
    namespace: str
    name: str
    subresource: str
    query: dict[str, str]
    content_type: str
    body: bytes | None
    code: int = 0

    @property
    def writes(self) -> bool:
        return self.verb in WRITES

    @property
    def object(self) -> Any:
        """The decoded body; None when there is none. Raises ``msgspec.DecodeError`` for one that is no JSON."""
        return msgspec.json.decode(self.body) if self.body else None

    def __str__(self) -> str:
        where = "/".join(part for part in (self.resource, self.namespace, self.name, self.subresource) if part)
        return f"{self.time:.3f} {self.user_agent}: {self.verb} {where} -> {self.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which requests a fault meets; empty fields match everything."""

    verb: str = ""
    """One of Kubernetes' verbs, or ``write`` for any that changes something."""
    resource: str = ""
    """``pods``, or with the group: ``statefulsets.apps``."""
    subresource: str | None = None
    namespace: str = ""
    name: str = ""
    user_agent: str = ""
    """A part of it."""

    def matches(self, entry: Recorded) -> bool:
        if self.verb and not (entry.verb == self.verb or (self.verb == "write" and entry.writes)):
            return False
        if self.resource and self.resource not in {entry.resource, f"{entry.resource}.{entry.group}"}:
            return False
        if self.subresource is not None and self.subresource != entry.subresource:
            return False
        return (
            self.namespace in {"", entry.namespace}
            and self.name in {"", entry.name}
            and self.user_agent.lower() in entry.user_agent.lower()
        )


ANY = Match()


@dataclass(slots=True, eq=False)
class Fault:
    """One fault of a plan. ``hits`` counts the requests that it met; after ``times`` of them, or ``end()``, it is over."""

    match: Match
    times: int | None
    delay: float = 0.0
    answer: Failure | None = None
    lost: Disconnected | None = None
    done: bool = False
    """Whether the server acts on the request before its answer is lost."""
    hits: int = 0
    ended: bool = False

    def end(self) -> None:
        self.ended = True

    def meets(self, entry: Recorded) -> bool:
        return not self.ended and self.match.matches(entry)

    def hit(self) -> None:
        self.hits += 1
        if self.times is not None and self.hits >= self.times:
            self.ended = True


@dataclass(slots=True, eq=False)
class Hold:
    """Watch events that wait: until ``release()``, or each for ``seconds`` at least."""

    match: Match
    seconds: float | None
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let them go, in order; nothing was lost."""
        self.released.set()


class FaultPlan:
    """What goes wrong, in the order in which it was added. All methods may be called at any time."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._faults: list[Fault] = []
        self._holds: list[Hold] = []
        self._lines: set[_Line] = set()
        self._record: deque[Recorded] | None = None

    # -- the record

    def record(self, *, limit: int = 100_000) -> deque[Recorded]:
        """Note every request from now on, the last ``limit`` of them; the same deque for every caller."""
        if self._record is None:
            self._record = deque(maxlen=limit)
        return self._record

    def stop_recording(self) -> None:
        self._record = None

    # -- faults of requests

    def slow(self, seconds: float, *, match: Match = ANY, times: int | None = None) -> Fault:
        """Requests wait before the server acts on them. Adds to other faults."""
        return self._add(Fault(match, times, delay=seconds))

    def fail(
        self,
        code: int,
        *,
        match: Match = ANY,
        times: int | None = None,
        reason: str = "",
        message: str = "made to fail by a test",
        retry_after: int | None = None,
    ) -> Fault:
        """Requests are answered with a failure; the server does not act on them."""
        details = {"retryAfterSeconds": retry_after} if retry_after is not None else None
        failure = Failure(code, reason or _REASONS.get(code, "Unknown"), message, details=details, retry_after=retry_after)
        return self._add(Fault(match, times, answer=failure))

    def lose(self, *, match: Match = ANY, times: int | None = None, done: bool = True) -> Fault:
        """The connection dies instead of the answer, after the server acted (``done``) or before."""
        lost = Disconnected("the connection was lost before the answer came", maybe_done=True)
        return self._add(Fault(match, times, lost=lost, done=done))

    def refuse(self, *, match: Match = ANY, times: int | None = None) -> Fault:
        """No connection at all: the server is down."""
        return self._add(Fault(match, times, lost=Disconnected("connection refused", maybe_done=False)))

    # -- faults of watches

    def hold(self, *, match: Match = ANY, seconds: float | None = None) -> Hold:
        """Events wait: on watches that are open and on new ones."""
        hold = Hold(match, seconds)
        self._holds.append(hold)
        return hold

    def cut_watches(self, *, match: Match = ANY, within_line: bool = False) -> int:
        """Break the connections of open watches, with half an event as the last words if asked; how many there were."""
        met = self._open(match)
        for line in met:
            line.cut(within_line=within_line)
        return len(met)

    def silence_watches(self, *, match: Match = ANY) -> int:
        """Open watches deliver nothing more and never end, like a connection whose other end was unplugged; how many."""
        met = self._open(match)
        for line in met:
            line.silent = True
        return len(met)

    def watches(self, *, match: Match = ANY) -> int:
        """Watches that are open now."""
        return len(self._open(match))

    def clear(self) -> None:
        """Nothing goes wrong any more; held events go out. Silent watches stay silent."""
        self._faults.clear()
        for hold in self._holds:
            hold.release()
        self._holds.clear()

    # -- for the server

    async def around(self, request: Request, handle: Handle) -> Response | ServerStream:
        """Answer ``request`` with ``handle``, disturbed as planned. Raises ``Disconnected``."""
        entry = entry_of(request, time=self._clock.monotonic())
        if self._record is not None:
            self._record.append(entry)
        fault: Fault | None = None
        if self._faults:
            fault = await self._meet(entry)
            if fault is not None and fault.answer is not None:
                entry.code = fault.answer.code
                return fault.answer.response()
            if fault is not None and fault.lost is not None and not fault.done:
                raise fault.lost
        answer = await handle(request)
        if fault is not None and fault.lost is not None:
            if isinstance(answer, ServerStream):
                await answer.close()
            raise fault.lost
        entry.code = answer.status
        if isinstance(answer, ServerStream):
            return ServerStream(answer.status, answer.headers, _Line(self, entry, answer))
        return answer

    async def _meet(self, entry: Recorded) -> Fault | None:
        """Wait for all delays, then the first fault that ends the request."""
        self._faults = [fault for fault in self._faults if not fault.ended]
        decisive: Fault | None = None
        seconds = 0.0
        for fault in self._faults:
            if not fault.meets(entry):
                continue
            if fault.answer is None and fault.lost is None:
                seconds += fault.delay
            elif decisive is None:
                decisive = fault
            else:
                continue
            fault.hit()
        if seconds:
            await asyncio.sleep(seconds)
        return decisive

    async def pass_events(self, entry: Recorded) -> None:
        """Wait as long as events of this watch are held."""
        while self._holds:
            self._holds = [hold for hold in self._holds if not hold.released.is_set()]
            hold = next((hold for hold in self._holds if hold.match.matches(entry)), None)
            if hold is None:
                return
            if hold.seconds is None:
                await hold.released.wait()
                continue
            try:
                async with asyncio.timeout(hold.seconds):
                    await hold.released.wait()
            except TimeoutError:
                return

    def open(self, line: "_Line") -> None:
        self._lines.add(line)

    def closed(self, line: "_Line") -> None:
        self._lines.discard(line)

    def _add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def _open(self, match: Match) -> "list[_Line]":
        return [line for line in self._lines if match.matches(line.entry)]


class _Line:
    """The body of an open watch, as far as the plan lets it through."""

    def __init__(self, plan: FaultPlan, entry: Recorded, stream: ServerStream) -> None:
        self.entry = entry
        self.silent = False
        self._plan = plan
        self._stream = stream
        self._cut: bytes | None = None
        self._limit: asyncio.Timeout | None = None
        plan.open(self)

    def cut(self, *, within_line: bool) -> None:
        self._cut = b'{"type":"MODIFIED","object":{"kind":"' if within_line else b""
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._cut is None:
            try:
                # Without a limit until ``cut`` sets one, which ends whatever this waits for.
                async with asyncio.timeout(None) as self._limit:
                    chunk = await anext(self._stream.body)
                    await self._plan.pass_events(self.entry)
                    if self.silent:
                        await asyncio.Event().wait()
                    return chunk
            except TimeoutError:
                pass
            finally:
                self._limit = None
        last, self._cut = self._cut, b""
        if last:
            return last
        raise Disconnected("the watch was cut", maybe_done=True)

    async def aclose(self) -> None:
        self._plan.closed(self)
        await self._stream.close()


def entry_of(request: Request, *, time: float) -> Recorded:
    """What a request asks for."""
    target, query = parse_path(request.path), query_of(request)
    headers = request.headers
    agent, media = headers.get("user-agent", ""), headers.get("content-type", "")
    if target is None:
        return Recorded(time, agent, request.method.lower(), "", request.path, "", "", "", query, media, request.body)
    verb = verb_of(request.method, target, query) or request.method.lower()
    return Recorded(
        time,
        agent,
        verb,
        target.group,
        target.plural,
        target.namespace,
        target.name,
        target.subresource,
        query,
        media,
        request.body,
    )
