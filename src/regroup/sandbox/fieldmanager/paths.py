"""Sets of field paths, and their form in ``managedFields`` (``FieldsV1``). Pure.

A path is a tuple of steps: ``("f", name)`` a field, ``("k", json)`` an element of a list by its keys, ``("v", json)`` an
element of a set by its value.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

Step = tuple[str, str]
Path = tuple[Step, ...]
Obj = dict[str, Any]

UNTRACKED = {
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "creationTimestamp"),
    ("metadata", "selfLink"),
    ("metadata", "uid"),
    ("metadata", "clusterName"),
    ("metadata", "generation"),
    ("metadata", "managedFields"),
    ("metadata", "resourceVersion"),
    ("metadata", "deletionTimestamp"),
    ("metadata", "deletionGracePeriodSeconds"),
}
"""Fields that nobody owns."""


def canonical(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def list_kind(schema: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """How a list is merged: ``map`` with its keys, ``set``, or ``atomic``."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        return "map", tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return ("set", ()) if kind == "set" else ("atomic", ())


def is_atomic_map(schema: Mapping[str, Any]) -> bool:
    return schema.get("x-kubernetes-map-type") == "atomic"


def property_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties") or {}
    return found if isinstance(found, Mapping) else {}


def element_step(value: Any, kind: str, keys: tuple[str, ...], items: Mapping[str, Any]) -> Step:
    """The step to an element of a list that merges. Raises ``ValueError`` for an element without its keys."""
    if kind == "set":
        return ("v", canonical(value))
    if not isinstance(value, Mapping):
        raise ValueError("an element of this list must be an object")  # noqa: TRY004 - bad input, not a wrong call
    identity = {}
    for key in keys:
        given = value.get(key, ((items.get("properties") or {}).get(key) or {}).get("default"))
        if given is not None:
            identity[key] = given
    if not identity:
        raise ValueError(f"element without its key {', '.join(keys)}")
    return ("k", canonical(identity))


def owned(obj: Mapping[str, Any], schema: Mapping[str, Any]) -> frozenset[Path]:
    """Every path that a manager of ``obj`` owns: leaves, elements of lists, and empty maps and lists."""
    found: set[Path] = set()
    _collect(obj, schema, (), found)
    return frozenset(path for path in found if tuple(step[1] for step in path) not in UNTRACKED)


def _collect(value: Any, schema: Mapping[str, Any], path: Path, found: set[Path]) -> None:
    if isinstance(value, Mapping) and not is_atomic_map(schema):
        if not value and path:
            found.add(path)
        for name, child in value.items():
            _collect(child, property_schema(schema, name), (*path, ("f", name)), found)
        return
    if isinstance(value, list):
        kind, keys = list_kind(schema)
        if kind != "atomic":
            items = schema.get("items") or {}
            for entry in value:
                place = (*path, element_step(entry, kind, keys, items))
                found.add(place)
                if kind == "map":
                    _collect(entry, items, place, found)
            if not value:
                found.add(path)
            return
    found.add(path)


def to_fields(paths: Iterable[Path]) -> Obj:
    """``fieldsV1``."""
    root: Obj = {}
    members = set(paths)
    for path in sorted(members):
        node = root
        for step in path:
            node = node.setdefault(f"{step[0]}:{step[1]}", {})
    _mark(root, (), members)
    return root


def _mark(node: Obj, path: Path, members: set[Path]) -> None:
    """A member that has members below it says so with a dot."""
    for name, child in list(node.items()):
        step = (name[0], name[2:])
        place = (*path, step)
        _mark(child, place, members)
        if child and place in members:
            child["."] = {}


def from_fields(fields: Mapping[str, Any] | None) -> frozenset[Path]:
    """The paths of ``fieldsV1``."""
    found: set[Path] = set()
    _read(fields or {}, (), found)
    return frozenset(found)


def _read(node: Mapping[str, Any], path: Path, found: set[Path]) -> None:
    for name, child in node.items():
        if name == ".":
            found.add(path)
            continue
        place = (*path, (name[:1], name[2:]))
        if child:
            _read(child, place, found)
        else:
            found.add(place)


def show(path: Path) -> str:
    """A path as conflict messages carry it: ``.spec.containers[name="a"].image``."""
    text = ""
    for kind, name in path:
        if kind == "f":
            text += f".{name}"
        elif kind == "k":
            pairs = ",".join(f"{key}={canonical(value)}" for key, value in json.loads(name).items())
            text += f"[{pairs}]"
        else:
            text += f"[={name}]"
    return text
