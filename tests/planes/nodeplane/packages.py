"""Debian's packages that a node needs, and how to get them. Knows nothing of Kubernetes."""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.planes.realplane.binaries import PlaneUnavailable

CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
BUSYBOX = Path("/bin/busybox")
INSTALL_LIMIT = 10 * 60.0
_COMMANDS: Mapping[str, Sequence[str]] = {
    "containerd": ("containerd", "ctr", "containerd-shim-runc-v2"),
    "runc": ("runc",),
    "iproute2": ("ip",),
    "mount": ("mount",),
    "util-linux": ("unshare", "nsenter"),
}
_ELF_LOADER = 3
"""The kind of program header that names a loader."""
_PLUGINS = ("bridge", "host-local", "loopback")


def ensure(*, install: bool) -> None:
    """Raise ``PlaneUnavailable`` in one line when something is missing that was not to be installed, or could not be."""
    absent = missing()
    if not absent:
        return
    command = f"apt-get install {' '.join(absent)}"
    if not install:
        raise PlaneUnavailable(
            f"no node plane here: Debian's {', '.join(absent)} missing; make test-node INSTALL=1 does {command}"
        )
    print(f"installing {', '.join(absent)}", file=sys.stderr, flush=True)
    # Never at the price of a package that is there: one that brings its own containerd stays.
    calm = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", "--no-remove", *absent]):
        try:
            done = subprocess.run(
                ["apt-get", "--quiet", *words], env=calm, capture_output=True, text=True, timeout=INSTALL_LIMIT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PlaneUnavailable(f"no node plane here: {command}: {error}") from error
        if done.returncode != 0 and words[0] == "install":
            raise PlaneUnavailable(f"no node plane here: {command}: {done.stderr.strip()[-400:]}")
    if absent := missing():
        raise PlaneUnavailable(f"no node plane here: {', '.join(absent)} installed, but what it should bring is not there")


def missing() -> list[str]:
    """The packages of which something is not there."""
    absent = [package for package, commands in _COMMANDS.items() if any(shutil.which(name) is None for name in commands)]
    if cni_folder() is None:
        absent.append("containernetworking-plugins")
    if not _is_static(BUSYBOX):
        absent.append("busybox-static")
    return absent


def cni_folder() -> Path | None:
    """Where the network plugins are."""
    return next((folder for folder in CNI_FOLDERS if all((folder / name).exists() for name in _PLUGINS)), None)


def _is_static(program: Path) -> bool:
    """Runs without any library beside it, because an image holds nothing else: its ELF header names no loader."""
    try:
        data = program.read_bytes()
        if data[:5] != b"\x7fELF\x02":
            return False
        (table,) = struct.unpack_from("<Q", data, 0x20)
        size, count = struct.unpack_from("<HH", data, 0x36)
        return all(struct.unpack_from("<I", data, table + number * size)[0] != _ELF_LOADER for number in range(count))
    except (OSError, struct.error):
        return False
