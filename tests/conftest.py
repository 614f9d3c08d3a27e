"""What all tests share."""

import asyncio


def pytest_configure() -> None:
    """Begin without a current event loop: before Python 3.14 asking for one makes one, which pytest-asyncio does before an async
    test that follows a sync one, and which nobody closes."""
    asyncio.set_event_loop(None)
