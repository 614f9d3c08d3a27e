"""Protobuf request bodies: the ``k8s`` envelope, and every built-in kind by the field numbers of its tables. Pure.

What the tables do not know is an error, never silently dropped. Definitions of custom resources are refused: nobody sends them.
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from regroup.sandbox.kinds.builder import package_of
from regroup.sandbox.kinds.tables import TABLE
from regroup.sandbox.schema.typetable import Field, Message

Obj = dict[str, Any]
Wire = dict[int, list[bytes | int]]

MAGIC = b"k8s\x00"
_REFUSED = {"CustomResourceDefinition"}


class ProtobufError(ValueError):
    """A body that cannot be decoded; the message says why."""


def decode_protobuf(body: bytes) -> Obj:
    """The object in a body, with its ``apiVersion`` and ``kind``. Raises ``ProtobufError``."""
    if not body.startswith(MAGIC):
        raise ProtobufError("the body is no Kubernetes protobuf message")
    envelope = _fields(body[len(MAGIC) :])
    type_meta = _fields(_last(envelope, 1))
    api_version, kind = _text(_last(type_meta, 1)), _text(_last(type_meta, 2))
    group, _, version = api_version.rpartition("/")
    try:
        message = TABLE.exact(f"{package_of(group, version)}.{kind}")
    except KeyError:
        message = None
    if message is None or not message.kind or kind in _REFUSED:
        raise ProtobufError(f"{api_version} {kind} is not understood as protobuf here: send it as JSON or YAML")
    return {"apiVersion": api_version, "kind": kind, **_message(_last(envelope, 2), message, kind)}


def _message(data: bytes, message: Message, path: str) -> Obj:
    known = {entry.number: entry for entry in message.declared if entry.number}
    result: Obj = {}
    for number, values in _fields(data).items():
        entry = known.get(number)
        if entry is None:
            raise ProtobufError(f"{path}: field number {number} is not understood as protobuf here: send it as JSON or YAML")
        place = f"{path}.{entry.name}"
        if entry.inline:
            held = message.held(entry)
            if held is not None:
                result |= _message(_bytes(values[-1], place), held, path)
            continue
        match entry.card:
            case "map":
                result[entry.name] = dict(_entry(value, message, entry, place) for value in values)
            case "list":
                result[entry.name] = [_value(value, message, entry, place) for value in _unpacked(values, entry)]
            case _:
                value = _value(values[-1], message, entry, place)
                if value is not None:
                    result[entry.name] = value
    return result


def _entry(value: bytes | int, owner: Message, entry: Field, path: str) -> tuple[str, Any]:
    parts = _fields(_bytes(value, path))
    held = parts.get(2)
    return _text(_last(parts, 1)), _value(held[-1] if held else _empty(entry), owner, entry, path)


def _empty(entry: Field) -> bytes | int:
    return 0 if entry.type in {"int32", "int64", "bool"} else b""


def _unpacked(values: list[bytes | int], entry: Field) -> list[bytes | int]:
    """Lists of numbers may come packed into one value."""
    if entry.type not in {"int32", "int64", "bool"}:
        return values
    result: list[bytes | int] = []
    for value in values:
        if isinstance(value, int):
            result.append(value)
            continue
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            result.append(number)
    return result


def _value(value: bytes | int, owner: Message, entry: Field, path: str) -> Any:
    held = owner.held(entry)
    if held is not None:
        return _message(_bytes(value, path), held, path)
    return _SCALARS[entry.type](value, path)


def _integer(value: bytes | int, path: str) -> int:
    if not isinstance(value, int):
        raise ProtobufError(f"{path}: wrong wire type")
    return value - (1 << 64) if value >= 1 << 63 else value


def _time(value: bytes | int, path: str) -> str | None:
    return _moment(value, path, "%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: bytes | int, path: str) -> str | None:
    return _moment(value, path, "%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(value: bytes | int, path: str, form: str) -> str | None:
    parts = _fields(_bytes(value, path))
    seconds = _integer(parts.get(1, [0])[-1], path)
    nanos = _integer(parts.get(2, [0])[-1], path)
    if not seconds and not nanos:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000).strftime(form)
    except (ValueError, OverflowError, OSError) as error:
        raise ProtobufError(f"{path}: no time: {error}") from error


def _quantity(value: bytes | int, path: str) -> str:
    return _text(_last(_fields(_bytes(value, path)), 1)) or "0"


def _int_or_string(value: bytes | int, path: str) -> int | str:
    parts = _fields(_bytes(value, path))
    if _integer(parts.get(1, [0])[-1], path) == 1:
        return _text(_last(parts, 3))
    return _integer(parts.get(2, [0])[-1], path)


def _free(value: bytes | int, path: str) -> Any:
    raw = _last(_fields(_bytes(value, path)), 1)
    try:
        return json.loads(raw) if raw else None
    except ValueError as error:
        raise ProtobufError(f"{path}: no JSON: {error}") from error


_SCALARS: Mapping[str, Callable[[bytes | int, str], Any]] = {
    "string": lambda value, path: _text(_bytes(value, path)),
    "bytes": lambda value, path: base64.b64encode(_bytes(value, path)).decode(),
    "int32": _integer,
    "int64": _integer,
    "bool": lambda value, path: bool(_integer(value, path)),
    "time": _time,
    "microtime": _micro_time,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "raw": _free,
    "json": _free,
    "fields": _free,
}


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"text that is not UTF-8: {error}") from error


def _bytes(value: bytes | int, path: str) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError(f"{path}: wrong wire type")
    return value


def _last(fields: Wire, number: int) -> bytes:
    values = fields.get(number)
    return values[-1] if values and isinstance(values[-1], bytes) else b""


def _fields(data: bytes) -> Wire:
    """Fields of a message by number, in the order they came."""
    result: Wire = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        value: bytes | int
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
            case 1:
                value, position = data[position : position + 8], position + 8
            case 2:
                length, position = _varint(data, position)
                value, position = data[position : position + length], position + length
            case 5:
                value, position = data[position : position + 4], position + 4
            case wire:
                raise ProtobufError(f"wire type {wire} is not understood")
        if position > len(data):
            raise ProtobufError("the message is cut off")
        result.setdefault(tag >> 3, []).append(value)
    return result


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ProtobufError("the message is cut off")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
