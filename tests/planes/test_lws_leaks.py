"""What is left of objects that came and went: case C129."""

import asyncio
import gc
import os
import random
import threading
from collections.abc import Iterator
from typing import Any

from tests.planes.plane import NAMESPACE, Plane, lws_manifest
from tests.planes.sandbox_plane import SandboxPlane
from tests.planes.socket_plane import SocketPlane

from regroup.kube.resources import PODS
from regroup.leaderworkerset.controller.memory import Pace
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.runtime.events import EventRecorder

WARM_UP, AT_ONCE = 5, 5
OURS = ("regroup.leaderworkerset", "regroup.operator", "regroup.runtime")


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
        if isinstance(one, dict | set | list | tuple) or module.startswith(OURS):
            todo += [found for found in gc.get_referents(one) if not isinstance(found, type)]
        elif callable(one):
            todo += [found for found in gc.get_referents(one) if type(found).__module__.startswith("regroup.")]


def traces(root: Any, names: set[str]) -> list[str]:
    """Entries that speak of one of the names or UIDs, by the text of their keys."""
    left = []
    for found in containers(root):
        left += [text for key in found if (text := str(key)) and any(name in text for name in names)]
    return left


def operators_own(plane: Plane) -> Any:
    """What the running operator hangs on."""
    if isinstance(plane, SandboxPlane):
        return plane.wiring
    assert isinstance(plane, SocketPlane)
    return plane.latest


async def test_nothing_is_left_of_what_is_gone(plane: Plane) -> None:
    """C129: objects come, fail, are recreated and go, while watches break; after a rest no map has an entry of one of them, and
    there are no more tasks, threads and open files than before. Half as many where time is real."""
    async with plane:
        rng = random.Random(7)
        names: set[str] = set()
        rounds = 30 if isinstance(plane, SandboxPlane) else 15

        async def live(name: str) -> None:
            template = {"maxGroupRestarts": 2, "restartBackoff": {"baseSeconds": 1, "capSeconds": 2}}
            await plane.apply(lws_manifest(name, size=2, template=template))
            uids = await plane.wait_available(name)
            mine = {name, *uids.values(), (await plane.lws(name)).metadata.uid}
            names.update(mine)
            assert traces(operators_own(plane), mine), "the search finds what is there"
            if rng.random() < 0.3:
                await plane.faults.crash(NAMESPACE, f"{name}-0-1")
                await plane.sleep(3, exact=True)
            await plane.client.delete(LEADERWORKERSETS, name, namespace=NAMESPACE)

        async def gone() -> bool:
            page = await plane.client.list_all(PODS, namespace=NAMESPACE, type=dict[str, Any])
            sets = await plane.client.list_all(LEADERWORKERSETS, namespace=NAMESPACE, type=dict[str, Any])
            return not page.items and not sets.items

        async def lives(count: int, prefix: str) -> None:
            for first in range(0, count, AT_ONCE):
                batch = [asyncio.create_task(live(f"{prefix}{number}")) for number in range(first, first + AT_ONCE)]
                plane.line.cut = True
                await plane.sleep(0.5)
                plane.line.cut = False
                await asyncio.gather(*batch)
            await plane.wait_for(gone, what="all that came has gone")
            await plane.sleep(120)

        await lives(WARM_UP, "warm")
        before, names = usage(), set()
        await lives(rounds, "churn")
        gc.collect()
        left = traces(operators_own(plane), names)
        assert left == [], left[:20]
        for what, now in usage().items():
            assert now <= before[what] + 5, f"{what}: {before[what]}, now {now}"


def usage() -> dict[str, int]:
    """Tasks, threads and open files (sockets among them) of this process."""
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names are all that is needed
    }
