"""The cluster that the stories of OMENative share, and a namespace for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stories.lws.story_cluster import sandbox
from tests.stories.ome.ome_cluster import OmeKubectl


@pytest.fixture(scope="session")
def ome_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cluster for the whole folder."""
    with sandbox(tmp_path_factory.mktemp("ome-stories")) as file:
        yield file


@pytest.fixture
def k(ome_kubeconfig: Path, request: pytest.FixtureRequest) -> OmeKubectl:
    """kubectl in a new namespace that is named after the story."""
    name = request.node.name.removeprefix("test_").replace("_", "-").split("[")[0][:50].strip("-")
    suffix = str(abs(hash(request.node.nodeid)) % 10_000)
    return OmeKubectl(ome_kubeconfig, namespace=f"{name}-{suffix}")
