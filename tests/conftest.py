"""What all tests share."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# The same examples in every run: a test that fails now and then tells nobody what broke it. New ones are looked for by hand,
# with --hypothesis-profile=default. No example has a time limit: how busy a machine is proves nothing.
settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


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
