"""How often a replica is looked at while it is busy. Only a memory: what it forgets is looked at sooner.

A pass reads every row of its replica, and in a storm each of its pods brings several: hundreds of Instances would cost their own
number squared. So passes over a replica follow each other freely for a while, as one failure needs them, and then at a distance
that grows with its rows. What happens meanwhile is seen by the next pass, as one.
"""

from dataclasses import dataclass

from regroup.omenative.controller.stores import ReplicaKey

FREE = 12.0
"""Passes that follow each other at once: more than a restart of one Instance has."""
PER_ROW = 0.0005
"""Seconds between two passes after those, for each row."""


@dataclass(slots=True)
class _Account:
    left: float
    at: float


class Pace:
    """Keeps how many free passes each replica has left."""

    def __init__(self) -> None:
        self._accounts: dict[ReplicaKey, _Account] = {}

    def wait(self, key: ReplicaKey, *, rows: int, now: float) -> float:
        """Seconds until the replica is to be looked at; 0 takes one pass off its account. ``now`` is monotonic."""
        interval = max(1, rows) * PER_ROW
        account = self._accounts.setdefault(key, _Account(FREE, now))
        account.left = min(FREE, account.left + (now - account.at) / interval)
        account.at = now
        if account.left < 1.0 - _ROUNDING:
            return (1.0 - account.left) * interval
        account.left -= 1.0
        return 0.0

    def forget(self, key: ReplicaKey) -> None:
        """The replica is gone."""
        self._accounts.pop(key, None)


_ROUNDING = 1e-6
"""A timer may fire a little early: what is due within that is due, or a pass would put itself off without end."""
