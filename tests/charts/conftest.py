"""Helm, and a cluster to install with it."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from charts.chart import FOLDER
from tests.planes.realplane.binaries import PlaneUnavailable, find_helm
from tests.planes.realplane.controlplane import ControlPlane

RELEASE = "keeper"
"""Not the name of anything in the chart: no object may depend on it."""
LIMIT = 180
"""Seconds for one command."""


@dataclass(frozen=True)
class Helm:
    """The command, with folders and a kubeconfig of its own."""

    binary: Path
    home: Path
    kubeconfig: Path

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """One command to its end, whatever that is."""
        environment = {"HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), "PATH": ""}
        command = [str(self.binary), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)

    def __call__(self, *words: str) -> str:
        """One command that must succeed; gives what it prints."""
        done = self.run(*words)
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
        return done.stdout

    def template(self, *words: str, namespace: str) -> str:
        """The chart, rendered without a cluster."""
        return self("template", RELEASE, str(FOLDER), "--namespace", namespace, *words)


@pytest.fixture(scope="session")
def helm_binary() -> Path:
    """Fails where a test asks for it and it cannot be had."""
    try:
        return find_helm()
    except PlaneUnavailable as error:
        pytest.fail(f"helm is asked for and not there: {error}")


@pytest.fixture
def helm(helm_binary: Path, tmp_path: Path) -> Helm:
    """Helm without a cluster."""
    return Helm(helm_binary, tmp_path, tmp_path / "none.kubeconfig")


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    """A control plane of the test's own: what it installs is the whole cluster's."""
    with ControlPlane() as control:
        yield control


@pytest.fixture
def installer(helm_binary: Path, tmp_path: Path, control: ControlPlane) -> Helm:
    """Helm with that cluster."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(control.kubeconfig())
    return Helm(helm_binary, tmp_path, kubeconfig)
