"""Objects read by their schema: which paths they hold, how two of them differ, what they become together. Pure.

The schema says how lists and maps merge (``x-kubernetes-list-type``, ``x-kubernetes-map-type``). Where it says nothing, maps
are taken apart and lists are wholes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from regroup.sandbox.fieldmanager.sets import Path, show, step_text

Obj = dict[str, Any]
Schema = Mapping[str, Any]

_NOTHING: Schema = {}
_MISSING: Any = object()
_GO_NAMES = {str: "string", bool: "bool", float: "float64", dict: "map[string]interface {}", list: "[]interface {}"}


class TypedError(ValueError):
    """An object that its schema cannot read; the message names the places."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one object differs from another, by paths."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    def less(self, names: Iterable[str]) -> "Comparison":
        """The same without what is at or below the top-level fields ``names``."""
        steps = {f"f:{name}" for name in names}
        if not steps:
            return self
        parts = ({path for path in part if path[0] not in steps} for part in (self.added, self.modified, self.removed))
        return Comparison(*parts)


def child_of(schema: Schema, name: str) -> Schema:
    """The schema of a field, or of the values of a map."""
    found = (schema.get("properties") or _NOTHING).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else _NOTHING


def items_of(schema: Schema) -> Schema:
    found = schema.get("items")
    return found if isinstance(found, Mapping) else _NOTHING


def is_atomic(schema: Schema, value: Any) -> bool:
    """Whether a map or list is owned as a whole."""
    if isinstance(value, list):
        return schema.get("x-kubernetes-list-type") not in {"map", "set"}
    return schema.get("x-kubernetes-map-type") == "atomic"


def element_step(value: Any, schema: Schema) -> str:
    """The step to an element of a list that is taken apart. Raises ``TypedError``."""
    if schema.get("x-kubernetes-list-type") == "set":
        return f"v:{step_text(value)}"
    if not isinstance(value, Mapping):
        raise TypedError("associative list with keys may not have non-map elements")
    known = items_of(schema).get("properties") or _NOTHING
    identity: Obj = {}
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        given = value.get(key)
        if given is None:
            given = (known.get(key) or _NOTHING).get("default")
        if given is not None:
            identity[key] = given
    if not identity:
        keys = " ".join(f'"{key}"' for key in schema.get("x-kubernetes-list-map-keys") or ())
        raise TypedError(
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{step_text(identity)}"


def _grouped(values: list[Any], schema: Schema) -> dict[str, list[Any]]:
    """Elements by their step: more than one for duplicates."""
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(element_step(value, schema), []).append(value)
    return found


def field_set(value: Any, schema: Schema, path: Path = ()) -> Iterator[Path]:
    """The paths that whoever applies ``value`` owns: leaves, elements, empty maps, and the keys of maps that are no structs."""
    if isinstance(value, Mapping) and not is_atomic(schema, value):
        known = schema.get("properties") or _NOTHING
        for name, entry in value.items():
            place = (*path, f"f:{name}")
            if entry is None or entry == {} or name not in known:
                yield place
            yield from field_set(entry, child_of(schema, name), place)
    elif isinstance(value, list) and not is_atomic(schema, value):
        for step, entries in _grouped(value, schema).items():
            place = (*path, step)
            yield place
            if len(entries) == 1:
                yield from field_set(entries[0], items_of(schema), place)
    elif path:
        yield path


def compare(old: Any, new: Any, schema: Schema) -> Comparison:
    """How ``new`` differs from ``old``."""
    result = Comparison()
    _compare(old, new, schema, (), result)
    return result


def _compare(old: Any, new: Any, schema: Schema, path: Path, result: Comparison) -> None:
    if old is new or (old is not _MISSING and new is not _MISSING and old == new):
        return
    shapes = {_shape(each, schema) for each in (old, new) if each is not _MISSING and each is not None}
    if len(shapes) > 1:
        # One kind of value took the place of another: the parts of both count, and the place itself.
        _parts(old, _MISSING, schema, path, result)
        _parts(_MISSING, new, schema, path, result)
        result.modified.add(path)
        return
    leaf = not shapes or shapes == {"leaf"} or (not _parted(old) and not _parted(new))
    if leaf:
        _leaf(old, new, path, result)
        return
    _parts(old, new, schema, path, result)
    if old is _MISSING and path:
        result.added.add(path)
    elif new is _MISSING and path:
        result.removed.add(path)


def _shape(value: Any, schema: Schema) -> str:
    if isinstance(value, Mapping | list) and not is_atomic(schema, value):
        return "list" if isinstance(value, list) else "map"
    return "leaf"


def _parted(value: Any) -> bool:
    """Whether there is anything in a map or list."""
    return isinstance(value, Mapping | list) and bool(value)


def _leaf(old: Any, new: Any, path: Path, result: Comparison) -> None:
    if old is _MISSING:
        result.added.add(path)
    elif new is _MISSING:
        result.removed.add(path)
    else:
        result.modified.add(path)


def _parts(old: Any, new: Any, schema: Schema, path: Path, result: Comparison) -> None:
    """Compare what two maps or two lists hold; one of them may be missing."""
    whole = new if isinstance(new, Mapping | list) else old
    if isinstance(whole, Mapping) and not is_atomic(schema, whole):
        left = old if isinstance(old, Mapping) else {}
        right = new if isinstance(new, Mapping) else {}
        for name in [*left, *(name for name in right if name not in left)]:
            child = child_of(schema, name)
            _compare(left.get(name, _MISSING), right.get(name, _MISSING), child, (*path, f"f:{name}"), result)
    elif isinstance(whole, list) and not is_atomic(schema, whole):
        before = _grouped(old if isinstance(old, list) else [], schema)
        after = _grouped(new if isinstance(new, list) else [], schema)
        for step in [*before, *(step for step in after if step not in before)]:
            _elements(before.get(step, []), after.get(step, []), items_of(schema), (*path, step), result)


def _elements(old: list[Any], new: list[Any], schema: Schema, path: Path, result: Comparison) -> None:
    """Compare the elements at one step. Duplicates count as one whole."""
    if len(old) <= 1 and len(new) <= 1:
        _compare(old[0] if old else _MISSING, new[0] if new else _MISSING, schema, path, result)
    elif len(old) > 1 and len(new) > 1:
        if old != new:
            result.modified.add(path)
    elif len(old) > 1:
        if new:
            _compare(_MISSING, new[0], schema, path, result)
        result.removed.add(path)
    else:
        if old:
            _compare(old[0], _MISSING, schema, path, result)
        result.added.add(path)


def merge(live: Any, config: Any, schema: Schema) -> Any:
    """``live`` with everything that ``config`` says."""
    if isinstance(config, Mapping) and isinstance(live, Mapping) and not is_atomic(schema, config):
        result = dict(live)
        for name, value in config.items():
            child = child_of(schema, name)
            result[name] = merge(live[name], value, child) if name in live else value
        return result
    if isinstance(config, list) and isinstance(live, list) and not is_atomic(schema, config):
        return _merge_lists(live, config, schema)
    if config is None and isinstance(live, Mapping | list) and not is_atomic(schema, live):
        # An applied null owns the place but takes nothing away from maps and lists that merge.
        return live
    return config


def _merge_lists(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    """Both lists' elements: the applied order for those of the configuration, the others where they stood."""
    ours = [(element_step(entry, schema), entry) for entry in live]
    theirs = [(element_step(entry, schema), entry) for entry in config]
    known, applied = dict(reversed(ours)), dict(theirs)
    shared = [step for step, _ in theirs if step in known]
    result: list[Any] = []
    done: set[str] = set()

    def take(step: str) -> None:
        done.add(step)
        if shared and shared[0] == step:
            shared.pop(0)
        result.append(merge(known[step], applied[step], items_of(schema)) if step in known else applied[step])

    left = right = 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours):
            step, entry = ours[left]
            if right < len(theirs) and step == theirs[right][0]:
                take(step)
                left, right = left + 1, right + 1
                continue
            if right < len(theirs) and step in applied and shared and shared[0] != step:
                # A shared element that is not the next one in the applied order: it comes in its turn.
                left += 1
                continue
            if step not in applied:
                result.append(entry)
                left += 1
                continue
            if step in done:
                left += 1
        if right < len(theirs):
            take(theirs[right][0])
            right += 1
    return result


def remove(value: Any, gone: set[Path], schema: Schema) -> Any:
    """``value`` without what is at the paths ``gone``. A map or list that loses everything is not left behind empty: None."""
    if not gone:
        return value
    heads = {path[0] for path in gone if len(path) == 1}
    deeper: dict[str, set[Path]] = {}
    for path in gone:
        if len(path) > 1:
            deeper.setdefault(path[0], set()).add(path[1:])
    if isinstance(value, Mapping) and not is_atomic(schema, value):
        kept: Obj = {}
        for name, entry in value.items():
            step = f"f:{name}"
            if step not in heads:
                kept[name] = remove(entry, deeper[step], child_of(schema, name)) if step in deeper else entry
        return kept or None
    if isinstance(value, list) and not is_atomic(schema, value):
        elements = []
        for entry in value:
            step = element_step(entry, schema)
            if step not in heads:
                elements.append(remove(entry, deeper[step], items_of(schema)) if step in deeper else entry)
        return elements or None
    return value


def with_structs(members: Iterable[Path], schema: Schema) -> set[Path]:
    """``members``, and every declared field of a struct on the way to one of them."""
    result = set(members)
    for path in tuple(result):
        node = schema
        for depth, step in enumerate(path[:-1], start=1):
            name = step[2:]
            if step.startswith("f:"):
                if name in (node.get("properties") or _NOTHING):
                    result.add(path[:depth])
                node = child_of(node, name)
            else:
                node = items_of(node)
    return result


def check(value: Any, schema: Schema) -> None:
    """Raise ``TypedError`` when ``value`` is not of its schema: unknown fields, wrong types, elements twice."""
    found = list(_wrong(value, schema, ()))
    if len(found) == 1:
        raise TypedError(found[0])
    if found:
        raise TypedError("errors:\n" + "\n".join(f"  {each}" for each in found))


def _wrong(value: Any, schema: Schema, path: Path) -> Iterator[str]:
    if value is None:
        return
    kind = schema.get("type")
    if kind == "object" or (kind is None and isinstance(value, Mapping)):
        yield from _wrong_map(value, schema, path)
    elif kind == "array":
        yield from _wrong_list(value, schema, path)
    elif kind in {"string", "integer", "number", "boolean"} and not _is_scalar(value, str(kind)):
        if kind in {"integer", "number"}:
            yield f"{show(path)}: expected numeric (int or float), got {_GO_NAMES.get(type(value), 'int64')}"
        else:
            yield f"{show(path)}: expected {kind}, got {_go(value)}"


def _is_scalar(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong_map(value: Any, schema: Schema, path: Path) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{show(path)}: expected map, got {_go(value)}"
        return
    known, open_to_all = schema.get("properties") or {}, schema.get("x-kubernetes-preserve-unknown-fields")
    closed = bool(known) and not open_to_all and not schema.get("additionalProperties")
    for name, entry in value.items():
        place = (*path, f"f:{name}")
        if closed and name not in known and not _is_meta(schema, name, path):
            yield f"{show(place)}: field not declared in schema"
            return  # one is enough to name
        else:
            yield from _wrong(entry, child_of(schema, name), place)


def _is_meta(schema: Schema, name: str, path: Path) -> bool:
    embedded = not path or schema.get("x-kubernetes-embedded-resource")
    return bool(embedded) and name in {"apiVersion", "kind", "metadata"}


def _wrong_list(value: Any, schema: Schema, path: Path) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{show(path)}: expected list, got {_go(value)}"
        return
    seen: set[str] = set()
    taken_apart = not is_atomic(schema, value)
    for number, entry in enumerate(value):
        step = f"i:{number}"
        if taken_apart:
            try:
                step = element_step(entry, schema)
            except TypedError as error:
                yield f"{show(path)}: element {number}: {error}"
                continue
            if step in seen:
                yield f"{show(path)}: duplicate entries for key {show((step,))}"
            seen.add(step)
        yield from _wrong(entry, items_of(schema), (*path, step))


def _go(value: Any) -> str:
    """A value as Go's debug format shows it in these messages."""
    match value:
        case str():
            shown = f'"{value}"'
        case bool():
            shown = "true" if value else "false"
        case int() | float():
            shown = str(value)
        case list():
            return f"&{{[{' '.join(map(str, value))}]}}"
        case _:
            return f"&{{map[{' '.join(f'{key}:{value[key]}' for key in sorted(value))}]}}"
    return f"&value.valueUnstructured{{Value:{shown}}}"
