"""The operator installed with Helm, where its users run it: `charts/regroup` as docs/operating.md says, on real kubelets."""

import base64
import json
from pathlib import Path

import pytest
import trustme
from charts.chart import FOLDER
from tests.planes.inside_plane import InsidePlane
from tests.planes.node_plane import workload
from tests.planes.nodeplane.machine import Machine
from tests.planes.nodeplane.operator_image import REGROUP
from tests.planes.nodeplane.test_node_inside import bad
from tests.planes.plane import group_names

from regroup.operator.config import NAMESPACE as HOME
from regroup.operator.config import SECRET, SERVICE

pytestmark = pytest.mark.node

START = 90.0
REBUILD = 120.0
REFUSED = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize: Invalid value: 4"


class HelmPlane(InsidePlane):
    """The operator comes and goes with a release."""

    async def start_operator(self) -> None:
        repository, _, tag = REGROUP.rpartition(":")
        image = ["--set", f"image.repository={repository}", "--set-string", f"image.tag={tag}"]
        # What other tests left, they applied with kubectl.
        await self.helm("install", "keeper", str(FOLDER), "--take-ownership", "--wait", "--timeout", "2m", *image)

    async def remove_operator(self) -> None:
        await self.helm("uninstall", "keeper", "--wait", "--timeout", "2m")
        await self.kubectl("delete", "secrets,leases", "--all", namespace=HOME)


async def test_the_operator_works_from_its_release(machine: Machine, tmp_path: Path) -> None:
    """Helm waits until both operators are ready; their webhooks refuse a bad object, and a group that fails is rebuilt. Then an
    upgrade gives them a mounted certificate, with both CAs until the last old operator is gone, and they go on."""
    async with HelmPlane(machine, folder=tmp_path) as plane:
        assert len(await plane.operators()) == 2
        refused = await plane.kubectl("create", "--dry-run=server", "-f", str(bad(tmp_path)), ok=False)
        assert REFUSED in refused, refused

        await plane.apply(workload(size=2))
        old = await plane.wait_available(timeout=START)
        await plane.exit_with_3("demo-0-1")
        await plane.wait_recreated(old, group_names(size=2), timeout=REBUILD)
        second = await plane.wait_available(timeout=REBUILD)

        authority = trustme.CA()
        theirs = await plane.kubectl("get", "secret", SECRET, "-o", r"jsonpath={.data.ca\.crt}", namespace=HOME)
        (tmp_path / "ca.pem").write_bytes(base64.b64decode(theirs) + authority.cert_pem.bytes())
        mine = authority.issue_cert(f"{SERVICE}.{HOME}.svc")
        (tmp_path / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in mine.cert_chain_pems))
        mine.private_key_pem.write_to_path(tmp_path / "tls.key")
        pair = ["--cert", str(tmp_path / "tls.crt"), "--key", str(tmp_path / "tls.key")]
        await plane.kubectl("create", "secret", "tls", "mine", *pair, namespace=HOME)
        certificate = ["--set", "webhooks.certificateSecret=mine", "--set-file", f"webhooks.caBundle={tmp_path / 'ca.pem'}"]
        await plane.helm("upgrade", "keeper", str(FOLDER), "--reuse-values", "--wait", "--timeout", "2m", *certificate)
        refused = await plane.kubectl("create", "--dry-run=server", "-f", str(bad(tmp_path)), ok=False)
        assert REFUSED in refused, refused
        await plane.exit_with_3("demo-0-1")
        await plane.wait_recreated(second, group_names(size=2), timeout=REBUILD)
        await plane.wait_available(timeout=REBUILD)
        for pod in await plane.operators():
            assert pod["spec"]["containers"][0]["args"][-2:] == ["--certificate-dir", "/certificates"], json.dumps(pod)
