"""Printer columns of custom resources, and ages as kubectl shows them. Pure."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from regroup.sandbox.kinds.definition import Column

Obj = dict[str, Any]

_STEP = re.compile(r"\.([A-Za-z0-9_\-/]+)|\['([^']+)'\]|\[(\d+)\]|\[\?\(@\.([A-Za-z0-9_.\-]+)==[\"']([^\"']*)[\"']\)\]|\[\*\]")


def age(start: str | None, now: datetime) -> str:
    """The time since ``start`` as kubectl shows it: ``5m3s``, ``3h12m``, ``9d``."""
    if not start:
        return "<unknown>"
    seconds = int((now - datetime.fromisoformat(start)).total_seconds())
    if seconds < 0:
        return "0s" if seconds >= -2 else "<invalid>"
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    if years < 8 and days % 365:
        return f"{years}y{days % 365}d"
    return f"{years}y"


def json_path(path: str, obj: Any) -> Any:
    """The first value at a simple JSONPath, None when there is none."""
    return next(iter(json_paths(path, obj)), None)


def json_paths(path: str, obj: Any) -> list[Any]:
    """All values at a simple JSONPath."""
    values = [obj]
    for match in _STEP.finditer(path):
        name, quoted, index, field, wanted = match.groups()
        following: list[Any] = []
        for value in values:
            if name or quoted:
                if isinstance(value, Mapping) and (name or quoted) in value:
                    following.append(value[name or quoted])
            elif isinstance(value, list):
                if index is not None:
                    following += value[int(index) : int(index) + 1]
                elif field is not None:
                    following += [entry for entry in value if isinstance(entry, Mapping) and str(entry.get(field)) == wanted]
                else:
                    following += value
        values = following
    return values


def custom_columns(specs: list[Obj] | None) -> tuple[Column, ...]:
    """The columns of a CRD's version: Name first, then its own, or Age when it names none."""
    name = Column(
        "Name", lambda obj, _: obj["metadata"]["name"], format="name", description="Name must be unique within a namespace."
    )
    if specs is None:
        specs = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    return (name, *(_column(spec) for spec in specs))


def _column(spec: Obj) -> Column:
    path, kind = spec["jsonPath"], spec.get("type", "string")

    def cell(obj: Obj, now: datetime) -> Any:
        values = json_paths(path, obj)
        return _shown(values[0], kind, now) if values else None

    return Column(
        spec["name"],
        cell,
        type=kind,
        format=spec.get("format", ""),
        description=spec.get("description", f"Custom resource definition column (in JSONPath format): {path}"),
        priority=spec.get("priority", 0),
    )


def _shown(value: Any, kind: str, now: datetime) -> Any:
    """A value in a column of that type; None when it is of another."""
    match kind:
        case "date":
            return _date(value, now)
        case "integer":
            return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "number":
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case _:
            return value if isinstance(value, str) else _text(value)


def _date(value: Any, now: datetime) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return age(value, now)
    except (ValueError, TypeError):
        return "<invalid>"


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
