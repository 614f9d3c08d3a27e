"""Server-side apply, and the ownership that plain writes leave behind. Pure.

Rules: an apply owns exactly what it says; what it said before and says no more goes away unless another owns it; a value that
another manager owns and that would change is a conflict, unless forced; a plain write owns what it changed and takes it from the
others. A write that changes nothing changes no ownership either.
"""

from collections.abc import Mapping
from typing import Any

from regroup.sandbox.fieldmanager.merge import equal_at, merged, removed
from regroup.sandbox.fieldmanager.paths import Path, from_fields, owned, show, to_fields

Obj = dict[str, Any]

MANAGERS_LIMIT = 10
"""Managers of plain updates that are kept apart; older ones are joined."""


class ApplyError(ValueError):
    """An apply configuration that cannot be used."""


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
    schema: Mapping[str, Any],
) -> Obj:
    """``live`` after ``manager`` applied ``config``. Raises ``ApplyConflict`` or ``ApplyError``."""
    if not manager:
        raise ApplyError('PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch')
    meta = config.get("metadata") or {}
    if meta.get("managedFields"):
        raise ApplyError("metadata.managedFields must be nil")
    config = {**config, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}
    try:
        wants = owned(config, schema)
    except ValueError as error:
        raise ApplyError(f"failed to create typed patch object: {error}") from error
    entries = list((live or {"metadata": {}})["metadata"].get("managedFields") or [])
    mine = _find(entries, manager, "Apply", subresource)
    others = [entry for entry in entries if entry is not mine]
    before = from_fields(mine["fieldsV1"]) if mine else frozenset()
    base: Obj = live if live is not None else {"metadata": {}}
    conflicts = [
        (_who(entry), path)
        for entry in others
        for path in sorted(from_fields(entry["fieldsV1"]) & wants)
        if not equal_at(base, config, path, schema)
    ]
    if conflicts and not force:
        raise ApplyConflict(conflicts)
    taken = {path for _, path in conflicts}
    others = _without(others, taken)
    result = merged(base, config, schema)
    given_up = before - wants
    still = {path for entry in others for path in from_fields(entry["fieldsV1"])}
    result = removed(result, sorted(given_up - still, key=len, reverse=True), schema, keep=wants | still)
    fresh = _entry(manager, "Apply", api_version=config.get("apiVersion", ""), subresource=subresource, paths=wants, now=now)
    unchanged = mine is not None and before == wants and not taken
    if unchanged and mine is not None:
        fresh["time"] = mine.get("time", now)
    return _with_entries(result, [*others, fresh] if wants else others)


def update(
    live: Obj | None,
    new: Obj,
    *,
    manager: str,
    subresource: str,
    now: str,
    schema: Mapping[str, Any],
) -> Obj:
    """``new`` with the ownership that a plain write by ``manager`` leaves."""
    if live is None:
        paths = owned(new, schema)
        return _with_entries(
            new,
            [_entry(manager, "Update", api_version=new.get("apiVersion", ""), subresource=subresource, paths=paths, now=now)]
            if paths
            else [],
        )
    entries = list(live["metadata"].get("managedFields") or [])
    given = (new.get("metadata") or {}).get("managedFields")
    if given is not None and given != entries:
        # A client may clear or rewrite the record by itself.
        entries = [entry for entry in given if entry.get("manager") is not None or entry.get("fieldsV1")]
    changed, gone = _changes(live, new, schema)
    if not changed and not gone:
        return _with_entries(new, entries)
    mine = _find(entries, manager, "Update", subresource)
    others = _without([entry for entry in entries if entry is not mine], changed | gone)
    before = from_fields(mine["fieldsV1"]) if mine else frozenset()
    paths = (before | changed) - gone
    if not paths:
        return _with_entries(new, others)
    entry = _entry(manager, "Update", api_version=new.get("apiVersion", ""), subresource=subresource, paths=paths, now=now)
    return _with_entries(new, _bounded([*others, entry]))


def _changes(live: Obj, new: Obj, schema: Mapping[str, Any]) -> tuple[frozenset[Path], frozenset[Path]]:
    """The paths that a write set or changed, and those that it took away. Parts that are the same object are not looked into."""
    old_parts, new_parts = {}, {}
    for name in {*live, *new}:
        left, right = live.get(name), new.get(name)
        if left is right or left == right:
            continue
        if name in live:
            old_parts[name] = left
        if name in new:
            new_parts[name] = right
    before, after = owned(old_parts, schema), owned(new_parts, schema)
    changed = {path for path in after if path not in before or not equal_at(old_parts, new_parts, path, schema)}
    return frozenset(changed), before - after


def _find(entries: list[Obj], manager: str, operation: str, subresource: str) -> Obj | None:
    for entry in entries:
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (manager, operation, subresource):
            return entry
    return None


def _entry(
    manager: str, operation: str, *, api_version: str, subresource: str, paths: frozenset[Path] | set[Path], now: str
) -> Obj:
    entry: Obj = {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields(paths),
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def _without(entries: list[Obj], paths: frozenset[Path] | set[Path]) -> list[Obj]:
    """``entries`` that no longer own ``paths`` nor anything below them; those that own nothing any more are left out."""
    if not paths:
        return entries
    result = []
    for entry in entries:
        has = from_fields(entry["fieldsV1"])
        left = has - paths
        if not left:
            continue
        result.append(entry if left == has else {**entry, "fieldsV1": to_fields(left)})
    return result


def _bounded(entries: list[Obj]) -> list[Obj]:
    updates = [entry for entry in entries if entry["operation"] == "Update" and not entry.get("subresource")]
    if len(updates) <= MANAGERS_LIMIT:
        return entries
    oldest = sorted(updates, key=lambda entry: entry.get("time", ""))[: len(updates) - MANAGERS_LIMIT + 1]
    paths = frozenset(path for entry in oldest for path in from_fields(entry["fieldsV1"]))
    joined = {**oldest[-1], "manager": "ancient-changes", "fieldsV1": to_fields(paths)}
    return [joined, *(entry for entry in entries if entry not in oldest)]


def _with_entries(obj: Obj, entries: list[Obj]) -> Obj:
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    if entries:
        meta["managedFields"] = sorted(
            entries, key=lambda entry: (entry["operation"], entry.get("time", ""), entry["manager"], entry.get("subresource", ""))
        )
    return {**obj, "metadata": meta}


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
    lines: dict[str, list[str]] = {}
    for who, path in conflicts:
        lines.setdefault(who, []).append(show(path))
    text = f"Apply failed with {len(conflicts)} conflicts: "
    parts = []
    for who, paths in lines.items():
        parts.append(f"conflicts with {who}:\n" + "\n".join(f"- {path}" for path in paths))
    return text + "\n".join(parts)
