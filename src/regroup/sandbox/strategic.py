"""Strategic merge patch, as built-in kinds take it. Pure: documents that come in are never changed.

Which lists merge, and by which key, comes from the schema (``x-kubernetes-patch-strategy``, ``x-kubernetes-patch-merge-key``),
as does what is replaced whole. Elements come in the order of the patch; those that only the live object has keep their place
between them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Obj = dict[str, Any]
Schema = Mapping[str, Any]

DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_NOTHING: Schema = {}
_DROP: Any = object()


class StrategicError(ValueError):
    """A patch that cannot be applied. ``code`` is that of the server's answer: 500 for malformed lists, as on a real server."""

    def __init__(self, message: str, *, code: int = 500) -> None:
        super().__init__(message)
        self.code = code


def strategic_merge(live: Any, patch: Mapping[str, Any], *, schema: Schema) -> Obj:
    """``live`` after the patch. Raises ``StrategicError``."""
    return _merge_map(live if isinstance(live, Mapping) else {}, patch, schema)


def _merge_map(live: Mapping[str, Any], patch: Mapping[str, Any], schema: Schema) -> Obj:
    if DIRECTIVE in patch:
        return _directed(patch)
    result = _retained(live, patch)
    done: set[str] = {RETAIN}
    for key, order in patch.items():
        if key.startswith(ORDER):
            name = key.removeprefix(ORDER)
            done |= {key, name}
            _merge_ordered(result, patch, name, order, _property(schema, name))
    for key, value in patch.items():
        if key.startswith(DELETE_PRIMITIVES):
            name = key.removeprefix(DELETE_PRIMITIVES)
            if isinstance(result.get(name), list):
                result[name] = [entry for entry in result[name] if entry not in (value or [])]
        elif key not in done:
            _merge_field(result, key, value, _property(schema, key))
    return result


def _directed(patch: Mapping[str, Any]) -> Obj:
    match patch[DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
        case unknown:
            raise StrategicError(f"unknown patch type: {unknown} in map: {_go(patch)}")


def _retained(live: Mapping[str, Any], patch: Mapping[str, Any]) -> Obj:
    """``live`` with only the keys that the patch says to retain, when it says so."""
    if RETAIN not in patch:
        return dict(live)
    keys = patch[RETAIN]
    said = (
        key
        for key, value in patch.items()
        if key != RETAIN and value is not None and not key.startswith((ORDER, DELETE_PRIMITIVES))
    )
    if not isinstance(keys, list) or any(key not in keys for key in said):
        raise StrategicError("invalid patch format of retainKeys")
    return {key: value for key, value in live.items() if key in keys}


def _merge_field(result: Obj, key: str, value: Any, schema: Schema) -> None:
    if value is None:
        result.pop(key, None)
        return
    live = result.get(key)
    strategies = _strategies(schema)
    if isinstance(value, Mapping) and isinstance(live, Mapping):
        result[key] = dict(value) if "replace" in strategies else _merge_map(live, value, schema)
    elif isinstance(value, list) and isinstance(live, list):
        result[key] = _merge_list(live, value, schema) if "merge" in strategies else list(value)
    else:
        fresh = _plain(value)
        if fresh is _DROP:
            result.pop(key, None)
        else:
            result[key] = fresh


def _plain(value: Any) -> Any:
    """A value that meets nothing to merge with: without directives and nulls. ``_DROP`` for one that is a directive itself."""
    if isinstance(value, Mapping):
        if DIRECTIVE in value:
            return _DROP
        parts = ((key, _plain(entry)) for key, entry in value.items() if entry is not None and not key.startswith("$"))
        return {key: entry for key, entry in parts if entry is not _DROP}
    if isinstance(value, list):
        return [fresh for entry in value if (fresh := _plain(entry)) is not _DROP]
    return value


def _merge_ordered(result: Obj, patch: Mapping[str, Any], name: str, order: Any, schema: Schema) -> None:
    """A list for which the patch gives the order of the elements."""
    live, change = result.get(name), patch.get(name)
    if not isinstance(order, list):
        raise StrategicError("invalid patch format of setElementOrder list")
    if change is not None:
        _check_order(change, order, schema)
    if live is None and change is None:
        return
    if change is None:
        merged = list(live or [])
    elif live is None:
        merged = _plain(change)
    else:
        merged = _merge_list(live, change, schema) if "merge" in _strategies(schema) else list(change)
    result[name] = _in_order(merged, order, live or [], schema)


def _check_order(change: Any, order: list[Any], schema: Schema) -> None:
    wanted = [_identity(entry, schema) for entry in order]
    given = [_identity(entry, schema) for entry in change if not (isinstance(entry, Mapping) and DIRECTIVE in entry)]
    rest = iter(wanted)
    if not all(any(entry == other for other in rest) for entry in given):
        raise StrategicError(f"The order in patch list:\n{_go(change)}\n doesn't match $setElementOrder list:\n{_go(order)}\n")


def _merge_list(live: list[Any], change: list[Any], schema: Schema) -> list[Any]:
    kinds = {type(entry) for entry in (*live, *change)}
    if len(kinds) > 1:
        raise StrategicError(f"list element types are not identical: [{_go(live)} {_go(change)}]")
    key = str(schema.get("x-kubernetes-patch-merge-key") or "")
    if dict not in kinds:
        merged = list(dict.fromkeys([*live, *change]))
        return _in_order(merged, change, live, schema)
    if not key:
        raise StrategicError("cannot merge lists without merge key")
    kept, fresh, replaced = list(live), [], False
    for entry in change:
        match entry.get(DIRECTIVE):
            case None:
                fresh.append(entry)
            case "delete":
                kept = [old for old in kept if old.get(key) != _key_of(entry, key)]
            case "replace":
                replaced = True
            case "merge":
                raise StrategicError("merging lists cannot yet be specified in the patch")
            case unknown:
                raise StrategicError(f"unknown patch type: {unknown} in map: {_go(entry)}")
    if replaced:
        return fresh
    return _in_order(_merge_elements(kept, fresh, key, schema), fresh, kept, schema)


def _merge_elements(live: list[Any], change: list[Any], key: str, schema: Schema) -> list[Any]:
    items = schema.get("items") or _NOTHING
    result = list(live)
    for entry in change:
        wanted = _key_of(entry, key)
        place = next((number for number, old in enumerate(result) if old.get(key) == wanted), None)
        if place is None:
            result.append(_plain(entry))
        else:
            result[place] = _merge_map(result[place], entry, items)
    return result


def _key_of(entry: Mapping[str, Any], key: str) -> Any:
    if key not in entry:
        raise StrategicError(f"map: {_go(entry)} does not contain declared merge key: {key}")
    return entry[key]


def _in_order(merged: list[Any], order: Sequence[Any], live: Sequence[Any], schema: Schema) -> list[Any]:
    """``merged`` in the order of ``order``; elements that it does not name keep their place by the order of ``live``."""
    ranks = {_hashable(_identity(entry, schema)): number for number, entry in reversed(list(enumerate(order)))}
    places = {_hashable(_identity(entry, schema)): number for number, entry in reversed(list(enumerate(live)))}

    def identity(entry: Any) -> Any:
        return _hashable(_identity(entry, schema))

    named = sorted((entry for entry in merged if identity(entry) in ranks), key=lambda entry: ranks[identity(entry)])
    others = sorted((entry for entry in merged if identity(entry) not in ranks), key=lambda entry: places.get(identity(entry), 0))
    result: list[Any] = []
    while named and others:
        left, right = places.get(identity(others[0])), places.get(identity(named[0]))
        first = others if left is not None and right is not None and left < right else named
        result.append(first.pop(0))
    return [*result, *named, *others]


def _identity(entry: Any, schema: Schema) -> Any:
    key = schema.get("x-kubernetes-patch-merge-key")
    return entry.get(key) if key and isinstance(entry, Mapping) else entry


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _strategies(schema: Schema) -> Sequence[str]:
    return str(schema.get("x-kubernetes-patch-strategy") or "").split(",")


def _property(schema: Schema, name: str) -> Schema:
    found = (schema.get("properties") or _NOTHING).get(name) or schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else _NOTHING


def _go(value: Any) -> str:
    """A value as Go prints it in these messages."""
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{_go(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
