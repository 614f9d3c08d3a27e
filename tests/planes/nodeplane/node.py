"""One node: a kubelet with its own containerd and network, in namespaces of its own. Power on, power off."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml
from tests.planes.nodeplane import network
from tests.planes.nodeplane.boot import BootPlan
from tests.planes.nodeplane.images import PAUSE
from tests.planes.realplane.controlplane import PlaneFailed

OFF_LIMIT = 20.0
LEASE_SECONDS = 8
"""The kubelet renews at a quarter of it: on a busy machine a few renewals may come late before the node counts as lost."""
KEPT_LOGS = ("boot.log", "containerd.log", "kubelet.log")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What makes a node. ``folder`` is its disk; ``cgroup`` the control group of its pods."""

    name: str
    index: int
    folder: Path
    cgroup: str
    kubelet: Path
    kubeconfig: Path
    cni: Path
    images: Sequence[Path]

    @property
    def address(self) -> str:
        return network.node_address(self.index)


class Node:
    """A machine to be switched on and off. The disk outlives a power cut, nothing else does."""

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def on(self) -> bool:
        return self._process is not None

    def power_on(self) -> None:
        """Start it; it registers itself some seconds later. Raises ``PlaneFailed``."""
        if self._process is not None:
            raise PlaneFailed(f"node {self.name} is on already")
        self.spec.folder.mkdir(parents=True, exist_ok=True)
        network.plug(self.name, index=self.spec.index)
        plan = self.spec.folder / "plan.json"
        plan.write_bytes(msgspec.json.encode(self._plan()))
        namespaces = ["--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        with (self.spec.folder / "boot.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("nsenter", f"--net={network.namespace(self.name)}", "--"),
                    *("unshare", *namespaces, "--"),
                    *(sys.executable, "-m", "tests.planes.nodeplane.boot", str(plan)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, before exec
            )

    def power_off(self) -> None:
        """Cut the power: kubelet, containerd and every container are gone at once, and nobody was told."""
        if self._process is None:
            return
        first = _children(self._process.pid)
        self._process.kill()  # takes the node's first process along, and that one all others
        self._process.wait(OFF_LIMIT)
        self._process = None
        deadline = time.monotonic() + OFF_LIMIT
        while any(_alive(pid) for pid in first):
            if time.monotonic() > deadline:
                raise PlaneFailed(f"node {self.name} is still running {OFF_LIMIT:g} s after its end")
            time.sleep(0.05)
        network.unplug(self.name)

    def check(self) -> None:
        """Raise ``PlaneFailed`` with the last log lines when it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise PlaneFailed(f"node {self.name} ended; its last lines:\n{self.tail()}")

    def tail(self) -> str:
        """The last lines of its logs."""
        return "\n".join(
            f"[{name}]\n" + "\n".join(log.read_text(errors="replace").splitlines()[-12:])
            for name in KEPT_LOGS
            if (log := self.spec.folder / name).exists()
        )

    def resident_mebibytes(self) -> dict[str, float]:
        """Resident memory of the parts, and of all shims together."""
        result: dict[str, float] = {}
        if self._process is not None:
            for pid in _descendants(self._process.pid):
                folder = Path(f"/proc/{pid}")
                try:
                    name = (folder / "comm").read_text().strip()
                    pages = int((folder / "statm").read_text().split()[1])
                except OSError:  # it ended while we looked
                    continue
                name = "shims" if name.startswith("containerd-shim") else name.partition("-")[0]
                if name in {"kubelet", "containerd", "shims"}:
                    result[name] = result.get(name, 0.0) + pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        return result

    def _plan(self) -> BootPlan:
        folder = self.spec.folder
        (folder / "cni").mkdir(exist_ok=True)
        (folder / "cni" / "bridge.conflist").write_text(network.cni_config(self.spec.index))
        (folder / "containerd.toml").write_text(self._containerd_config())
        (folder / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet_config()))
        kubelet = [
            str(self.spec.kubelet),
            f"--config={folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.spec.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.spec.address}",
            "--v=2",
        ]
        containerd = shutil.which("containerd") or "containerd"
        return BootPlan(
            folder=str(folder),
            images=[str(path) for path in self.spec.images],
            containerd=[containerd, "--config", str(folder / "containerd.toml")],
            kubelet=kubelet,
        )

    def _containerd_config(self) -> str:
        """Default folders: in the node's namespace they are its own."""
        return f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.spec.cni}"
    conf_dir = "{self.spec.folder / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""

    def _kubelet_config(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.spec.cgroup}",
            "clusterDNS": ["10.0.0.10"],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "enforceNodeAllocatable": [],
            "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "failCgroupV1": False,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "makeIPTablesUtilChains": False,
            "maxPods": 40,
            "nodeLeaseDurationSeconds": LEASE_SECONDS,
            "nodeStatusUpdateFrequency": "5s",
            "oomScoreAdj": 0,
            "registerWithTaints": [],
            "resolvConf": "",
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        }


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _descendants(pid: int) -> list[int]:
    return [below for child in _children(pid) for below in (child, *_descendants(child))]


def _alive(pid: int) -> bool:
    """Whether it still does anything: a zombie does not, and the kernel makes one of it only after all in its namespace ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False
