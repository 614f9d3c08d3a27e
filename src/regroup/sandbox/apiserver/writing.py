"""Writes: create, update, patch, delete. Everything between looking and storing is one step of the loop, but for webhooks.

A write that changes nothing is not stored and gives no event. A patch without a resourceVersion that meets a change made while a
webhook was asked is tried again on the new state.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regroup.runtime.clock import Clock, timestamp
from regroup.sandbox.apiserver import failures, objects, patching
from regroup.sandbox.apiserver.admission import Admission, Attributes
from regroup.sandbox.apiserver.failures import Failure
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.routing import Target, flag
from regroup.sandbox.apiserver.selection import selection
from regroup.sandbox.apiserver.storage import Key, Storage, Stored
from regroup.sandbox.fieldmanager import manager as fields
from regroup.sandbox.schema.decoding import DecodeFailure
from regroup.sandbox.schema.errors import FieldError
from regroup.wire import codec
from regroup.wire.resource import Resource

Obj = dict[str, Any]

PATCH_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left: the stored version, and whether it is new or gone."""

    stored: Stored
    created: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Who writes, and how: the parts of a request that all writes share."""

    served: Served
    target: Target
    query: Mapping[str, str]
    manager: str
    user_agent: str
    warnings: list[str]
    patches: bool = False

    def main(self) -> "WriteContext":
        """The same request on the object itself in place of a subresource."""
        return replace(self, target=replace(self.target, subresource=""))

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"


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
        served = context.served
        definition = served.definition
        body = self._decoded(context, body)
        self._check_namespace(context, body)
        now = self._clock.now()
        obj = objects.prepare_create(definition, body, namespace=context.target.namespace, now=now, rng=self._rng)
        generated = bool((body.get("metadata") or {}).get("generateName")) and not (body.get("metadata") or {}).get("name")
        definition.default(obj)
        obj = fields.update(None, obj, manager=context.manager, subresource="", now=timestamp(now), schema=definition.schema)
        definition.prepare(obj, None)
        obj = await self._admission.mutate(self._attributes(context, "CREATE", obj, None))
        objects.check_name(definition, obj)
        definition.default(obj)
        self._validate(context, obj, None)
        await self._admission.validate(self._attributes(context, "CREATE", obj, None))
        # Webhooks were asked: the name may be taken by now.
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if self._storage.get(served.stored_as, key) is not None:
            if generated:
                raise Failure(
                    409,
                    "AlreadyExists",
                    f'{served.resource} "{key[1]}" already exists, '
                    "the server was not able to generate a unique name for the object",
                )
            raise failures.already_exists(served.resource, key[1])
        obj = served.to_stored(obj)
        if context.dry_run:
            return Written(self._unstored(served, obj), created=True)
        return Written(self._put(served, key, obj), created=True)

    async def update(self, context: WriteContext, body: Obj) -> Written:
        """PUT. Raises ``Failure``."""
        served, target = context.served, context.target
        stored = self._storage.get(served.stored_as, (target.namespace, target.name))
        if stored is None:
            raise failures.not_found(served.resource, target.name)
        new = body
        return await self._change(context, stored, lambda _: new, operation="Update")

    async def patch(self, context: WriteContext, content_type: str, body: bytes | None) -> Written:
        """PATCH of all four types. Raises ``Failure``."""
        served, target = context.served, context.target
        patching.check_type(served.definition, content_type)
        patch = patching.decode_body(body)
        attempt = 0
        while True:
            attempt += 1
            stored = self._storage.get(served.stored_as, (target.namespace, target.name))
            if content_type == patching.APPLY_PATCH:
                if not isinstance(patch, dict):
                    raise failures.bad_request("error decoding YAML: the apply configuration is no object")
                if stored is None:
                    if target.subresource:
                        raise failures.not_found(served.resource, target.name)
                    return await self._apply_new(context, patch)
                change, operation = self._applied(context, patch), "Apply"
            else:
                if stored is None:
                    raise failures.not_found(served.resource, target.name)
                change, operation = self._patched(context, content_type, patch), "Update"
            try:
                return await self._change(context, stored, change, operation=operation)
            except _Moved:
                if attempt >= PATCH_ATTEMPTS:
                    raise failures.stale(served.resource, target.name) from None

    def delete(self, context: WriteContext, options: Mapping[str, Any]) -> Written:
        """DELETE of one object. Raises ``Failure``."""
        served, target = context.served, context.target
        key = (target.namespace, target.name)
        stored = self._storage.get(served.stored_as, key)
        if stored is None:
            raise failures.not_found(served.resource, target.name)
        objects.check_preconditions(served.definition, stored.obj, options.get("preconditions") or {})
        return self._delete(context, key, stored, options)

    def delete_stored(self, served: Served, stored: Stored) -> None:
        """Delete an object on the server's own account, in the background."""
        meta = stored.obj["metadata"]
        target = Target(
            served.resource.group, served.resource.version, served.resource.plural, meta.get("namespace", ""), meta["name"], ""
        )
        context = WriteContext(served=served, target=target, query={}, manager="kube-apiserver", user_agent="", warnings=[])
        self._delete(context, (meta.get("namespace", ""), meta["name"]), stored, {})

    async def admit_delete(self, context: WriteContext) -> None:
        """Ask the webhooks that want to know of deletions. Raises ``Failure``."""
        served, target = context.served, context.target
        stored = self._storage.get(served.stored_as, (target.namespace, target.name))
        if stored is not None:
            await self._admission.validate(self._attributes(context, "DELETE", None, stored.obj))

    def delete_collection(self, context: WriteContext, options: Mapping[str, Any]) -> Sequence[Stored]:
        """DELETE of all that the selectors name; each as by itself."""
        served, target = context.served, context.target
        wanted = selection(served.definition, target.namespace, context.query)
        found = [stored for stored in self._storage.items(served.stored_as, target.namespace) if wanted.matches(stored.obj)]
        for stored in found:
            meta = stored.obj["metadata"]
            self._delete(context, (meta.get("namespace", ""), meta["name"]), stored, options)
        return found

    def store(self, served: Served, obj: Obj) -> Written:
        """Store a new version of an object that is there, for subresources with rules of their own."""
        meta = obj["metadata"]
        return self._store(served, (meta.get("namespace", ""), meta["name"]), obj)

    async def _apply_new(self, context: WriteContext, patch: Obj) -> Written:
        served, target = context.served, context.target
        meta = patch.setdefault("metadata", {})
        if meta.get("name") and meta["name"] != target.name:
            raise failures.bad_request(f"name in URL does not match name in apply configuration: {target.name} != {meta['name']}")
        if meta.get("uid"):
            why = "uid mismatch: the provided object specified uid {}, and no existing object was found".format(meta["uid"])
            raise failures.conflict(served.resource, target.name, why)
        if meta.get("managedFields"):
            raise failures.bad_request("metadata.managedFields must be nil")
        self._check_namespace(context, patch)
        now = self._clock.now()
        obj = fields.apply(
            None, patch, manager=context.manager, force=True, subresource="", now=timestamp(now), schema=served.definition.schema
        )
        managed = obj["metadata"].get("managedFields")
        body = self._decoded(context, {**obj, "metadata": {**obj["metadata"], "name": target.name}})
        prepared = objects.prepare_create(served.definition, body, namespace=target.namespace, now=now, rng=self._rng)
        if managed:
            prepared["metadata"]["managedFields"] = managed
        served.definition.default(prepared)
        served.definition.prepare(prepared, None)
        prepared = await self._admission.mutate(self._attributes(context, "CREATE", prepared, None))
        objects.check_name(served.definition, prepared)
        served.definition.default(prepared)
        self._validate(context, prepared, None)
        await self._admission.validate(self._attributes(context, "CREATE", prepared, None))
        key = (prepared["metadata"].get("namespace", ""), target.name)
        if self._storage.get(served.stored_as, key) is not None:
            raise failures.already_exists(served.resource, target.name)
        prepared = served.to_stored(prepared)
        if context.dry_run:
            return Written(self._unstored(served, prepared), created=True)
        return Written(self._put(served, key, prepared), created=True)

    def _applied(self, context: WriteContext, patch: Obj) -> Callable[[Obj], Obj]:
        def change(live: Obj) -> Obj:
            try:
                return fields.apply(
                    live,
                    patch,
                    manager=context.manager,
                    force=flag(context.query, "force"),
                    subresource=context.target.subresource,
                    now=timestamp(self._clock.now()),
                    schema=context.served.definition.schema,
                )
            except fields.ApplyConflict as error:
                raise Failure(409, "Conflict", str(error), details={"causes": error.causes}) from error
            except fields.ApplyError as error:
                raise failures.bad_request(str(error)) from error

        return change

    def _patched(self, context: WriteContext, content_type: str, patch: Any) -> Callable[[Obj], Obj]:
        definition = context.served.definition
        return lambda live: patching.patched(definition, content_type, live, patch, schema=definition.schema)

    async def _change(self, context: WriteContext, stored: Stored, change: Callable[[Obj], Obj], *, operation: str) -> Written:
        served, target = context.served, context.target
        definition = served.definition
        old = stored.obj
        live = served.from_stored(old)
        wanted = change(live)
        versioned = bool((wanted.get("metadata") or {}).get("resourceVersion")) and operation == "Update"
        if wanted.get("kind", served.resource.kind) != served.resource.kind:
            raise failures.bad_request(f"the object is a {wanted.get('kind')}, not a {served.resource.kind}")
        obj = objects.prepare_update(definition, self._decoded(context, wanted), live, subresource=target.subresource)
        definition.default(obj)
        if operation == "Update":
            now = timestamp(self._clock.now())
            obj = fields.update(
                live, obj, manager=context.manager, subresource=target.subresource, now=now, schema=definition.schema
            )
        definition.prepare(obj, live)
        if objects.same(obj, live):
            return Written(stored)
        obj = await self._admission.mutate(self._attributes(context, "UPDATE", obj, live))
        definition.default(obj)
        self._validate(context, obj, live)
        await self._admission.validate(self._attributes(context, "UPDATE", obj, live))
        key = (target.namespace, target.name)
        current = self._storage.get(served.stored_as, key)
        if current is not stored:
            # Somebody wrote while the webhooks were asked.
            if current is None:
                raise failures.not_found(served.resource, target.name)
            if versioned and not context.patches:
                raise failures.stale(served.resource, target.name)
            raise _Moved
        if objects.same(obj, live):
            return Written(stored)
        obj = served.to_stored(obj)
        if context.dry_run:
            return Written(self._unstored(served, obj))
        return self._store(served, key, obj)

    def _store(self, served: Served, key: Key, obj: Obj) -> Written:
        if objects.is_gone(obj):
            return Written(self._remove(served, key, obj), gone=True)
        return Written(self._put(served, key, obj))

    def _delete(self, context: WriteContext, key: Key, stored: Stored, options: Mapping[str, Any]) -> Written:
        served, obj = context.served, stored.obj
        asked = options.get("gracePeriodSeconds")
        grace = objects.pod_grace(obj, asked) if served.resource.plural == "pods" and not served.resource.group else 0
        deleting = bool(obj["metadata"].get("deletionTimestamp"))
        if deleting and asked is None:
            # A second delete without a wish of its own changes nothing of the first one's grace.
            grace = obj["metadata"].get("deletionGracePeriodSeconds") or 0
        finalizers = objects.deletion_finalizers(obj, _propagation(options, deleting=deleting))
        if served.resource.plural == "namespaces" and not served.resource.group:
            obj = _terminating_namespace(obj)
        gone = objects.deleted(obj, now=self._clock.now(), grace=grace, finalizers=finalizers)
        if served.resource.plural == "namespaces" and (gone.get("spec") or {}).get("finalizers"):
            held = True
        else:
            held = not objects.is_gone(gone)
        if context.dry_run:
            return Written(stored, gone=not held)
        if not held:
            return Written(self._remove(served, key, gone), gone=True)
        if gone == stored.obj:
            return Written(stored)
        return Written(self._put(served, key, gone))

    def _put(self, served: Served, key: Key, obj: Obj) -> Stored:
        stored = self._storage.put(served.stored_as, key, {**obj, "metadata": dict(obj["metadata"])})
        self.after_write(served, Written(stored))
        return stored

    def _remove(self, served: Served, key: Key, obj: Obj) -> Stored:
        stored = self._storage.remove(served.stored_as, key)
        self.after_write(served, Written(stored, gone=True))
        return stored

    def _unstored(self, served: Served, obj: Obj) -> Stored:
        return Stored(obj, self._storage.version, codec.encode(obj))

    def _validate(self, context: WriteContext, obj: Obj, old: Obj | None) -> None:
        definition = context.served.definition
        if definition.warnings is not None:
            context.warnings.extend(definition.warnings(obj))
        errors: Sequence[FieldError] = definition.validate(obj, old)
        if errors:
            raise failures.invalid(definition.resource, obj["metadata"].get("name", ""), errors)

    def _decoded(self, context: WriteContext, body: Obj) -> Obj:
        """The object as its kind reads it. Raises ``Failure`` for values of wrong types, and what ``fieldValidation`` asks for."""
        resource = context.served.resource
        try:
            obj, unknown = context.served.definition.decode(body)
        except DecodeFailure as error:
            if context.patches:
                text = json.dumps(codec.encode(body).decode(), ensure_ascii=False)
                raise Failure(422, "Invalid", f' "" is invalid: patch: Invalid value: {text}: {error}') from error
            raise failures.bad_request(_cannot_handle(resource, str(error))) from error
        _unknown_fields(context, unknown)
        return obj

    def _check_namespace(self, context: WriteContext, body: Obj) -> None:
        served, namespace = context.served, context.target.namespace
        if not served.resource.namespaced:
            return
        if not namespace:
            raise failures.bad_request("an empty namespace may not be set during creation")
        state = self._namespace_state(namespace)
        if state is None:
            raise Failure(
                404, "NotFound", f'namespaces "{namespace}" not found', details={"name": namespace, "kind": "namespaces"}
            )
        if state == "Terminating":
            name = (body.get("metadata") or {}).get("name", "")
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise failures.forbidden(
                served.resource,
                name,
                f"unable to create new content in namespace {namespace} because it is being terminated",
                causes=[cause],
            )

    def _attributes(self, context: WriteContext, operation: str, obj: Obj | None, old: Obj | None) -> Attributes:
        return Attributes(
            served=context.served,
            operation=operation,
            namespace=context.target.namespace,
            name=context.target.name or ((obj or {}).get("metadata") or {}).get("name", ""),
            subresource=context.target.subresource,
            obj=obj,
            old=old,
            dry_run=context.dry_run,
            warnings=context.warnings,
        )


def _nobody(_: Served, __: Written) -> None:
    return


class _Moved(Exception):
    """The object was written while webhooks were asked."""


def _propagation(options: Mapping[str, Any], *, deleting: bool) -> str | None:
    policy = options.get("propagationPolicy")
    if policy is not None:
        if policy not in {"Foreground", "Background", "Orphan"}:
            raise failures.Failure(
                422,
                "Invalid",
                f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "{policy}": '
                'supported values: "Foreground", "Background", "Orphan", "nil"',
            )
        return str(policy)
    if options.get("orphanDependents") is True:
        return "Orphan"
    return None if deleting else "Background"


def _terminating_namespace(obj: Obj) -> Obj:
    return {**obj, "status": {**(obj.get("status") or {}), "phase": "Terminating"}}


def _cannot_handle(resource: Resource, why: str) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'


def _unknown_fields(context: WriteContext, paths: Sequence[str]) -> None:
    """What ``fieldValidation`` says about fields that the schema does not know. Raises ``Failure`` (400) for Strict."""
    if not paths:
        return
    mode = context.query.get("fieldValidation", "Warn")
    if mode == "Strict":
        texts = ", ".join(f'unknown field "{path}"' for path in paths)
        raise failures.bad_request(_cannot_handle(context.served.resource, f"strict decoding error: {texts}"))
    if mode != "Ignore":
        context.warnings.extend(f'unknown field "{path}"' for path in paths)
