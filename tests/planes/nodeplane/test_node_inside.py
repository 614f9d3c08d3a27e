"""The operator where its users run it: in the cluster, from an image, as ``regroup manifests`` says, and with no more rights."""

from pathlib import Path

import pytest
from tests.planes.inside_plane import InsidePlane
from tests.planes.node_plane import workload
from tests.planes.nodeplane.machine import Machine
from tests.planes.plane import group_names

pytestmark = pytest.mark.node

START = 90.0
REBUILD = 120.0
TAKEOVER = 60.0
"""The lease of a leader that was killed ends after 15 s; of one that was told to stop, at once."""


async def test_the_operator_works_from_its_deployment(machine: Machine, tmp_path: Path) -> None:
    """README "Run it on a real cluster": the bundle brings up two operators without root, disk or capabilities; their webhooks
    refuse a bad object; a group that fails is rebuilt; and when the leading operator is deleted the other goes on."""
    plane = InsidePlane(machine, folder=tmp_path)
    async with plane:
        refused = await plane.kubectl("create", "--dry-run=server", "-f", str(bad(tmp_path)), ok=False)
        assert "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize: Invalid value: 4" in refused, refused

        await plane.apply(workload(size=2))
        old = await plane.wait_available(timeout=START)
        await plane.exit_with_3("demo-0-1")
        await plane.wait_recreated(old, group_names(size=2), timeout=REBUILD)
        second = await plane.wait_available(timeout=REBUILD)

        first = await plane.wait_for(plane.leader, timeout=TAKEOVER, what="an operator leads")
        await plane.kubectl("delete", "pod", first, namespace="regroup-system")
        await plane.wait_for(lambda: another(plane, first), timeout=TAKEOVER, what="the other operator leads")
        await plane.exit_with_3("demo-0-1")
        await plane.wait_recreated(second, group_names(size=2), timeout=REBUILD)
        await plane.wait_available(timeout=REBUILD)

        for pod in await plane.operators():
            for container in pod["status"].get("containerStatuses", []):
                assert container["restartCount"] == 0, container


async def another(plane: InsidePlane, first: str) -> bool:
    return await plane.leader() not in {"", first}


def bad(folder: Path) -> Path:
    """A LeaderWorkerSet that the schema lets pass and the webhook does not."""
    file = folder / "bad.yaml"
    file.write_text(BAD)
    return file


BAD = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: bad}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 6
    subGroupPolicy: {subGroupSize: 4}
    workerTemplate:
      spec:
        containers: [{name: worker, image: busybox}]
"""
