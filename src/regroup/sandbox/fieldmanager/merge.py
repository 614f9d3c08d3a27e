"""Merging an applied configuration into an object, and taking given-up fields out of it. Pure."""

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any

from regroup.sandbox.fieldmanager.paths import Path, Step, element_step, is_atomic_map, list_kind, property_schema

Obj = dict[str, Any]

_MISSING = object()


def merged(base: Any, config: Any, schema: Mapping[str, Any]) -> Any:
    """``base`` with everything that ``config`` says, by the list and map types of the schema."""
    if isinstance(config, Mapping) and not is_atomic_map(schema):
        result = dict(base) if isinstance(base, Mapping) else {}
        for name, value in config.items():
            child = property_schema(schema, name)
            result[name] = merged(result[name], value, child) if name in result else value
        return result
    if isinstance(config, list):
        kind, keys = list_kind(schema)
        if kind != "atomic":
            return _merged_list(base if isinstance(base, list) else [], config, schema, kind, keys)
    return config


def _merged_list(base: list[Any], config: list[Any], schema: Mapping[str, Any], kind: str, keys: tuple[str, ...]) -> list[Any]:
    items = schema.get("items") or {}
    places = {element_step(entry, kind, keys, items): number for number, entry in enumerate(base)}
    result = list(base)
    for entry in config:
        step = element_step(entry, kind, keys, items)
        if step in places:
            result[places[step]] = merged(result[places[step]], entry, items)
        else:
            places[step] = len(result)
            result.append(entry)
    return result


def removed(obj: Any, paths: Sequence[Path], schema: Mapping[str, Any], *, keep: Set[Path]) -> Any:
    """``obj`` without ``paths`` (deepest first). An element or map that still holds something kept stays."""
    for path in paths:
        if not any(len(other) > len(path) and other[: len(path)] == path for other in keep):
            obj = _remove(obj, path, schema)
    return obj


def _remove(value: Any, path: Path, schema: Mapping[str, Any]) -> Any:
    step, rest = path[0], path[1:]
    if step[0] == "f":
        if not isinstance(value, Mapping) or step[1] not in value:
            return value
        result = dict(value)
        if rest:
            child = _remove(result[step[1]], rest, property_schema(schema, step[1]))
            result[step[1]] = child
        else:
            del result[step[1]]
        return result
    if not isinstance(value, list):
        return value
    kind, keys = list_kind(schema)
    items = schema.get("items") or {}
    elements = []
    for entry in value:
        if _is(entry, step, kind, keys, items):
            if rest:
                elements.append(_remove(entry, rest, items))
        else:
            elements.append(entry)
    return elements


def equal_at(left: Any, right: Any, path: Path, schema: Mapping[str, Any]) -> bool:
    """Whether two objects have the same at ``path``. A list element counts by being there, not by what is in it."""
    one, other = _value(left, path, schema), _value(right, path, schema)
    if one is _MISSING or other is _MISSING:
        return one is other
    if path[-1][0] == "k":
        return True
    return bool(one == other)


def _value(value: Any, path: Path, schema: Mapping[str, Any]) -> Any:
    for step in path:
        if step[0] == "f":
            if not isinstance(value, Mapping) or step[1] not in value:
                return _MISSING
            value, schema = value[step[1]], property_schema(schema, step[1])
            continue
        if not isinstance(value, list):
            return _MISSING
        kind, keys = list_kind(schema)
        items = schema.get("items") or {}
        found = next((entry for entry in value if _is(entry, step, kind, keys, items)), _MISSING)
        if found is _MISSING:
            return _MISSING
        value, schema = found, items
    return value


def _is(entry: Any, step: Step, kind: str, keys: tuple[str, ...], items: Mapping[str, Any]) -> bool:
    if step[0] == "v":
        return bool(entry == json.loads(step[1]))
    try:
        return element_step(entry, kind, keys, items) == step
    except ValueError:
        return False
