"""The demo on Kubernetes' own control plane: ``make demo-real``. Pods are run by our simulated kubelets; the rest is Kubernetes.

Arguments go to ``regroup demo``.
"""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.planes.real_plane import RealPlane
from tests.planes.realplane.binaries import PlaneUnavailable, find
from tests.planes.realplane.controlplane import Options, PlaneFailed

from regroup.leaderworkerset.controller.setup import Settings
from regroup.runtime import logging

NODES = 12
TOLERATION = 10
LOSS_GRACE = 10.0


async def main(arguments: Sequence[str]) -> int:
    """Start everything, play, stop everything; gives the demo's exit code."""
    logging.configure(format="console", level="error")
    options = Options(unreachable_toleration=TOLERATION)
    print(f"starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler, the operator and {NODES} simulated kubelets")
    async with RealPlane(nodes=NODES, settings=Settings(node_loss_grace=LOSS_GRACE), options=options) as plane:
        print(
            f"To keep it short, this cluster calls a node lost after {options.node_monitor_grace:g} s (Kubernetes: 50), evicts "
            f"its pods {TOLERATION} s later (300), and the operator forces those that stay after {LOSS_GRACE:g} s (60)."
        )
        kubeconfig = plane.control.folder / "demo.kubeconfig"
        kubeconfig.write_text(plane.control.kubeconfig())
        demo = Path(sys.executable).with_name("regroup")
        process = await asyncio.create_subprocess_exec(
            *(str(demo), "demo", "--kubeconfig", str(kubeconfig), "--context", "real", *arguments), stdin=subprocess.DEVNULL
        )
        return await process.wait()


if __name__ == "__main__":
    try:
        find()
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except (PlaneUnavailable, PlaneFailed) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
