"""The network between the nodes: a switch in the plane's own network namespace, a cable to each node, addresses for pods.

Everything here happens inside the plane's namespace (``house.py``): the machine's interfaces, routes and rules are not seen,
much less changed.
"""

import json
import subprocess
from pathlib import Path

from tests.planes.realplane.controlplane import SERVICE_ADDRESS, PlaneFailed

SWITCH = "switch"
HOUSE_ADDRESS = "10.89.0.1"
"""Where the API server listens for the nodes."""


def node_address(index: int) -> str:
    return f"10.89.0.{11 + index}"


def pod_range(index: int) -> str:
    return f"10.244.{1 + index}.0/24"


def namespace(node: str) -> Path:
    """The file that stands for a node's network namespace."""
    return Path("/run/netns") / node


def build_switch() -> None:
    """Make the switch, with the house on it. Raises ``PlaneFailed``."""
    _ip("link", "set", "lo", "up")
    _ip("link", "add", SWITCH, "type", "bridge")
    _ip("address", "add", f"{HOUSE_ADDRESS}/24", "dev", SWITCH)
    # There is no kube-proxy: the one Service that pods call is an address of the machine that answers for it.
    _ip("address", "add", f"{SERVICE_ADDRESS}/32", "dev", SWITCH)
    _ip("link", "set", SWITCH, "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def plug(node: str, *, index: int) -> None:
    """Give a node its namespace, a cable to the switch, an address and routes."""
    cable = f"to-{node}"
    _ip("netns", "add", node)
    _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", node)
    _ip("link", "set", cable, "master", SWITCH, "up")
    inside = ("-n", node)
    _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "address", "add", f"{node_address(index)}/24", "dev", "eth0")
    _ip(*inside, "link", "set", "eth0", "up")
    _ip(*inside, "route", "add", "default", "via", HOUSE_ADDRESS)
    _ip("route", "replace", pod_range(index), "via", node_address(index))


def unplug(node: str) -> None:
    """Take a node's namespace away, and its cable with it."""
    _ip("netns", "delete", node)
    _ip("link", "delete", f"to-{node}", missing_ok=True)


def cni_config(index: int) -> str:
    """How a node's containerd gives its pods addresses."""
    return json.dumps(
        {
            "cniVersion": "0.4.0",
            "name": "regroup",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "pods",
                    "isGateway": True,
                    "ipMasq": False,
                    "hairpinMode": True,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": pod_range(index)}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                        "dataDir": "/run/cni-addresses",
                    },
                }
            ],
        }
    )


def _ip(*words: str, missing_ok: bool = False) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0 and not missing_ok:
        raise PlaneFailed(f"ip {' '.join(words)}: {done.stderr.strip()}")
