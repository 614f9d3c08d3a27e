"""The two servers that conversations are played to, each with the same webhooks: our sandbox's, and Kubernetes' own.

Only API servers: controllers would write into the conversations.
"""

import asyncio
import base64
import logging
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import structlog
import trustme
from tests.planes.differential.player import Player
from tests.planes.realplane.controlplane import ControlPlane, Options

from regroup.runtime.admission import AdmissionRequest, AdmissionResponse, AdmissionServer, allowed, denied, patched
from regroup.runtime.clock import LoopClock
from regroup.sandbox.apiserver.server import ApiServer
from regroup.sandbox.cluster import Cluster
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess, Identity

_ADDRESS = "https://127.0.0.1:9"
FIRST_VERSION = 5000
"""Versions of the sandbox begin here, so that none is taken for another number of a message."""


def webhooks() -> AdmissionServer:
    """What the conversations on admission meet: one path a behaviour."""
    quiet = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    server = AdmissionServer(log=quiet)  # one of the webhooks fails on purpose
    server.register("/allow", lambda request: allowed())
    server.register("/warn", lambda request: allowed(warnings=["mind the gap", "and the step"]))
    server.register("/deny", lambda request: denied(f"no {request.operation} of {request.kind} {request.name} here"))
    server.register("/forbid", lambda request: denied("not for you", code=403, reason="Forbidden"))
    server.register("/plain", lambda request: AdmissionResponse(allow=False))
    server.register("/causes", _causes)
    server.register("/label", lambda request: patched([{"op": "add", "path": "/metadata/labels", "value": {"by": "webhook"}}]))
    server.register("/badpatch", lambda request: patched([{"op": "remove", "path": "/data/nothing/here"}]))
    server.register("/crash", _crash)
    return server


def _causes(request: AdmissionRequest) -> AdmissionResponse:
    causes = [
        {"reason": "FieldValueInvalid", "field": "data.a", "message": "must be even"},
        {"reason": "FieldValueForbidden", "field": "data.b", "message": "must not be"},
    ]
    return denied("two fields are wrong", causes=causes)


def _crash(request: AdmissionRequest) -> AdmissionResponse:
    raise RuntimeError("a webhook with a bug")


def sandbox() -> Player:
    """A fresh API server of the sandbox. Needs a running loop, and is quick only under virtual time."""
    hooks = webhooks()

    async def call(url: str, body: bytes, bundle: bytes | None, timeout: float) -> bytes:
        return await hooks.handle(url.removeprefix(_ADDRESS), body)

    clock = LoopClock(start=datetime(2026, 8, 1, 12, tzinfo=UTC))
    server: ApiServer = Cluster(clock=clock, rng=random.Random(1), nodes=0, webhook_caller=call, controllers=False).server
    server.storage.version = FIRST_VERSION
    authority = trustme.CA().cert_pem.bytes()
    return Player(server.transport(), values={"webhook": _ADDRESS, "ca": base64.b64encode(authority).decode()})


@asynccontextmanager
async def real() -> AsyncIterator[Player]:
    """A fresh etcd and kube-apiserver. Raises ``PlaneFailed`` when one of them dies."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    hooks = asyncio.create_task(webhooks().serve(host="127.0.0.1", port=0, context=context, ready=bound.set_result))
    try:
        with ControlPlane(options=Options(controllers=False)) as control:
            access = ClusterAccess(
                server=control.url, identity=Identity(token=control.admin_token), ca=control.ca, source="the real API server"
            )
            transport = HttpTransport(access)
            try:
                yield Player(
                    transport,
                    values={
                        "webhook": f"https://127.0.0.1:{await bound}",
                        "ca": base64.b64encode(authority.cert_pem.bytes()).decode(),
                    },
                )
                control.check()
            finally:
                await transport.close()
    finally:
        hooks.cancel()
        with suppress(asyncio.CancelledError):
            await hooks
