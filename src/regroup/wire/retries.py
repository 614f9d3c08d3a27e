"""Whether a failed call is sent again, and after how long. Pure but for the randomness that is handed in.

429 was not acted on, so any verb may follow it. After another failure that may have been acted on, only calls that may be done
twice are sent again. Attempts, pauses and the whole time are bounded: a longer wait belongs to the caller's own back-off.
"""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial

from regroup.wire.errors import ConnectionFailed, ServerError, TooManyRequests, WireError

ATTEMPTS = 4
"""How often one call is sent at most."""
RETRY_AFTER_LIMIT = 20.0
"""Seconds: a longer ``Retry-After`` ends the call; the error carries it."""
TOTAL_LIMIT = 30.0
"""Seconds from the first attempt after which no further one begins."""
BACKOFF = 0.1
PASSING = frozenset({500, 502, 503, 504})
"""The 5xx that may pass by themselves."""
_WALL: Callable[[], datetime] = partial(datetime.now, UTC)
"""An HTTP date is in the wall's time, whatever clock the program runs by."""


def next_pause(error: WireError, *, attempt: int, elapsed: float, again: bool, rng: random.Random) -> float | None:
    """Seconds to wait before attempt ``attempt + 1``; None when ``error`` is final.

    ``elapsed``: seconds since the first attempt began. ``again``: the call may be done twice.
    """
    backoff = BACKOFF * 2.0**attempt * (0.5 + rng.random())
    match error:
        case ConnectionFailed():
            pause = backoff if again or not error.maybe_done else None
        case TooManyRequests():
            pause = backoff * 10 if error.retry_after is None else error.retry_after
        case ServerError() if again and error.code in PASSING:
            pause = backoff if error.retry_after is None else error.retry_after
        case _:
            pause = None
    if pause is None or attempt >= ATTEMPTS or pause > RETRY_AFTER_LIMIT or elapsed + pause > TOTAL_LIMIT:
        return None
    return pause


def retry_after(value: str | None, *, now: Callable[[], datetime] = _WALL) -> float | None:
    """Seconds from a ``Retry-After`` header, which holds seconds or an HTTP date; None when it is missing or neither."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000": UTC of no known place
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now()).total_seconds())
