"""Slows down a group whose pods end the moment they start (case C136). Pure.

A StatefulSet replaces a failed pod at once, and a policy without restartBackoff recreates at once: a kubelet that rejects every
pod would be asked as often as the API server can bear. Each leader waits behind our gate anyway, so that is where it is held: a
little longer each time, while the leaders before it ended within moments. A group that only fails often is not slowed: that is
restartBackoff's business.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from regroup.kube.pod import Pod

MOMENT = 1.0
"""Seconds: a leader that is replaced sooner after its admission ended at once. Creation times are whole seconds, so that up to
twice as long may count."""
FIRST = 0.5
"""Seconds of the first wait; each further one is twice as long ..."""
LONGEST = 30.0
"""... up to this."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The last leader of a group that was let in. ``quick``: how many before it, in a row, ended at once."""

    leader_uid: str
    at: datetime
    quick: int = 0


def hold_until(last: Admitted | None, leader: Pod, *, now: datetime) -> datetime | None:
    """When ``leader`` may be let in at the earliest; None: now."""
    quick = _quick(last, leader)
    if last is None or quick == 0:
        return None
    until = last.at + timedelta(seconds=min(LONGEST, FIRST * 2.0 ** min(quick - 1, 30)))
    return until if until > now else None


def admitted(last: Admitted | None, leader: Pod, *, now: datetime) -> Admitted:
    """What to remember once ``leader`` was let in."""
    return Admitted(leader.metadata.uid, now, _quick(last, leader))


def _quick(last: Admitted | None, leader: Pod) -> int:
    created = leader.metadata.creation_timestamp
    if last is None or created is None:
        return 0
    if last.leader_uid == leader.metadata.uid:
        return last.quick
    return last.quick + 1 if (created - last.at).total_seconds() < MOMENT else 0
