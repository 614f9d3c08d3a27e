"""An API server of one collection that breaks as it is told: the outer edge of the runtime's tests.

It keeps objects and a history of events, answers lists by pages and watches (with or without a streamed list), and is a
``Transport``. Tests change objects, break the open watches or script the next answers, and look at the requests that came.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from regroup.wire.errors import ConnectionFailed
from regroup.wire.transport import Request, Response, Stream

BOOKMARK_EVERY = 60.0
Script = Callable[[], Response]


def status(code: int, *, reason: str = "", message: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """An answer of failure as API servers give it."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Response(code, {"content-type": "application/json", **(headers or {})}, json.dumps(body).encode())


@dataclass
class Seen:
    """One request that came, and when."""

    at: float
    request: Request

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query)

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


@dataclass
class ScriptedServer:
    """One collection of pods."""

    streams_lists: str = "yes"
    """``yes``, ``refuses`` (422, as servers without the feature) or ``ignores`` (as servers that do not know the parameter)."""
    bookmarks: bool = True
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    version: int = 10
    oldest: int = 0
    """A watch from before this version is answered with 410."""
    seen: list[Seen] = field(default_factory=list)
    watch_answers: deque[Script] = field(default_factory=deque)
    list_answers: deque[Script | None] = field(default_factory=deque)
    """Scripted answers to the next requests of that kind; None lets one through as usual."""
    closed: bool = False
    _history: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    _open: "list[_Watch]" = field(default_factory=list)
    _uids: int = 0

    # What happens in the cluster

    def put(self, name: str, *, namespace: str = "default", labels: Mapping[str, str] | None = None, new: bool = False) -> str:
        """Create an object, change it, or (``new``) replace it by another of the same name. Returns its UID."""
        key = (namespace, name)
        old = self.objects.get(key)
        if old is not None and new:
            self.delete(name, namespace=namespace)
            old = None
        if old is None:
            self._uids += 1
        uid = old["metadata"]["uid"] if old is not None else f"uid-{self._uids}"
        self.version += 1
        metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(self.version)}
        obj = {"metadata": {**metadata, "labels": dict(labels or {})}, "spec": {}, "status": {"phase": "Running"}}
        self.objects[key] = obj
        self._record("ADDED" if old is None else "MODIFIED", obj)
        return str(uid)

    def put_raw(self, obj: dict[str, Any], *, kind: str = "ADDED") -> None:
        """Put an object in as it is; it gets only a version."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[obj["metadata"]["namespace"], obj["metadata"]["name"]] = obj
        self._record(kind, obj)

    def delete(self, name: str, *, namespace: str = "default") -> None:
        self.version += 1
        obj = self.objects.pop((namespace, name))
        self._record("DELETED", {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}})

    def compact(self) -> None:
        """Forget the history, so that no watch can go on from an earlier version."""
        self.oldest = self.version

    def _record(self, kind: str, obj: dict[str, Any]) -> None:
        self._history.append((self.version, kind, obj))
        for watch in self._open:
            watch.tell(kind, obj)

    # How watches break

    def end_watches(self) -> None:
        """A clean end, as at the server's own time limit."""
        self._break(None)

    def cut_watches(self) -> None:
        """The connection is lost in the middle of a line."""
        for watch in self._open:
            watch.send(b'{"type":"MODIFIED","object":{"metadata":{"na')
        self._break(ConnectionFailed("reset by peer", maybe_done=True))

    def end_watches_within_a_line(self) -> None:
        """A clean end of the body, but in the middle of a line."""
        for watch in self._open:
            watch.send(b'{"type":"MODIFIED","object":{"metadata":{"na')
        self._break(None)

    def silence_watches(self) -> None:
        """The connections stay open and nothing comes any more."""
        for watch in self._open:
            watch.silent = True
        self._open.clear()

    def send(self, line: bytes) -> None:
        """Bytes on every open watch."""
        for watch in self._open:
            watch.send(line)

    def error_in_watches(self, code: int, *, reason: str = "") -> None:
        """An event of type ERROR, and the end."""
        self.send(json.dumps({"type": "ERROR", "object": json.loads(status(code, reason=reason).body)}).encode() + b"\n")
        self._break(None)

    def _break(self, how: Exception | None) -> None:
        for watch in self._open:
            watch.queue.put_nowait(how)
        self._open.clear()

    @property
    def open_watches(self) -> int:
        return len(self._open)

    @property
    def watches(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.is_watch]

    @property
    def lists(self) -> list[Seen]:
        """Requests for pages; streamed lists are watches."""
        return [seen for seen in self.seen if not seen.is_watch]

    # The transport

    async def request(self, request: Request, *, timeout: float) -> Response:
        self.seen.append(Seen(asyncio.get_running_loop().time(), request))
        await asyncio.sleep(0)
        script = self.list_answers.popleft() if self.list_answers else None
        return script() if script is not None else self._page(dict(request.query), request.path)

    def _page(self, query: Mapping[str, str], path: str) -> Response:
        objects = [self.objects[key] for key in sorted(self.objects) if _in(path, key[0])]
        begin = int(query.get("continue", "0"))
        limit = int(query.get("limit", "0")) or len(objects) or 1
        metadata: dict[str, Any] = {"resourceVersion": str(self.version)}
        if begin + limit < len(objects):
            metadata["continue"] = str(begin + limit)
        body = {"kind": "PodList", "metadata": metadata, "items": objects[begin : begin + limit]}
        return Response(200, {"content-type": "application/json"}, json.dumps(body).encode())

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        self.seen.append(Seen(asyncio.get_running_loop().time(), request))
        await asyncio.sleep(0)
        query = dict(request.query)
        script = self.watch_answers.popleft() if self.watch_answers else None
        refusal = script() if script is not None else self._refusal(query)
        if refusal is not None:
            yield _Refusal(refusal)
            return
        watch = _Watch(self, request.path, read_timeout=read_timeout, seconds=float(query["timeoutSeconds"]))
        if query.get("sendInitialEvents") == "true" or not query.get("resourceVersion"):
            for key in sorted(self.objects):
                watch.tell("ADDED", self.objects[key])
            if self.streams_lists == "yes":
                watch.bookmark(initial_events_end=True)
        else:
            for version, kind, obj in self._history:
                if version > int(query["resourceVersion"]):
                    watch.tell(kind, obj)
        self._open.append(watch)
        try:
            yield watch
        finally:
            if watch in self._open:
                self._open.remove(watch)

    def _refusal(self, query: Mapping[str, str]) -> Response | None:
        if query.get("sendInitialEvents") == "true":
            if self.streams_lists == "refuses":
                return status(422, reason="Invalid", message="sendInitialEvents: Forbidden")
            return None
        if query.get("resourceVersion") and int(query["resourceVersion"]) < self.oldest:
            return status(410, reason="Expired", message="too old resource version")
        return None

    async def close(self) -> None:
        self.closed = True


class _Refusal:
    """An answer that is no stream."""

    def __init__(self, response: Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._response.body

    async def read(self) -> bytes:
        return self._response.body


class _Watch:
    """One open watch."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, server: ScriptedServer, path: str, *, read_timeout: float, seconds: float) -> None:
        self._server, self._path, self._read_timeout = server, path, read_timeout
        self._end = asyncio.get_running_loop().time() + seconds
        self.silent = False
        self.queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def tell(self, kind: str, obj: dict[str, Any]) -> None:
        if _in(self._path, obj["metadata"]["namespace"]):
            self.send(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    def bookmark(self, *, initial_events_end: bool = False) -> None:
        metadata: dict[str, Any] = {"resourceVersion": str(self._server.version)}
        if initial_events_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        self.send(json.dumps({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": metadata}}).encode() + b"\n")

    def send(self, line: bytes) -> None:
        if not self.silent:
            self.queue.put_nowait(line)

    async def chunks(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        heard, bookmark = loop.time(), loop.time() + BOOKMARK_EVERY
        while True:
            try:
                async with asyncio.timeout_at(min(heard + self._read_timeout, bookmark, self._end)):
                    piece = await self.queue.get()
            except TimeoutError:
                now = loop.time()
                if now >= heard + self._read_timeout:
                    raise ConnectionFailed(f"nothing came for {self._read_timeout:g} s", maybe_done=True) from None
                if now >= self._end and not self.silent:
                    return
                bookmark = now + BOOKMARK_EVERY
                if self._server.bookmarks:
                    self.bookmark()
                self._end = self._end if self._end > now else now + 3600.0
                continue
            if piece is None:
                return
            if isinstance(piece, Exception):
                raise piece
            heard = loop.time()
            yield piece

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


def _in(path: str, namespace: str) -> bool:
    """Whether a collection at ``path`` holds objects of ``namespace``."""
    parts = path.strip("/").split("/")
    return "namespaces" not in parts or parts[parts.index("namespaces") + 1] == namespace


def names(objects: Sequence[Any]) -> set[str]:
    """The names of views."""
    return {obj.metadata.name for obj in objects}
