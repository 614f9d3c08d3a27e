"""Protobuf request bodies of kubectl: the ``k8s`` envelope, and the kinds that it creates that way. Pure.

A table for each kind names its fields by number; what a table does not know is an error, never silently dropped.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Obj = dict[str, Any]

MAGIC = b"k8s\x00"

Scalar = Literal["string", "int", "bool", "bytes"]


class ProtobufError(ValueError):
    """A body that cannot be decoded; the message says why."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in JSON, what it holds, and whether it is a list or a map of strings."""

    name: str
    kind: "Scalar | Mapping[int, Field]"
    shape: Literal["one", "list", "map"] = "one"


_TIME: Mapping[int, Field] = {1: Field("seconds", "int"), 2: Field("nanos", "int")}
_OWNER: Mapping[int, Field] = {
    5: Field("apiVersion", "string"),
    1: Field("kind", "string"),
    3: Field("name", "string"),
    4: Field("uid", "string"),
    6: Field("controller", "bool"),
    7: Field("blockOwnerDeletion", "bool"),
}
_META: Mapping[int, Field] = {
    1: Field("name", "string"),
    2: Field("generateName", "string"),
    3: Field("namespace", "string"),
    4: Field("selfLink", "string"),
    5: Field("uid", "string"),
    6: Field("resourceVersion", "string"),
    7: Field("generation", "int"),
    8: Field("creationTimestamp", _TIME),
    9: Field("deletionTimestamp", _TIME),
    10: Field("deletionGracePeriodSeconds", "int"),
    11: Field("labels", "string", "map"),
    12: Field("annotations", "string", "map"),
    13: Field("ownerReferences", _OWNER, "list"),
    14: Field("finalizers", "string", "list"),
}
KINDS: Mapping[tuple[str, str], Mapping[int, Field]] = {
    ("v1", "ConfigMap"): {
        1: Field("metadata", _META),
        2: Field("data", "string", "map"),
        3: Field("binaryData", "bytes", "map"),
        4: Field("immutable", "bool"),
    },
    ("v1", "Namespace"): {
        1: Field("metadata", _META),
        2: Field("spec", {1: Field("finalizers", "string", "list")}),
        3: Field("status", {1: Field("phase", "string")}),
    },
    ("v1", "Secret"): {
        1: Field("metadata", _META),
        2: Field("data", "bytes", "map"),
        3: Field("type", "string"),
        4: Field("stringData", "string", "map"),
        5: Field("immutable", "bool"),
    },
    ("v1", "ServiceAccount"): {
        1: Field("metadata", _META),
        4: Field("automountServiceAccountToken", "bool"),
    },
}
"""Fields by number, for each kind that is understood."""


def decode_protobuf(body: bytes) -> Obj:
    """The object in a body, with its ``apiVersion`` and ``kind``. Raises ``ProtobufError``."""
    if not body.startswith(MAGIC):
        raise ProtobufError("the body is no Kubernetes protobuf message")
    envelope = _fields(body[len(MAGIC) :])
    type_meta = _fields(_last(envelope, 1))
    api_version, kind = _last(type_meta, 1).decode(), _last(type_meta, 2).decode()
    table = KINDS.get((api_version, kind))
    if table is None:
        raise ProtobufError(f"{api_version} {kind} is not understood as protobuf here: send it as JSON or YAML")
    return {"apiVersion": api_version, "kind": kind, **_message(_last(envelope, 2), table, kind)}


def _message(data: bytes, table: Mapping[int, Field], path: str) -> Obj:
    result: Obj = {}
    for number, values in _fields(data).items():
        field = table.get(number)
        if field is None:
            raise ProtobufError(f"{path}: field number {number} is not understood as protobuf here: send it as JSON or YAML")
        place = f"{path}.{field.name}"
        if field.shape == "map":
            result[field.name] = dict(_entry(value, field, place) for value in values)
        elif field.shape == "list":
            result[field.name] = [_value(value, field.kind, place) for value in values]
        else:
            value = _value(values[-1], field.kind, place)
            if field.kind is _TIME:
                continue  # the server's own times
            if value not in ("", {}, None):
                result[field.name] = value
    return result


def _entry(value: "bytes | int", field: Field, path: str) -> tuple[str, Any]:
    parts = _fields(_bytes(value, path))
    return _last(parts, 1).decode(), _value(_last(parts, 2), field.kind, path)


def _value(value: "bytes | int", kind: "Scalar | Mapping[int, Field]", path: str) -> Any:
    match kind:
        case "int":
            number = value if isinstance(value, int) else 0
            return number - (1 << 64) if number >= 1 << 63 else number
        case "bool":
            return bool(value)
        case "string":
            return _bytes(value, path).decode()
        case "bytes":
            return base64.b64encode(_bytes(value, path)).decode()
        case _:
            return _message(_bytes(value, path), kind, path)


def _bytes(value: "bytes | int", path: str) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError(f"{path}: wrong wire type")
    return value


def _last(fields: "Mapping[int, list[bytes | int]]", number: int) -> bytes:
    values = fields.get(number)
    return values[-1] if values and isinstance(values[-1], bytes) else b""


def _fields(data: bytes) -> "dict[int, list[bytes | int]]":
    """Fields of a message by number, in the order they came."""
    result: dict[int, list[bytes | int]] = {}
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
