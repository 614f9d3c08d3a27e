"""JSON as a Go API server takes it in: fields it does not know fall away, values of a wrong type end the request, and what
Go would not send back (zero values, empty lists) is not kept. For built-in kinds only; custom ones have ``structural``. Pure.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from regroup.sandbox.schema.quantity import PATTERN_RULE, QuantityError, canonical
from regroup.sandbox.schema.typetable import Message, Slot

Obj = dict[str, Any]

_INTEGERS = {"int32": 2**31, "int64": 2**63}
_GO_TYPES = {"string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "double": "float64", "bytes": "[]uint8"}
_TIME = re.compile(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$")


class DecodeFailure(ValueError):
    """A value of a type that the field cannot hold; the message is the Go decoder's."""


def decode(message: Message, value: Mapping[str, Any]) -> tuple[Obj, list[str]]:
    """The object as it is kept, and the paths of the fields that nobody knows, in document order. Raises ``DecodeFailure``."""
    reader = _Reader()
    return reader.message(message, value, "", ""), reader.unknown


class _Reader:
    def __init__(self) -> None:
        self.unknown: list[str] = []

    def message(self, message: Message, value: Mapping[str, Any], path: str, go_path: str) -> Obj:
        slots = message.slots
        found: list[tuple[int, str, Any]] = []
        for key, raw in value.items():
            slot = slots.get(key)
            if slot is None:
                self.unknown.append(f"{path}{key}")
                continue
            if raw is None:
                continue
            kept = self._field(message, slot, raw, f"{path}{key}", f"{go_path}.{key}")
            if kept or (not slot.entry.always and not slot.drops_zero) or (slot.entry.always and slot.entry.card == "one"):
                found.append((slot.rank, key, kept))
        have = {key for _, key, _ in found}
        found += [(slot.rank, slot.name, _unset(slot)) for slot in message.forced if slot.name not in have]
        found.sort(key=_rank)
        return {key: kept for _, key, kept in found}

    def _field(self, owner: Message, slot: Slot, value: Any, path: str, go_path: str) -> Any:
        card = slot.entry.card
        if card == "one":
            return self._one(owner, slot, value, path, go_path)
        where = f"{owner.name}{go_path}"
        if card == "list":
            if not isinstance(value, list):
                raise _wrong(value, where, f"[]{_go_type(slot)}")
            return [self._one(owner, slot, item, f"{path}[{index}]", go_path) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            raise _wrong(value, where, f"map[string]{_go_type(slot)}")
        return {key: self._one(owner, slot, item, f"{path}.{key}", go_path) for key, item in value.items()}

    def _one(self, owner: Message, slot: Slot, value: Any, path: str, go_path: str) -> Any:
        if slot.held is None:
            if slot.entry.type == "string" and isinstance(value, str):
                return value
            return _scalar(slot, value, f"{owner.name}{go_path}")
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise _wrong(value, f"{owner.name}{go_path}", _go_type(slot))
        return self.message(slot.held, value, f"{path}.", go_path)


def _rank(found: tuple[int, str, Any]) -> int:
    return found[0]


def zero(message: Message) -> Obj:
    """A value of the type with nothing set, as it is sent."""
    return {slot.name: _unset(slot) for slot in message.forced}


_ZEROS: Mapping[str, Any] = {"quantity": "0", "intstr": 0, "string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}


def _unset(slot: Slot) -> Any:
    """What is sent for a field that was not set and is sent all the same."""
    entry = slot.entry
    if entry.card != "one" or entry.pointer:
        return None
    return zero(slot.held) if slot.held is not None else _ZEROS.get(entry.type)


def _scalar(slot: Slot, value: Any, where: str) -> Any:
    kind = slot.entry.type
    if kind in {"raw", "json", "fields"}:
        return value
    if value is None:
        # An element of a list or a map.
        return "" if kind == "string" else None
    if kind in {"quantity", "time", "microtime", "intstr"}:
        return _struct(kind, value, where)
    if kind == "string" and isinstance(value, str):
        return value
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "bytes" and isinstance(value, str):
        return _base64(value)
    if kind == "double" and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if kind in _INTEGERS and isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and -_INTEGERS[kind] <= value < _INTEGERS[kind]:
            return value
        raise _wrong(value, where, _go_type(slot), number=True)
    raise _wrong(value, where, _go_type(slot))


def _struct(kind: str, value: Any, where: str) -> Any:
    match kind:
        case "quantity":
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise DecodeFailure(PATTERN_RULE)
            try:
                return canonical(value)
            except QuantityError as error:
                raise DecodeFailure(str(error)) from error
        case "intstr":
            if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31):
                return value
            raise _wrong(value, where, "int32", number=isinstance(value, int | float) and not isinstance(value, bool))
        case _:
            return _time(value, where, micro=kind == "microtime")


def _time(value: Any, where: str, *, micro: bool) -> str:
    if not isinstance(value, str):
        raise _wrong(value, where, "string")
    layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
    found = _TIME.match(value)
    if not found:
        raise DecodeFailure(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"')
    if micro and len(found[1] or "") != 7:
        raise DecodeFailure(f'parsing time "{value}" as "{layout}": cannot parse "{value[19:]}" as ".000000"')
    try:
        moment = datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise DecodeFailure(f'parsing time "{value}": out of range') from error
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _base64(value: str) -> str:
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        body = value.rstrip("=")
        position = next((at for at, letter in enumerate(body) if not re.match(r"[A-Za-z0-9+/]", letter)), len(value))
        raise DecodeFailure(f"illegal base64 data at input byte {position}") from error
    return base64.b64encode(raw).decode()


def _go_type(slot: Slot) -> str:
    if slot.held is None:
        return slot.entry.go_type or _GO_TYPES.get(slot.entry.type, slot.entry.type)
    return f"{slot.held.package.rsplit('.', 1)[-1]}.{slot.held.name}"


def _wrong(value: Any, where: str, go_type: str, *, number: bool = False) -> DecodeFailure:
    return DecodeFailure(
        f"json: cannot unmarshal {_json_kind(value, number=number)} into Go struct field {where} of type {go_type}"
    )


def _json_kind(value: Any, *, number: bool) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return f"number {value}" if number else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
