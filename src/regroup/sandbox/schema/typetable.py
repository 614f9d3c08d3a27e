"""Reads the tables of the built-in API types (``kinds/types/*.types``). Pure.

One block a type, one line a field::

    package io.k8s.api.core.v1

    Container -- A program that runs in a pod.
      1 name string required always -- Its name, unique in the pod.
      6 ports []ContainerPort map=containerPort,protocol merge=containerPort

The number is the field's number in protobuf (0: it has none there). Types are ``string int32 int64 double bool bytes time
microtime quantity intstr raw json fields`` or the name of a block; ``[]T`` is a list, ``{}T`` a map, ``*T`` a value that may be
unset, which is not the same as zero. Marks: ``required``; ``always`` (sent even when it is zero); ``omitzero``; ``inline`` (its
fields are the owner's in JSON); ``set``, ``map=KEYS``, ``atomic`` (how server-side apply merges); ``merge``, ``merge=KEY``,
``retainKeys``, ``replace`` (how a strategic merge patch merges); ``enum=A,B``; ``default=X``; ``go=NAME`` (its name in Go).
A type may be marked ``kind`` (it has apiVersion and kind) and ``atomic``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

Obj = dict[str, Any]
ListType = Literal["atomic", "set", "map"]

SCALARS = frozenset(
    {"string", "int32", "int64", "double", "bool", "bytes", "time", "microtime", "quantity", "intstr", "raw", "json", "fields"}
)
STRUCTS = frozenset({"time", "microtime", "quantity", "intstr", "raw"})
"""Scalars that Go holds as structs: they are sent even when empty, unless they are pointers."""
Card = Literal["one", "list", "map"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a type."""

    number: int
    name: str
    type: str
    card: Card = "one"
    pointer: bool = False
    required: bool = False
    always: bool = False
    omitzero: bool = False
    inline: bool = False
    list_type: ListType = "atomic"
    map_keys: tuple[str, ...] = ()
    atomic: bool = False
    merge: bool = False
    merge_key: str = ""
    retain_keys: bool = False
    replace: bool = False
    enum: tuple[str, ...] = ()
    default: str = ""
    go_type: str = ""
    """The name of the type in Go when it is not the plain one; decoding errors name it."""
    description: str = ""


@dataclass(frozen=True)
class Message:
    """One type: its fields in the order of their numbers."""

    package: str
    name: str
    description: str = ""
    kind: bool = False
    atomic: bool = False
    declared: tuple[Field, ...] = ()
    table: "TypeTable" = field(repr=False, compare=False, default=cast("TypeTable", None))

    @property
    def full_name(self) -> str:
        return f"{self.package}.{self.name}"

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields that JSON shows, with those of inlined types, by name."""
        found: dict[str, Field] = {}
        if self.kind:
            found["apiVersion"] = Field(0, "apiVersion", "string", description=_API_VERSION)
            found["kind"] = Field(0, "kind", "string", description=_KIND)
        for entry in self.declared:
            if entry.inline:
                found |= self.table.message(entry.type, package=self.package).fields
            else:
                found[entry.name] = entry
        return found

    @cached_property
    def slots(self) -> "dict[str, Slot]":
        """The fields with what readers of objects need to know of each, looked up once."""
        return {name: Slot(name, entry, self.held(entry), rank) for rank, (name, entry) in enumerate(self.fields.items())}

    @cached_property
    def forced(self) -> "tuple[Slot, ...]":
        """The fields that are sent even when nothing was set."""
        return tuple(slot for slot in self.slots.values() if slot.forced)

    def held(self, entry: Field) -> "Message | None":
        """The type that a field of ours holds; None for plain values."""
        return None if entry.type in SCALARS else self.table.message(entry.type, package=self.package)


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of one type, with the type that it holds and its place in the order of the fields."""

    name: str
    entry: Field
    held: Message | None
    rank: int

    @property
    def struct(self) -> bool:
        """Whether Go holds the value itself, as a struct: there is always one."""
        entry = self.entry
        return entry.card == "one" and not entry.pointer and (self.held is not None or entry.type in STRUCTS)

    @property
    def forced(self) -> bool:
        return self.entry.always or (self.struct and not self.entry.omitzero)

    @property
    def drops_zero(self) -> bool:
        """Whether a zero value is as good as none."""
        entry = self.entry
        if entry.card != "one":
            return True
        if self.struct:
            return entry.omitzero
        return not entry.pointer and not entry.always


_API_VERSION = "Group and version of the API that this object is written for."
_KIND = "Which kind of object this is."


class TypeTable:
    """All types of some tables."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._by_full: dict[str, Message] = {}
        self._by_short: dict[str, Message] = {}
        self._schemas: dict[str, Obj] = {}
        for text in texts:
            for message in _parse(text, self):
                self._by_full[message.full_name] = message
                self._by_short.setdefault(message.name, message)

    def message(self, name: str, *, package: str = "") -> Message:
        """The type of that name: in ``package`` when it is there, else anywhere. Raises ``KeyError``."""
        return self._by_full.get(f"{package}.{name}") or self._by_full.get(name) or self._by_short[name]

    def exact(self, full_name: str) -> Message:
        """The type of that full name. Raises ``KeyError``."""
        return self._by_full[full_name]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._by_full.values())

    def schema(self, message: Message) -> Obj:
        """The type as an OpenAPI schema with all it holds in place.

        Types that hold themselves give a schema that holds itself: walk it along data, never print it.
        """
        known = self._schemas.get(message.full_name)
        if known is not None:
            return known
        properties: Obj = {}
        node: Obj = {"type": "object", "properties": properties}
        self._schemas[message.full_name] = node
        if message.atomic:
            node["x-kubernetes-map-type"] = "atomic"
        for name, entry in message.fields.items():
            properties[name] = _in_shape(entry, self._value(message, entry))
        return node

    def component(self, message: Message) -> Obj:
        """The type as an OpenAPI component, which names the types that it holds by reference."""
        properties: Obj = {}
        node: Obj = {"description": message.description, "type": "object", "properties": properties}
        for name, entry in message.fields.items():
            properties[name] = _described(entry, _in_shape(entry, _reference(message, entry)))
        required = [name for name, entry in message.fields.items() if entry.required]
        if required:
            node["required"] = required
        if message.atomic:
            node["x-kubernetes-map-type"] = "atomic"
        return node

    def closure(self, message: Message) -> dict[str, Message]:
        """The type and all that it holds, by full name."""
        found: dict[str, Message] = {}
        waiting = [message]
        while waiting:
            current = waiting.pop()
            if current.full_name in found:
                continue
            found[current.full_name] = current
            waiting += [held for entry in current.fields.values() if (held := current.held(entry)) is not None]
        return found

    def _value(self, owner: Message, entry: Field) -> Obj:
        held = owner.held(entry)
        if held:
            return self.schema(held)
        scalar = _scalar(entry)
        if not entry.pointer and entry.card == "one" and entry.type in _ZEROS:
            # A key that is left out of an element is its zero value, as in Go.
            scalar.setdefault("default", _ZEROS[entry.type])
        return scalar


_MACHINERY = "io.k8s.apimachinery.pkg"
_SCALAR_COMPONENTS = {
    "time": f"{_MACHINERY}.apis.meta.v1.Time",
    "microtime": f"{_MACHINERY}.apis.meta.v1.MicroTime",
    "quantity": f"{_MACHINERY}.api.resource.Quantity",
    "intstr": f"{_MACHINERY}.util.intstr.IntOrString",
    "raw": f"{_MACHINERY}.runtime.RawExtension",
    "fields": f"{_MACHINERY}.apis.meta.v1.FieldsV1",
}
_ZEROS: dict[str, Any] = {"string": "", "int32": 0, "int64": 0}
_SCALAR_SCHEMAS: dict[str, Obj] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"format": "quantity", "oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "raw": {"type": "object", "x-kubernetes-map-type": "atomic"},
    "json": {"x-kubernetes-map-type": "atomic"},
    "fields": {"type": "object", "x-kubernetes-map-type": "atomic"},
}


def _scalar(entry: Field) -> Obj:
    schema = dict(_SCALAR_SCHEMAS[entry.type])
    if entry.enum:
        schema["enum"] = list(entry.enum)
    if entry.default:
        schema["default"] = int(entry.default) if schema.get("type") == "integer" else entry.default
    return schema


def _reference(owner: Message, entry: Field) -> Obj:
    held = owner.held(entry)
    name = held.full_name if held else _SCALAR_COMPONENTS.get(entry.type)
    return {"$ref": f"#/components/schemas/{name}"} if name else _scalar(entry)


def scalar_components() -> Obj:
    """The components of the scalars that have names of their own, such as ``Quantity``."""
    return {
        name: {key: value for key, value in _SCALAR_SCHEMAS[kind].items() if not key.startswith("x-")}
        for kind, name in _SCALAR_COMPONENTS.items()
    }


def _in_shape(entry: Field, value: Obj) -> Obj:
    """The schema of a field that holds one, a list or a map of ``value``."""
    match entry.card:
        case "list":
            result: Obj = {"type": "array", "items": value, "x-kubernetes-list-type": entry.list_type}
            if entry.map_keys:
                result["x-kubernetes-list-map-keys"] = list(entry.map_keys)
            if entry.merge_key:
                result["x-kubernetes-patch-merge-key"] = entry.merge_key
        case "map":
            result = {"type": "object", "additionalProperties": value}
        case _:
            result = value
    strategy = [
        name for name, on in (("merge", entry.merge), ("replace", entry.replace), ("retainKeys", entry.retain_keys)) if on
    ]
    if strategy:
        result = {"allOf": [result]} if "$ref" in result else dict(result)
        result["x-kubernetes-patch-strategy"] = ",".join(strategy)
    if entry.card == "map" and entry.atomic:
        result["x-kubernetes-map-type"] = "atomic"
    return result


def _described(entry: Field, schema: Obj) -> Obj:
    """The schema of a field with its own words. A reference carries words only inside ``allOf``."""
    if "$ref" in schema:
        schema = {"allOf": [schema]}
    return {"description": entry.description, **schema} if entry.description else schema


def _parse(text: str, table: TypeTable) -> Iterator[Message]:
    package = ""
    head: tuple[str, list[str], str] | None = None
    rows: list[Field] = []

    def finished() -> Iterator[Message]:
        if head:
            name, marks, words = head
            yield Message(package, name, words, "kind" in marks, "atomic" in marks, tuple(rows), table)

    for line in text.splitlines():
        facts, _, description = line.partition(" -- ")
        words = facts.split()
        if not words or words[0].startswith("#"):
            continue
        if facts.startswith(" "):
            rows.append(_row(words, description.strip()))
            continue
        yield from finished()
        rows, head = [], None
        if words[0] == "package":
            package = words[1]
        else:
            head = (words[0], words[1:], description.strip())
    yield from finished()


def _row(words: list[str], description: str) -> Field:
    number, name, kind, *marks = words
    pointer = kind.startswith("*")
    card: Card = "list" if kind.startswith("[]") else "map" if kind.startswith("{}") else "one"
    values = dict(mark.partition("=")[::2] for mark in marks)
    list_type: ListType = "map" if "map" in values else "set" if "set" in values else "atomic"
    return Field(
        number=int(number),
        name=name,
        type=kind.lstrip("*[]{}"),
        card=card,
        pointer=pointer,
        required="required" in values,
        always="always" in values,
        omitzero="omitzero" in values,
        inline="inline" in values,
        list_type=list_type,
        map_keys=tuple(values["map"].split(",")) if values.get("map") else (),
        atomic="atomic" in values,
        merge="merge" in values,
        merge_key=values.get("merge", ""),
        retain_keys="retainKeys" in values,
        replace="replace" in values,
        enum=tuple(values["enum"].split(",")) if values.get("enum") else (),
        default=values.get("default", ""),
        go_type=values.get("go", ""),
        description=description,
    )
