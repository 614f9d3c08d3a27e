"""Structural schemas of custom resources: prune, default, validate. Pure but for ``prune`` and ``default``, which work in place.

CEL rules (``x-kubernetes-validations``) are not evaluated; ``unevaluated`` names where they are, so that nobody is misled.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from decimal import Decimal
from typing import Any

from regroup.sandbox.schema.errors import FieldError

Obj = dict[str, Any]
Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
_NAMES = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}


def prune(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Drop what the schema does not know, in place; the result names the paths."""
    dropped: list[str] = []
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        embedded = {"apiVersion", "kind", "metadata"} if schema.get(EMBEDDED) or not path else set()
        for name in list(value):
            child = f"{path}.{name}" if path else name
            if name in properties:
                if name != "metadata" or name not in embedded:
                    dropped += prune(value[name], properties[name], child)
            elif isinstance(additional, Mapping):
                dropped += prune(value[name], additional, child)
            elif additional is not True and not schema.get(PRESERVE) and name not in embedded:
                del value[name]
                dropped.append(child)
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for number, entry in enumerate(value):
            dropped += prune(entry, items, f"{path}[{number}]")
    return dropped


def default(value: Any, schema: Schema) -> None:
    """Fill in the defaults that the schema names, in place. A null that is not allowed gives way to a default."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, child in properties.items():
            if "default" in child and (name not in value or (value[name] is None and not child.get("nullable"))):
                value[name] = deepcopy(child["default"])
            if name in value:
                default(value[name], child)
        if isinstance(additional, Mapping):
            for name, entry in value.items():
                if name not in properties:
                    default(entry, additional)
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for entry in value:
            default(entry, items)


def drop_nulls(value: Any, schema: Schema) -> None:
    """Drop nulls of fields that are not nullable, in place, as a server does before it validates."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name in list(value):
            child = properties.get(name) or {}
            if value[name] is None and child and not child.get("nullable"):
                del value[name]
            else:
                drop_nulls(value[name], child)
    elif isinstance(value, list):
        for entry in value:
            drop_nulls(entry, schema.get("items") or {})


def validate(value: Any, schema: Schema, path: str = "") -> list[FieldError]:
    """Everything about ``value`` that the schema does not allow."""
    return list(_validate(value, schema, path))


def unevaluated(schema: Schema, path: str = "") -> list[str]:
    """Paths of the schema that carry CEL rules, which are not evaluated here."""
    found = [path or "."] if schema.get("x-kubernetes-validations") else []
    for name, child in (schema.get("properties") or {}).items():
        found += unevaluated(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            found += unevaluated(schema[name], f"{path}[]")
    return found


def _validate(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if value is None:
        if schema.get("nullable") or not (schema.get("type") or schema.get(INT_OR_STRING)):
            return
        yield _type_error(value, schema, path)
        return
    if not _fits_type(value, schema):
        yield _type_error(value, schema, path)
        return
    yield from _values(value, schema, path)
    yield from _combined(value, schema, path)
    if isinstance(value, dict):
        yield from _object(value, schema, path)
    elif isinstance(value, list):
        yield from _array(value, schema, path)


def _fits_type(value: Any, schema: Schema) -> bool:
    if schema.get(INT_OR_STRING):
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    match schema.get("type"):
        case "string":
            return isinstance(value, str)
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return True


def _type_error(value: Any, schema: Schema, path: str) -> FieldError:
    wanted = "integer,string" if schema.get(INT_OR_STRING) else str(schema.get("type"))
    given = _type_name(value)
    place = path or "<nil>"
    return FieldError(place, "TypeInvalid", given, f'{path} in body must be of type {wanted}: "{given}"')


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _values(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        shown = ", ".join(json.dumps(entry) for entry in allowed)
        yield FieldError(path, "NotSupported", value, f"supported values: {shown}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _numbers(value, schema, path)
    if isinstance(value, str):
        yield from _strings(value, schema, path)


def _numbers(value: float, schema: Schema, path: str) -> Iterator[FieldError]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield FieldError(path, "Invalid", value, f"{path} in body should be {word} {low}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield FieldError(path, "Invalid", value, f"{path} in body should be {word} {high}")
    step = schema.get("multipleOf")
    if step and Decimal(str(value)) % Decimal(str(step)) != 0:
        yield FieldError(path, "Invalid", value, f"{path} in body should be a multiple of {step}")
    bits = {"int32": 31, "int64": 63}.get(str(schema.get("format")))
    if bits and not -(2**bits) <= value < 2**bits:
        yield FieldError(path, "Invalid", value, f"{path} in body must be of type {schema['format']}")


def _strings(value: str, schema: Schema, path: str) -> Iterator[FieldError]:
    shortest, longest, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if shortest is not None and len(value) < shortest:
        yield FieldError(path, "Invalid", value, f"{path} in body should be at least {shortest} chars long")
    if longest is not None and len(value) > longest:
        yield FieldError(path, "TooLong", value, f"may not be more than {longest} bytes")
    if pattern is not None and not re.search(pattern, value):
        yield FieldError(path, "Invalid", value, f"{path} in body should match '{pattern}'")
    if schema.get("format") == "date-time" and not _is_time(value):
        yield FieldError(path, "Invalid", value, f'{path} in body must be of type date-time: "{value}"')


def _is_time(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _combined(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    for entry in schema.get("allOf") or []:
        yield from _validate(value, entry, path)
    any_of, one_of = schema.get("anyOf"), schema.get("oneOf")
    if any_of and not schema.get(INT_OR_STRING) and all(validate(value, entry, path) for entry in any_of):
        yield FieldError(path, "Invalid", value, f'"{path}" must validate at least one schema (anyOf)')
    if one_of and sum(not validate(value, entry, path) for entry in one_of) != 1:
        yield FieldError(path, "Invalid", value, f'"{path}" must validate one and only one schema (oneOf)')
    if schema.get("not") is not None and not validate(value, schema["not"], path):
        yield FieldError(path, "Invalid", value, f'"{path}" must not validate the schema (not)')


def _object(value: Obj, schema: Schema, path: str) -> Iterator[FieldError]:
    for name in schema.get("required") or []:
        if name not in value:
            yield FieldError(f"{path}.{name}" if path else name, "Required")
    most = schema.get("maxProperties")
    if most is not None and len(value) > most:
        yield FieldError(path, "TooMany", value, f"must have at most {most} items")
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, entry in value.items():
        child = f"{path}.{name}" if path else name
        if name in properties:
            yield from _validate(entry, properties[name], child)
        elif isinstance(additional, Mapping):
            yield from _validate(entry, additional, child)


def _array(value: Sequence[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and len(value) < fewest:
        yield FieldError(path, "Invalid", len(value), f"{path} in body should have at least {fewest} items")
    if most is not None and len(value) > most:
        yield FieldError(path, "TooMany", len(value), f"must have at most {most} items")
    items = schema.get("items") or {}
    for number, entry in enumerate(value):
        yield from _validate(entry, items, f"{path}[{number}]")
    yield from _duplicates(value, schema, path)


def _duplicates(value: Sequence[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    seen: set[str] = set()
    for number, entry in enumerate(value):
        if kind == "set":
            identity: Any = entry
        elif kind == "map" and isinstance(entry, Mapping):
            identity = {key: entry.get(key) for key in keys}
        else:
            continue
        text = json.dumps(identity, sort_keys=True)
        if text in seen:
            yield FieldError(f"{path}[{number}]", "Duplicate", identity)
        seen.add(text)
