"""Runs a command in a house of its own: namespaces for network, mounts and processes, in which a whole cluster can live.

``python -m tests.planes.nodeplane.house [--install] -- COMMAND...`` makes the house, runs the command in it and takes all away
afterwards. What the command starts dies with the house, also when this process is killed: the kernel sees to that. Only two
things outlive a killed house, a folder and control groups; both bear its name, are told by the next run and never used again.
"""

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.planes.nodeplane import cgroups, network, packages
from tests.planes.nodeplane.node import KEPT_LOGS
from tests.planes.realplane.binaries import UNAVAILABLE, PlaneUnavailable, cache_folder, find, find_helm, find_kubelet
from tests.planes.realplane.controlplane import PlaneFailed

FOLDER = "REGROUP_NODE_HOUSE"
"""Environment variable that tells the command which folder is the house's. It is set in a house and nowhere else."""
_OPEN = "REGROUP_NODE_HOUSE_OPEN"
_BELOW = (Path("/var/lib"), Path("/var/log"), Path("/run"))
_PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> int:
    """The command line; gives the exit code."""
    parser = argparse.ArgumentParser(prog="house", description="Run a command where a cluster with real nodes can live.")
    parser.add_argument("--install", action="store_true", help="install Debian's packages that are missing")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    try:
        ready(install=options.install)
        tell_leftovers()
        return _live(options.command)
    except (PlaneUnavailable, PlaneFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return UNAVAILABLE if isinstance(error, PlaneUnavailable) else 1


def ready(*, install: bool) -> None:
    """Raise ``PlaneUnavailable``, in one line, when no house can stand here. Builds the binaries when they are not built yet."""
    if sys.platform != "linux":
        raise PlaneUnavailable("no node plane here: it needs Linux")
    if os.geteuid() != 0:
        raise PlaneUnavailable("no node plane here: it needs root, for namespaces, mounts and control groups")
    folder = houses().resolve()
    if any(folder.is_relative_to(below) for below in _BELOW):
        raise PlaneUnavailable(f"no node plane here: {folder} is hidden from nodes; set XDG_CACHE_HOME to another place")
    packages.ensure(install=install)
    find()
    find_kubelet()
    find_helm()
    probe = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True, check=False
    )
    if probe.returncode != 0:
        raise PlaneUnavailable(f"no node plane here: this machine gives no namespaces: {probe.stderr.strip()}")
    name = f"{cgroups.PREFIX}probe-{os.getpid()}"
    try:
        cgroups.make(name)
    except OSError as error:
        raise PlaneUnavailable(f"no node plane here: this machine gives no control groups: {error}") from error
    finally:
        cgroups.remove(name)


def houses() -> Path:
    """Where each house has its folder."""
    return cache_folder() / "houses"


def tell_leftovers() -> None:
    """Say what an earlier house left. Raises ``PlaneFailed`` when something of it is still running."""
    for name, pids in cgroups.found().items():
        if _owner_lives(name.removeprefix(cgroups.PREFIX)):
            continue
        if pids:
            raise PlaneFailed(f"an earlier run left processes in the control group {name}: stop {', '.join(map(str, pids))}")
        print(f"an earlier run left the control group {name}; remove it below {cgroups.ROOT}", file=sys.stderr)
    for folder in sorted(houses().glob("*-*")) if houses().is_dir() else []:
        if not _owner_lives(folder.name):
            print(f"an earlier run left {folder}; remove the folder when its logs are read", file=sys.stderr)


def _owner_lives(name: str) -> bool:
    """A name begins with the pid of its maker."""
    owner = name.removeprefix("probe-").partition("-")[0]
    try:
        return b"tests.planes.nodeplane" in Path(f"/proc/{owner}/cmdline").read_bytes()
    except OSError:
        return False


def _live(command: Sequence[str]) -> int:
    houses().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=houses()))
    code = 1
    try:
        namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        # The command gets the terminal's Ctrl-C itself and ends in its own way; we wait for it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process = subprocess.Popen(
            ["unshare", *namespaces, "--", sys.executable, "-m", __spec__.name, *command],
            env={**os.environ, FOLDER: str(folder), _OPEN: "1"},
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, before exec
        )
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        code = process.wait()
    finally:
        left = cgroups.remove(group_of(folder))
        _clear(folder, keep_logs=code != 0)
    for path in left:
        print(f"error: the control group {path} cannot be removed", file=sys.stderr)
    return 1 if left else code


def group_of(folder: Path) -> str:
    """The control group of the house with this folder."""
    return f"{cgroups.PREFIX}{folder.name}"


def _clear(folder: Path, *, keep_logs: bool) -> None:
    logs = [path for path in folder.rglob("*.log") if path.name in KEPT_LOGS or "control" in path.parts] if keep_logs else []
    if not logs:
        shutil.rmtree(folder, ignore_errors=True)
        return
    kept = houses() / f"logs-{folder.name}"
    for path in logs:
        target = kept / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"the logs are kept in {kept}", file=sys.stderr)


def _inside(command: Sequence[str]) -> int:
    """As the first process of the house: furnish it, run the command, and take in orphans until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    del os.environ[_OPEN]
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run"], check=True)
    network.build_switch()
    child = os.posix_spawnp(command[0], list(command), os.environ, setsigdef=[signal.SIGINT, signal.SIGTERM])
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    # The variable is a message from ourselves: it is taken out before the command sees it.
    sys.exit(_inside(sys.argv[1:]) if _OPEN in os.environ else main(sys.argv[1:]))
