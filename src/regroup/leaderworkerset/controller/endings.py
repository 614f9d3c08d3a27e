"""Tells the workers of a group that is going to end, beside the looks, so that no look waits for it.

The API server deletes a collection one object after the other. In a storm of a hundred groups that would hold up the deletion of
the leaders, which is what counts: garbage collection does the same as this later, so a request that gets lost is made up for.
"""

import asyncio
from dataclasses import dataclass

import structlog

from regroup.kube.resources import PODS
from regroup.wire.client import Client
from regroup.wire.errors import WireError

AT_ONCE = 8
"""Requests under way at the same time."""
WAITING_LIMIT = 10_000
"""Requests that wait; what comes beyond is left to garbage collection."""


@dataclass(frozen=True, slots=True)
class _Ending:
    namespace: str
    selector: str


class Endings:
    """Collections of pods that are to be deleted. ``run`` deletes them, until cancelled."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: asyncio.Queue[_Ending] = asyncio.Queue(WAITING_LIMIT)
        self._log = structlog.get_logger("leaderworkerset.endings")

    def add(self, *, namespace: str, selector: str) -> None:
        """Have all pods that ``selector`` names deleted soon."""
        try:
            self._waiting.put_nowait(_Ending(namespace, selector))
        except asyncio.QueueFull:
            self._log.warning("too many collections of pods wait for their deletion", namespace=namespace, selector=selector)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(AT_ONCE):
                tasks.create_task(self._work(), name=f"endings {number}")

    async def _work(self) -> None:
        while True:
            ending = await self._waiting.get()
            try:
                await self._client.delete_collection(PODS, namespace=ending.namespace, label_selector=ending.selector)
            except WireError as error:
                self._log.info("workers are left to garbage collection", selector=ending.selector, error=str(error)[:300])
