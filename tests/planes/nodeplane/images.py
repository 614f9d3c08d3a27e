"""Container images without any registry: made from the machine's static busybox, as archives that ``ctr images import`` takes."""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PAUSE = "regroup.invalid/pause:1"
BUSYBOX = "regroup.invalid/busybox:1"
ABSENT = "regroup.invalid/absent:1"
"""An image that nobody can have: the name resolves nowhere."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_REST = 'trap "exit 0" TERM INT; while :; do sleep 86400 & wait $!; done'
"""What a sandbox does: nothing, and it ends when told to."""


def make(folder: Path, *, busybox: Path) -> list[Path]:
    """Write both images into ``folder``; gives the archives."""
    folder.mkdir(parents=True, exist_ok=True)
    layer = base_layer(busybox)
    images: Mapping[str, Sequence[str]] = {PAUSE: ["/bin/sh", "-c", _REST], BUSYBOX: ["/bin/sh"]}
    archives = []
    for name, command in images.items():
        path = folder / f"{name.partition('/')[2].replace(':', '-')}.tar"
        archive(path, name=name, config={"Cmd": list(command), "Env": ["PATH=/bin"], "WorkingDir": "/"}, layers=[layer])
        archives.append(path)
    return archives


def base_layer(busybox: Path) -> bytes:
    """A file system with busybox, a link for each of its commands, and the folders that programs expect."""
    applets = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True, timeout=30).stdout.split()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("root", 0o700), ("var", 0o755)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        add(tar, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return target.getvalue()


def archive(path: Path, *, name: str, config: Mapping[str, object], layers: Sequence[bytes]) -> None:
    """Write an image with this ``config`` (Cmd, Env, ...) and these layers, uncompressed tar files."""
    image = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]},
    }
    names = [f"layer-{number}.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": names}]
    with tarfile.open(path, mode="w") as tar:
        add(tar, "config.json", json.dumps(image).encode())
        for layer_name, layer in zip(names, layers, strict=True):
            add(tar, layer_name, layer)
        add(tar, "manifest.json", json.dumps(manifest).encode())


def add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    """Add one file."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
