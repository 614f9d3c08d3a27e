"""Events do not stay for ever: an API server keeps each for an hour after its last write. Pure; who removes them is elsewhere."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from regroup.sandbox.apiserver.storage import Stored

Obj = dict[str, Any]

EVENT_LIFE = timedelta(hours=1)
"""How long an event is kept after its last write: kube-apiserver's ``--event-ttl``."""


def expired(events: Iterable[Stored], *, now: datetime) -> Iterator[Stored]:
    """The stored events (``events.k8s.io/v1``) whose last write is longer ago."""
    for stored in events:
        if now - _last_write(stored.obj, now=now) > EVENT_LIFE:
            yield stored


def _last_write(event: Obj, *, now: datetime) -> datetime:
    """Told by the times in the event: a series is extended by writes that say when."""
    series = event.get("series") or {}
    texts = (
        (event.get("metadata") or {}).get("creationTimestamp"),
        event.get("eventTime"),
        event.get("deprecatedLastTimestamp"),
        series.get("lastObservedTime"),
    )
    moments = [moment for text in texts if (moment := _moment(text)) is not None and moment <= now]
    return max(moments, default=now)


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
