"""The row of an event, in either of its two forms, as ``kubectl get events`` shows it. Pure."""

from datetime import datetime
from typing import Any

from regroup.sandbox.kinds.columns import at, cell, text
from regroup.sandbox.kinds.definition import Column
from regroup.sandbox.kinds.events import to_core
from regroup.sandbox.schema.columns import age

Obj = dict[str, Any]


def _core(event: Obj) -> Obj:
    return to_core(event) if event.get("apiVersion") != "v1" else event


def _first(event: Obj, now: datetime) -> str:
    event = _core(event)
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last(event: Obj, now: datetime) -> str:
    event = _core(event)
    series = event.get("series")
    if series:
        return age(series.get("lastObservedTime"), now)
    return age(event.get("lastTimestamp") or event.get("firstTimestamp") or event.get("eventTime"), now)


def _count(event: Obj, _: datetime) -> int:
    event = _core(event)
    series = event.get("series")
    return int((series.get("count") if series else event.get("count")) or (0 if series else 1))


def _object(event: Obj, _: datetime) -> str:
    about = _core(event).get("involvedObject") or {}
    kind, name = str(about.get("kind") or "").lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def _source(event: Obj, _: datetime) -> str:
    event = _core(event)
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


COLUMNS: tuple[Column, ...] = (
    cell("Last Seen", _last, "When it last happened."),
    cell("Type", text("type"), "Normal or Warning."),
    cell("Reason", text("reason"), "Why, in one word."),
    cell("Object", _object, "What the event is about."),
    cell("Subobject", lambda obj, _: at(_core(obj), "involvedObject.fieldPath", ""), "The part that it is about.", wide=True),
    cell("Source", _source, "Who reported it.", wide=True),
    cell("Message", lambda obj, _: str(_core(obj).get("message") or "").strip(), "What happened."),
    cell("First Seen", _first, "When it first happened.", wide=True),
    cell("Count", _count, "How often it happened.", wide=True),
    Column("Name", lambda obj, _: obj["metadata"]["name"], format="name", description="Name of the event.", priority=1),
)
