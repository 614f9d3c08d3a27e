"""Verbs over one ``Transport``: encodes, decodes, turns codes into typed errors, sends again where the verb allows.

Reads and writes that may be done twice (apply, merge patch, delete of a UID) are sent again after 5xx or a lost connection; the
others only when they were surely not done (``wire.retries``). Waiting is asyncio's.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Literal, TypeVar

import msgspec

from regroup.wire import codec
from regroup.wire.errors import ApiError, ConnectionFailed, WireError, api_error
from regroup.wire.events import WatchEvent, read_events
from regroup.wire.resource import Resource
from regroup.wire.retries import next_pause, retry_after
from regroup.wire.transport import Request, Response, Stream, Transport

T = TypeVar("T")

Propagation = Literal["Foreground", "Background", "Orphan"]

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list, or a whole list."""

    items: list[T]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class _ListMeta(msgspec.Struct, frozen=True, gc=False):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next_page: str = msgspec.field(name="continue", default="")
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _List(msgspec.Struct, Generic[T], frozen=True):
    items: list[T] | None = None
    metadata: _ListMeta = _ListMeta()


class Client:
    """A client of one API server. Every call raises only ``WireError``."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "regroup",
        field_manager: str = "regroup",
        timeout: float = 10.0,
        rng: random.Random | None = None,
    ) -> None:
        self._transport = transport
        self._user_agent = user_agent
        self._field_manager = field_manager
        self._timeout = timeout
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not secrets

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        subresource: str | None = None,
    ) -> T:
        """One object. Raises ``NotFound`` and the like."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return codec.decode((await self._send("GET", path, again=True)).body, type)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str | None = None,
    ) -> Page[T]:
        """One page of a collection. ``limit=0`` asks for all in one answer. Raises ``Gone`` for an expired token."""
        query = _selectors(label_selector, field_selector)
        if limit:
            query.append(("limit", str(limit)))
        if continue_token:
            query.append(("continue", continue_token))
        if resource_version is not None:
            query.append(("resourceVersion", resource_version))
        answer = await self._send("GET", resource.path(namespace=namespace), query=query, again=True)
        page = codec.decode(answer.body, _List[type])  # type: ignore[valid-type]  # built at run time, cached by the codec
        return Page(page.items or [], page.metadata.resource_version, page.metadata.next_page, page.metadata.remaining)

    async def list_all(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        label_selector: str = "",
        field_selector: str = "",
    ) -> Page[T]:
        """A whole collection, page by page. A page that fails is an error, never a part of the truth."""
        items: list[T] = []
        token = ""
        while True:
            page = await self.list(
                resource,
                namespace=namespace,
                type=type,
                label_selector=label_selector,
                field_selector=field_selector,
                continue_token=token,
            )
            items += page.items
            token = page.continue_token
            if not token:
                return Page(items, page.resource_version)

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        dry_run: bool = False,
        name: str | None = None,
        subresource: str | None = None,
    ) -> T:
        """POST. Never sent again once it may have been done: the caller looks and decides."""
        query = [("fieldManager", self._field_manager)]
        if dry_run:
            query.append(("dryRun", "All"))
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        answer = await self._send("POST", path, query=query, body=codec.encode(body), content_type=JSON)
        return codec.decode(answer.body, type)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        subresource: str | None = None,
    ) -> T:
        """PUT. A ``metadata.resourceVersion`` in the body is the precondition."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        query = [("fieldManager", self._field_manager)]
        answer = await self._send("PUT", path, query=query, body=codec.encode(body), content_type=JSON)
        return codec.decode(answer.body, type)

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        force: bool = True,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> T:
        """Server-side apply. Raises ``Conflict`` with causes when ``force`` is off and another manager owns a field."""
        query = [("fieldManager", field_manager or self._field_manager), ("force", "true" if force else "false")]
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        answer = await self._send("PATCH", path, query=query, body=codec.encode(body), content_type=APPLY_PATCH, again=True)
        return codec.decode(answer.body, type)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        subresource: str | None = None,
    ) -> T:
        """JSON merge patch; setting a value twice is harmless, so it may be sent again."""
        return await self._patch(
            resource, name, codec.encode(body), MERGE_PATCH, namespace=namespace, type=type, subresource=subresource, again=True
        )

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        subresource: str | None = None,
    ) -> T:
        """JSON patch; not sent again once it may have been done, because its tests would then fail."""
        body = codec.encode(list(operations))
        return await self._patch(
            resource, name, body, JSON_PATCH, namespace=namespace, type=type, subresource=subresource, again=False
        )

    async def strategic_patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        type: type[T] = dict,  # type: ignore[assignment]  # a default for a type variable
        subresource: str | None = None,
    ) -> T:
        """Strategic merge patch, for the sandbox's own components: the operator never sends one."""
        return await self._patch(
            resource,
            name,
            codec.encode(body),
            STRATEGIC_PATCH,
            namespace=namespace,
            type=type,
            subresource=subresource,
            again=True,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """DELETE. ``uid`` and ``resource_version`` are preconditions: a mismatch raises ``Conflict``."""
        options = _delete_options(propagation, grace_period_seconds)
        preconditions = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        if preconditions:
            options["preconditions"] = preconditions
        path = resource.path(namespace=namespace, name=name)
        await self._send("DELETE", path, body=codec.encode(options), content_type=JSON, again=uid is not None)

    async def delete_collection(
        self,
        resource: Resource,
        *,
        namespace: str | None,
        label_selector: str,
        field_selector: str = "",
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """DELETE of all objects that the selectors name. Raises ``ValueError`` when they name everything."""
        if not label_selector and not field_selector:
            raise ValueError("a collection delete needs a selector")
        await self._send(
            "DELETE",
            resource.path(namespace=namespace),
            query=_selectors(label_selector, field_selector),
            body=codec.encode(_delete_options(propagation, grace_period_seconds)),
            content_type=JSON,
        )

    def watch(
        self,
        resource: Resource,
        *,
        type: type[T],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int,
        read_timeout: float = 90.0,
        send_initial_events: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Changes of a collection as they come; the iterator ends when the server ends the watch.

        Raises ``Gone`` for an expired version (as an answer or in the stream), ``ConnectionFailed`` for a cut or a silence of
        ``read_timeout`` seconds, ``DecodeError`` for a line that is no event.
        """
        query = [
            *_selectors(label_selector, field_selector),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(timeout_seconds)),
        ]
        if send_initial_events:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if resource_version or send_initial_events:
            query.append(("resourceVersion", resource_version))
        return self._watch(Request("GET", resource.path(namespace=namespace), query, None, self._headers()), type, read_timeout)

    async def get_text(self, path: str, *, query: Sequence[tuple[str, str]] = ()) -> str:
        """Any path as text: logs, ``/version``, ``/readyz``."""
        answer = await self._send("GET", path, query=query, again=True, accept="*/*")
        return answer.body.decode(errors="replace")

    async def server_time(self) -> datetime | None:
        """What time it is for the API server, to the second; None where its answers do not tell (in the same process)."""
        answer = await self.raw(Request("GET", "/version", (), None, self._headers()))
        try:
            return parsedate_to_datetime(answer.headers.get("date", ""))
        except ValueError:
            return None

    async def raw(self, request: Request) -> Response:
        """One request as it is; any status code is an answer."""
        return await self._transport.request(request, timeout=self._timeout)

    async def close(self) -> None:
        await self._transport.close()

    @asynccontextmanager
    async def _watch(self, request: Request, type: type[T], read_timeout: float) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        async with self._transport.stream(request, connect_timeout=self._timeout, read_timeout=read_timeout) as stream:
            if stream.status != 200:
                raise await self._refusal(stream)
            async with aclosing(read_events(stream.chunks(), type)) as events:
                yield events

    async def _refusal(self, stream: Stream) -> WireError:
        try:
            async with asyncio.timeout(self._timeout):
                return _error(Response(stream.status, stream.headers, await stream.read()))
        except TimeoutError:
            return ConnectionFailed(f"an answer of {stream.status} broke off for {self._timeout:g} s")

    async def _patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        content_type: str,
        *,
        namespace: str | None,
        type: type[T],
        subresource: str | None,
        again: bool,
    ) -> T:
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        query = [("fieldManager", self._field_manager)]
        answer = await self._send("PATCH", path, query=query, body=body, content_type=content_type, again=again)
        return codec.decode(answer.body, type)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "",
        accept: str = JSON,
        again: bool = False,
    ) -> Response:
        request = Request(method, path, query, body, self._headers(accept=accept, content_type=content_type))
        loop = asyncio.get_running_loop()
        start = loop.time()
        attempt = 1
        while True:
            try:
                answer = await self._transport.request(request, timeout=self._timeout)
                if answer.status < 300:
                    return answer
                raise _error(answer)
            except WireError as error:
                pause = next_pause(error, attempt=attempt, elapsed=loop.time() - start, again=again, rng=self._rng)
                if pause is None:
                    raise
            attempt += 1
            # While we sleep the object may change; every verb that is sent again is harmless then or has a precondition.
            await asyncio.sleep(pause)

    def _headers(self, *, accept: str = JSON, content_type: str = "") -> dict[str, str]:
        headers = {"accept": accept, "user-agent": self._user_agent}
        if content_type:
            headers["content-type"] = content_type
        return headers


def _selectors(labels: str, fields: str) -> list[tuple[str, str]]:
    pairs = (("labelSelector", labels), ("fieldSelector", fields))
    return [(name, value) for name, value in pairs if value]


def _delete_options(propagation: Propagation | None, grace: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options


def _error(answer: Response) -> ApiError:
    try:
        status = codec.decode(answer.body, dict)
    except codec.DecodeError:
        status = {}
    if status.get("kind") != "Status":
        status = {}
    fallback = answer.body[:300].decode(errors="replace").strip()
    return api_error(answer.status, status=status, fallback=fallback, retry_after=retry_after(answer.headers.get("retry-after")))
