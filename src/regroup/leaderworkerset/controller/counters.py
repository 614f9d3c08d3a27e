"""Writes the restart counters into the LeaderWorkerSet: read, change, write back under its resourceVersion, again on a conflict
(spec/leaderworkerset.md 5.5). Other groups' counters and other writers' fields survive."""

import asyncio
import random
from collections.abc import Callable

from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.groups.budget import (
    COUNTED,
    counted_digest,
    counter_key,
    format_counts,
    format_map,
    handed_over,
    parse_counted,
    parse_counts,
    raised,
    without,
)
from regroup.leaderworkerset.keys import LEADERWORKERSETS, RESTART_COUNTS
from regroup.leaderworkerset.view import GroupKey
from regroup.wire.client import Client
from regroup.wire.errors import Conflict

_ATTEMPTS = 8
_FIRST_PAUSE = 0.01
"""Seconds before the second try; doubled each time, with jitter."""

Change = Callable[[dict[str, int], dict[str, str]], tuple[dict[str, int], dict[str, str]]]
"""Counters and counted leaders before and after."""


class Counters:
    """The counters of all LeaderWorkerSets."""

    def __init__(self, client: Client, *, rng: random.Random) -> None:
        self._client = client
        self._rng = rng

    async def raise_to(self, lws: LeaderWorkerSet, key: GroupKey, *, revision: str, leader_uid: str, to: int) -> LeaderWorkerSet:
        """See that the group's counter is at least ``to`` and notes which leader's recreation it counts. ``lws`` was read just
        now. Raises ``CorruptCounts``, ``Conflict`` when too many others write, ``NotFound`` when it is gone."""
        name = counter_key(revision, key.index)

        def change(counts: dict[str, int], counted: dict[str, str]) -> tuple[dict[str, int], dict[str, str]]:
            if counted.get(name) == counted_digest(leader_uid):
                return counts, counted
            return raised(counts, name, to=to), counted | {name: counted_digest(leader_uid)}

        return await self.change(lws, change)

    async def clear(self, lws: LeaderWorkerSet, key: GroupKey, *, revision: str) -> LeaderWorkerSet:
        """Forget the group's counter: recovery starts with a fresh budget (5.6.4)."""
        name = counter_key(revision, key.index)
        return await self.change(lws, lambda counts, counted: (without(counts, {name}), _without(counted, name)))

    async def hand_over(self, key: GroupKey, *, revision: str, owned: frozenset[str]) -> LeaderWorkerSet:
        """Hash: make the highest free counter of the revision the group's own (5.5). ``owned`` are those of other leaders.

        Reads the LeaderWorkerSet first: its cache may lag behind that of the pods, and a count that is not seen is a budget
        that never ends. Raises ``CorruptCounts``, ``Conflict``, ``NotFound``.
        """
        lws = await self._client.get(LEADERWORKERSETS, key.lws, namespace=key.namespace, type=LeaderWorkerSet)

        def change(counts: dict[str, int], counted: dict[str, str]) -> tuple[dict[str, int], dict[str, str]]:
            after = handed_over(counts, revision=revision, index=key.index, owned=owned)
            moved = counts.keys() - after.keys()
            return after, {name: digest for name, digest in counted.items() if name not in moved}

        return await self.change(lws, change)

    async def change(self, lws: LeaderWorkerSet, change: Change, *, attempts: int = _ATTEMPTS) -> LeaderWorkerSet:
        """Apply ``change`` to what is stored. Writes nothing where it changes nothing."""
        pause = _FIRST_PAUSE
        for attempt in range(attempts):
            meta = lws.metadata
            counts, counted = parse_counts(meta.annotations.get(RESTART_COUNTS)), parse_counted(meta.annotations.get(COUNTED))
            new_counts, new_counted = change(counts, counted)
            if new_counts == counts and new_counted == counted:
                return lws
            annotations = {RESTART_COUNTS: format_counts(new_counts), COUNTED: format_map(new_counted)}
            patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": annotations}}
            try:
                return await self._client.merge_patch(
                    LEADERWORKERSETS, meta.name, patch, namespace=meta.namespace, type=LeaderWorkerSet
                )
            except Conflict:
                if attempt == attempts - 1:
                    raise
            await asyncio.sleep(pause * (0.5 + self._rng.random()))
            pause *= 2
            # Another writer was faster: its change is the new base.
            lws = await self._client.get(LEADERWORKERSETS, meta.name, namespace=meta.namespace, type=LeaderWorkerSet)
        raise AssertionError("unreachable")


def _without(counted: dict[str, str], name: str) -> dict[str, str]:
    return {key: digest for key, digest in counted.items() if key != name}
