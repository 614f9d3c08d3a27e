"""Plays stories one after the other, each in a namespace of its own that is taken away afterwards."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from rich.console import Console

from regroup.cli.demo.hands import Hands
from regroup.cli.demo.screen import Screen
from regroup.cli.demo.stage import CheckFailed, Stage
from regroup.cli.demo.story import Story
from regroup.runtime.clock import Clock
from regroup.wire.client import Client

Check = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Place:
    """Where stories play: a cluster, what can be done to it, its time, and what is put behind each namespace's name."""

    client: Client
    hands: Hands
    clock: Clock
    suffix: str = ""


async def play(stories: Sequence[Story], place: Place, console: Console) -> list[Check]:
    """Play all stories and give what was checked. A story that cannot go on ends; the next one begins."""
    checks: list[Check] = []
    for story in stories:
        screen = Screen(console, started=place.clock.now())
        screen.title(story.title)
        if story.simulated and not place.hands.loses_nodes:
            screen.say("  Left out here: it breaks what only simulated nodes let a story break.")
            continue
        if story.holds_back and not place.hands.holds_back:
            screen.say("  Left out here: it needs the sandbox's own scheduler, which can be told to find no place for a pod.")
            continue
        stage = Stage(place.client, place.hands, place.clock, screen, f"{story.namespace or f'demo-{story.name}'}{place.suffix}")
        await stage.open()
        try:
            with suppress(CheckFailed):
                await story.play(stage)
        finally:
            await stage.close()
        checks += stage.checks
    console.print()
    return checks
