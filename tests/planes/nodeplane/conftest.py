"""The machine that the node suite runs on: one for all tests, whole again before each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.planes.node_plane import NodePlane
from tests.planes.nodeplane.machine import Machine
from tests.planes.realplane.binaries import PlaneUnavailable


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """A control plane with two nodes. A missing one is a failure here: who does not want it does not ask for the marker."""
    try:
        built = Machine()
    except PlaneUnavailable as error:
        pytest.fail(f"the node plane is asked for and not there: {error}")
    with built:
        yield built


@pytest.fixture
def plane(machine: Machine, tmp_path: Path) -> Iterator[NodePlane]:
    """The plane of one test; ``async with plane:`` starts the operator."""
    machine.check()
    yield NodePlane(machine, folder=tmp_path)
    for node in machine.nodes.values():
        if not node.on:
            node.power_on()
    machine.wait_ready()
