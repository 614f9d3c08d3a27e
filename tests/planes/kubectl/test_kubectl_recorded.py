"""kubectl on the sandbox says what it says on Kubernetes: against the record, with the kubectl that it was made with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.planes.kubectl.clusters import sandbox
from tests.planes.kubectl.comparing import differences
from tests.planes.kubectl.recording import recorded
from tests.planes.kubectl.table import Section, load
from tests.planes.kubectl.typist import Typist
from tests.sandbox import kubectl_binaries

pytestmark = [pytest.mark.kubectl, pytest.mark.http]
SECTIONS = load()
VERSION, RECORDED = recorded()


def test_the_record_is_of_this_table() -> None:
    """Each section and each command, in order."""
    found = {name: [command for command, _ in said] for name, said in RECORDED.items()}
    assert found == {str(section): [str(step) for step in section.steps] for section in SECTIONS}


@pytest.fixture
async def typist(tmp_path: Path) -> AsyncIterator[Typist]:
    binary = kubectl_binaries.find("package")
    async with sandbox() as config:
        yield Typist(binary, config, home=tmp_path)


@pytest.mark.parametrize("section", SECTIONS, ids=str)
async def test_the_sandbox_says_what_kubernetes_says(section: Section, typist: Typist) -> None:
    """The same exit code and the same words for every command, but ages and names."""
    assert await typist.find_version() == VERSION, "another kubectl: record anew (python -m tests.planes.kubectl.recording)"
    ours = await typist.play(section)
    found = differences(section, real=[said for _, said in RECORDED[str(section)]], ours=ours)
    assert not found, f"{len(found)} differences\n" + "\n".join(found)
