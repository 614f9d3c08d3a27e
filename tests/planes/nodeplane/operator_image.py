"""The operator's image without any registry: this machine's Python, the packages that the operator is pinned to, and Regroup.

Laid out as the Dockerfile lays it out for a person: ``regroup`` is the entry point, nothing in it needs root or a writable disk.
"""

import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from tests.planes.nodeplane.images import add, archive, base_layer

import regroup

REGROUP = "regroup.invalid/regroup:1"
_ROOT = Path(regroup.__file__).parents[2]
_HOME = "opt/python"
_LIBRARIES = "opt/lib"
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_UNUSED = re.compile(
    r"__pycache__|tests?|idlelib|tkinter|ensurepip|lib2to3|turtledemo|(site|dist)-packages|config-.*|_(tkinter|test|ctypes_test).*"
)
_ENTRY = f"#!/{_HOME}/bin/python3\nfrom regroup.cli.main import main\n\nmain()\n"
_ENVIRONMENT = [
    f"PATH=/{_HOME}/bin:/bin",
    f"PYTHONHOME=/{_HOME}",
    f"LD_LIBRARY_PATH=/{_LIBRARIES}",
    "PYTHONDONTWRITEBYTECODE=1",
]


def make(folder: Path, *, busybox: Path) -> Path:
    """Write the image into ``folder``; gives the archive."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        programs = [Path(sys.executable).resolve()]
        add(tar, f"{_HOME}/bin/python3", programs[0].read_bytes(), mode=0o755)
        add(tar, f"{_HOME}/bin/regroup", _ENTRY.encode(), mode=0o755)
        for source, name in _files():
            add(tar, f"{_HOME}/lib/{_VERSION}/{name}", source.read_bytes())
            if ".so" in source.suffixes:
                programs.append(source)
        for library, name in _libraries(programs):
            add(tar, name, library.read_bytes(), mode=0o755)
    path = folder / "regroup-1.tar"
    archive(
        path,
        name=REGROUP,
        config={"Entrypoint": ["regroup"], "Env": _ENVIRONMENT, "WorkingDir": "/", "User": "65532"},
        layers=[base_layer(busybox), target.getvalue()],
    )
    return path


def _files() -> Iterator[tuple[Path, str]]:
    """Python's own library, the pinned packages and Regroup: each file, and its name below Python's library folder."""
    for key in ("stdlib", "platstdlib"):
        home = Path(sysconfig.get_path(key))
        for path in _below(home):
            yield path, str(path.relative_to(home))
        if sysconfig.get_path("platstdlib") == sysconfig.get_path("stdlib"):
            break
    for line in (_ROOT / "requirements" / "run.lock").read_text().splitlines():
        if name := re.match(r"[A-Za-z0-9._-]+(?===)", line):
            for file in metadata.distribution(name[0]).files or ():
                path = Path(str(file.locate()))
                if "__pycache__" not in file.parts and ".." not in file.parts and path.is_file():
                    yield path, f"site-packages/{file}"
    home = Path(regroup.__file__).parent
    for path in _below(home):
        yield path, f"site-packages/regroup/{path.relative_to(home)}"


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if _UNUSED.fullmatch(path.name):
            continue
        if path.is_dir():
            yield from _below(path)
        elif path.is_file():
            yield path


def _libraries(programs: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """The shared libraries that these files load, and the loader itself: each file, and its name in the image."""
    told = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False, timeout=60).stdout
    seen = set()
    for soname, found, loader in re.findall(r"^\s+(?:(\S+) => (/\S+)|(/\S+)) \(0x", told, flags=re.MULTILINE):
        name = loader.lstrip("/") if loader else f"{_LIBRARIES}/{soname}"
        if name not in seen:
            seen.add(name)
            yield Path(loader or found).resolve(), name
