"""What a pass says of each Instance that is not simply settled: for ``regroup explain`` and the log."""

from collections.abc import Callable

import pytest
from tests.omenative.ome_simulator import World

R = "RecreateInstanceOnPodRestart"


def crash(world: World) -> None:
    world.crash(world.pod(0, "worker"), reason="OOMKilled", code=137)


def young_wedge(world: World) -> None:
    world.wedge(world.pod(0, "worker"))


def unready(world: World) -> None:
    world.pod(0, "worker").probe_fails = True


def frozen(world: World) -> None:
    world.pause("Freeze")
    crash(world)


def rolling(world: World) -> None:
    world.roll("img:2")


@pytest.mark.parametrize(
    ("policy", "what", "rule", "words"),
    [
        (R, crash, "ome 4.6", ["restarts at incarnation 2 because of", "OOMKilled (exit 137)", "to leave rotation"]),
        ("None", young_wedge, "ome 4.4", ["waits in CrashLoopBackOff", "its repair opens at 12:01:00Z"]),
        (R, unready, "ome 3.1", ["1 of 2 pods serve", "no failure"]),
        (R, frozen, "ome 4.9", ["OOMKilled (exit 137)", "frozen"]),
        ("None", rolling, "ome 5.2", ["engine-00000001 to", "engine-00000002"]),
    ],
)
def test_reasons(policy: str, what: Callable[[World], None], rule: str, words: list[str]) -> None:
    """Each names its rule and its facts; a settled Instance needs none."""
    world = World(policy=policy, workers=1).settle()
    outcome = world.operate()
    assert outcome.reasons == ()
    what(world)
    outcome = world.operate()
    (reason,) = [one for one in outcome.reasons if one.index == 0]
    assert reason.rule == rule
    assert all(word in reason.why for word in words), reason.why


def test_a_restart_that_the_kubelet_does() -> None:
    """33: under None the reason says who restarts what."""
    world = World(policy="None").settle()
    world.run(5)
    world.crash(world.pod())
    world.pod().probe_fails = True
    outcome = world.operate()
    assert "the policy None leaves a container's restart to the kubelet" in outcome.reasons[0].why
