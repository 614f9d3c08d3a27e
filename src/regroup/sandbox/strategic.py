"""Strategic merge patch, as built-in kinds take it. Pure.

Which lists merge by key and which maps are replaced whole comes from the schema (``x-kubernetes-patch-merge-key`` and
``x-kubernetes-patch-strategy``, or the list type), so that one description serves patches and server-side apply.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Obj = dict[str, Any]

DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


class StrategicError(ValueError):
    """A patch that cannot be applied; the message names the place."""


def strategic_merge(live: Any, patch: Mapping[str, Any], *, schema: Mapping[str, Any]) -> Obj:
    """``live`` after the patch. Neither is changed."""
    return _merge_map(live if isinstance(live, Mapping) else {}, patch, schema, "")


def _merge_map(live: Mapping[str, Any], patch: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Obj:
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise StrategicError(f"unknown patch type: {directive} at {path or 'the top'}")
    result = dict(live)
    retained = patch.get(RETAIN)
    if isinstance(retained, Sequence):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key in {DIRECTIVE, RETAIN}:
            continue
        if key.startswith(DELETE_PRIMITIVES):
            name = key.removeprefix(DELETE_PRIMITIVES)
            result[name] = [entry for entry in result.get(name) or [] if entry not in (value or [])]
        elif not key.startswith(ORDER):
            _merge_field(result, key, value, _property(schema, key), f"{path}.{key}".lstrip("."))
    for key, order in patch.items():
        if key.startswith(ORDER):
            name = key.removeprefix(ORDER)
            result[name] = _ordered(result.get(name) or [], order or [], _property(schema, name))
    return result


def _merge_field(result: Obj, key: str, value: Any, schema: Mapping[str, Any], path: str) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, Mapping):
        if schema.get("x-kubernetes-map-type") == "atomic" and DIRECTIVE not in value:
            result[key] = dict(value)
            return
        merged = _merge_map(result.get(key) or {}, value, schema, path)
        if value.get(DIRECTIVE) == "delete":
            result.pop(key, None)
        else:
            result[key] = merged
    elif isinstance(value, list):
        result[key] = _merge_list(result.get(key) or [], value, schema, path)
    else:
        result[key] = value


def merge_keys(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that tell elements of a list apart in a patch; empty for lists that are replaced whole."""
    key = schema.get("x-kubernetes-patch-merge-key")
    if key:
        return (str(key),)
    if schema.get("x-kubernetes-list-type") == "map":
        return tuple(schema.get("x-kubernetes-list-map-keys") or ())[:1]
    return ()


def _merge_list(live: list[Any], patch: list[Any], schema: Mapping[str, Any], path: str) -> list[Any]:
    keys = merge_keys(schema)
    items = schema.get("items") or {}
    if any(isinstance(entry, Mapping) and entry.get(DIRECTIVE) == "replace" and len(entry) == 1 for entry in patch):
        return [entry for entry in patch if not (isinstance(entry, Mapping) and DIRECTIVE in entry)]
    if not keys:
        if schema.get("x-kubernetes-patch-strategy") == "merge" or schema.get("x-kubernetes-list-type") == "set":
            return [*live, *(entry for entry in patch if entry not in live)]
        return list(patch)
    key = keys[0]
    result = list(live)
    for entry in patch:
        if not isinstance(entry, Mapping):
            raise StrategicError(f"{path}: an element of this list must be an object")
        if entry.get(key) is None:
            raise StrategicError(f"map: {dict(entry)} does not contain declared merge key: {key}")
        place = next((number for number, old in enumerate(result) if old.get(key) == entry[key]), None)
        if entry.get(DIRECTIVE) == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(_merge_map({}, entry, items, path))
        else:
            result[place] = _merge_map(result[place], entry, items, path)
    return result


def _ordered(items: list[Any], order: list[Any], schema: Mapping[str, Any]) -> list[Any]:
    """``items`` with those that ``order`` names in that order; others keep their place relative to the one before them."""
    keys = merge_keys(schema)

    def identity(entry: Any) -> Any:
        return entry.get(keys[0]) if keys and isinstance(entry, Mapping) else entry

    ranks = {identity(entry): number for number, entry in enumerate(order)}
    listed = sorted((entry for entry in items if identity(entry) in ranks), key=lambda entry: ranks[identity(entry)])
    waiting = iter(listed)
    return [next(waiting) if identity(entry) in ranks else entry for entry in items]


def _property(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    properties = schema.get("properties") or {}
    found = properties.get(name) or schema.get("additionalProperties") or {}
    return found if isinstance(found, Mapping) else {}
