"""The plane that a suite runs on."""

import logging
import os
from collections import Counter
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
ON_SOCKETS = frozenset(
    {
        "test_a_container_restart_recreates_the_group",
        "test_a_deleted_worker_recreates_the_group",
        "test_a_rolling_update_replaces_each_pod_once",
        "test_a_stop_in_the_middle_of_a_recreation",
        "test_an_idle_operator_hands_over_at_once",
        "test_deleting_it_deletes_everything",
        "test_killed_at_every_write",
        "test_refusals_name_the_field",
        "test_names_are_refused_or_work",
        "test_scale_through_the_subresource",
        "test_the_command_ends_on_sigterm",
        "test_the_status_tells_the_loss",
        "test_what_is_refused_and_why",
        "test_what_is_taken",
    }
)
"""The tests that run on the sandbox's sockets as well, which cost real time: what differs there is the way of a request."""

EVERY = "REGROUP_EVERY_WRITE"
"""Set to run the tests that kill the operator at each write at every write on the real plane too."""
SAMPLE = 4
"""Else they run there at every so many: the sandbox has them all, and each costs seconds of real time."""


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
    """Keep off the slow planes what they are not needed for."""
    seen: Counter[tuple[str, str, str]] = Counter()
    left: list[pytest.Item] = []
    off: list[pytest.Item] = []
    for item in items:
        spec = getattr(item, "callspec", None)
        plane = spec.params.get("plane", "") if spec is not None else ""
        name = getattr(item, "originalname", "")
        key = (item.path.name, name, plane)
        (left if _runs(plane, name, number=seen[key]) else off).append(item)
        seen[key] += 1
    if off:
        config.hook.pytest_deselected(items=off)
        items[:] = left


def _runs(plane: str, name: str, *, number: int) -> bool:
    """Whether the ``number``-th case of a test runs on a plane."""
    if plane == "sandbox-http":
        return name in ON_SOCKETS and number == 0
    if plane == "real" and "killed_at" in name and not os.environ.get(EVERY):
        return number % SAMPLE == 0
    return True
