"""Admission webhooks: ``AdmissionReview`` in, ``AdmissionReview`` out, over HTTPS or called in process.

Knows nothing of what is admitted. A handler that fails answers with an internal error, so that ``failurePolicy`` decides, and
never takes the server down.
"""

import asyncio
import base64
import inspect
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog
from aiohttp import web

BODY_LIMIT = 16 * 1024 * 1024
"""Bytes of a review that are taken: several times the size that an API server stores."""
CAUSES_LIMIT = 100
"""Bad fields that are told of one object."""
MESSAGE_LIMIT = 8192
"""Characters of a refusal."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """``request`` of an AdmissionReview, with objects as plain dicts."""

    uid: str
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    group: str
    version: str
    kind: str
    resource: str
    sub_resource: str
    namespace: str
    name: str
    object: dict[str, Any] | None
    old_object: dict[str, Any] | None
    user: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """The answer to one request; make it with ``allowed``, ``patched`` or ``denied``."""

    allow: bool
    patch: Sequence[Mapping[str, Any]] = ()
    """RFC 6902 operations on the object."""
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: Sequence[Mapping[str, str]] = ()
    """One entry a bad field: ``field``, ``reason``, ``message``."""
    warnings: Sequence[str] = field(default=())


def allowed(*, warnings: Sequence[str] = ()) -> AdmissionResponse:
    """Let it through as it is."""
    return AdmissionResponse(allow=True, warnings=warnings)


def patched(patch: Sequence[Mapping[str, Any]], *, warnings: Sequence[str] = ()) -> AdmissionResponse:
    """Let it through with these changes; an empty patch changes nothing."""
    return AdmissionResponse(allow=True, patch=patch, warnings=warnings)


def denied(
    message: str,
    *,
    code: int = 422,
    reason: str = "Invalid",
    causes: Sequence[Mapping[str, str]] = (),
    warnings: Sequence[str] = (),
) -> AdmissionResponse:
    """Refuse, with a message for a person and one cause a bad field."""
    return AdmissionResponse(allow=False, code=code, reason=reason, message=message, causes=causes, warnings=warnings)


Handler = Callable[[AdmissionRequest], AdmissionResponse | Awaitable[AdmissionResponse]]


@dataclass(frozen=True, slots=True)
class AdmissionStatistics:
    """Reviews answered since the start."""

    allowed: int
    denied: int
    failed: int


class AdmissionServer:
    """Dispatches reviews by path. ``handle`` is the whole of it; ``serve`` puts HTTPS in front."""

    def __init__(self, *, log: Any = None) -> None:
        self._handlers: dict[str, Handler] = {}
        self._log = log or structlog.get_logger("admission")
        self._allowed = self._denied = self._failed = 0

    def register(self, path: str, handler: Handler) -> None:
        """Answer reviews posted to ``path``. Raises ``ValueError`` for a path that is taken."""
        if path in self._handlers:
            raise ValueError(f"admission path {path} is taken")
        self._handlers[path] = handler

    @property
    def paths(self) -> Sequence[str]:
        return tuple(self._handlers)

    def statistics(self) -> AdmissionStatistics:
        return AdmissionStatistics(self._allowed, self._denied, self._failed)

    async def handle(self, path: str, body: bytes) -> bytes:
        """Answer one AdmissionReview.

        Raises ``LookupError`` for an unknown path and ``ValueError`` for a body that is no review; a handler's own failure is an
        answer with code 500.
        """
        handler = self._handlers.get(path)
        if handler is None:
            raise LookupError(f"no admission handler at {path}")
        request = _decode(body)
        try:
            answer = handler(request)
            response = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - a handler's bug must become an answer, so that failurePolicy decides
            self._failed += 1
            self._log.exception(
                "admission handler failed", path=path, kind=request.kind, namespace=request.namespace, name=request.name
            )
            response = denied(f"internal error: {error}"[:1024], code=500, reason="InternalError")
        else:
            if response.allow:
                self._allowed += 1
            else:
                self._denied += 1
        return _encode(request, response)

    async def serve(self, *, host: str, port: int, context: ssl.SSLContext, ready: Callable[[int], None] | None = None) -> None:
        """Serve HTTPS until cancelled; ``ready`` gets the port that was bound. Raises ``OSError`` for a port that is taken."""
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_post("/{path:.*}", self._post)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port, ssl_context=context)
            await site.start()
            if ready is not None:
                ready(runner.addresses[0][1])
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _post(self, request: web.Request) -> web.Response:
        try:
            body = await self.handle(request.path, await request.read())
        except LookupError as error:
            return web.Response(status=404, text=str(error))
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        return web.Response(body=body, content_type="application/json")


def _decode(body: bytes) -> AdmissionRequest:
    try:
        review = msgspec.json.decode(body)
        raw = review["request"]
        kind, resource = raw.get("kind") or {}, raw.get("resource") or {}
        return AdmissionRequest(
            uid=raw["uid"],
            operation=raw["operation"],
            group=kind.get("group", ""),
            version=kind.get("version", ""),
            kind=kind.get("kind", ""),
            resource=resource.get("resource", ""),
            sub_resource=raw.get("subResource") or "",
            namespace=raw.get("namespace") or "",
            name=raw.get("name") or "",
            object=raw.get("object"),
            old_object=raw.get("oldObject"),
            user=(raw.get("userInfo") or {}).get("username", ""),
            dry_run=bool(raw.get("dryRun")),
        )
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not an AdmissionReview: {error}"[:300]) from error


def _encode(request: AdmissionRequest, response: AdmissionResponse) -> bytes:
    answer: dict[str, Any] = {"uid": request.uid, "allowed": response.allow}
    if response.allow and response.patch:
        answer["patchType"] = "JSONPatch"
        answer["patch"] = base64.b64encode(msgspec.json.encode(list(response.patch))).decode()
    if not response.allow:
        answer["status"] = _status(request, response)
    if response.warnings:
        answer["warnings"] = [warning[:256] for warning in response.warnings]
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})


def _status(request: AdmissionRequest, response: AdmissionResponse) -> dict[str, Any]:
    """The refusal, with the details by which kubectl tells it as it does for built-in kinds: which object, which fields."""
    meta = (request.object or request.old_object or {}).get("metadata") or {}
    # Of an object that is Invalid kubectl shows nothing but the causes, so the message has to be one where no field is to blame.
    causes = response.causes or ([{"message": response.message[:MESSAGE_LIMIT]}] if response.reason == "Invalid" else [])
    details = {
        "name": request.name or meta.get("name") or meta.get("generateName") or "",
        "group": request.group,
        "kind": request.kind,
        "causes": list(causes[:CAUSES_LIMIT]),
    }
    return {
        "status": "Failure",
        "code": response.code,
        "reason": response.reason,
        "message": response.message[:MESSAGE_LIMIT],
        "details": {name: value for name, value in details.items() if value},
    }
