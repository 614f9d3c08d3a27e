"""A reflector at work on a scripted server, with everything that it told."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from tests.runtime.runtime_server import ScriptedServer

from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.runtime.clock import LoopClock
from regroup.runtime.reflector import Reflector
from regroup.runtime.store import Change, Indexer, Store
from regroup.wire.client import Client

START = datetime(2026, 1, 1, tzinfo=UTC)


class Feed:
    """What a reader of the cache has: the store, and the changes as they were told."""

    def __init__(self, server: ScriptedServer, *, page: int, indexers: Mapping[str, Indexer[Pod]] | None) -> None:
        self.server = server
        self.store: Store[Pod] = Store(indexers=indexers)
        self.changes: list[Change[Pod]] = []
        self.told: dict[tuple[str, str], Pod] = {}
        """The content as it follows from the changes alone."""
        self.on_each: Callable[[], object] = lambda: None
        """Called at each change."""
        self.reflector: Reflector[Pod] = Reflector(
            Client(server, rng=random.Random(2)),
            PODS,
            type=Pod,
            store=self.store,
            on_change=self._hear,
            clock=LoopClock(start=START),
            rng=random.Random(1),
            page=page,
        )

    def _hear(self, change: Change[Pod]) -> None:
        self.changes.append(change)
        self.on_each()
        key = (change.object.metadata.namespace, change.object.metadata.name)
        if change.new is None:
            del self.told[key]
            return
        assert (change.old is not None) == (key in self.told), "an addition is of what was not there, a change of what was"
        if change.old is not None:
            assert change.old.metadata.uid == change.new.metadata.uid, "another UID is another object"
        self.told[key] = change.new

    def deleted(self) -> list[str]:
        """UIDs of which the end was told, in order."""
        return [change.old.metadata.uid for change in self.changes if change.new is None and change.old is not None]

    def check(self) -> None:
        """The store, what was told and the server agree."""
        there = {key: (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]) for key, obj in self.server.objects.items()}
        held = {
            (pod.metadata.namespace, pod.metadata.name): (pod.metadata.uid, pod.metadata.resource_version)
            for pod in self.store.values()
        }
        told = {key: (pod.metadata.uid, pod.metadata.resource_version) for key, pod in self.told.items()}

        assert held == there
        assert told == there

    async def synced(self) -> None:
        async with asyncio.timeout(600):
            await self.reflector.synced.wait()


@asynccontextmanager
async def feed(
    server: ScriptedServer, *, page: int = 500, indexers: Mapping[str, Indexer[Pod]] | None = None
) -> AsyncIterator[Feed]:
    """A running reflector, with its first list in and its watch open."""
    at_work = Feed(server, page=page, indexers=indexers)
    task = asyncio.create_task(at_work.reflector.run())
    try:
        await at_work.synced()
        await asyncio.sleep(0.1)  # the watch is open as well
        yield at_work
        assert not task.done(), "a reflector never ends by itself"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
