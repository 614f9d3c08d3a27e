"""Doing many alike writes at once without flooding a server that refuses them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

LARGEST_BATCH = 500


async def slow_start(steps: Sequence[Callable[[], Awaitable[None]]]) -> int:
    """Run the steps in batches of 1, 2, 4, ...; the batch that has a failure is the last. The number that succeeded.

    Raises the first error of the failed batch after the whole batch is done. When the server refuses all of them alike (quota,
    admission), that costs one request instead of hundreds.
    """
    done = 0
    position = 0
    size = 1
    while position < len(steps):
        batch = steps[position : position + size]
        results = await asyncio.gather(*(step() for step in batch), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        done += len(batch) - len(errors)
        if errors:
            raise errors[0]
        position += len(batch)
        size = min(size * 2, LARGEST_BATCH)
    return done
