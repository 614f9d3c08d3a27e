"""A control plane and its nodes, in a house: what the node suite runs on. Synchronous: it outlives the tests' event loops."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.planes.nodeplane import cgroups, images, operator_image, packages
from tests.planes.nodeplane.house import FOLDER, group_of
from tests.planes.nodeplane.network import HOUSE_ADDRESS
from tests.planes.nodeplane.node import Node, NodeSpec
from tests.planes.realplane.binaries import PlaneUnavailable, find, find_kubelet
from tests.planes.realplane.controlplane import ControlPlane, Options, PlaneFailed

READY_LIMIT = 120.0
"""Seconds for all nodes to become Ready; seen: 5 to 10."""
NODE_MONITOR_GRACE = 12.0
"""Seconds without a sign of life after which a node counts as lost; Kubernetes' own default is 50."""


class Machine:
    """Use it as a context manager. ``control`` is the control plane, ``nodes`` the nodes by name."""

    def __init__(self, *, nodes: Sequence[str] = ("node-a", "node-b")) -> None:
        house = os.environ.get(FOLDER)
        if house is None:
            raise PlaneUnavailable("the node plane needs a house of its own: make test-node builds one")
        cni = packages.cni_folder()
        if cni is None:
            raise PlaneUnavailable("the node plane needs containernetworking-plugins: make test-node names what it needs")
        self._folder = Path(house)
        self._group = group_of(self._folder)
        self._cni = cni
        self._names = nodes
        options = Options(
            address=HOUSE_ADDRESS, pods_call=True, runs=self._folder / "control", node_monitor_grace=NODE_MONITOR_GRACE
        )
        self.control = ControlPlane(options=options, binaries=find(build=False))
        self.kubeconfig = self._folder / "admin.kubeconfig"
        self.nodes: dict[str, Node] = {}
        self.figures: dict[str, float] = {}
        """Seconds that each part took to come up."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.control.keep_logs()
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def check(self) -> None:
        """Raise ``PlaneFailed`` with its last log lines when a part has died."""
        self.control.check()
        for node in self.nodes.values():
            node.check()

    def stop(self) -> None:
        """Stop every node, then the control plane."""
        for node in self.nodes.values():
            node.power_off()
        self.control.stop()

    def wait_ready(self, *names: str) -> None:
        """Wait until the nodes are Ready. Raises ``PlaneFailed``."""
        deadline = time.monotonic() + READY_LIMIT
        waiting = list(names or self.nodes)
        while waiting:
            self.check()
            if time.monotonic() > deadline:
                tails = "\n".join(self.nodes[name].tail() for name in waiting)
                raise PlaneFailed(f"{', '.join(waiting)} not Ready within {READY_LIMIT:g} s; the last lines:\n{tails}")
            ready = self._ready()
            waiting = [name for name in waiting if name not in ready]
            time.sleep(0.2)

    def _start(self) -> None:
        began = time.monotonic()
        archives = images.make(self._folder / "images", busybox=packages.BUSYBOX)
        archives.append(operator_image.make(self._folder / "images", busybox=packages.BUSYBOX))
        self.figures["images"] = time.monotonic() - began
        began = time.monotonic()
        self.control.start()
        self.figures["control plane"] = time.monotonic() - began
        self.kubeconfig.write_text(self.control.kubeconfig())
        began = time.monotonic()
        for index, name in enumerate(self._names):
            group = f"{self._group}/{name}"
            cgroups.make(group)
            spec = NodeSpec(
                name=name,
                index=index,
                folder=self._folder / name,
                cgroup=group,
                kubelet=find_kubelet(build=False),
                kubeconfig=self.kubeconfig,
                cni=self._cni,
                images=archives,
            )
            self.nodes[name] = Node(spec)
            self.nodes[name].power_on()
        self.wait_ready()
        self.figures["nodes"] = time.monotonic() - began

    def _ready(self) -> set[str]:
        """The nodes that are Ready and may be used."""
        page = self.control.request("GET", "/api/v1/nodes")
        return {
            node["metadata"]["name"]
            for node in page["items"]
            if not node["spec"].get("taints")
            and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", []))
        }


if __name__ == "__main__":
    import subprocess
    import sys

    with Machine() as machine:
        print({name: round(seconds, 1) for name, seconds in machine.figures.items()}, file=sys.stderr)
        print({name: round(size) for name, size in machine.control.resident_mebibytes().items()}, file=sys.stderr)
        for one in machine.nodes.values():
            print(one.name, {name: round(size) for name, size in one.resident_mebibytes().items()}, file=sys.stderr)
        subprocess.run(sys.argv[1:] or ["bash"], env={**os.environ, "KUBECONFIG": str(machine.kubeconfig)}, check=False)
