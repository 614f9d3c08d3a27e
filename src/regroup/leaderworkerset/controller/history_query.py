"""Reads what the API server still remembers of one LeaderWorkerSet. Reads only."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regroup.kube.pod import Pod
from regroup.kube.resources import EVENTS, PODS
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.keys import LEADERWORKERSETS, NAME
from regroup.leaderworkerset.telling.history import Entry, Event, history
from regroup.wire.client import Client
from regroup.wire.errors import NotFound


@dataclass(frozen=True, slots=True)
class History:
    """What happened to the groups of one LeaderWorkerSet, the oldest first."""

    namespace: str
    name: str
    entries: Sequence[Entry]
    notes: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "entries": [entry.to_dict() for entry in self.entries],
            "notes": list(self.notes),
        }


async def read_history(client: Client, namespace: str, name: str, *, group: str | None) -> History:
    """The history of all groups, or of one. Of a LeaderWorkerSet that is gone the events that are left. Raises ``WireError``,
    ``NotFound`` where nothing of that name is known."""
    # Not every API server can select events by what they are about, so all of the namespace are read, page by page.
    events, pods = await asyncio.gather(
        client.list_all(EVENTS, namespace=namespace, type=Event),
        client.list_all(PODS, namespace=namespace, label_selector=f"{NAME}={name}", type=Pod),
    )
    about = [event for event in events.items if _is_about(event, name)]
    notes = ["events are kept for a limited time, one hour by default: what is older is not known"]
    try:
        lws = await client.get(LEADERWORKERSETS, name, namespace=namespace, type=LeaderWorkerSet)
    except NotFound:
        if not about:
            raise
        notes.append(f"{LEADERWORKERSETS.kind} {name} does not exist any more")
    else:
        # Of an earlier object of the same name nothing is told.
        about = [event for event in about if event.regarding is not None and event.regarding.uid in {"", lws.metadata.uid}]
    return History(namespace, name, history(about, pods.items, group=group), notes)


def _is_about(event: Event, name: str) -> bool:
    about = event.regarding
    return about is not None and about.kind == LEADERWORKERSETS.kind and about.name == name
