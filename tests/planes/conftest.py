"""The plane that a suite runs on."""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog
from tests.planes.cluster_plane import VARIABLE, ClusterPlane
from tests.planes.http_plane import SandboxHttpPlane
from tests.planes.plane import Plane
from tests.planes.real_plane import RealPlane, SharedControl
from tests.planes.realplane.binaries import PlaneUnavailable, find
from tests.planes.sandbox_plane import SandboxPlane

NODES = 6
"""Room for 660 pods: one suite needs more than a page of 500."""
ON_SOCKETS = frozenset({"test_lws_recreate.py"})
"""The suites that run on the sandbox's sockets as well, which cost real time: those where the operator does the most."""


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


@pytest.fixture(scope="session")
def shared_control() -> Iterator[SharedControl]:
    """The real control plane of all tests: started at the first need, in this thread, stopped at the end."""
    shared = SharedControl()
    yield shared
    shared.stop()


_PARAMS = [
    pytest.param("sandbox", marks=pytest.mark.looptime),
    pytest.param("sandbox-http", marks=pytest.mark.http),
    pytest.param("real", marks=pytest.mark.real),
    *([pytest.param("cluster", marks=pytest.mark.cluster)] if os.environ.get(VARIABLE) else []),
]


@pytest.fixture(params=_PARAMS)
def plane(request: pytest.FixtureRequest) -> Plane:
    """A control plane that does not run yet: ``async with plane:`` starts it with the operator on it, in the test's own time."""
    match request.param:
        case "sandbox":
            return SandboxPlane(nodes=NODES)
        case "sandbox-http":
            return SandboxHttpPlane(nodes=NODES)
        case "cluster":
            return ClusterPlane(nodes=NODES)
        case _:
            require_real_plane()
            return RealPlane(nodes=NODES, shared=request.getfixturevalue("shared_control"))


def require_real_plane() -> None:
    """Fail where the real plane is asked for and cannot be had."""
    try:
        find(build=False)
    except PlaneUnavailable as error:
        pytest.fail(f"the real plane is asked for and not there: {error}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep off the sockets what does not belong there."""
    left = [item for item in items if item.get_closest_marker("http") is None or _on_sockets(item)]
    if len(left) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
        items[:] = left


def _on_sockets(item: pytest.Item) -> bool:
    spec = getattr(item, "callspec", None)
    return spec is None or spec.params.get("plane") != "sandbox-http" or item.path.name in ON_SOCKETS
