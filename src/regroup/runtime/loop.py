"""Event loops: the machine's own, or one whose time runs faster than the wall.

On a fast loop everything that waits waits that much shorter, and ``LoopClock`` follows, so that a cluster lives through an
hour in a minute without one line of it knowing.
"""

import asyncio
import gc
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # not built for this platform
    uvloop = None  # type: ignore[assignment]  # the module or nothing

T = TypeVar("T")


class _FastSelector(selectors.DefaultSelector):
    """A selector that waits only a part of the time that it is asked to."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout / self._speed)


class FastLoop(asyncio.SelectorEventLoop):
    """A loop whose ``time()`` runs ``speed`` times as fast as the wall."""

    def __init__(self, *, speed: float) -> None:
        super().__init__(_FastSelector(speed))
        self._speed = speed
        self._origin = super().time()

    def time(self) -> float:
        now = super().time()
        origin = getattr(self, "_origin", now)
        return origin + (now - origin) * getattr(self, "_speed", 1.0)


def run(main: Coroutine[Any, Any, T], *, speed: float = 1.0, debug: bool = False) -> T:
    """Run ``main`` to its end: with uvloop where there is one, or ``speed`` times as fast as the wall.

    Raises ``ValueError`` for a speed at which time would not run forwards.
    """
    if speed <= 0:
        main.close()
        raise ValueError(f"speed must be more than 0, got {speed:g}")
    if speed != 1.0:
        factory: Any = lambda: FastLoop(speed=speed)  # noqa: E731 - a factory, not a function of its own
    else:
        factory = uvloop.new_event_loop if uvloop is not None else None
    # What was imported lives as long as the process: looking through it at each full collection would only hold up the loop.
    gc.freeze()
    with asyncio.Runner(loop_factory=factory, debug=debug) as runner:
        return runner.run(main)
