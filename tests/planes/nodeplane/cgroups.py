"""The control groups that nodes put their containers into: made before, removed after, both kinds of hierarchy.

A name is a path under the root of every hierarchy, such as ``regroup-123-ab``.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "regroup-"
REMOVE_LIMIT = 10.0
"""Seconds until the last of the killed processes has left its group."""


def unified() -> bool:
    """The machine has only the new kind (v2)."""
    return (ROOT / "cgroup.controllers").exists()


def make(name: str) -> None:
    """Make the group in every hierarchy. Raises ``OSError`` where the machine does not let us."""
    for hierarchy in _hierarchies():
        folder = hierarchy
        for part in Path(name).parts:
            if unified():
                _enable_controllers(folder)
            folder /= part
            folder.mkdir(exist_ok=True)
            for setting in ("cpuset.cpus", "cpuset.mems"):  # of the old kind: a new group starts with none of them
                if (folder / setting).exists() and not unified():
                    (folder / setting).write_text((folder.parent / setting).read_text())
        if unified():
            _enable_controllers(folder)


def remove(name: str) -> list[Path]:
    """Remove the group with all below it, in every hierarchy; gives what could not be removed."""
    deadline = time.monotonic() + REMOVE_LIMIT
    while True:
        left = [folder for hierarchy in _hierarchies() if not _removed(folder := hierarchy / name)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def found() -> dict[str, list[int]]:
    """Every group of ours by its name, with the processes in it and below."""
    result: dict[str, list[int]] = {}
    for hierarchy in _hierarchies():
        for folder in sorted(hierarchy.glob(f"{PREFIX}*")):
            pids = result.setdefault(folder.name, [])
            for below in (folder, *folder.rglob("*/")):
                with suppress(OSError):  # it went while we looked
                    pids += [int(line) for line in (below / "cgroup.procs").read_text().split()]
    return {name: sorted(set(pids)) for name, pids in result.items()}


def _hierarchies() -> Iterator[Path]:
    if unified():
        yield ROOT
    elif ROOT.is_dir():
        yield from (folder for folder in sorted(ROOT.iterdir()) if not folder.is_symlink() and (folder / "cgroup.procs").exists())


def _enable_controllers(folder: Path) -> None:
    for controller in (folder / "cgroup.controllers").read_text().split():
        with suppress(OSError):  # some machines keep one for themselves; the kubelet names it if it is one that it needs
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _removed(folder: Path) -> bool:
    if not folder.exists():
        return True
    for below in sorted((path for path in folder.rglob("*/")), key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):
            below.rmdir()
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()
