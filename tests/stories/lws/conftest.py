"""The cluster that the stories share, and a namespace for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stories.lws.story_cluster import Kubectl, sandbox


@pytest.fixture(scope="session")
def story_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cluster for the whole folder: a story has a namespace of its own."""
    with sandbox(tmp_path_factory.mktemp("stories")) as file:
        yield file


@pytest.fixture
def k(story_kubeconfig: Path, request: pytest.FixtureRequest) -> Kubectl:
    """kubectl in a new namespace that is named after the story."""
    name = request.node.name.removeprefix("test_").replace("_", "-").split("[")[0][:50].strip("-")
    suffix = str(abs(hash(request.node.nodeid)) % 10_000)
    return Kubectl(story_kubeconfig, namespace=f"{name}-{suffix}")
