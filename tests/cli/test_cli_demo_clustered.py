"""``regroup demo --context`` on a sandbox of its own process: what a person with a cluster types."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.sandbox_process import Kubectl, Sandbox, environment, sandbox
from tests.sandbox import kubectl_binaries

from regroup.cli.errors import EXIT_INTERRUPTED

pytestmark = [pytest.mark.kubectl, pytest.mark.http]
LIMIT = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with sandbox(tmp_path_factory.mktemp("cluster"), "--nodes", "6") as running:
        yield running


def namespaces(cluster: Sandbox) -> set[str]:
    """Those of the demo that are there and not on their way out."""
    k = Kubectl(kubectl_binaries.find("package"), cluster.kubeconfig, "default")
    found = k("get", "ns", "-o", "jsonpath={range .items[*]}{.metadata.name}={.metadata.deletionTimestamp} {end}").split()
    return {name for name, _, going in (entry.partition("=") for entry in found) if name.startswith("demo-") and not going}


def _hear() -> None:
    """What a shell starts in the background is deaf to Ctrl-C, and so is all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _ignore() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize(
    ("how", "born"),
    [(signal.SIGINT, _hear), (signal.SIGTERM, _hear), (signal.SIGTERM, _ignore)],
    ids=["interrupted", "told to end", "told to end in the background"],
)
def test_an_interrupted_story_leaves_nothing(
    cluster: Sandbox, tmp_path: Path, how: signal.Signals, born: Callable[[], None]
) -> None:
    """Ctrl-C, and what a job's end sends, in the middle of a story: what it made is taken away all the same."""
    command = [sys.executable, "-m", "regroup.cli", "demo", "--context", "sandbox", "--story", "recreate"]
    env = {**environment(cluster.kubeconfig), "PYTHONUNBUFFERED": "1", "TMPDIR": os.fspath(tmp_path)}
    with subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=born,  # noqa: PLW1509 - one system call, before exec
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "kubectl apply" in line:
                    break
            assert namespaces(cluster), "it has begun"
            process.send_signal(how)
            rest, _ = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    assert process.returncode == EXIT_INTERRUPTED, rest
    assert namespaces(cluster) == set()
