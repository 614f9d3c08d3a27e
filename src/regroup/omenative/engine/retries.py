"""The retry ladder of a revision that fails for reasons of its own: back-off, hold, release (spec/omenative.md 5.4). Pure.

Only what the workload itself causes counts. Failures of Instances that were started together count as one attempt: an attempt
counts if it began after the last failure that was counted.
"""

import re
from datetime import datetime, timedelta

import msgspec

from regroup.omenative.api.replica import RetryBlock
from regroup.omenative.engine.draft import Draft
from regroup.omenative.keys import RELEASE_HELD_REVISION
from regroup.omenative.outcome import OF_REPLICA, DropAnnotation

BACKOFF = "Backoff"
HELD = "Held"
IN_PROGRESS = "RetryInProgress"

INVALID_POD = "InvalidPod"
WORKLOAD_CAUSED = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError", INVALID_POD})
"""Failures for which trying again alone cannot be expected to help."""
_RECYCLE_FIRST, _RECYCLE_MOST = 1.0, 60.0
_HASH = re.compile(r"[0-9a-f]{8}")
_SHOWN = 80


def admits(draft: Draft, revision: str) -> bool:
    """Whether an attempt at ``revision`` may start now. Asks for a wake-up when it may start later."""
    block = draft.blocks.get(revision)
    if block is None or block.state == IN_PROGRESS:
        return True
    if block.state == HELD:
        return False
    if block.next_retry_at is None or draft.now >= block.next_retry_at:
        return True
    draft.wake_at(block.next_retry_at)
    return False


def held(draft: Draft, revision: str) -> bool:
    """No attempt at ``revision`` starts before it is released or replaced."""
    block = draft.blocks.get(revision)
    return block is not None and block.state == HELD


def why_not(draft: Draft, revision: str) -> str:
    """What keeps an attempt at ``revision`` from starting."""
    block = draft.blocks.get(revision)
    if block is None:
        return ""
    when = f" until {block.next_retry_at:%H:%M:%S}Z" if block.state == BACKOFF and block.next_retry_at else ""
    return f"revision {revision} failed {block.attempts_started} time(s) ({block.reason}): {block.state}{when}"


def started(draft: Draft, revision: str) -> None:
    """An attempt at ``revision`` starts."""
    block = draft.blocks.get(revision)
    if block is not None and block.state == BACKOFF:
        draft.blocks[revision] = msgspec.structs.replace(block, state=IN_PROGRESS, next_retry_at=None)


def succeeded(draft: Draft, revision: str) -> None:
    """An Instance came up at ``revision``: what happened before is forgotten."""
    draft.blocks.pop(revision, None)


def failed(draft: Draft, revision: str, *, reason: str, began: datetime | None) -> None:
    """An attempt at ``revision`` that began at ``began`` failed for ``reason``."""
    if reason not in WORKLOAD_CAUSED or not revision:
        return
    block = draft.blocks.get(revision) or RetryBlock(target_revision=revision, first_failure_at=draft.stamp)
    if block.last_failure_at is not None and began is not None and began <= block.last_failure_at:
        return
    attempts = block.attempts_started + 1
    retry = draft.view.settings.live.update_retry
    over = retry is None or attempts >= retry.max_attempts
    wait = None if retry is None or over else delay(attempts, retry.initial_delay, retry.max_delay, retry.multiplier)
    draft.blocks[revision] = msgspec.structs.replace(
        block,
        state=HELD if over else BACKOFF,
        attempts_started=attempts,
        next_retry_at=None if wait is None else draft.stamp + timedelta(seconds=wait),
        last_failure_at=draft.stamp,
        reason=reason,
    )
    if over:
        draft.tell_replica(
            "RetryHeld",
            f"update to revision {revision} held after {attempts} failed attempt(s) (last failure: {reason}); "
            "publish a corrected revision or raise lifecycle.updateRetry limits",
            warning=True,
            colon=False,
        )
    else:
        draft.wake_at(draft.blocks[revision].next_retry_at)


def delay(number: int, initial: float, most: float, multiplier: float) -> float:
    """Seconds before attempt ``number`` + 1: min(initial * multiplier ** (number - 1), most). No number is too large."""
    wait = initial
    for _ in range(number - 1):
        wait *= multiplier
        if wait >= most:
            break
    return min(wait, most)


def recycle_delay(draft: Draft, recycled: int) -> float:
    """Seconds between two recycles of ended pods of one operation; the first does not wait (3.6)."""
    if recycled <= 0:
        return 0.0
    retry = draft.view.settings.live.update_retry
    if retry is None:
        return delay(recycled, _RECYCLE_FIRST, _RECYCLE_MOST, 2.0)
    return delay(recycled, retry.initial_delay, retry.max_delay, retry.multiplier)


def prune(draft: Draft) -> None:
    """Forget revisions that nothing runs, moves to or wants."""
    alive = {draft.plan.target}
    for row in draft.rows.values():
        alive |= {row.running_revision, row.target_revision}
    for name in [name for name in draft.blocks if name not in alive]:
        del draft.blocks[name]


def release(draft: Draft) -> None:
    """Carry out ``ome.io/release-held-revision``: a revision's whole name or its hash."""
    value = draft.view.replica.metadata.annotations.get(RELEASE_HELD_REVISION)
    if value is None:
        return
    draft.act(DropAnnotation(index=OF_REPLICA, key=RELEASE_HELD_REVISION, value=value))
    wanted = value.strip()
    name = draft.shapes.named(wanted) if _HASH.fullmatch(wanted) else wanted
    block = draft.blocks.pop(name, None) if name else None
    shown = wanted[:_SHOWN]
    if block is None:
        draft.tell_replica("RetryBlockReleaseSkipped", f'release of held revision "{shown}" skipped: it has no retry block')
        return
    draft.tell_replica("RetryBlockReleased", f"released revision {name} after {block.attempts_started} failed attempt(s)")
