"""The only place where time is read. All else takes a ``Clock``; all waiting is asyncio's.

A loop whose ``time()`` is virtual or runs faster than the wall makes the whole program do so, because ``LoopClock`` follows it.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time (aware, UTC) and a monotonic count of seconds."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clock, for a running operator."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class LoopClock:
    """Wall time that advances as the running loop's ``time()`` does: virtual in tests, sped up in a sandbox."""

    def __init__(self, *, start: datetime) -> None:
        self._start = start
        self._origin: float | None = None

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def _elapsed(self) -> float:
        current = asyncio.get_running_loop().time()
        if self._origin is None:
            self._origin = current
        return current - self._origin


def timestamp(moment: datetime) -> str:
    """``metav1.Time``: RFC 3339 in UTC with whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """``metav1.MicroTime``: RFC 3339 in UTC with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
