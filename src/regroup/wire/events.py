"""Watch events: lines of a stream, decoded straight into the type that the caller reads."""

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Generic, Literal, TypeVar

import msgspec

from regroup.wire import codec
from regroup.wire.codec import DecodeError
from regroup.wire.errors import ConnectionFailed, api_error

T = TypeVar("T")

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of one event that are taken; etcd's own limit for an object is an eighth of it."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event. ``object`` is None for a bookmark, which only carries ``resource_version``."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: T | None
    resource_version: str = ""
    initial_events_end: bool = False


class _Envelope(msgspec.Struct, Generic[T], frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


class _Annotations(msgspec.Struct, frozen=True):
    initial_events_end: str = msgspec.field(name=INITIAL_EVENTS_END, default="")


class _BookmarkMeta(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: _Annotations | None = None


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: _BookmarkMeta


class _Kind(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


def _make(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Envelope[type])


_envelope: Callable[[Any], msgspec.json.Decoder[Any]] = functools.cache(_make)


async def read_events(chunks: AsyncIterator[bytes], type: type[T]) -> AsyncGenerator[WatchEvent[T], None]:
    """The events of a stream of bytes that is cut anywhere.

    Raises ``Gone`` and other API errors that the stream reports, ``ConnectionFailed`` when it ends within a line, and
    ``DecodeError`` for a line that is no event.
    """
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        head, *lines = chunk.split(b"\n")
        pieces.append(head)
        size += len(head)
        if size > LINE_LIMIT:
            raise DecodeError(f"a watch event is longer than {LINE_LIMIT} bytes")
        if not lines:
            continue
        first = b"".join(pieces)
        rest = lines.pop()
        pieces, size = [rest], len(rest)
        if first.strip():
            yield _event(first, type)
        for line in lines:
            if line.strip():
                yield _event(line, type)
    if b"".join(pieces).strip():
        raise ConnectionFailed("the watch was cut within an event", maybe_done=True)


def _event(line: bytes, type: type[T]) -> WatchEvent[T]:
    try:
        envelope = _envelope(type).decode(line)
    except msgspec.ValidationError as error:
        return _other(line, error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"not a watch event: {error}"[:500]) from error
    return WatchEvent(envelope.type, envelope.object, _version(envelope.object))


def _version(obj: Any) -> str:
    if isinstance(obj, dict):
        metadata = obj.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else ""
    else:
        version = getattr(getattr(obj, "metadata", None), "resource_version", "")
    return version if isinstance(version, str) else ""


def _other(line: bytes, error: msgspec.ValidationError) -> WatchEvent[T]:
    """A bookmark, an error, or an event whose object does not fit: the rare lines, told apart slowly."""
    kind = codec.decode(line, _Kind)
    if kind.type == "ERROR":
        status = codec.decode(bytes(kind.object), dict)
        code = status.get("code")
        raise api_error(code if isinstance(code, int) and code >= 400 else 500, status=status)
    if kind.type != "BOOKMARK":
        raise DecodeError(f"an object of the watch cannot be read: {error}"[:500])
    metadata = codec.decode(bytes(kind.object), _Bookmark).metadata
    end = metadata.annotations is not None and metadata.annotations.initial_events_end == "true"
    return WatchEvent("BOOKMARK", None, metadata.resource_version, end)
