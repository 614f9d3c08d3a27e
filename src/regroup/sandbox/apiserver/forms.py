"""The form in which an answer goes out: plain objects, metadata alone, or tables. Chosen by ``Accept``."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from regroup.sandbox.apiserver.failures import bad_request, not_acceptable
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.storage import Stored
from regroup.wire import codec
from regroup.wire.transport import Response

Obj = dict[str, Any]

JSON = {"content-type": "application/json"}
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Form(Protocol):
    """How objects, lists and events are written."""

    def object(self, served: Served, stored: Stored, *, status: int = 200) -> Response: ...

    def list(self, served: Served, items: Sequence[Stored], metadata: Obj) -> Response: ...

    def encoder(self, served: Served) -> Callable[[Stored], bytes]: ...

    def bookmarks(self, served: Served) -> Callable[[int, bool], bytes]: ...


class PlainForm:
    """Objects as they are stored; their bytes are sent without being made again."""

    def object(self, served: Served, stored: Stored, *, status: int = 200) -> Response:
        return Response(status, JSON, self.encoder(served)(stored))

    def list(self, served: Served, items: Sequence[Stored], metadata: Obj) -> Response:
        encode = self.encoder(served)
        head = codec.encode(
            {"kind": served.definition.list_kind, "apiVersion": served.resource.api_version, "metadata": metadata}
        )
        entries = [encode(item) for item in items]
        if not served.definition.custom:
            # Items of a typed list do not repeat what the list is of.
            prefix = codec.encode({"kind": served.resource.kind, "apiVersion": served.resource.api_version})[:-1] + b","
            entries = [b"{" + entry.removeprefix(prefix) if entry.startswith(prefix) else entry for entry in entries]
        return Response(200, JSON, head[:-1] + b',"items":[' + b",".join(entries) + b"]}")

    def encoder(self, served: Served) -> Callable[[Stored], bytes]:
        if served.converted:
            return lambda stored: codec.encode(served.from_stored(stored.obj))
        return lambda stored: stored.data

    def bookmarks(self, served: Served) -> Callable[[int, bool], bytes]:
        return lambda version, end: bookmark(served.resource.kind, served.resource.api_version, version, end=end)


class MetadataForm:
    """``PartialObjectMetadata``: metadata alone."""

    def object(self, served: Served, stored: Stored, *, status: int = 200) -> Response:
        return Response(status, JSON, self.encoder(served)(stored))

    def list(self, served: Served, items: Sequence[Stored], metadata: Obj) -> Response:
        body = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": [partial(item.obj) for item in items] or None,  # Go's nil
        }
        return Response(200, JSON, codec.encode(body))

    def encoder(self, served: Served) -> Callable[[Stored], bytes]:
        return lambda stored: codec.encode(partial(stored.obj))

    def bookmarks(self, served: Served) -> Callable[[int, bool], bytes]:
        return lambda version, end: bookmark("PartialObjectMetadata", "meta.k8s.io/v1", version, end=end)


class TableForm:
    """Tables with the kind's columns. On a watch only the first event carries the columns' definitions."""

    def __init__(self, *, now: Callable[[], datetime], include: str) -> None:
        self._now = now
        self._include = include

    def object(self, served: Served, stored: Stored, *, status: int = 200) -> Response:
        return Response(status, JSON, codec.encode(self._table(served, [stored], {"resourceVersion": str(stored.version)})))

    def list(self, served: Served, items: Sequence[Stored], metadata: Obj) -> Response:
        said = {key: value for key, value in metadata.items() if value != ""}
        return Response(200, JSON, codec.encode(self._table(served, items, said)))

    def encoder(self, served: Served) -> Callable[[Stored], bytes]:
        first = True

        def encode(stored: Stored) -> bytes:
            nonlocal first
            table = self._table(served, [stored], {"resourceVersion": str(stored.version)})
            if not first:
                table["columnDefinitions"] = None
            first = False
            return codec.encode(table)

        return encode

    def bookmarks(self, served: Served) -> Callable[[int, bool], bytes]:
        def make(version: int, end: bool) -> bytes:
            metadata: Obj = {"resourceVersion": str(version)}
            row = {"cells": [], "object": {**_PARTIAL, "metadata": {**metadata, **_marker(end)}}}
            table = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "columnDefinitions": None,
                "rows": [row],
            }
            return b'{"type":"BOOKMARK","object":' + codec.encode(table) + b"}\n"

        return make

    def _table(self, served: Served, items: Sequence[Stored], metadata: Obj) -> Obj:
        columns, now = served.definition.columns, self._now()
        rows = []
        for item in items:
            obj = served.from_stored(item.obj) if served.converted else item.obj
            row: Obj = {"cells": [column.cell(obj, now) for column in columns]}
            if self._include == "Object":
                row["object"] = obj
            else:
                row["object"] = partial(obj) if self._include == "Metadata" else None
            conditions = served.definition.row_conditions(obj)
            if conditions:
                row["conditions"] = list(conditions)
            rows.append(row)
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [
                {
                    "name": column.name,
                    "type": column.type,
                    "format": column.format,
                    "description": column.description,
                    "priority": column.priority,
                }
                for column in columns
            ],
            "rows": rows,
        }


_INCLUDES = frozenset({"", "Metadata", "Object", "None"})
_PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


def partial(obj: Obj) -> Obj:
    """The object's metadata as ``PartialObjectMetadata``."""
    return {**_PARTIAL, "metadata": obj["metadata"]}


def bookmark(kind: str, api_version: str, version: int, *, end: bool) -> bytes:
    """A bookmark event; ``end`` marks the end of the initial events."""
    metadata = {"resourceVersion": str(version), **_marker(end)}
    body = codec.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    return b'{"type":"BOOKMARK","object":' + body + b"}\n"


def _marker(end: bool) -> Obj:
    return {"annotations": {INITIAL_EVENTS_END: "true"}} if end else {}


def choose(accept: str, *, include: str, now: Callable[[], datetime]) -> Form:
    """The first form of an ``Accept`` header that is known. Raises ``Failure`` (406) when none is."""
    for entry in accept.split(",") if accept.strip() else ["*/*"]:
        media, *parameters = (part.strip() for part in entry.split(";"))
        wanted = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media not in {"application/json", "application/*", "*/*"}:
            continue
        match wanted.get("as"):
            case None:
                return PlainForm()
            case "Table" if wanted.get("v", "v1") == "v1":
                if include not in _INCLUDES:
                    why = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
                    raise bad_request(f"Unable to convert to Table as requested: includeObject: {why}")
                return TableForm(now=now, include=include or "Metadata")
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return MetadataForm()
    raise not_acceptable()
