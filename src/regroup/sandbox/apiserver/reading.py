"""Reads: one object, lists with pages, watches."""

import base64
import itertools
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from regroup.sandbox.apiserver import failures
from regroup.sandbox.apiserver.forms import JSON, Form
from regroup.sandbox.apiserver.options import ListOptions, list_options
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.routing import Target
from regroup.sandbox.apiserver.selection import Selection, selection
from regroup.sandbox.apiserver.storage import Event, EventType, Storage, Stored
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
        """One page of a collection, or all of it. Raises ``Failure``."""
        wanted = selection(served, target.namespace, query)
        options = list_options(query, watch=False)
        if options.token:
            version, items = self._resume(options.token)
        else:
            self._check_list_version(options)
            version = self.storage.version
            items = self._selected(wanted)
        # A list at version 0 comes whole out of the watch cache, whatever limit it names: reflectors count on that.
        limit = 0 if options.version == 0 and not options.token else options.limit
        page, rest = (items[:limit], items[limit:]) if limit > 0 else (items, [])
        metadata = list_meta(served, version)
        if rest:
            metadata["continue"] = self._keep(version, rest)
            if not wanted.labels and not wanted.fields:
                metadata["remainingItemCount"] = len(rest)
        return form.list(served, page, metadata)

    async def watch(self, served: Served, target: Target, query: Mapping[str, str], form: Form) -> ServerStream:
        """A watch of a collection. Raises ``Failure``."""
        wanted = selection(served, target.namespace, query)
        options = list_options(query, watch=True)
        initial: list[tuple[EventType, Stored]] = []
        missed: list[Event] = []
        since = options.version or 0
        if since == 0 or options.initial_events:
            # Everything that is there comes first, unless it is not wanted; then what changes from now on.
            since = max(self.storage.version, since)
            wanted_first = options.initial_events is not False
            initial = [("ADDED", stored) for stored in self._selected(wanted)] if wanted_first else []
        else:
            events = self.storage.events_after(served.stored_as, since)
            if events is None:
                status = failures.expired_version(since, self.storage.oldest(served.stored_as)).status()
                return ServerStream(200, JSON, _once(error_line(status)))
            missed = events
        request = WatchRequest(
            selection=wanted,
            encode=form.encoder(served),
            bookmark=form.bookmarks(served),
            timeout=options.timeout or DEFAULT_TIMEOUT,
            bookmarks=options.bookmarks,
            initial=initial,
            initial_end=bool(options.initial_events) and options.bookmarks,
            since=since,
        )
        body = watch(self.storage, request, missed=missed)
        await anext(body)  # the first step puts the listener in place, with no other step of the loop in between
        return ServerStream(200, JSON, body)

    def _selected(self, wanted: Selection) -> list[Stored]:
        everything = self.storage.items(wanted.served.stored_as, wanted.namespace)
        return [stored for stored in everything if wanted.matches(stored)]

    def _check_list_version(self, options: ListOptions) -> None:
        version = options.version
        if version is None:
            return
        if version > self.storage.version:
            raise failures.future_version(version, self.storage.version)
        if options.exact and version != self.storage.version:
            raise failures.gone("The resourceVersion for the provided list is too old.")

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
            raise failures.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
        rest = self._snapshots.get(name)
        if rest is None:
            raise failures.gone(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list "
                "without the continue parameter."
            )
        return version, rest


def list_meta(served: Served, version: int) -> Obj:
    """The metadata of a list; lists of custom resources always tell whether they go on."""
    metadata: Obj = {"resourceVersion": str(version)}
    return {**metadata, "continue": ""} if served.definition.custom else metadata


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
