"""The API server: one function from requests to answers. ``transport()`` and ``sandbox.httpfront`` bring requests here."""

import random
from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from regroup.kube.resources import CRDS, EVENTS, NAMESPACES, PODS
from regroup.runtime.clock import Clock
from regroup.sandbox.apifaults import FaultPlan
from regroup.sandbox.apiserver import failures, forms, objects, subresources
from regroup.sandbox.apiserver.admission import Admission, WebhookCaller
from regroup.sandbox.apiserver.bodies import read_body
from regroup.sandbox.apiserver.custom import CustomKinds
from regroup.sandbox.apiserver.discovery import Discovery, not_a_path
from regroup.sandbox.apiserver.failures import Failure
from regroup.sandbox.apiserver.reading import Reader, ServerStream
from regroup.sandbox.apiserver.registry import Registry, Served
from regroup.sandbox.apiserver.routing import Target, parse_path, query_of, verb_of
from regroup.sandbox.apiserver.storage import Storage
from regroup.sandbox.apiserver.writing import WriteContext, Writer, Written
from regroup.sandbox.kinds.builtin import BUILTINS, CORE_EVENTS
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.kinds.events import from_core, to_core
from regroup.sandbox.transport import InProcessTransport
from regroup.wire import codec
from regroup.wire.transport import Request, Response, Transport

__all__ = ["ApiServer", "LogSource", "WebhookCaller"]

Obj = dict[str, Any]


class LogSource(Protocol):
    """Who has the logs of containers: a kubelet."""

    def read(self, uid: str, container: str, *, previous: bool = False, timestamps: bool = False) -> list[str] | None:
        """Lines of a container, or None when it has not run."""
        ...


class ApiServer:
    """One cluster's API."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        storage: Storage | None = None,
        webhook_caller: WebhookCaller | None = None,
        version: str = "1.36",
        log: Any = None,
    ) -> None:
        self.clock = clock
        self.storage = storage or Storage()
        self.registry = Registry(_served(definition) for definition in BUILTINS)
        self.faults = FaultPlan(clock=clock)
        self.logs: LogSource | None = None
        self.admission = Admission(self.storage, caller=webhook_caller, new_uid=lambda: objects.new_uid(rng))
        self._log = log or structlog.get_logger("apiserver")
        self._reader = Reader(self.storage)
        self._writer = Writer(self.storage, clock=clock, rng=rng, admission=self.admission, namespace_state=self._namespace_state)
        self._discovery = Discovery(self.registry, version=version)
        self._custom = CustomKinds(self.registry, self.storage, clock=clock, delete=self._writer.delete_stored)
        self._custom.restore()
        self._writer.after_write = self._custom.after_write

    def transport(self) -> Transport:
        """A transport that calls this server in the same process."""
        return InProcessTransport(self.handle)

    async def handle(self, request: Request) -> Response | ServerStream:
        """Answer one request. Raises only what a fault asks for (``Disconnected``)."""
        return await self.faults.around(request, self._guarded)

    async def _guarded(self, request: Request) -> Response | ServerStream:
        try:
            return await self._answer(request)
        except Failure as failure:
            return failure.response()
        except Exception as error:  # noqa: BLE001 - the root of a request: a bug in one must not end the cluster
            self._log.exception("request failed", method=request.method, path=request.path)
            return Failure(500, "InternalError", f"Internal error occurred: {type(error).__name__}: {error}").response()

    async def _answer(self, request: Request) -> Response | ServerStream:
        target = parse_path(request.path)
        if target is None:
            return self._discovery.answer(request)
        served = self.registry.get(target.group, target.version, target.plural)
        if served is None:
            if target.group and not self._discovery.knows_group(target.group):
                return not_a_path()
            raise failures.no_such_path()
        return await self._resource(request, served, target)

    async def _resource(self, request: Request, served: Served, target: Target) -> Response | ServerStream:
        query = query_of(request)
        verb = verb_of(request.method, target, query)
        form = forms.choose(request.headers.get("accept", ""), include=query.get("includeObject", ""), now=self.clock.now)
        if served.resource.namespaced and target.name and not target.namespace:
            raise failures.no_such_path()
        if target.subresource and target.subresource != "status":
            return await self._subresource(request, served, target, query)
        if target.subresource == "status" and not served.definition.status:
            raise failures.no_such_path()
        match verb:
            case "get":
                return self._reader.get(served, target, form)
            case "list":
                return self._reader.list_all(served, target, query, form)
            case "watch":
                return await self._reader.watch(served, target, query, form)
        context = self._context(request, served, target, query)
        written: Written
        match verb:
            case "create" if not target.name:
                body = read_body(request, served.resource)
                written = await self._writer.create(context, body)
            case "update":
                written = await self._writer.update(context, read_body(request, served.resource))
            case "patch":
                content_type = request.headers.get("content-type", "").partition(";")[0].strip()
                written = await self._writer.patch(context, content_type, request.body)
            case "delete":
                options = _options(request, query)
                await self._writer.admit_delete(context)
                written = self._writer.delete(context, options)
                if written.gone:
                    return _with_warnings(_deleted(served, written), context)
                return _with_warnings(form.object(served, written.stored, status=200), context)
            case "deletecollection":
                removed = self._writer.delete_collection(context, _options(request, query))
                return form.list(served, removed, {"resourceVersion": str(self.storage.version)})
            case _:
                raise failures.method_not_allowed()
        return _with_warnings(form.object(served, written.stored, status=201 if written.created else 200), context)

    async def _subresource(
        self, request: Request, served: Served, target: Target, query: Mapping[str, str]
    ) -> Response | ServerStream:
        context = self._context(request, served, target, query)
        stored = self._reader.find(served, target)
        is_pod = served.resource == PODS
        match (target.subresource, request.method):
            case ("scale", "GET") if served.definition.scale:
                return subresources.get_scale(served, stored)
            case ("scale", "PUT" | "PATCH") if served.definition.scale:
                return await subresources.set_scale(self._writer, context, stored, request)
            case ("binding", "POST") if is_pod:
                body = read_body(request, served.resource, strict=False)
                return subresources.bind(self._writer, context, stored, body, self.clock.now())
            case ("eviction", "POST") if is_pod:
                body = read_body(request, served.resource, strict=False)
                return subresources.evict(self._writer, context, stored, body, self.storage)
            case ("log", "GET") if is_pod:
                return subresources.read_log(stored, query, self.logs)
            case ("finalize", "PUT") if served.resource == NAMESPACES:
                return subresources.finalize(self._writer, context, stored, read_body(request, served.resource))
            case _:
                raise failures.no_such_path()

    def _context(self, request: Request, served: Served, target: Target, query: Mapping[str, str]) -> WriteContext:
        agent = request.headers.get("user-agent", "")
        manager = query.get("fieldManager", "")
        if not manager and request.headers.get("content-type", "") != "application/apply-patch+yaml":
            manager = agent.partition("/")[0] or "unknown"
        return WriteContext(
            served=served,
            target=target,
            query=query,
            manager=manager[:128],
            user_agent=agent,
            warnings=[],
            patches=request.method == "PATCH",
        )

    def _namespace_state(self, name: str) -> str | None:
        stored = self.storage.get(NAMESPACES, ("", name))
        if stored is None:
            return None
        if stored.obj["metadata"].get("deletionTimestamp"):
            return "Terminating"
        return str((stored.obj.get("status") or {}).get("phase") or "Active")


def _served(definition: KindDefinition) -> Served:
    if definition.resource == CORE_EVENTS:
        return Served(definition, EVENTS, to_stored=from_core, from_stored=to_core)
    return Served(definition, definition.resource)


def _options(request: Request, query: Mapping[str, str]) -> Obj:
    """``DeleteOptions`` from the body, with what the query says in their place."""
    options: Obj = {}
    if request.body:
        try:
            options = dict(codec.decode(request.body, dict))
        except codec.DecodeError as error:
            raise failures.bad_request(str(error)) from error
    for name in ("propagationPolicy", "gracePeriodSeconds"):
        if query.get(name):
            options[name] = int(query[name]) if name == "gracePeriodSeconds" else query[name]
    return options


def _deleted(served: Served, written: Written) -> Response:
    meta = written.stored.obj["metadata"]
    if served.resource in {PODS, CRDS}:
        return forms.PlainForm().object(served, written.stored)
    details: Obj = {"name": meta["name"], "kind": served.resource.plural, "uid": meta["uid"]}
    if served.resource.group:
        details["group"] = served.resource.group
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Response(200, forms.JSON, codec.encode(body))


def _with_warnings(answer: Response, context: WriteContext) -> Response:
    if not context.warnings:
        return answer
    texts = [f'299 - "{_quoted(warning)}"' for warning in dict.fromkeys(context.warnings)]
    return Response(answer.status, {**answer.headers, "warning": ", ".join(texts)}, answer.body)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")[:256]
