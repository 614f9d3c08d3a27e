"""Pods that end the moment they start: case C136."""

import asyncio
from contextlib import suppress
from itertools import pairwise

import pytest
from tests.planes.plane import NAMESPACE, group_names, lws_manifest
from tests.planes.sandbox_plane import SandboxPlane

from regroup.leaderworkerset.keys import WORKER_INDEX
from regroup.wire.errors import WireError

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("identity", ["Ordinal", "Hash"])
async def test_a_kubelet_that_rejects_every_pod(identity: str) -> None:
    """C136: without restartBackoff too, at most 60 pods of the group are made in a minute, with growing gaps, and a failure of
    another LeaderWorkerSet is handled within five seconds. Once pods are taken again the group starts."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest("other", size=2))
        other = await plane.wait_available("other")
        made: dict[str, float] = {}
        leaders: list[float] = []

        async def reject() -> None:
            while True:
                for name, pod in (await plane.pods()).items():
                    if pod.metadata.uid not in made and pod.spec.node_name:
                        made[pod.metadata.uid] = plane.clock.monotonic()
                        if pod.metadata.labels[WORKER_INDEX] == "0":
                            leaders.append(plane.clock.monotonic())
                        # Gone meanwhile: then there is nothing left to reject.
                        with suppress(WireError):
                            await plane.faults.fail_pod(NAMESPACE, name, reason="UnexpectedAdmissionError")
                await asyncio.sleep(0.05)

        rejecting = asyncio.create_task(reject())
        await plane.apply(lws_manifest(size=2, groupIdentity=identity))
        await plane.sleep(30)
        await plane.faults.crash(NAMESPACE, "other-0-1")
        await plane.wait_recreated(other, group_names(0, size=2, name="other"), name="other", timeout=5)
        await plane.sleep(25)
        assert 4 <= len(made) <= 60
        gaps = [later - earlier for earlier, later in pairwise(leaders)]
        assert all(later > earlier for earlier, later in pairwise(gaps)), gaps
        rejecting.cancel()
        with suppress(asyncio.CancelledError):
            await rejecting
        await plane.wait_available(timeout=60)


async def test_a_group_that_runs_for_a_while_is_not_slowed() -> None:
    """5.5: unset means unlimited and at once: a group that was ready is recreated without any wait, ten times in a row."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(size=2))
        uids = await plane.wait_available()
        for _ in range(10):
            await plane.faults.crash(NAMESPACE, "demo-0-1")
            began = plane.clock.monotonic()
            uids = await plane.wait_recreated(uids, group_names(0, size=2))
            assert plane.clock.monotonic() - began < 10
        assert [event for event in await plane.events("GroupReplacementDeferred") if "in a row" in event.note] == []
