"""What a story is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from regroup.cli.demo.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One story: its name, its title, and how it goes."""

    name: str
    title: str
    play: Callable[[Stage], Awaitable[None]]
    namespace: str = ""
    """Where it plays, if the seed's manifest names a namespace; else one of its own, ``demo-<name>``."""
    simulated: bool = False
    """It breaks what only simulated nodes let it break."""
    holds_back: bool = False
    """It needs the sandbox's own scheduler, which can be told to find no place for a pod."""
