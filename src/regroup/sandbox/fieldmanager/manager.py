"""Server-side apply, and the ownership that plain writes leave behind. Pure.

An apply owns exactly what it says. What it said before and says no more goes away unless another manager owns it. A value that
another manager owns and that the apply would change is a conflict, unless it is forced. A plain write owns what it changed and
takes it from the others. What changes nothing changes no ownership. The ``default`` of a schema is an object of the kind with
nothing set: what that has already is nobody's doing.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from regroup.sandbox.fieldmanager.lastapplied import MANAGER as KUBECTL
from regroup.sandbox.fieldmanager.lastapplied import followed, unclaimed
from regroup.sandbox.fieldmanager.sets import Path, Tree, has, paths, show, tree_of, union, without
from regroup.sandbox.fieldmanager.typed import TypedError, check, compare, field_set, merge, remove, with_structs

Obj = dict[str, Any]
Schema = Mapping[str, Any]

MANAGERS_LIMIT = 10
"""Managers of plain writes that are kept apart; the oldest are joined."""
BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT = "ancient-changes"
_UNOWNED: frozenset[Path] = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    }
)
"""Fields that nobody owns."""
_RESET = {"": ("status",), "status": ("spec", "metadata")}
"""Top-level fields that a write of a subresource (or of none) cannot change, and does not own."""


class ApplyError(ValueError):
    """An apply configuration that cannot be used. ``code`` and ``reason`` are those of the server's answer."""

    def __init__(self, message: str, *, code: int = 400, reason: str = "BadRequest") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class ApplyConflict(Exception):
    """Other managers own fields that the apply would change; ``causes`` names them."""

    def __init__(self, conflicts: list[tuple[str, Path]]) -> None:
        self.causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": show(path)} for who, path in conflicts
        ]
        super().__init__(_conflict_text(conflicts))


def apply(
    live: Obj | None,
    config: Obj,
    *,
    manager: str,
    force: bool,
    subresource: str,
    now: str,
    schema: Schema,
    resets: Iterable[str] | None = None,
) -> Obj:
    """``live`` after ``manager`` applied ``config``. Raises ``ApplyConflict`` or ``ApplyError``."""
    if not manager:
        text = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        raise ApplyError(text, code=422, reason="Invalid")
    if (config.get("metadata") or {}).get("managedFields") is not None:
        raise ApplyError("metadata.managedFields must be nil")
    try:
        check(config, schema)
    except TypedError as error:
        text = f"failed to create typed patch object ({_who_is(config)}): {error}"
        raise ApplyError(text, code=500, reason="") from error
    ignored = _RESET.get(subresource, ()) if resets is None else tuple(resets)
    base = _bare(live or {})
    entries = _entries(live)
    if live is not None and not entries:
        entries = _unknown_before(base, schema, now)
    mine = _find(entries, manager, "Apply", subresource, "")
    others = [entry for entry in entries if entry is not mine]
    wants = {path for path in field_set(config, schema) if path not in _UNOWNED and path[0][2:] not in ignored}
    merged = merge(base, config, schema)
    if mine is not None:
        # Merged once more: an empty map or list that is applied stays when all that was in it goes.
        merged = merge(_pruned(merged, mine["fieldsV1"], wants, others, schema), config, schema)
    allowed = unclaimed(base, schema) if manager == KUBECTL else set()
    others = _settled(base, merged, others, schema, force=force, ignored=ignored, allowed=allowed)
    fresh = _entry(manager, "Apply", config.get("apiVersion", ""), subresource, tree_of(wants))
    # An apply that changes nothing moves no time; one by a new manager then has none at all, as on a real server.
    time = now if live is None or _differs(base, merged) else (mine or {}).get("time")
    fresh = {key: value for key, value in {**fresh, "time": time}.items() if value is not None}
    if manager == KUBECTL:
        merged = followed(merged, config)
    return _with_entries(merged, [*others, fresh] if wants else others)


def _settled(
    base: Obj,
    merged: Obj,
    others: list[Obj],
    schema: Schema,
    *,
    force: bool,
    ignored: Iterable[str],
    allowed: set[Path],
) -> list[Obj]:
    """The entries of the other managers after the apply; ``allowed`` may be taken from them. Raises ``ApplyConflict``."""
    difference = compare(base, merged, schema).less(ignored)
    touched = difference.added | difference.modified
    conflicts = [(_who(entry), path) for entry in others for path in sorted(touched) if has(entry["fieldsV1"], path)]
    refused = [(who, path) for who, path in conflicts if path not in allowed]
    if refused and not force:
        raise ApplyConflict(sorted(refused, key=_told))
    return _without(others, touched | difference.removed)


def _told(conflict: tuple[str, Path]) -> tuple[str, list[tuple[bool, str]]]:
    """The order in which conflicts are told: by manager, and of one map first its own members, then what lies deeper."""
    who, path = conflict
    return who, [(position < len(path) - 1, step) for position, step in enumerate(path)]


def _pruned(merged: Obj, before: Tree, wants: set[Path], others: list[Obj], schema: Schema) -> Obj:
    """``merged`` without what the manager applied before and applies no more, unless another manager owns it."""
    last = with_structs(paths(before), schema)
    kept = with_structs({*wants, *(path for entry in others for path in paths(entry["fieldsV1"]))}, schema)
    pruned = remove(merged, last, schema) or {}
    there = with_structs(field_set(merged, schema), schema)
    left = with_structs(field_set(pruned, schema), schema)
    owned = remove(merged, there - left - kept, schema) or {}
    still = with_structs(field_set(owned, schema), schema)
    result: Obj = remove(merged, (there - still) & last, schema) or {}
    return result


def update(
    live: Obj | None,
    new: Obj,
    *,
    manager: str,
    subresource: str,
    now: str | None,
    schema: Schema,
    resets: Iterable[str] | None = None,
) -> Obj:
    """``new`` with the ownership that a plain write by ``manager`` leaves; ``now`` None leaves no time."""
    entries = _entries(live)
    given = (new.get("metadata") or {}).get("managedFields")
    if given is not None and live is not None and given != entries:
        # A client may rewrite the record, or clear it with one empty entry.
        entries = [entry for entry in given if entry.get("operation")]
    bare = _bare(new)
    if live is not None and not entries:
        return _with_entries(bare, [])
    ignored = _RESET.get(subresource, ()) if resets is None else tuple(resets)
    try:
        difference = compare(_bare(live) if live is not None else schema.get("default") or {}, bare, schema).less(ignored)
    except TypedError:
        # An object that cannot be read by its schema has no record. Validation says what is wrong with it.
        return _with_entries(bare, [])
    changed = (difference.added | difference.modified) - _UNOWNED
    api_version = new.get("apiVersion", "")
    mine = _find(entries, manager or "unknown", "Update", subresource, api_version)
    had = mine["fieldsV1"] if mine else {}
    left = _without(entries, difference.added | difference.modified | difference.removed)
    if not changed:
        return _with_entries(bare, left)
    others = [entry for entry in left if not _same_manager(entry, mine)]
    fresh = _entry(manager or "unknown", "Update", api_version, subresource, union(without(had, difference.removed), changed))
    if now is None:
        del fresh["time"]
    else:
        fresh["time"] = now
    return _with_entries(bare, _bounded([*others, fresh]))


def owned(obj: Obj, path: str) -> bool:
    """Whether any manager owns the field at a dotted path (``.spec.replicas``)."""
    steps = tuple(f"f:{part}" for part in path.strip(".").split("."))
    return any(has(entry["fieldsV1"], steps) for entry in _entries(obj))


def _bare(obj: Obj) -> Obj:
    """``obj`` without its record of managers."""
    if "managedFields" not in (obj.get("metadata") or {}):
        return obj
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _entries(obj: Obj | None) -> list[Obj]:
    return [
        {**entry, "fieldsV1": entry.get("fieldsV1") or {}}
        for entry in ((obj or {}).get("metadata") or {}).get("managedFields") or []
    ]


def _differs(base: Obj, merged: Obj) -> bool:
    return {key: value for key, value in base.items() if value is not None} != {
        key: value for key, value in merged.items() if value is not None
    }


def _unknown_before(base: Obj, schema: Schema, now: str) -> list[Obj]:
    """What an object without a record holds is somebody's: of whoever wrote before the first apply."""
    difference = compare(schema.get("default") or {}, base, schema)
    owned = (difference.added | difference.modified) - _UNOWNED
    if not owned:
        return []
    return [{**_entry(BEFORE_FIRST_APPLY, "Update", base.get("apiVersion", ""), "", tree_of(owned)), "time": now}]


def _find(entries: list[Obj], manager: str, operation: str, subresource: str, api_version: str) -> Obj | None:
    """The entry of a manager. Appliers are one whatever version they speak."""
    wanted = (manager, operation, subresource, api_version if operation == "Update" else "")
    return next((entry for entry in entries if _identity(entry) == wanted), None)


def _identity(entry: Obj) -> tuple[str, str, str, str]:
    operation = entry.get("operation", "")
    version = entry.get("apiVersion", "") if operation == "Update" else ""
    return entry.get("manager", ""), operation, entry.get("subresource", ""), version


def _same_manager(entry: Obj, other: Obj | None) -> bool:
    return other is not None and _identity(entry) == _identity(other)


def _entry(manager: str, operation: str, api_version: str, subresource: str, fields: Tree) -> Obj:
    entry: Obj = {"manager": manager, "operation": operation, "apiVersion": api_version, "time": None, "fieldsType": "FieldsV1"}
    entry["fieldsV1"] = fields
    if subresource:
        entry["subresource"] = subresource
    return entry


def _without(entries: list[Obj], gone: set[Path]) -> list[Obj]:
    """``entries`` that no longer own ``gone``; those that own nothing any more are left out."""
    result = []
    for entry in entries:
        left = without(entry["fieldsV1"], gone)
        if left is entry["fieldsV1"]:
            result.append(entry)
        elif left:
            result.append({**entry, "fieldsV1": left})
    return result


def _bounded(entries: list[Obj]) -> list[Obj]:
    """At most ``MANAGERS_LIMIT`` entries of plain writes: the oldest of a version are joined into one."""
    updates = sorted((entry for entry in entries if entry["operation"] == "Update"), key=lambda entry: entry.get("time") or "")
    excess = len(updates) - MANAGERS_LIMIT
    if excess <= 0:
        return entries
    first: dict[str, Obj] = {}
    gone: list[Obj] = []
    for entry in updates:
        version = entry.get("apiVersion", "")
        if excess <= 0:
            break
        if version not in first:
            first[version] = entry
            continue
        bucket = {**_entry(ANCIENT, "Update", version, "", union(first[version]["fieldsV1"], paths(entry["fieldsV1"])))}
        bucket["time"] = entry.get("time")
        gone += [first[version], entry]
        first[version] = bucket
        excess -= 1
    joined = [entry for entry in first.values() if entry["manager"] == ANCIENT]
    return [*joined, *(entry for entry in entries if not any(entry is each for each in gone))]


def _with_entries(obj: Obj, entries: list[Obj]) -> Obj:
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    if entries:
        meta["managedFields"] = sorted(
            entries,
            key=lambda entry: (
                entry["operation"],
                entry.get("time") or "",
                entry["manager"],
                entry.get("apiVersion", ""),
                entry.get("subresource", ""),
            ),
        )
    return {**obj, "metadata": meta}


def _who_is(config: Obj) -> str:
    meta = config.get("metadata") or {}
    group, slash, version = str(config.get("apiVersion", "")).rpartition("/")
    kind = f"{group}{slash or '/'}{version}, Kind={config.get('kind', '')}"
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}; {kind}"


def _who(entry: Obj) -> str:
    text = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    if entry["operation"] == "Update":
        text += f" using {entry['apiVersion']}"
    return text


def _conflict_text(conflicts: list[tuple[str, Path]]) -> str:
    if len(conflicts) == 1:
        who, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {who}: {show(path)}"
    by_manager: dict[str, list[str]] = {}
    for who, path in conflicts:
        by_manager.setdefault(who, []).append(show(path))
    lines = []
    for who in sorted(by_manager):
        lines.append(f"conflicts with {who}:")
        lines += [f"- {path}" for path in by_manager[who]]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
