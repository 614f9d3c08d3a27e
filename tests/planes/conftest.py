"""The plane that a suite runs on."""

import pytest
from tests.planes.plane import Plane
from tests.planes.sandbox_plane import SandboxPlane


@pytest.fixture(params=[pytest.param("sandbox", marks=pytest.mark.looptime)])
def plane(request: pytest.FixtureRequest) -> Plane:
    """A control plane that does not run yet: ``async with plane:`` starts it with the operator on it, in the test's own time."""
    return SandboxPlane()
