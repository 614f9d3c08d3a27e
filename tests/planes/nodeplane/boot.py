"""The first process of a node: gives it folders of its own, starts containerd and the kubelet, and ends when either ends.

It runs in namespaces of its own (mounts, processes, network), so what it mounts hides the machine's folders from the node and
nothing else; and when it is killed, the kernel kills everything that it started, containers included: a power cut.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

SOCKET = Path("/run/containerd/containerd.sock")
SOCKET_LIMIT = 60.0
HIDDEN = ("/var/lib", "/var/log", "/etc/cni")
"""Folders that containerd, the network plugins and the kubelet write to: on a node each is one of the node's own."""
TUNABLES = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""Settings of the whole machine that a kubelet puts to its liking. Here it gets files in their place."""


class BootPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is to run. ``folder`` is its disk and keeps its logs."""

    folder: str
    images: list[str]
    containerd: list[str]
    kubelet: list[str]


def main(plan: BootPlan) -> int:
    """Run the node until a part of it ends; gives the exit code."""
    _mount(Path(plan.folder))
    parts = {_spawn(plan, "containerd", plan.containerd): "containerd"}
    _import_images(plan)
    parts[_spawn(plan, "kubelet", plan.kubelet)] = "kubelet"
    while True:
        pid, status = os.wait()  # as the first process we inherit every orphan
        if pid in parts:
            print(f"{parts[pid]} ended with code {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
            return 1


def _mount(folder: Path) -> None:
    for path in HIDDEN:
        if not Path(path).is_dir():
            continue
        own = folder / "disk" / path.strip("/").replace("/", "-")
        own.mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", str(own), path)
    _run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    (folder / "tunables").mkdir(exist_ok=True)
    for name in TUNABLES:
        setting = Path("/proc/sys") / name
        if setting.exists():
            stand_in = folder / "tunables" / name.replace("/", ".")
            stand_in.write_text(setting.read_text())
            _run("mount", "--bind", str(stand_in), str(setting))


def _spawn(plan: BootPlan, part: str, command: list[str]) -> int:
    with (Path(plan.folder) / f"{part}.log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd="/").pid


def _import_images(plan: BootPlan) -> None:
    deadline = time.monotonic() + SOCKET_LIMIT
    while subprocess.run(["ctr", "version"], capture_output=True, check=False).returncode != 0:
        if time.monotonic() > deadline:
            sys.exit(f"containerd does not answer within {SOCKET_LIMIT:g} s")
        time.sleep(0.1)
    for archive in plan.images:
        _run("ctr", "--namespace", "k8s.io", "images", "import", archive)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started the node
    sys.exit(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=BootPlan)))
