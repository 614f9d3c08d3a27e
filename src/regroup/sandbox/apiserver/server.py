"""The API server: one function from requests to answers. ``transport()`` and ``sandbox.httpfront`` bring requests here."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from regroup.kube.resources import EVENTS, NAMESPACES, PODS
from regroup.runtime.clock import Clock
from regroup.sandbox.apifaults import FaultPlan
from regroup.sandbox.apiserver import failures, forms, objects, podlogs, podwork, reviews, scaling
from regroup.sandbox.apiserver.admission import Admission
from regroup.sandbox.apiserver.bodies import read_object, read_other
from regroup.sandbox.apiserver.custom import CustomKinds
from regroup.sandbox.apiserver.deleting import Deleter
from regroup.sandbox.apiserver.discovery import Discovery, not_a_path
from regroup.sandbox.apiserver.expiry import expired
from regroup.sandbox.apiserver.failures import Failure
from regroup.sandbox.apiserver.media import media_type
from regroup.sandbox.apiserver.options import OptionsKind, check_version, delete_options, write_options
from regroup.sandbox.apiserver.podlogs import LogSource
from regroup.sandbox.apiserver.priorities import Priorities
from regroup.sandbox.apiserver.reading import Reader, ServerStream, list_meta
from regroup.sandbox.apiserver.registry import Registry, Served
from regroup.sandbox.apiserver.routing import Target, parse_path, query_of, verb_of
from regroup.sandbox.apiserver.selection import selection
from regroup.sandbox.apiserver.storage import Storage
from regroup.sandbox.apiserver.traits import answered_whole, is_namespace
from regroup.sandbox.apiserver.webhooks import WebhookCaller
from regroup.sandbox.apiserver.writing import WriteContext, Writer, Written
from regroup.sandbox.kinds.builtin import BUILTINS, CORE_EVENTS
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.kinds.events import from_core, to_core
from regroup.sandbox.transport import InProcessTransport
from regroup.wire import codec
from regroup.wire.transport import Request, Response, Transport

__all__ = ["ApiServer", "LogSource", "WebhookCaller"]

Obj = dict[str, Any]

WARNING_LIMIT = 256
"""Characters of one warning that are sent."""
_OPTIONS: Mapping[str, OptionsKind] = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


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
        self.admission = Admission(self.storage, self.registry, caller=webhook_caller, new_uid=lambda: objects.new_uid(rng))
        self.admission.mutations.append(Priorities(self.storage).admit)
        self._log = log or structlog.get_logger("apiserver")
        self._reader = Reader(self.storage)
        self._writer = Writer(self.storage, clock=clock, rng=rng, admission=self.admission, namespace_state=self._namespace_state)
        self._discovery = Discovery(self.registry, version=version)
        self._deleter = Deleter(self.storage, clock=clock, admission=self.admission, writer=self._writer)
        self._custom = CustomKinds(self.registry, self.storage, clock=clock, delete=self._deleter.delete_stored)
        self._custom.restore()
        self._writer.after_write = self._custom.after_write

    def transport(self) -> Transport:
        """A transport that calls this server in the same process."""
        return InProcessTransport(self.handle)

    def expire_events(self) -> None:
        """Remove the events whose time is over. Somebody has to call it now and then."""
        served = self.registry.get(EVENTS.group, EVENTS.version, EVENTS.plural)
        assert served is not None  # noqa: S101 - a built-in kind
        for stored in list(expired(self.storage.items(EVENTS), now=self.clock.now())):
            self._deleter.delete_stored(served, stored)

    async def close(self) -> None:
        """Give back what the server holds outside of itself: connections to webhooks."""
        await self.admission.close()

    async def handle(self, request: Request) -> Response | ServerStream:
        """Answer one request. Raises only what a fault asks for (``Disconnected``)."""
        return await self.faults.around(request, self._guarded)

    async def _guarded(self, request: Request) -> Response | ServerStream:
        warnings: list[str] = []
        try:
            return _with_warnings(await self._answer(request, warnings), warnings)
        except Failure as failure:
            return _with_warnings(failure.response(), warnings)
        except Exception as error:  # noqa: BLE001 - the root of a request: a bug in one must not end the cluster
            self._log.exception("request failed", method=request.method, path=request.path)
            return Failure(500, "InternalError", f"Internal error occurred: {type(error).__name__}: {error}").response()

    async def _answer(self, request: Request, warnings: list[str]) -> Response | ServerStream:
        target = parse_path(request.path)
        if target is None:
            return self._discovery.answer(request)
        review = reviews.review_of(target)
        if review is not None:
            return reviews.answer(request, target, review, clock=self.clock, known=self.registry.knows)
        served = self.registry.get(target.group, target.version, target.plural)
        if served is None:
            if target.group and not self._discovery.knows_group(target.group):
                return not_a_path()
            raise failures.no_such_path()
        return await self._resource(request, served, target, warnings)

    async def _resource(self, request: Request, served: Served, target: Target, warnings: list[str]) -> Response | ServerStream:
        query = query_of(request)
        verb = verb_of(request.method, target, query)
        if target.namespace and not served.resource.namespaced and served.definition.custom:
            return not_a_path()
        _check_path(served, target, verb)
        if target.subresource and target.subresource != "status":
            return await self._subresource(request, served, target, warnings)
        form = self._form(request)
        match verb:
            case "get":
                # ``watch`` means nothing here: one object is watched by its collection, selected by name.
                check_version(query)
                return self._reader.get(served, target, form)
            case "list":
                return self._reader.list_all(served, target, query, form)
            case "watch":
                return await self._reader.watch(served, target, query, form)
            case "delete" | "deletecollection":
                return await self._delete(request, served, target, form=form, warnings=warnings)
        context = self._context(request, served, target, warnings)
        match verb:
            case "create":
                written = await self._writer.create(context, read_object(request, served.definition, known=self.registry.knows))
            case "update":
                written = await self._writer.update(context, read_object(request, served.definition, known=self.registry.knows))
            case _:
                written = await self._writer.patch(context, media_type(request), request.body)
        return form.object(served, written.stored, status=201 if written.created else 200)

    async def _delete(
        self, request: Request, served: Served, target: Target, *, form: forms.Form, warnings: list[str]
    ) -> Response:
        options = delete_options(request)
        if not target.name:
            wanted = selection(served, target.namespace, query_of(request))
            removed = await self._deleter.delete_collection(served, wanted, options, warnings=warnings)
            return form.list(served, removed, list_meta(served, self.storage.version))
        written = await self._deleter.delete(served, target, options, warnings=warnings)
        whole = not written.gone or answered_whole(served.resource)
        return form.object(served, written.stored) if whole else _deleted(served, written)

    async def _subresource(
        self, request: Request, served: Served, target: Target, warnings: list[str]
    ) -> Response | ServerStream:
        if served.resource == PODS and target.subresource.partition("/")[0] in podwork.NOT_SIMULATED:
            self._reader.find(served, target)
            raise podwork.not_simulated(target)
        methods = _methods(served, target.subresource)
        if not methods:
            raise _no_such_subresource(served, target)
        if request.method not in methods:
            raise failures.method_not_allowed()
        stored = self._reader.find(served, target)
        if target.subresource == "scale" and request.method == "GET":
            return scaling.get_scale(served, stored, self._form(request))
        if target.subresource == "log":
            asked = podlogs.log_request(stored.obj, query_of(request), now=self.clock.now())
            return podlogs.read_log(stored.obj, asked, self.logs, find=lambda: self._object(served, target))
        known = self.registry.knows
        context, now = self._context(request, served, target, warnings), self.clock.now()
        match (target.subresource, request.method):
            case ("scale", _):
                return await scaling.set_scale(self._writer, context, stored, request, known=known)
            case ("binding", _):
                body = read_other(request, podwork.BINDINGS, known=known)
                return podwork.bind(self._writer, context, stored, body, storage=self.storage, now=now)
            case ("eviction", _):
                body = read_other(request, podwork.EVICTIONS, known=known)
                return await podwork.evict(self._deleter, self._writer, context, stored, body, storage=self.storage, now=now)
            case _:
                body = read_object(request, served.definition, known=known)
                return podwork.finalize(self._writer, context, stored, body, now=now)

    def _form(self, request: Request) -> forms.Form:
        include = query_of(request).get("includeObject", "")
        return forms.choose(request.headers.get("accept", ""), include=include, now=self.clock.now)

    def _object(self, served: Served, target: Target) -> Obj | None:
        stored = self.storage.get(served.stored_as, (target.namespace, target.name))
        return stored.obj if stored is not None else None

    def _context(self, request: Request, served: Served, target: Target, warnings: list[str]) -> WriteContext:
        return WriteContext(
            served=served, target=target, options=write_options(request, _OPTIONS[request.method]), warnings=warnings
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


def _methods(served: Served, subresource: str) -> frozenset[str]:
    """The methods that a subresource other than ``status`` takes; none when there is no such subresource."""
    match subresource:
        case "scale" if served.definition.scale:
            return frozenset({"GET", "PUT", "PATCH"})
        case "log" if served.resource == PODS:
            return frozenset({"GET"})
        case "binding" | "eviction" if served.resource == PODS:
            return frozenset({"POST"})
        case "finalize" if served.resource == NAMESPACES:
            return frozenset({"PUT"})
        case _:
            return frozenset()


def _no_such_subresource(served: Served, target: Target) -> Failure:
    """Custom resources speak of the object, built-in ones of the path."""
    return failures.not_found(served.resource, target.name) if served.definition.custom else failures.no_such_path()


def _check_path(served: Served, target: Target, verb: str) -> None:
    """The path takes the verb. Raises ``Failure`` (404, 405)."""
    namespaced = served.resource.namespaced
    if bool(target.namespace) and not namespaced:
        raise failures.no_such_path()
    if target.name and namespaced and not target.namespace:
        raise failures.no_such_path()
    if target.subresource == "status" and not served.definition.status:
        raise _no_such_subresource(served, target)
    if target.subresource == "status" and verb not in {"get", "update", "patch"}:
        raise failures.method_not_allowed()
    if target.subresource:
        return
    everywhere = namespaced and not target.namespace
    allowed = {"list", "watch"} if everywhere else {"list", "watch", "create", "deletecollection"}
    if verb not in ({"get", "update", "patch", "delete"} if target.name else allowed):
        raise failures.method_not_allowed()
    if verb == "deletecollection" and is_namespace(served.resource):
        raise failures.method_not_allowed()


def _deleted(served: Served, written: Written) -> Response:
    meta = written.stored.obj["metadata"]
    details: Obj = {"name": meta["name"]}
    if served.resource.group:
        details["group"] = served.resource.group
    details |= {"kind": served.resource.plural, "uid": meta["uid"]}
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Response(200, forms.JSON, codec.encode(body))


def _with_warnings(answer: Response | ServerStream, warnings: Sequence[str]) -> Response | ServerStream:
    if not warnings or not isinstance(answer, Response):
        return answer
    texts = [f'299 - "{_quoted(warning)}"' for warning in dict.fromkeys(warnings)]
    return Response(answer.status, {**answer.headers, "warning": ", ".join(texts)}, answer.body)


def _quoted(text: str) -> str:
    return text[:WARNING_LIMIT].replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
