"""Writes: create, update, patch. Everything between looking and storing is one step of the loop, but for webhooks.

A write that changes nothing is not stored and gives no event. A patch without a resourceVersion that meets a change made while a
webhook was asked is tried again on the new state.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regroup.runtime.clock import Clock, timestamp
from regroup.sandbox.apiserver import failures, objects, patching
from regroup.sandbox.apiserver.admission import Admission
from regroup.sandbox.apiserver.failures import Failure
from regroup.sandbox.apiserver.media import APPLY_PATCH, SCHEME
from regroup.sandbox.apiserver.options import WriteOptions
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.routing import Target
from regroup.sandbox.apiserver.storage import Key, Storage, Stored
from regroup.sandbox.apiserver.traits import is_event, must_be_versioned, put_creates
from regroup.sandbox.apiserver.webhooks import Attributes
from regroup.sandbox.fieldmanager import manager as fields
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.schema.decoding import DecodeFailure
from regroup.sandbox.schema.errors import FieldError
from regroup.wire import codec
from regroup.wire.resource import Resource

Obj = dict[str, Any]

ATTEMPTS = 5
"""How often a patch is tried on an object that others write to meanwhile."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left: the stored version, and whether it is new or gone."""

    stored: Stored
    created: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Who writes, and how: the parts of a request that all writes share. ``warnings`` are collected for the answer."""

    served: Served
    target: Target
    options: WriteOptions
    warnings: list[str]

    @property
    def dry_run(self) -> bool:
        return self.options.dry_run

    def main(self) -> "WriteContext":
        """The same request on the object itself, for subresources that write to it."""
        return replace(self, target=replace(self.target, subresource=""))


class Writer:
    """Answers writes on resources."""

    def __init__(
        self,
        storage: Storage,
        *,
        clock: Clock,
        rng: random.Random,
        admission: Admission,
        namespace_state: Callable[[str], str | None],
    ) -> None:
        self._storage = storage
        self._clock, self._rng = clock, rng
        self._admission = admission
        self._namespace_state = namespace_state
        self.after_write: Callable[[Served, Written], None] = _nobody
        """Called after each write that was stored."""

    async def create(self, context: WriteContext, body: Obj) -> Written:
        """POST of a new object. Raises ``Failure``."""
        served, definition = context.served, context.served.definition
        obj = objects.begin_create(definition, self._decoded(context, body), namespace=context.target.namespace)
        self._check_namespace(context, obj)
        definition.default(obj)
        now = timestamp(self._clock.now())
        obj = fields.update(None, obj, manager=context.options.manager, subresource="", now=now, schema=definition.schema)
        generated = not obj["metadata"].get("name")
        return await self._make(context, served, obj, generated=generated)

    async def update(self, context: WriteContext, body: Obj) -> Written:
        """PUT. Raises ``Failure``."""
        served, target = context.served, context.target
        resource, wanted = served.resource, self._decoded(context, body)
        _check_identity(target, wanted)
        if (body.get("metadata") or {}).get("managedFields") == []:
            wanted["metadata"]["managedFields"] = []  # clears the record; reading drops empty lists
        versioned = bool((body.get("metadata") or {}).get("resourceVersion"))
        for _ in range(ATTEMPTS):
            stored = self._storage.get(served.stored_as, (target.namespace, target.name))
            if stored is None:
                if target.subresource or not put_creates(resource):
                    raise failures.not_found(resource, target.name)
                return await self.create(context, _unversioned(body))  # whatever version it was read at
            if not versioned and (served.definition.custom or must_be_versioned(resource)):
                raise failures.unversioned(resource, target.name)
            objects.check_uid(served.definition, wanted, stored.obj)
            try:
                return await self._change(context, stored, lambda _: wanted, operation="Update")
            except _Moved:
                if versioned:
                    break
        raise failures.stale(resource, target.name)

    async def patch(self, context: WriteContext, content_type: str, body: bytes | None) -> Written:
        """PATCH of all four types. Raises ``Failure``."""
        served, target = context.served, context.target
        patching.check_type(served.definition, content_type)
        if content_type == APPLY_PATCH:
            patch: Any = patching.decode_configuration(body, served.resource)
            change, operation = self._applied(context, patch), "Apply"
        else:
            patch = patching.decode_patch(content_type, body)
            change, operation = self._patched(context, content_type, patch), "Update"
        for _ in range(ATTEMPTS):
            stored = self._storage.get(served.stored_as, (target.namespace, target.name))
            if stored is None:
                if operation != "Apply" or target.subresource:
                    raise failures.not_found(served.resource, target.name)
                return await self._apply_new(context, patch)
            try:
                return await self._change(context, stored, change, operation=operation)
            except _Moved:
                continue
        raise failures.stale(served.resource, target.name)

    def store(self, served: Served, obj: Obj) -> Written:
        """Store a new version of an object that is there, for subresources with rules of their own."""
        meta = obj["metadata"]
        return self._store(served, (meta.get("namespace", ""), meta["name"]), obj)

    def keep(self, served: Served, key: Key, obj: Obj) -> Stored:
        """Put a version into the storage, whatever it says."""
        stored = self._storage.put(served.stored_as, key, {**obj, "metadata": dict(obj["metadata"])})
        self.after_write(served, Written(stored))
        return stored

    def remove(self, served: Served, key: Key, last: Obj, *, versioned: bool = False) -> Written:
        """Take an object out of the storage; ``last`` is its last state, which the answer shows, ``versioned`` with the version
        of the removal."""
        stored = self._storage.remove(served.stored_as, key)
        if versioned:
            last = {**last, "metadata": {**last["metadata"], "resourceVersion": str(stored.version)}}
        written = Written(Stored(last, stored.version, codec.encode(last)), gone=True)
        self.after_write(served, written)
        return written

    async def _apply_new(self, context: WriteContext, patch: Obj) -> Written:
        served, target = context.served, context.target
        meta = patch.get("metadata") or {}
        if meta.get("uid"):
            why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
            raise failures.conflict(served.resource, target.name, why)
        patch = _unversioned(patch)
        applied = self._applied(context, patch)(None)
        managed = applied["metadata"].get("managedFields")
        obj = objects.begin_create(served.definition, applied, namespace=target.namespace)
        self._check_namespace(context, obj)
        if managed:
            obj["metadata"]["managedFields"] = managed
        served.definition.default(obj)
        return await self._make(context, served, obj, generated=False)

    async def _make(self, context: WriteContext, served: Served, obj: Obj, *, generated: bool) -> Written:
        """Take a new object through admission and validation into the storage."""
        definition = served.definition
        obj = await self._mutated(context, "CREATE", obj, None)
        obj = objects.complete_create(definition, obj, now=self._clock.now(), rng=self._rng)
        definition.prepare(obj, None)
        self._validate(context, obj, None)
        await self._admission.validate(_attributes(context, "CREATE", obj, None))
        # Webhooks were asked: the name may be taken, or the namespace on its way out, by now.
        self._check_namespace(context, obj)
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if self._storage.get(served.stored_as, key) is not None:
            raise failures.already_exists(served.resource, key[1], generated=generated)
        obj = served.to_stored(obj)
        if context.dry_run:
            return Written(self._unstored(obj), created=True)
        return Written(self.keep(served, key, obj), created=True)

    async def _mutated(self, context: WriteContext, operation: str, obj: Obj, old: Obj | None) -> Obj:
        """The object after mutating admission, complete again where webhooks have changed it."""
        changed = await self._admission.mutate(_attributes(context, operation, obj, old))
        if changed is not obj:
            changed = self._decoded(context, changed)
            context.served.definition.default(changed)
        return changed

    def _applied(self, context: WriteContext, patch: Obj) -> Callable[[Obj | None], Obj]:
        def change(live: Obj | None) -> Obj:
            _check_identity(context.target, patch)
            try:
                applied = fields.apply(
                    live,
                    patch,
                    manager=context.options.manager,
                    force=context.options.force or live is None,
                    subresource=context.target.subresource,
                    now=timestamp(self._clock.now()),
                    schema=context.served.definition.schema,
                    resets=_resets(context.served.definition, context.target.subresource),
                )
            except fields.ApplyConflict as error:
                raise Failure(409, "Conflict", str(error), details={"causes": error.causes}) from error
            except fields.ApplyError as error:
                raise Failure(error.code, error.reason, str(error)) from error
            return self._decoded(context, applied, nulls=True)

        return change

    def _patched(self, context: WriteContext, content_type: str, patch: Any) -> Callable[[Obj | None], Obj]:
        definition = context.served.definition

        def change(live: Obj | None) -> Obj:
            result = patching.patched(definition, content_type, live or {}, patch, schema=definition.schema)
            _check_identity(context.target, result)
            return self._decoded(context, result, patch=True)

        return change

    async def _change(
        self, context: WriteContext, stored: Stored, change: Callable[[Obj | None], Obj], *, operation: str
    ) -> Written:
        served, target, definition = context.served, context.target, context.served.definition
        live = served.from_stored(stored.obj)
        wanted = change(live)
        definition.default(wanted)  # before the generation is counted: what a default gives back has not changed
        obj = objects.prepare_update(definition, wanted, live, subresource=target.subresource)
        scaling = definition.scale if target.subresource == "scale" else None
        # Who scales takes the replicas from those who own them, without a time; what nobody owns stays nobody's.
        if operation == "Update" and (scaling is None or fields.owned(live, scaling[0])):
            obj = fields.update(
                live,
                obj,
                manager=context.options.manager,
                subresource=target.subresource,
                now=timestamp(self._clock.now()) if scaling is None else None,
                schema=definition.schema,
                resets=_resets(definition, target.subresource),
            )
        definition.prepare(obj, live)
        obj = await self._mutated(context, "UPDATE", obj, live)
        self._validate(context, obj, live)
        await self._admission.validate(_attributes(context, "UPDATE", obj, live))
        key = (target.namespace, target.name)
        current = self._storage.get(served.stored_as, key)
        if current is not stored:
            # Somebody wrote while the webhooks were asked.
            if current is None:
                raise failures.not_found(served.resource, target.name)
            raise _Moved
        if objects.same(obj, live):
            return Written(stored)
        obj = served.to_stored(obj)
        if context.dry_run:
            return Written(self._unstored(obj))
        return self._store(served, key, obj)

    def _store(self, served: Served, key: Key, obj: Obj) -> Written:
        if objects.is_gone(obj):
            return self.remove(served, key, obj)
        return Written(self.keep(served, key, obj))

    def _unstored(self, obj: Obj) -> Stored:
        return Stored(obj, self._storage.version, codec.encode(obj))

    def _validate(self, context: WriteContext, obj: Obj, old: Obj | None) -> None:
        definition = context.served.definition
        if definition.warnings is not None:
            context.warnings.extend(definition.warnings(obj))
        errors: Sequence[FieldError] = definition.validate(obj, old)
        if errors:
            # Events are judged in their old form, whatever group they came in.
            judged = replace(definition.resource, group="") if is_event(definition.resource) else definition.resource
            raise failures.invalid(judged, obj["metadata"].get("name", ""), errors)

    def _decoded(self, context: WriteContext, body: Obj, *, patch: bool = False, nulls: bool = False) -> Obj:
        """The object as its kind reads it; with ``nulls`` also those that validation will refuse. Raises ``Failure`` for wrong
        types, and for what ``fieldValidation`` forbids."""
        resource = context.served.resource
        try:
            _check_kind(context.served, body)
            obj, unknown = context.served.definition.decode(body)
        except DecodeFailure as error:
            if patch:
                text = codec.encode(dict(sorted(body.items()))).decode()
                raise failures.undecodable_patch(text, str(error)) from error
            raise failures.bad_request(_cannot_handle(resource, str(error))) from error
        if patch and unknown and context.options.validation == "Strict" and not context.served.definition.custom:
            raise failures.undecodable_patch(
                codec.encode(body).decode(), f"strict decoding error: {_unknown_texts(sorted(unknown))}"
            )
        _unknown_fields(context, unknown)
        return obj if nulls else context.served.definition.without_nulls(obj)

    def _check_namespace(self, context: WriteContext, obj: Mapping[str, Any]) -> None:
        """New objects need a namespace that is there to stay. Raises ``Failure``."""
        served, namespace = context.served, context.target.namespace
        if not served.resource.namespaced:
            return
        state = self._namespace_state(namespace)
        if state is None:
            raise Failure(
                404, "NotFound", f'namespaces "{namespace}" not found', details={"name": namespace, "kind": "namespaces"}
            )
        if state == "Terminating":
            message = f"namespace {namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise failures.forbidden(served.resource, obj["metadata"].get("name", ""), why, causes=[cause])


class _Moved(Exception):
    """The object was written while webhooks were asked."""


def _nobody(_: Served, __: Written) -> None:
    return


def _attributes(context: WriteContext, operation: str, obj: Obj, old: Obj | None) -> Attributes:
    return Attributes(
        served=context.served,
        operation=operation,
        namespace=context.target.namespace,
        name=context.target.name or obj["metadata"].get("name", ""),
        subresource=context.target.subresource,
        obj=obj,
        old=old,
        dry_run=context.dry_run,
        warnings=context.warnings,
    )


def _resets(definition: KindDefinition, subresource: str) -> tuple[str, ...] | None:
    """The top fields that a write does not take, and so does not own; None for the usual ones."""
    if not subresource and not definition.status:
        return ()  # ``status`` is a field like any other where it has no path of its own
    return ("spec",) if subresource == "status" and not objects.own_metadata(definition) else None


def _check_identity(target: Target, obj: Obj) -> None:
    """The object is the one that the path names. Raises ``Failure`` (400)."""
    meta = obj.get("metadata") or {}
    name = meta.get("name") if isinstance(meta, dict) else None
    if not name:
        why = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        raise failures.bad_request(why)
    if name != target.name:
        raise failures.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if meta.get("namespace") and meta["namespace"] != target.namespace:
        raise failures.bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _check_kind(served: Served, body: Obj) -> None:
    """A patch cannot turn an object into one of another kind. Raises ``Failure`` or ``DecodeFailure``."""
    resource, kind, version = served.resource, body.get("kind"), body.get("apiVersion")
    if not kind or kind == resource.kind:
        if version and version != resource.api_version:
            if served.definition.custom:
                error = FieldError("apiVersion", "Invalid", version, f"must be {resource.api_version}")
                raise failures.invalid(resource, (body.get("metadata") or {}).get("name", ""), [error])
            raise DecodeFailure(f'no kind "{resource.kind}" is registered for version "{version}" in scheme "{SCHEME}"')
        return
    if served.definition.custom:
        error = FieldError("kind", "Invalid", kind, f"must be {resource.kind}")
        raise failures.invalid(resource, (body.get("metadata") or {}).get("name", ""), [error], kind=str(kind))
    raise DecodeFailure(f"the object is a {kind}, not a {resource.kind}")


def _cannot_handle(resource: Resource, why: str) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'


def _unknown_fields(context: WriteContext, paths: Sequence[str]) -> None:
    """What ``fieldValidation`` says about fields that the schema does not know. Raises ``Failure`` (400) for Strict."""
    if not paths:
        return
    if context.options.validation == "Strict":
        why = f"strict decoding error: {_unknown_texts(paths)}"
        raise failures.bad_request(_cannot_handle(context.served.resource, why))
    if context.options.validation == "Warn":
        texts = [f'unknown field "{path}"' for path in paths]
        context.warnings.extend(text for text in texts if text not in context.warnings)


def _unknown_texts(paths: Sequence[str]) -> str:
    return ", ".join(f'unknown field "{path}"' for path in paths)


def _unversioned(obj: Obj) -> Obj:
    meta = obj.get("metadata") or {}
    return {**obj, "metadata": {key: value for key, value in meta.items() if key != "resourceVersion"}}
