"""What the schema of a custom resource must be like to be structural, in the words of a real API server. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from regroup.sandbox.schema.errors import FieldError, show
from regroup.sandbox.schema.formats import go_pattern
from regroup.sandbox.schema.structural import EMBEDDED, INT_OR_STRING, PRESERVE, prune
from regroup.sandbox.schema.values import validate

Obj = dict[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COMBINED = ("allOf", "anyOf", "oneOf")
_NOT_IN_VALUES = ("type", "default", "title", "description", "additionalProperties", "nullable", PRESERVE, EMBEDDED)
"""What a schema inside of ``allOf``, ``anyOf``, ``oneOf`` or ``not`` must not say."""


def check(schema: Obj, path: str) -> Iterator[FieldError]:
    """What is wrong with the schema of a whole object: defaults are judged only by a schema that is sound itself."""
    found = list(_check(schema, path))
    unsound = [error for error in found if not _of_default(error)]
    yield from unsound or found


def _of_default(error: FieldError) -> bool:
    return any(part == "default" or part.startswith("default[") for part in error.path.split("."))


def _check(schema: Obj, path: str) -> Iterator[FieldError]:
    if not schema.get("type"):
        yield FieldError(f"{path}.type", "Required", "", "must not be empty at the root")
    elif schema["type"] != "object":
        yield FieldError(f"{path}.type", "Invalid", schema["type"], "must be object at the root")
    if schema.get("nullable"):
        yield FieldError(f"{path}.nullable", "Forbidden", detail="nullable cannot be true at the root")
    meta = (schema.get("properties") or {}).get("metadata") or {}
    yield from _metadata(meta, f"{path}.properties[metadata]")
    yield from _node(schema, path, root=True)


def _metadata(schema: Obj, path: str) -> Iterator[FieldError]:
    if set(schema.get("properties") or {}) - {"name", "generateName"}:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield FieldError(path, "Forbidden", detail=why)


def _node(schema: Obj, path: str, *, root: bool = False) -> Iterator[FieldError]:
    kind = schema.get("type")
    if not kind and not root and not any(schema.get(word) for word in (INT_OR_STRING, PRESERVE, "$ref")):
        yield FieldError(f"{path}.type", "Required", "", "must not be empty for specified object fields")
    elif kind and kind not in TYPES:
        allowed = ", ".join(show(each) for each in TYPES)
        yield FieldError(f"{path}.type", "NotSupported", kind, f"supported values: {allowed}")
    yield from _words(schema, path)
    yield from _lists(schema, path)
    yield from _objects(schema, path)
    yield from _combinations(schema, path)
    if "default" in schema and kind:
        yield from _default(schema, path)


def _words(schema: Obj, path: str) -> Iterator[FieldError]:
    if schema.get("$ref"):
        yield FieldError(f"{path}.$ref", "Forbidden", detail="$ref is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldError(f"{path}.uniqueItems", "Forbidden", detail=why)
    for name in ("definitions", "dependencies", "patternProperties", "additionalItems", "id"):
        if schema.get(name):
            yield FieldError(f"{path}.{name}", "Forbidden", detail=f"{name} is not supported")
    pattern = schema.get("pattern")
    if pattern:
        try:
            go_pattern(pattern)
        except re.error as error:
            yield FieldError(f"{path}.pattern", "Invalid", pattern, f"must be a valid regular expression, but isn't: {error}")


def _lists(schema: Obj, path: str) -> Iterator[FieldError]:
    items = schema.get("items")
    if schema.get("type") == "array" and not isinstance(items, Mapping):
        yield FieldError(f"{path}.items", "Required", "", "must be specified")
        return
    if not isinstance(items, dict):
        return
    yield from _node(items, f"{path}.items")
    match schema.get("x-kubernetes-list-type"):
        case "map":
            yield from _map_keys(schema, items, path)
        case "set" if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            why = "must be atomic as item of a list with x-kubernetes-list-type=set"
            yield FieldError(f"{path}.items.x-kubernetes-map-type", "Invalid", items.get("x-kubernetes-map-type"), why)


def _map_keys(schema: Obj, items: Obj, path: str) -> Iterator[FieldError]:
    keys = schema.get("x-kubernetes-list-map-keys") or []
    place = f"{path}.x-kubernetes-list-map-keys"
    known = items.get("properties") or {}
    if not keys:
        yield FieldError(place, "Required", "", "must not be empty if x-kubernetes-list-type is map")
    if any(key not in known for key in keys):
        yield FieldError(place, "Invalid", keys, "entries must all be names of item properties")
    for key in keys:
        if key in known and "default" not in known[key] and key not in (items.get("required") or []):
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield FieldError(f"{path}.items.properties[{key}].default", "Required", "", why)


def _objects(schema: Obj, path: str) -> Iterator[FieldError]:
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    if properties and additional not in (None, False):
        why = "additionalProperties and properties are mutual exclusive"
        yield FieldError(f"{path}.additionalProperties", "Forbidden", detail=why)
    if schema.get(EMBEDDED) and not properties and not schema.get(PRESERVE):
        why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield FieldError(f"{path}.properties", "Required", "", why)
    for name, child in properties.items():
        if isinstance(child, dict):
            yield from _node(child, f"{path}.properties[{name}]")
    if isinstance(additional, dict):
        yield from _node(additional, f"{path}.additionalProperties")


def _combinations(schema: Obj, path: str) -> Iterator[FieldError]:
    for name in _COMBINED:
        for number, entry in enumerate(schema.get(name) or []):
            if name == "anyOf" and schema.get(INT_OR_STRING) and set(entry) == {"type"}:
                continue
            yield from _value_rules(entry, f"{path}.{name}[{number}]")
    if isinstance(schema.get("not"), dict):
        yield from _value_rules(schema["not"], f"{path}.not")


def _value_rules(schema: Obj, path: str) -> Iterator[FieldError]:
    for name in _NOT_IN_VALUES:
        if schema.get(name):
            yield FieldError(f"{path}.{name}", "Forbidden", detail="must be empty to be structural")
    for name, child in (schema.get("properties") or {}).items():
        yield from _value_rules(child, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _value_rules(schema["items"], f"{path}.items")


def _default(schema: Obj, path: str) -> Iterator[FieldError]:
    value = schema["default"]
    for error in validate(value, schema):
        below = "" if error.path in {"", "<nil>"} else f".{error.path}"
        yield FieldError(f"{path}.default{below}", error.kind, error.value, error.detail)
    unknown = prune({"value": _copied(value)}, {"properties": {"value": schema}})
    if unknown:
        yield FieldError(f"{path}.default", "Invalid", value, "must not have unknown fields")


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    return [_copied(entry) for entry in value] if isinstance(value, list) else value
