"""How the workers of groups that end are taken away (anchor-figures: writes, and what garbage collection is spared)."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest
from tests.planes.plane import NAMESPACE, group_names, lws_manifest
from tests.planes.sandbox_plane import SandboxPlane

from regroup.leaderworkerset.controller.endings import JOINED, SETS_AT_ONCE, Ending, Endings
from regroup.leaderworkerset.view import GroupKey
from regroup.runtime.clock import LoopClock
from regroup.sandbox.apifaults import Match
from regroup.wire.client import Client
from regroup.wire.transport import Request, Response

SLOW = 8.0
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
SETS_PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
EMPTY = Response(200, {}, b'{"kind":"Status"}')


class Api:
    """A server that notes what it is asked."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.news = asyncio.Event()
        self.under_way = self.most = 0
        """Deletions of sets that wait for their answer, and the most there ever were."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        of_set = "/statefulsets/" in request.path
        self.under_way += of_set
        self.most = max(self.most, self.under_way)
        query = "&".join(f"{name}={unquote(value)}" for name, value in request.query)
        self.requests.append(f"{request.method} {request.path.rpartition('/namespaces/')[2]}{'?' + query if query else ''}")
        self.news.set()
        for _ in range(3):  # others get to send meanwhile
            await asyncio.sleep(0)
        self.under_way -= of_set
        return EMPTY

    def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> object:
        raise NotImplementedError

    async def close(self) -> None: ...


def ending(number: int, *, pods: int = 7, labelled: bool = True, with_set: bool = True) -> Ending:
    name = f"demo-{number}" if with_set else ""
    group = GroupKey("t", "demo", str(number))
    return Ending(group, f"leader-{number}", pods, set_name=name, set_uid=f"set-{number}" if with_set else "", labelled=labelled)


def new_endings(api: Api) -> tuple[Endings, list[GroupKey]]:
    """With the groups of which it says that they are told."""
    told: list[GroupKey] = []
    clock = LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    return Endings(Client(api), clock=clock, on_told=told.append), told  # type: ignore[arg-type]


def _named(request: str) -> list[str]:
    """The incarnations whose workers a request tells to end."""
    return request.partition("(")[2].partition(")")[0].split(",")


async def requests_of(api: Api, *given: Ending, expected: int) -> list[str]:
    """What is sent for these endings, which all come at once: waits for so many requests, and for any that are too many."""
    endings, told = new_endings(api)
    running = asyncio.create_task(endings.run())
    for one in given:
        endings.add(one)
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        while len(api.requests) < expected:
            await api.news.wait()
            api.news.clear()
    for _ in range(50):
        await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    named = [one.group for one in given if any(one.leader_uid in _named(asked) for asked in api.requests)]
    assert sorted(told) == sorted(named), "each group is looked at again once its names are free"
    assert not any(endings.tells(one.group) for one in given)
    return api.requests


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ending(0), ["DELETE t/statefulsets/demo-0"]),
        (
            ending(0, pods=200),
            ["DELETE t/pods?labelSelector=leaderworkerset.regroup.dev/leader-uid in (leader-0),leaderworkerset.sigs.k8s.io/name"],
        ),
        (ending(0, pods=200, labelled=False), ["DELETE t/statefulsets/demo-0"]),
        (
            ending(0, with_set=False),
            ["DELETE t/pods?labelSelector=leaderworkerset.regroup.dev/leader-uid in (leader-0),leaderworkerset.sigs.k8s.io/name"],
        ),
        (ending(0, pods=0, with_set=False), []),
    ],
    ids=["few", "many", "strangers", "no set", "nothing"],
)
async def test_one_group_costs_one_write(given: Ending, expected: list[str]) -> None:
    """Design 8: at most six writes a recreation, whatever the size; this is one of them."""
    found = await requests_of(Api(), given, expected=len(expected))
    assert found == expected


async def test_many_groups_at_once_are_told_together() -> None:
    """A storm: every set is deleted, and all pods are told with a few requests, but for those of the first group, which is
    not known to be one of many yet."""
    groups, api = 60, Api()
    collections = -(-(groups - 1) // JOINED)
    found = await requests_of(api, *(ending(number) for number in range(groups)), expected=groups + collections)
    told = [one for one in found if one.startswith("DELETE t/pods?")]
    sets = [one for one in found if one.startswith("DELETE t/statefulsets/")]
    assert sorted(sets) == sorted(f"DELETE t/statefulsets/demo-{number}" for number in range(groups))
    assert len(told) == collections
    named = {uid for one in told for uid in _named(one)}
    assert named == {f"leader-{number}" for number in range(1, groups)}
    assert api.most == SETS_AT_ONCE, "a connection is dear: they must not all be opened at once"


@pytest.mark.looptime
async def test_no_worker_is_made_while_names_are_being_deleted() -> None:
    """One recreation a failure (spec 5.2): the API server finds a collection by its label and deletes it by names, one by one.
    Where that takes long, garbage collection is done before it, and a worker that was made meanwhile would be deleted as well.
    """
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(size=40))
        await plane.wait_available()
        old = await plane.uids()
        plane.cluster.server.faults.slow(SLOW, match=Match(verb="deletecollection", resource="pods", user_agent="regroup"))
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(old, group_names(0, size=40), timeout=120)
        await plane.wait_available()
        asked = [entry.time for entry in plane.writes() if (entry.request.method, entry.request.path) == ("DELETE", PODS_PATH)]
        made = [entry.time for entry in plane.writes() if (entry.request.method, entry.request.path) == ("POST", SETS_PATH)]
        assert len(asked) == 1
        assert asked[0] + SLOW <= made[-1] < asked[0] + SLOW + 1, "not before its end, and at once then"
