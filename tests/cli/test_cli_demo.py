"""``regroup demo``: how examples run where nodes are real, and what is refused. The stories themselves play on every plane."""

import copy
from typing import Any

import pytest
from click.testing import CliRunner
from tests.planes.plane import NAMESPACE, lws_manifest
from tests.planes.sandbox_plane import SandboxPlane

from regroup.cli.demo.hands import ORDER, RealHands, SimulatedHands, hands_for
from regroup.cli.main import cli
from regroup.kube.resources import NODES

ENVIRONMENT = [{"name": "A", "value": "1"}]
EXAMPLE: dict[str, Any] = {
    "spec": {
        "replicas": 2,
        "leaderWorkerTemplate": {
            "leaderTemplate": {
                "spec": {"containers": [{"name": "leader", "image": "a:1", "env": [{"name": "A", "value": "1"}]}]}
            },
            "workerTemplate": {"spec": {"containers": [{"name": "worker", "image": "b:1"}, {"name": "side", "image": "c:1"}]}},
        },
    }
}


@pytest.mark.looptime
async def test_nodes_decide_how_examples_run() -> None:
    """Simulated nodes take the example as it stands; one real node among them, and all is done for real ones."""
    async with SandboxPlane(nodes=2) as plane:
        assert isinstance(await hands_for(plane.client, clock=plane.clock, image="busybox:1"), SimulatedHands)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}, "spec": {"providerID": "kind://real"}}
        await plane.client.create(NODES, node)
        hands = await hands_for(plane.client, clock=plane.clock, image="busybox:1")
        assert isinstance(hands, RealHands)
        assert not hands.loses_nodes
        assert "busybox:1" in hands.explanation


@pytest.mark.looptime
async def test_each_order_is_another() -> None:
    """The same exit code twice is two orders: a container that came back must see the second."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(size=2))
        await plane.wait_available()
        hands = RealHands(plane.client, image="busybox:1")
        seen = []
        for _ in range(2):
            await hands.crash(NAMESPACE, "demo-0-1", exit_code=3)
            seen.append((await plane.pods())["demo-0-1"].metadata.annotations[ORDER])
        assert len(set(seen)) == 2
        assert {order.split()[0] for order in seen} == {"3"}


@pytest.mark.looptime
async def test_every_container_runs_the_image_and_sees_the_order() -> None:
    """Leaders, workers and sidecars; what else the example says stays, and the example itself is not changed."""
    async with SandboxPlane() as plane:
        hands = RealHands(plane.client, image="busybox:1")
        before = copy.deepcopy(EXAMPLE)
        changed = hands.runnable(EXAMPLE)
        assert before == EXAMPLE
        assert changed["spec"]["replicas"] == 2
        templates = changed["spec"]["leaderWorkerTemplate"]
        assert templates["leaderTemplate"]["spec"]["containers"][0]["env"] == ENVIRONMENT
        for name, containers in (("leaderTemplate", ["leader"]), ("workerTemplate", ["worker", "side"])):
            spec = templates[name]["spec"]
            assert [container["name"] for container in spec["containers"]] == containers
            assert {container["image"] for container in spec["containers"]} == {"busybox:1"}
            (volume,) = spec["volumes"]
            (item,) = volume["downwardAPI"]["items"]
            assert ORDER in item["fieldRef"]["fieldPath"]
            mounts = [{"name": volume["name"], "mountPath": "/demo"}]
            assert all(container["volumeMounts"] == mounts for container in spec["containers"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--context", "x", "--speed", "2"], "--speed has no effect here"),
        (["--context", "x", "--seed", "2"], "--seed has no effect here"),
        (["--image", "x"], "--image has no effect here"),
        (["--story", "x"], "'x' is not one of"),
    ],
)
def test_what_has_no_effect_is_refused(arguments: list[str], said: str) -> None:
    """An option that would be ignored is an error of usage, before anything is started."""
    result = CliRunner().invoke(cli, ["demo", *arguments])
    assert result.exit_code == 2
    assert said in result.output
