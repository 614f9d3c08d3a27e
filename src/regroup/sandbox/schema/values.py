"""Judges values by the schemas of custom resources, in the words of a real API server. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from regroup.sandbox.schema import formats
from regroup.sandbox.schema.errors import FieldError
from regroup.sandbox.schema.structural import EMBEDDED, INT_OR_STRING

Obj = dict[str, Any]
Schema = Mapping[str, Any]

_NOWHERE = "<nil>"
"""Where errors stand that a real server gives no place."""
_BITS = {"int32": 31, "int64": 63}


def validate(value: Any, schema: Schema, path: str = "") -> list[FieldError]:
    """Everything about ``value`` that the schema does not allow."""
    return list(_validate(value, schema, path))


def _validate(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if value is None:
        if not schema.get("nullable") and (schema.get("type") or schema.get(INT_OR_STRING)):
            yield _type_error(value, schema, path)
        return
    if not _fits_type(value, schema):
        yield _type_error(value, schema, path)
        if isinstance(value, float) and schema.get("type") == "integer":
            form = schema.get("format")
            shown = f"with format {form}" if form in _BITS else "(default format)"
            yield _unchecked(f"Checked value must be of type integer {shown} in {path}")
        return
    yield from _plain(value, schema, path)
    yield from _combined(value, schema, path)
    if isinstance(value, dict):
        yield from _object(value, schema, path)
    elif isinstance(value, list):
        yield from _array(value, schema, path)


def _unchecked(detail: str) -> FieldError:
    return FieldError(_NOWHERE, "Invalid", "", detail)


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
    if isinstance(value, float) and schema.get("format") in _BITS:
        wanted, given = str(schema["format"]), "float64"
    return FieldError(path or _NOWHERE, "TypeInvalid", given, f'{path} in body must be of type {wanted}: "{given}"')


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


def _plain(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _numbers(value, schema, path)
    if isinstance(value, str):
        yield from _strings(value, schema, path)
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        shown = ", ".join(json.dumps(entry) for entry in allowed)
        yield FieldError(path, "NotSupported", value, f"supported values: {shown}")


def _numbers(value: float, schema: Schema, path: str) -> Iterator[FieldError]:
    form = str(schema.get("format"))
    bits = _BITS.get(form)
    if bits and not -(2**bits) <= value < 2**bits:
        if form == "int64":
            yield FieldError(path, "TypeInvalid", "float64", f'{path} in body must be of type int64: "float64"')
        yield _unchecked(f"Checked value must be of type integer with format {form} in {path}")
        return
    step = schema.get("multipleOf")
    if step and Decimal(str(value)) % Decimal(str(step)) != 0:
        yield FieldError(path, "Invalid", value, f"{path} in body should be a multiple of {step}")
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield FieldError(path, "Invalid", value, f"{path} in body should be {word} {high}")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield FieldError(path, "Invalid", value, f"{path} in body should be {word} {low}")


def _strings(value: str, schema: Schema, path: str) -> Iterator[FieldError]:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    # Length and pattern are one judgement, which ends at the first fault.
    if longest is not None and len(value) > longest:
        yield FieldError(path, "TooLong", None, f"may not be more than {longest} bytes")
    elif shortest is not None and len(value) < shortest:
        yield FieldError(path, "Invalid", value, f"{path} in body should be at least {shortest} chars long")
    elif pattern and not _matches(pattern, value):
        yield FieldError(path, "Invalid", value, f"{path} in body should match '{pattern}'")
    form = schema.get("format")
    if form and not formats.holds(form, value):
        yield FieldError(path, "TypeInvalid", value, f'{path} in body must be of type {form}: "{value}"')


def _matches(pattern: str, value: str) -> bool:
    try:
        return formats.go_pattern(pattern).search(value) is not None
    except re.error:
        return False


def _combined(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    any_of, one_of = schema.get("anyOf"), schema.get("oneOf")
    if any_of and not schema.get(INT_OR_STRING):
        results = [validate(value, entry, path) for entry in any_of]
        if all(results):
            yield _unchecked(f'"{path}" must validate at least one schema (anyOf)')
            yield from min(results, key=len)
    if one_of:
        results = [validate(value, entry, path) for entry in one_of]
        valid = sum(not found for found in results)
        if valid != 1:
            why = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield _unchecked(f'"{path}" must validate one and only one schema (oneOf). {why}')
        if not valid:
            yield from min(results, key=len)
    all_of = schema.get("allOf")
    if all_of:
        results = [validate(value, entry, path) for entry in all_of]
        for found in results:
            yield from found
        if any(results):
            none = ". None validated" if all(results) else ""
            yield _unchecked(f'"{path}" must validate all the schemas (allOf){none}')
    if schema.get("not") is not None and not validate(value, schema["not"], path):
        yield _unchecked(f'"{path}" must not validate the schema (not)')


def _object(value: Obj, schema: Schema, path: str) -> Iterator[FieldError]:
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if fewest is not None and len(value) < fewest:
        yield FieldError(path, "Invalid", len(value), f"{path} in body should have at least {fewest} properties")
    if most is not None and len(value) > most:
        yield FieldError(path, "TooMany", len(value), _at_most(most))
    for name in (*(schema.get("required") or ()), *(("apiVersion", "kind") if schema.get(EMBEDDED) else ())):
        if name not in value:
            yield FieldError(f"{path}.{name}" if path else name, "Required", "")
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, entry in value.items():
        child = f"{path}.{name}" if path else name
        if name in properties:
            yield from _validate(entry, properties[name], child)
        elif isinstance(additional, Mapping):
            yield from _validate(entry, additional, child)


def _at_most(limit: int) -> str:
    return f"must have at most {limit} {'item' if limit == 1 else 'items'}"


def _array(value: Sequence[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    items = schema.get("items") or {}
    for number, entry in enumerate(value):
        yield from _validate(entry, items, f"{path}[{number}]")
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and len(value) < fewest:
        yield FieldError(path, "Invalid", len(value), f"{path} in body should have at least {fewest} items")
    if most is not None and len(value) > most:
        yield FieldError(path, "TooMany", len(value), _at_most(most))
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
