"""Reads: one object, lists with pages, watches."""

import base64
import itertools
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from regroup.sandbox.apiserver import failures
from regroup.sandbox.apiserver.forms import Form
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.routing import Target, flag
from regroup.sandbox.apiserver.selection import Selection, selection
from regroup.sandbox.apiserver.storage import EventType, Storage, Stored
from regroup.sandbox.apiserver.watching import WatchRequest, error_line, watch
from regroup.wire import codec
from regroup.wire.transport import Response

Obj = dict[str, Any]

SNAPSHOTS_KEPT = 64
DEFAULT_TIMEOUT = 1800.0


@dataclass(slots=True)
class ServerStream:
    """An answer that comes in pieces."""

    status: int
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]

    def chunks(self) -> AsyncIterator[bytes]:
        return self.body

    async def close(self) -> None:
        """End the answer early; what it listens to is given back."""
        end = getattr(self.body, "aclose", None)
        if end is not None:
            await end()


@dataclass(slots=True)
class Reader:
    """Answers GET requests on resources."""

    storage: Storage
    _snapshots: OrderedDict[str, list[Stored]] = field(default_factory=OrderedDict)
    _sequence: Iterator[int] = field(default_factory=itertools.count)

    def get(self, served: Served, target: Target, form: Form) -> Response:
        stored = self.find(served, target)
        return form.object(served, stored)

    def find(self, served: Served, target: Target) -> Stored:
        """The object that a path names. Raises ``Failure`` (404)."""
        stored = self.storage.get(served.stored_as, (target.namespace, target.name))
        if stored is None:
            raise failures.not_found(served.resource, target.name)
        return stored

    def list_all(self, served: Served, target: Target, query: Mapping[str, str], form: Form) -> Response:
        wanted = selection(served.definition, target.namespace, query)
        self._check_version(query)
        limit = _number(query, "limit")
        token = query.get("continue", "")
        if token:
            version, items = self._resume(token)
        else:
            version = self.storage.version
            items = [
                stored for stored in self.storage.items(served.stored_as, target.namespace) if _matches(served, stored, wanted)
            ]
        page, rest = (items[:limit], items[limit:]) if limit else (items, [])
        metadata: Obj = {"resourceVersion": str(version)}
        if rest:
            metadata["continue"] = self._keep(version, rest)
            if not (query.get("labelSelector") or query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(rest)
        return form.list(served, page, metadata)

    async def watch(self, served: Served, target: Target, query: Mapping[str, str], form: Form) -> ServerStream:
        wanted = selection(served.definition, target.namespace, query)
        initial_events = flag(query, "sendInitialEvents")
        if initial_events and query.get("resourceVersionMatch") != "NotOlderThan":
            raise failures.Failure(
                422,
                "Invalid",
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )
        since = self._check_version(query)
        initial: list[tuple[EventType, Stored]] = []
        missed: list[Any] = []
        headers = {"content-type": "application/json"}
        if since == 0 or initial_events:
            # Everything that is there comes first, then what changes from now on.
            since = self.storage.version
            initial = [
                ("ADDED", stored)
                for stored in self.storage.items(served.stored_as, target.namespace)
                if _matches(served, stored, wanted)
            ]
        else:
            events = self.storage.events_after(served.stored_as, since)
            if events is None:
                status = failures.expired_version(since, self.storage.oldest(served.stored_as)).status()
                return ServerStream(200, headers, _once(error_line(status)))
            missed = list(events)
        timeout = query.get("timeoutSeconds")
        request = WatchRequest(
            resource=served.stored_as,
            selection=wanted,
            encode=form.encoder(served),
            bookmark=form.bookmarks(served),
            timeout=float(timeout) if timeout else DEFAULT_TIMEOUT,
            bookmarks=flag(query, "allowWatchBookmarks"),
            initial=initial,
            initial_end=initial_events,
            since=since,
        )
        body = watch(self.storage, request, missed=missed)
        await anext(body)  # the first step puts the listener in place, with no other step of the loop in between
        return ServerStream(200, headers, body)

    def _check_version(self, query: Mapping[str, str]) -> int:
        text = query.get("resourceVersion", "")
        if not text:
            return 0
        if not text.isdecimal():
            raise failures.bad_request(f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
        version = int(text)
        if version > self.storage.version:
            raise failures.future_version(version, self.storage.version)
        return version

    def _keep(self, version: int, rest: list[Stored]) -> str:
        name = str(next(self._sequence))
        self._snapshots[name] = rest
        while len(self._snapshots) > SNAPSHOTS_KEPT:
            self._snapshots.popitem(last=False)
        return base64.urlsafe_b64encode(codec.encode({"v": version, "s": name})).decode()

    def _resume(self, token: str) -> tuple[int, list[Stored]]:
        try:
            content = codec.decode(base64.urlsafe_b64decode(token), dict)
            version, name = int(content["v"]), str(content["s"])
        except (ValueError, KeyError, TypeError, codec.DecodeError, msgspec.DecodeError) as error:
            raise failures.bad_request(f"continue key is not valid: {error}") from error
        rest = self._snapshots.get(name)
        if rest is None:
            raise failures.gone(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list "
                "without the continue parameter."
            )
        return version, rest


def _matches(served: Served, stored: Stored, wanted: Selection) -> bool:
    return wanted.matches(served.from_stored(stored.obj) if served.converted else stored.obj)


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    if not text.isdecimal():
        raise failures.bad_request(f'Invalid value: "{text}": strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
