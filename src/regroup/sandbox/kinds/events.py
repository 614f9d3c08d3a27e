"""Events: one stored form (``events.k8s.io/v1``), which core clients see under its older field names. Pure."""

from typing import Any

Obj = dict[str, Any]

_RENAMED = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def to_core(event: Obj) -> Obj:
    """An event of ``events.k8s.io/v1`` as core/v1 shows it."""
    result = {_RENAMED.get(key, key): value for key, value in event.items()}
    result["apiVersion"] = "v1"
    for name in ("firstTimestamp", "lastTimestamp"):
        result.setdefault(name, None)
    result.setdefault("source", {})
    result.setdefault("eventTime", None)
    for name in ("reportingComponent", "reportingInstance"):
        result.setdefault(name, "")
    return result


def from_core(event: Obj) -> Obj:
    """An event of core/v1 as it is stored."""
    back = {new: old for old, new in _RENAMED.items()}
    result = {back.get(key, key): value for key, value in event.items()}
    result["apiVersion"] = "events.k8s.io/v1"
    for name in ("reportingController", "reportingInstance"):
        if not result.get(name):
            result.pop(name, None)
    return result


def core_field(path: str, event: Obj) -> str:
    """A field selector's value on a core/v1 event."""
    value: Any = event
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "reportingComponent" and value is None:
        value = (event.get("source") or {}).get("component")
    return "" if value is None else str(value)
