"""How the workers of groups that end are taken away (anchor-figures: writes, and what garbage collection is spared)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest

from regroup.leaderworkerset.controller.endings import GC_BURST, Ending, Endings
from regroup.runtime.clock import LoopClock
from regroup.wire.client import Client
from regroup.wire.transport import Request, Response

EMPTY = Response(200, {}, b'{"kind":"Status"}')


class Api:
    """A server that notes what it is asked; ``held`` makes it keep answers back until ``answer`` is set."""

    def __init__(self, *, held: bool = False) -> None:
        self.requests: list[str] = []
        self.answer = asyncio.Event()
        if not held:
            self.answer.set()

    async def request(self, request: Request, *, timeout: float) -> Response:
        query = "&".join(f"{name}={unquote(value)}" for name, value in request.query)
        self.requests.append(f"{request.method} {request.path.rpartition('/namespaces/')[2]}{'?' + query if query else ''}")
        await self.answer.wait()
        return EMPTY

    def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> object:
        raise NotImplementedError

    async def close(self) -> None: ...


def ending(number: int, *, pods: int = 7, labelled: bool = True, with_set: bool = True) -> Ending:
    name = f"demo-{number}" if with_set else ""
    return Ending("t", f"leader-{number}", pods, set_name=name, set_uid=f"set-{number}" if with_set else "", labelled=labelled)


async def requests_of(api: Api, do: Callable[[Endings], Awaitable[None]]) -> list[str]:
    clock = LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    endings = Endings(Client(api), clock=clock)  # type: ignore[arg-type]  # a transport without streams
    running = asyncio.create_task(endings.run())
    await do(endings)
    for _ in range(20):
        await asyncio.sleep(0)
    api.answer.set()
    for _ in range(200):
        await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return api.requests


def adding(*endings: Ending) -> Callable[[Endings], Awaitable[None]]:
    async def do(all_endings: Endings) -> None:
        for one in endings:
            all_endings.add(one)
            await asyncio.sleep(0)

    return do


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ending(0), ["DELETE t/statefulsets/demo-0"]),
        (ending(0, pods=200), ["DELETE t/pods?labelSelector=leaderworkerset.regroup.dev/leader-uid in (leader-0),"]),
        (ending(0, pods=200, labelled=False), ["DELETE t/statefulsets/demo-0"]),
        (ending(0, with_set=False), ["DELETE t/pods?labelSelector=leaderworkerset.regroup.dev/leader-uid in (leader-0),"]),
        (ending(0, pods=0, with_set=False), []),
    ],
    ids=["few", "many", "strangers", "no set", "nothing"],
)
async def test_one_group_costs_one_write(given: Ending, expected: list[str]) -> None:
    """Design 8: at most six writes a recreation, whatever the size; this is one of them."""
    found = await requests_of(Api(), adding(given))
    assert len(found) == len(expected)
    assert all(one.startswith(start.split(" in ")[0].split("?")[0]) for one, start in zip(found, expected, strict=True)), found


async def test_many_groups_at_once_are_told_together() -> None:
    """A storm: every set is deleted, and all pods are told with a few requests."""
    groups = 60
    found = await requests_of(Api(held=True), adding(*(ending(number) for number in range(groups))))
    collections = [one for one in found if one.startswith("DELETE t/pods?")]
    sets = [one for one in found if one.startswith("DELETE t/statefulsets/")]
    assert sorted(sets) == sorted(f"DELETE t/statefulsets/demo-{number}" for number in range(groups))
    assert len(collections) < groups / 4, collections
    by_collector = int(GC_BURST)  # the first few are left to garbage collection
    named = sum(one.count("leader-") - one.count("leader-uid") for one in collections)
    assert groups - by_collector / 2 <= named <= groups
