"""What all tests share."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
import structlog


def pytest_configure() -> None:
    """Begin without a current event loop: before Python 3.14 asking for one makes one, which pytest-asyncio does before an async
    test that follows a sync one, and which nobody closes."""
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """Commands send the logs of the whole process somewhere: no test inherits that, least of all a stream that is closed."""
    before = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = before
