"""How long a watch that failed pauses before the next try. Pure but for the injected randomness; knows no API."""

import random

BASE = 0.8
"""Seconds: the shortest pause."""
CAP = 20.0
"""Seconds: the longest pause. client-go waits up to 30; a failure that nobody hears of meanwhile is to be mended within 30 s of
the end of the trouble (case C116), and a group takes some seconds to come back."""
RESET = 120.0
"""Seconds without a failure after which the next one starts with the shortest pause again."""


class Backoff:
    """Pauses that double with each failure, with jitter, and start anew after a time without failures (client-go's rule)."""

    def __init__(self, *, rng: random.Random) -> None:
        self._rng = rng
        self._failures = 0
        self._last: float | None = None

    def reset(self) -> None:
        """All was well: the next failure starts with the shortest pause."""
        self._failures = 0

    def next(self, now: float) -> float:
        """Seconds to wait after a failure at ``now`` (monotonic)."""
        if self._last is not None and now - self._last >= RESET:
            self._failures = 0
        self._last = now
        pause = min(CAP / 1.5, BASE * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return pause * (1.0 + self._rng.random() / 2.0)
