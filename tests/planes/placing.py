"""Pods that kube-scheduler finds no place for, by their names: a webhook gives them a node selector that no node meets.

The sandbox's scheduler takes such orders by itself (``sandbox.faults``); Kubernetes' own has to be led.
"""

import asyncio
import base64
import re
import ssl
from typing import Any

import trustme
from tests.planes.plane import end

from regroup.kube.meta import ObjectView
from regroup.kube.resources import MUTATING_WEBHOOKS, NODES
from regroup.runtime.admission import AdmissionRequest, AdmissionResponse, AdmissionServer, allowed, patched
from regroup.runtime.clock import Clock
from regroup.sandbox.faults import Faults
from regroup.wire.client import Client

NAME = "regroup-tests-placing"
_PATH = "/place"
_SETTLE = 0.5
"""Seconds in which an API server has surely taken notice of a new webhook."""


class SchedulerFaults(Faults):
    """Faults on a control plane whose scheduler is not ours."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        super().__init__(client, clock=clock)
        self._refused: set[str] = set()
        self._server: asyncio.Task[None] | None = None

    async def make_unschedulable(self, namespace: str, pod: str) -> None:
        """No node takes a pod of this name that is made from now on."""
        self._refused.add(f"{namespace}/{pod}")
        if self._server is None:
            await self._start()

    async def make_schedulable(self, namespace: str, pod: str) -> None:
        """Nodes take it, also when it is there already."""
        self._refused.discard(f"{namespace}/{pod}")
        for node in (await self._client.list_all(NODES, type=ObjectView)).items:
            patch = {"metadata": {"labels": {_label(namespace, pod): "yes"}}}
            await self._client.merge_patch(NODES, node.metadata.name, patch)

    async def close(self) -> None:
        """Place pods again as the scheduler likes."""
        if self._server is not None:
            await end(self._server)
            self._server = None

    async def _start(self) -> None:
        authority = trustme.CA()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        hooks = AdmissionServer()
        hooks.register(_PATH, self._place)
        bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._server = asyncio.create_task(hooks.serve(host="127.0.0.1", port=0, context=context, ready=bound.set_result))
        await self._client.apply(MUTATING_WEBHOOKS, NAME, _configuration(await bound, authority.cert_pem.bytes()))
        await asyncio.sleep(_SETTLE)

    def _place(self, request: AdmissionRequest) -> AdmissionResponse:
        pod = request.object or {}
        if f"{request.namespace}/{request.name or pod['metadata'].get('name')}" not in self._refused:
            return allowed()
        selector = {**(pod["spec"].get("nodeSelector") or {}), _label(request.namespace, request.name): "yes"}
        return patched([{"op": "add", "path": "/spec/nodeSelector", "value": selector}])


def _label(namespace: str, pod: str) -> str:
    return f"placing.regroup.dev/{re.sub('[^a-z0-9]', '-', f'{namespace}-{pod}')}"


def _configuration(port: int, authority: bytes) -> dict[str, Any]:
    webhook = {
        "name": "placing.tests.regroup.dev",
        "clientConfig": {"url": f"https://127.0.0.1:{port}{_PATH}", "caBundle": base64.b64encode(authority).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
    }
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }
