"""Our StatefulSet controller and Kubernetes' own show a client the same life of a set, down to the names of revisions."""

from pathlib import Path

import msgspec
import pytest
from tests.planes.realplane.binaries import PlaneUnavailable, find
from tests.planes.realplane.controlplane import ControlPlane
from tests.sandbox.controllers_plane import control_plane
from tests.sandbox.controllers_story import Story, Transcript

from regroup.runtime.clock import SystemClock
from regroup.sandbox.controllers import garbage, statefulset
from regroup.wire.client import Client
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import load_kubeconfig

RECORDED = Path(__file__).with_name("controllers_story.json")
QUIET = 1.5
"""Seconds without an event after which the real control plane has come to rest."""


def recorded() -> Transcript:
    return msgspec.json.decode(RECORDED.read_bytes(), type=Transcript)


@pytest.mark.looptime
async def test_the_sandbox_plays_the_story_that_kubernetes_played() -> None:
    """Every status, every pod and every revision in each step, in their order."""
    async with control_plane(statefulset.setup, garbage.setup) as plane:
        story = Story(plane.client, clock=plane.clock, quiet=5.0)
        assert await story.play() == recorded()


@pytest.mark.real
async def test_kubernetes_still_plays_the_recorded_story(tmp_path: Path) -> None:
    """The record is what the real controller manager does; with another version it has to be looked at again."""
    try:
        find(build=False)
    except PlaneUnavailable as error:
        pytest.fail(f"the real plane is asked for and not there: {error}")
    assert await play_on_kubernetes(tmp_path) == recorded()


async def play_on_kubernetes(folder: Path) -> Transcript:
    """The story on a control plane of its own."""
    with ControlPlane() as plane:
        file = folder / "kubeconfig"
        file.write_text(plane.kubeconfig())
        client = Client(HttpTransport(load_kubeconfig(str(file), None)), user_agent="story")
        try:
            return await Story(client, clock=SystemClock(), quiet=QUIET).play()
        finally:
            await client.close()
