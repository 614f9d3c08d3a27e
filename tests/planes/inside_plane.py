"""The node plane with the operator inside of the cluster: all that ``regroup manifests`` prints, as a person applies it.

Two operator pods from an image, their ServiceAccount's own tokens, webhooks through a Service, certificates in a Secret.
"""

import json
from typing import Any

from tests.planes.node_plane import NodePlane
from tests.planes.nodeplane.operator_image import REGROUP

from regroup.operator.config import NAMESPACE as HOME
from regroup.operator.webhooks import WEBHOOK_CONFIGURATION

START = 120.0
"""Seconds for the operator's pods to be ready; seen: 10 to 20."""
_OWN = "deployments,services,secrets,leases"
_WEBHOOKS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
_NAMED = "app.kubernetes.io/name=regroup"


class InsidePlane(NodePlane):
    """One namespace on the machine; the operator's home is taken away at the end, for operators outside to find none."""

    async def start_operator(self) -> None:
        """The whole bundle, and wait until all of its pods are ready."""
        bundle = self._folder / "whole.yaml"
        bundle.write_text(await self.manifests("--image", REGROUP))
        await self.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(bundle), namespace=None)
        await self.wait_for(self._rolled_out, timeout=START, what="both operator pods are ready")

    async def operators(self) -> list[dict[str, Any]]:
        """The operator's pods."""
        found = json.loads(await self.kubectl("get", "pods", "-l", _NAMED, "-o", "json", namespace=HOME))
        return [pod for pod in found["items"] if not pod["metadata"].get("deletionTimestamp")]

    async def leader(self) -> str:
        """The pod that holds the lease."""
        leases = json.loads(await self.kubectl("get", "leases", "-o", "json", namespace=HOME))["items"]
        holders = [lease["spec"].get("holderIdentity") or "" for lease in leases]
        names = [pod["metadata"]["name"] for pod in await self.operators()]
        return next((name for name in names if any(holder.startswith(name) for holder in holders)), "")

    async def _rolled_out(self) -> bool:
        deployment = json.loads(await self.kubectl("get", "deployment", "regroup", "-o", "json", namespace=HOME))
        return bool(deployment["status"].get("readyReplicas", 0) == deployment["spec"]["replicas"])

    async def _end(self) -> None:
        await super()._end()
        await self.remove_operator()

    async def remove_operator(self) -> None:
        """All that ``start_operator`` brought, but for CRDs, rights and the namespace."""
        await self.kubectl("delete", _WEBHOOKS, WEBHOOK_CONFIGURATION, namespace=None)
        await self.kubectl("delete", _OWN, "--all", namespace=HOME)
        await self.wait_for(self._no_operator, timeout=START, what="the operator's pods are gone")

    async def _no_operator(self) -> bool:
        return not await self.kubectl("get", "pods", "-l", _NAMED, "-o", "name", namespace=HOME)

    async def _tell(self) -> None:
        await super()._tell()
        for words in (["get", "pods", "-o", "wide"], ["get", "events"], ["logs", "-l", _NAMED, "--tail", "40", "--prefix"]):
            print(await self.kubectl(*words, ok=False, namespace=HOME))  # noqa: T201 - for whoever reads the failure
