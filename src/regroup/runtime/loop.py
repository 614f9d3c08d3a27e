"""Event loops: the machine's own, or one whose waits are shorter than the wall's.

On a fast loop everything that waits waits that much shorter, and ``LoopClock`` follows, so that a cluster lives through an
hour in a minute without one line of it knowing.
"""

import asyncio
import gc
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # not built for this platform
    uvloop = None  # type: ignore[assignment]  # the module or nothing

T = TypeVar("T")


class _FastSelector(selectors.DefaultSelector):
    """A selector that waits only a part of the time that it is asked to, and knows how much it has saved."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed
        self.saved = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        found = super().select(None if timeout is None else timeout / self._speed)
        waited = time.monotonic() - began
        # A machine that is busy wakes us late: that is its time, not the cluster's.
        self.saved += (waited if timeout is None else min(waited, timeout / self._speed)) * (self._speed - 1)
        return found


class FastLoop(asyncio.SelectorEventLoop):
    """A loop whose waits take a part of their time. Work takes what it takes: on a busy machine nothing comes too late that would
    not have been late at the wall's own speed."""

    def __init__(self, *, speed: float) -> None:
        self._fast = _FastSelector(speed)
        super().__init__(self._fast)

    def time(self) -> float:
        return super().time() + self._fast.saved


def run(main: Coroutine[Any, Any, T], *, speed: float = 1.0, debug: bool = False) -> T:
    """Run ``main`` to its end: with uvloop where there is one, or with waits that end ``speed`` times as fast.

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
