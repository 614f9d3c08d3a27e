"""`regroup history` and the past in `regroup explain`: from the API server alone."""

import io
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console
from tests.planes.plane import NAMESPACE, group_names, lws_manifest
from tests.planes.sandbox_plane import SandboxPlane

from regroup.cli.history import show
from regroup.cli.history_plot import draw
from regroup.leaderworkerset.controller.explain_query import explain
from regroup.leaderworkerset.controller.history_query import read_history
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.sandbox.apifaults import Match
from regroup.wire.errors import NotFound

pytestmark = pytest.mark.looptime


async def test_a_life_with_failures(tmp_path: Path) -> None:
    """Issue 5 point 4: two recreations and the exhaustion of one group, with pod, container and exit code; nothing of the other
    group; the same in JSON and as a picture; the operator is not asked."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(replicas=2, size=2, template={"maxGroupRestarts": 2}))
        uids = await plane.wait_available()
        for code in (7, 8):
            await plane.faults.crash(NAMESPACE, "demo-1-1", exit_code=code)
            uids = await plane.wait_recreated(uids, group_names(1, size=2))
            await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-1-1", exit_code=9)
        await plane.wait_for(lambda: plane.events("ReplicaRestartBudgetExceeded"))
        await plane.sleep(10)
        await plane.stop_operator()
        client = plane.cluster.client("history")
        plane.cluster.server.faults.record().clear()
        found = await read_history(client, NAMESPACE, "demo", group=None)
        assert not [entry for entry in plane.cluster.server.faults.record() if entry.writes], "reads only"
        assert [(one.what, one.group, one.pod, one.container, one.exit_code) for one in found.entries] == [
            ("recreated", "1", "demo-1-1", "main", 7),
            ("recreated", "1", "demo-1-1", "main", 8),
            ("exhausted", "1", "demo-1-1", "main", 9),
        ]
        assert [(one.restarts, one.allowed) for one in found.entries] == [(1, 2), (2, 2), (2, 2)]
        assert [one.at for one in found.entries] == sorted(one.at for one in found.entries)
        told = json.loads(json.dumps(found.to_dict()))
        assert told["entries"][2]["exitCode"] == 9
        assert (await read_history(client, NAMESPACE, "demo", group="0")).entries == ()

        page = io.StringIO()
        show(found, Console(file=page, width=220))
        assert "exhausted" in page.getvalue()
        assert "one hour" in page.getvalue()
        ET.fromstring(draw(found.entries, title="demo"))


async def test_explain_remembers_the_last_failure() -> None:
    """Issue 5 point 4: a recreated group runs and its pods are new; what broke the old one is in the events."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(replicas=2, size=2))
        uids = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1", exit_code=42)
        await plane.wait_recreated(uids, group_names(0, size=2))
        await plane.wait_available()
        client, now = plane.cluster.client("explain"), plane.clock.now()
        await plane.sleep(1)
        seen = await explain(client, NAMESPACE, "demo", group=None, now=now, settings=Settings())
        assert seen.groups[0].state == "Running"
        assert seen.groups[0].last_failure is not None
        assert (seen.groups[0].last_failure["pod"], seen.groups[0].last_failure["exitCode"]) == ("demo-0-1", 42)
        assert seen.groups[1].last_failure is None
        plane.cluster.server.faults.fail(403, match=Match(resource="events", user_agent="explain"))
        seen = await explain(client, NAMESPACE, "demo", group=None, now=now, settings=Settings())
        assert seen.groups[0].last_failure is None
        assert "events may not be read" in seen.notes[-1]


async def test_one_that_is_gone() -> None:
    """What happened to a deleted LeaderWorkerSet is told while its events last; a new one of the same name has its own past; of
    one that never was nothing is known."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(size=2))
        uids = await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(uids, group_names(0, size=2))
        await plane.sleep(5)
        await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        client = plane.cluster.client("history")
        await plane.wait_for(lambda: _gone(plane))
        found = await read_history(client, NAMESPACE, "demo", group=None)
        assert [one.what for one in found.entries] == ["recreated"]
        assert "does not exist any more" in found.notes[-1]
        await plane.apply(lws_manifest(size=2))
        await plane.wait_available()
        assert (await read_history(client, NAMESPACE, "demo", group=None)).entries == ()
        with pytest.raises(NotFound):
            await read_history(client, NAMESPACE, "never", group=None)


async def _gone(plane: SandboxPlane) -> bool:
    return not await plane.exists(LEADERWORKERSETS, "demo")
