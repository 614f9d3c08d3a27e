"""Deletions: preconditions, grace of pods, the finalizers of each way to go, and what namespaces and CRDs do differently."""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.runtime.clock import Clock, timestamp
from regroup.sandbox.apiserver import failures, objects
from regroup.sandbox.apiserver.admission import Admission
from regroup.sandbox.apiserver.custom import CLEANUP, terminating
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.routing import Target
from regroup.sandbox.apiserver.selection import Selection
from regroup.sandbox.apiserver.storage import Key, Storage, Stored
from regroup.sandbox.apiserver.traits import PROTECTED_NAMESPACES, is_definition, is_namespace, is_pod
from regroup.sandbox.apiserver.webhooks import Attributes
from regroup.sandbox.apiserver.writing import Writer, Written

Obj = dict[str, Any]
Options = Mapping[str, Any]
"""``DeleteOptions``, checked."""


class Deleter:
    """Answers deletions."""

    def __init__(self, storage: Storage, *, clock: Clock, admission: Admission, writer: Writer) -> None:
        self._storage = storage
        self._clock = clock
        self._admission = admission
        self._writer = writer

    async def delete(self, served: Served, target: Target, options: Options, *, warnings: list[str]) -> Written:
        """DELETE of one object. Raises ``Failure``."""
        key = (target.namespace, target.name)
        stored = self._storage.get(served.stored_as, key)
        if stored is None:
            raise failures.not_found(served.resource, target.name)
        await self._admit(served, stored, options, warnings)
        # Webhooks were asked: what counts is the object as it is now.
        stored = self._storage.get(served.stored_as, key)
        if stored is None:
            raise failures.not_found(served.resource, target.name)
        return self._delete(served, key, stored, options)

    async def delete_collection(
        self, served: Served, wanted: Selection, options: Options, *, warnings: list[str]
    ) -> Sequence[Stored]:
        """DELETE of all that the selection matches, each as by itself; those that went meanwhile are passed over."""
        done = []
        for stored in list(self._storage.items(served.stored_as, wanted.namespace)):
            if not wanted.matches(stored):
                continue
            await self._admit(served, stored, options, warnings, named=False)
            key = _key(stored)
            # Webhooks were asked: another object may have this name by now, which nobody selected.
            current = self._storage.get(served.stored_as, key)
            if current is not None and current.obj["metadata"]["uid"] == stored.obj["metadata"]["uid"]:
                self._delete(served, key, current, options)
                done.append(stored)
        return done

    def delete_stored(self, served: Served, stored: Stored) -> None:
        """Delete an object on the server's own account, in the background."""
        self._delete(served, _key(stored), stored, {})

    async def _admit(self, served: Served, stored: Stored, options: Options, warnings: list[str], *, named: bool = True) -> None:
        """Ask admission. ``named`` is whether the request names the object: that of a collection does not."""
        meta = stored.obj["metadata"]
        if is_namespace(served.resource) and meta["name"] in PROTECTED_NAMESPACES:
            raise failures.forbidden(served.resource, meta["name"], "this namespace may not be deleted")
        attributes = Attributes(
            served=served,
            operation="DELETE",
            namespace=meta.get("namespace", ""),
            name=meta["name"] if named else "",
            subresource="",
            obj=None,
            old=served.from_stored(stored.obj),
            dry_run=bool(options.get("dryRun")),
            warnings=warnings,
        )
        await self._admission.mutate(attributes)
        await self._admission.validate(attributes)

    def _delete(self, served: Served, key: Key, stored: Stored, options: Options) -> Written:
        objects.check_preconditions(served.definition, stored.obj, options.get("preconditions") or {})
        last, gone = self._last_state(served, stored.obj, options)
        if options.get("dryRun"):
            return Written(stored, gone=gone)
        if gone:
            if is_pod(served.resource) and last != stored.obj:
                # A pod is marked first, also without any grace: watches see it terminating, then gone, as two versions.
                last = self._writer.keep(served, key, last).obj
            return self._writer.remove(served, key, last, versioned=True)
        if last == stored.obj:
            return Written(stored)
        return Written(self._writer.keep(served, key, last))

    def _last_state(self, served: Served, obj: Obj, options: Options) -> tuple[Obj, bool]:
        """The object told to go in the way that the options ask for, and whether nothing holds it."""
        resource, meta = served.resource, obj["metadata"]
        asked = options.get("gracePeriodSeconds")
        deleting = bool(meta.get("deletionTimestamp"))
        known = meta.get("deletionGracePeriodSeconds")
        if is_pod(resource) and deleting and known is not None and (asked is None or asked >= known):
            # A pod that is going already may only be given less time: nothing else of its deletion can be changed.
            return obj, False
        grace = objects.pod_grace(obj, asked) if is_pod(resource) else 0
        if deleting and asked is None:
            # A second deletion without a wish of its own changes nothing of the first one's grace.
            grace = meta.get("deletionGracePeriodSeconds") or 0
        finalizers = objects.deletion_finalizers(obj, _propagation(options, deleting=deleting))
        now = self._clock.now()
        if is_definition(resource) and not deleting:
            finalizers = [*(entry for entry in finalizers if entry != CLEANUP), CLEANUP]
            obj = terminating(obj, now=timestamp(now))
        if not (deleting or grace or finalizers or is_pod(resource) or is_namespace(resource)):
            return obj, True
        last = objects.deleted(obj, now=now, grace=grace, finalizers=finalizers)
        if is_namespace(resource) or is_definition(resource):
            # These two are marked by their own storage, which knows no grace and counts no change.
            last["metadata"].pop("deletionGracePeriodSeconds", None)
            if "generation" in meta:
                last["metadata"]["generation"] = meta["generation"]
        if is_namespace(resource):
            last["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return last, objects.is_gone(last)


def _key(stored: Stored) -> Key:
    meta = stored.obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def _propagation(options: Options, *, deleting: bool) -> str | None:
    """The way asked for; None leaves an earlier request's choice."""
    policy = options.get("propagationPolicy")
    if policy is not None:
        return str(policy)
    if options.get("orphanDependents") is not None:
        return "Orphan" if options["orphanDependents"] else "Background"
    return None if deleting else "Background"
