"""The plane that a suite runs on."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from tests.planes.plane import Plane
from tests.planes.real_plane import RealPlane
from tests.planes.realplane.binaries import PlaneUnavailable, find
from tests.planes.sandbox_plane import SandboxPlane

NODES = 6
"""Room for 660 pods: one suite needs more than a page of 500."""


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    """Warnings and worse, one line each, with a traceback but without every local variable of a whole cluster."""
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
    yield
    structlog.reset_defaults()


@pytest.fixture(params=[pytest.param("sandbox", marks=pytest.mark.looptime), pytest.param("real", marks=pytest.mark.real)])
def plane(request: pytest.FixtureRequest) -> Plane:
    """A control plane that does not run yet: ``async with plane:`` starts it with the operator on it, in the test's own time."""
    if request.param == "sandbox":
        return SandboxPlane(nodes=NODES)
    try:
        find(build=False)
    except PlaneUnavailable as error:
        pytest.fail(f"the real plane is asked for and not there: {error}")
    return RealPlane(nodes=NODES)
