"""Every kubectl that can be had, on Kubernetes and on the sandbox: the same exit codes and the same words."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.planes.conftest import require_real_plane
from tests.planes.kubectl.clusters import kubernetes, sandbox
from tests.planes.kubectl.comparing import changes, differences
from tests.planes.kubectl.recording import recorded
from tests.planes.kubectl.table import load
from tests.planes.kubectl.typist import Typist
from tests.sandbox import kubectl_binaries

pytestmark = [pytest.mark.real, pytest.mark.kubectl]
EVERY = "REGROUP_EVERY_KUBECTL"
"""Set to play the versions between the machine's oldest and its newest too."""


def machine_binaries() -> list[str]:
    """The machine's own kubectls: those of its dispatcher, oldest first, else the one that there is."""
    own = str(Path(sys.executable).parent)
    others = os.pathsep.join(part for part in os.environ.get("PATH", "").split(os.pathsep) if part != own)
    found = shutil.which("kubectl", path=others)
    if found is None:
        return []
    versions = [str(path) for path in Path(found).resolve().parent.glob("kubectl.1.*")]
    versions.sort(key=lambda path: int(path.rpartition(".")[2]))
    if not versions:
        return [found]
    return versions if os.environ.get(EVERY) else [versions[0], versions[-1]]


async def test_the_record_is_what_kubernetes_says(tmp_path: Path) -> None:
    """The kubectl of the package, played anew: nothing in the record is made up or out of date."""
    require_real_plane()
    version, before = recorded()
    found = []
    async with kubernetes() as config:
        typist = Typist(kubectl_binaries.find("package"), config, home=tmp_path)
        assert await typist.find_version() == version, "another kubectl: record anew (python -m tests.planes.kubectl.recording)"
        for section in load():
            found += changes(section, before=before[str(section)], now=await typist.play(section))
    assert not found, f"{len(found)} answers differ\n" + "\n".join(found)


@pytest.mark.parametrize("binary", machine_binaries(), ids=lambda path: Path(path).name)
async def test_both_say_the_same(binary: str, tmp_path: Path) -> None:
    """The machine's kubectls. What is excused for its version need not differ in another one."""
    require_real_plane()
    homes = [tmp_path / name for name in ("kubernetes", "sandbox")]
    found = []
    async with kubernetes() as real_config, sandbox() as own_config:
        typists = []
        for home, config in zip(homes, (real_config, own_config), strict=True):
            home.mkdir()
            typists.append(Typist(binary, config, home=home))
            await typists[-1].find_version()
        for section in load():
            real, ours = await asyncio.gather(*(typist.play(section) for typist in typists))
            found += differences(section, real=real, ours=ours, needed=False)
    assert not found, f"{len(found)} differences\n" + "\n".join(found)
