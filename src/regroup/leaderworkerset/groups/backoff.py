"""How long a group must have existed before it may be recreated (spec/leaderworkerset.md 5.7). Pure, exact integers."""

from datetime import datetime, timedelta

from regroup.leaderworkerset.view import Backoff


def delay(backoff: Backoff, *, count: int) -> int:
    """``min(base * 2^count, cap)`` seconds; a negative count is 0. Constant time whatever the count."""
    count = max(0, count)
    if count >= backoff.cap.bit_length():
        return backoff.cap
    return min(backoff.base << count, backoff.cap)


def due(backoff: Backoff, *, count: int, created: datetime | None, now: datetime) -> datetime | None:
    """When the group may be recreated, or None when it may be now.

    Measured from the leader's creation. A leader without a creation time waits for nothing; a creation time in the future
    (clock skew) counts as now, so nobody ever waits longer than the delay.
    """
    if created is None:
        return None
    at = min(created, now) + timedelta(seconds=delay(backoff, count=count))
    return at if at > now else None
