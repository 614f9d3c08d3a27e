"""The operator is killed after each single write of a story, and started again: the end is always the same (3.3, 4.6; C47)."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.omenative.ome_simulator import World

R = "RecreateInstanceOnPodRestart"
STRATEGY: dict[str, Any] = {"updateStrategy": {"type": "RecreatePod"}}
IN_PLACE: dict[str, Any] = {"updateStrategy": {"type": "InPlaceIfPossible"}}


def crash(world: World) -> None:
    world.crash(world.pod(0, "worker"))


def lose(world: World) -> None:
    world.vanish(world.pod(0, "worker"))


def fail(world: World) -> None:
    world.fail(world.pod(0, "leader"), reason="Evicted")


def roll(world: World) -> None:
    world.roll("img:2")


def scale(world: World) -> None:
    world.edit(replicas=2)


STORIES: list[tuple[str, dict[str, Any], Callable[[World], None], int, int]] = [
    ("a restart", {"policy": R}, crash, 2, 3),
    ("a restart for a lost pod", {"policy": R}, lose, 2, 3),
    ("a replacement under None", {"policy": "None"}, lose, 1, 1),
    ("a failed pod under None", {"policy": "None"}, fail, 1, 1),
    ("a roll that recreates", {"policy": R, "lifecycle": STRATEGY}, roll, 2, 3),
    ("a roll in place", {"policy": R, "lifecycle": IN_PLACE}, roll, 1, 0),
    ("a roll that surges", {"policy": R}, roll, 1, 3),
    ("a new Instance", {"policy": R}, scale, 1, 3),
]
"""Name, arguments, what happens, incarnation at the end, pods that are made on the way."""


def play(arguments: dict[str, Any], what: Callable[[World], None], *, lives: int | None) -> tuple[World, int]:
    """The story to its end; the operator dies after ``lives`` writes. Gives the writes that the first operator made."""
    world = World(workers=2, **arguments).settle()
    world.run(5)
    world.writes.clear()
    world.events.clear()
    made = world.status_writes
    what(world)
    world.lives = lives
    for _ in range(120):
        world.operate()
        if world.lives == 0:
            world.tick(3)
            world.lives = None
        world.tick()
    return world, world.status_writes - made + len(world.writes)


@pytest.mark.parametrize(("name", "arguments", "what", "incarnation", "created"), STORIES, ids=[one[0] for one in STORIES])
def test_killed_after_each_write(
    name: str, arguments: dict[str, Any], what: Callable[[World], None], incarnation: int, created: int
) -> None:
    """One incarnation, the same number of pods made, everything Ready, whichever write was the last."""
    plain, writes = play(arguments, what, lives=None)
    end = sorted((pod.name, pod.container().image) for pod in plain.pods.values())
    assert plain.ready()
    for lives in range(1, writes + 1):
        world, _ = play(arguments, what, lives=lives)
        assert world.ready(), (name, lives, world.status.rows)
        assert {row.incarnation for row in world.status.rows if row.index == world.status.rows[0].index} == {incarnation}
        assert sorted((pod.name, pod.container().image) for pod in world.pods.values()) == end, (name, lives)
        assert sum(write.startswith("create") for write in world.writes) == created, (name, lives)
        assert len(world.told("RestartTriggered")) <= (1 if what in {crash, lose} and arguments["policy"] == R else 0)
