"""What is left of objects that came and went: case C129."""

import asyncio
import gc
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, lws_manifest
from tests.planes.sandbox_plane import SandboxPlane

from regroup.leaderworkerset.controller.memory import Pace
from regroup.leaderworkerset.controller.setup import Wiring
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.runtime.events import EventRecorder

pytestmark = pytest.mark.looptime
WARM_UP, ROUNDS, AT_ONCE = 5, 30, 5


def containers(root: Any) -> Iterator[dict[Any, Any] | set[Any]]:
    """Maps and sets of our own objects that hang on ``root``. Left out is what is bounded by a number and forgets the oldest:
    events that were told, and when passes were."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, EventRecorder | Pace):
            continue
        seen.add(id(one))
        if isinstance(one, dict | set):
            yield one
        module = type(one).__module__
        if isinstance(one, dict | set | list | tuple) or module.startswith(("regroup.leaderworkerset", "regroup.runtime")):
            todo += [found for found in gc.get_referents(one) if not isinstance(found, type)]
        elif callable(one):
            todo += [found for found in gc.get_referents(one) if type(found).__module__.startswith("regroup.")]


def traces(wiring: Wiring, names: set[str]) -> list[str]:
    """Entries that still speak of one of the names or UIDs, by the text of their keys."""
    left = []
    for found in containers(wiring):
        left += [text for key in found if (text := str(key)) and any(name in text for name in names)]
    return left


async def test_nothing_is_left_of_what_is_gone() -> None:
    """C129: objects come, fail, are recreated and go; after a rest no map has an entry of one of them, and there are no more
    tasks than before."""
    async with SandboxPlane() as plane:
        rng = random.Random(7)
        names: set[str] = set()

        async def live(name: str) -> None:
            names.add(name)
            template = {"maxGroupRestarts": 2, "restartBackoff": {"baseSeconds": 1, "capSeconds": 2}}
            await plane.apply(lws_manifest(name, size=2, template=template))
            uids = await plane.wait_available(name)
            names.update(uids.values())
            names.add((await plane.lws(name)).metadata.uid)
            if rng.random() < 0.3:
                await plane.faults.crash(NAMESPACE, f"{name}-0-1")
                await plane.sleep(3)
            await plane.client.delete(LEADERWORKERSETS, name, namespace=NAMESPACE)

        async def lives(count: int, prefix: str) -> None:
            for first in range(0, count, AT_ONCE):
                await asyncio.gather(*(live(f"{prefix}{number}") for number in range(first, first + AT_ONCE)))
            await plane.sleep(120)

        await lives(WARM_UP, "warm")
        tasks, names = len(asyncio.all_tasks()), set()
        await lives(ROUNDS, "churn")
        gc.collect()
        page = await plane.client.list_all(LEADERWORKERSETS, namespace=NAMESPACE, type=dict[str, Any])
        assert page.items == []
        assert len(asyncio.all_tasks()) <= tasks + 5
        left = traces(plane.wiring, names)
        assert left == [], left[:20]
