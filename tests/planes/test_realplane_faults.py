"""Control planes that die, and what earlier ones left behind (issue 4, faults)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.planes.conftest import require_real_plane
from tests.planes.real_plane import RealPlane, SharedControl
from tests.planes.realplane.binaries import Binaries
from tests.planes.realplane.controlplane import ControlPlane, PlaneFailed

_KILLED = """
import time
from tests.planes.realplane.controlplane import ControlPlane
ControlPlane().start()
print("up", flush=True)
time.sleep(600)
"""
GONE_LIMIT = 10.0
"""Seconds in which the children of a killed process are gone."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; gives the folder of the runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runs = tmp_path / "regroup" / "runs"
    runs.mkdir(parents=True)
    return runs


def idle() -> ControlPlane:
    """One that is not started: looking for what is left comes first."""
    return ControlPlane(binaries=Binaries({}, ours=True))


def dead_pid() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_logs_of_an_earlier_run_are_told(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named with their folder, and neither removed nor used."""
    left = cache / f"{dead_pid()}-left"
    left.mkdir()
    (left / "etcd.pid").write_text(str(dead_pid()))
    idle()
    assert f"an earlier run left its logs in {left}" in capsys.readouterr().err
    assert left.exists()


def test_a_process_of_an_earlier_run_is_an_error(cache: Path) -> None:
    """It would hold memory and a port: named with its folder, never reused and never killed by us."""
    left = cache / f"{dead_pid()}-left"
    left.mkdir()
    program = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", left.name]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        # In the very moment of its start a process has no command line yet.
        assert process.stdout is not None
        process.stdout.readline()
        (left / "etcd.pid").write_text(str(process.pid))
        with pytest.raises(PlaneFailed, match=f"an earlier run left etcd running: stop the pids in {left}"):
            idle()
        assert process.poll() is None


def test_a_newcomer_with_the_pid_of_an_earlier_run_is_left_alone(cache: Path) -> None:
    """A pid that was given to another program since is no left-over."""
    left = cache / f"{dead_pid()}-left"
    left.mkdir()
    (left / "etcd.pid").write_text(str(os.getpid()))
    idle()


@pytest.mark.real
async def test_a_control_plane_that_dies_fails_its_test_with_its_last_lines() -> None:
    """What died, how, and its last log lines, in the place of what the test saw of it; the next test has another."""
    require_real_plane()
    shared = SharedControl()
    seen: list[Path] = []

    async def story() -> None:
        async with RealPlane(nodes=1, shared=shared) as plane:
            seen.append(plane.control.folder)
            os.kill(int((plane.control.folder / "kube-apiserver.pid").read_text()), signal.SIGKILL)
            await plane.wait_available("never", timeout=1)

    try:
        with pytest.raises(PlaneFailed, match=r"kube-apiserver ended with code -9; its last lines:\n."):
            await story()
        assert (seen[0] / "kube-apiserver.log").stat().st_size > 0, "its logs are kept"
        assert shared.get().folder != seen[0]
    finally:
        shared.stop()


@pytest.mark.real
def test_nothing_outlives_a_killed_test_process() -> None:
    """Every part goes with the process that started it, also when that is killed."""
    require_real_plane()
    process = subprocess.Popen([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 4
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + GONE_LIMIT
    while any(Path(f"/proc/{pid}").exists() for pid in children):
        assert time.monotonic() < deadline, children
        time.sleep(0.05)
