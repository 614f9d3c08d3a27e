"""Rules that hold for objects of every kind: metadata that the server sets, preconditions, when an object is gone. Pure."""

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from regroup.kube.resources import NAMESPACES
from regroup.runtime.clock import timestamp
from regroup.sandbox.apiserver.failures import bad_request, conflict, internal, invalid, stale
from regroup.sandbox.apiserver.traits import counts_changes, is_definition, is_deployment, is_pod
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.schema.errors import FieldError

Obj = dict[str, Any]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
POD_GRACE = 30
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def new_uid(rng: random.Random) -> str:
    """A random UUID (version 4) from ``rng``."""
    digits = f"{rng.getrandbits(128):032x}"
    variant = "89ab"[rng.getrandbits(2)]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def generate_name(prefix: str, rng: random.Random) -> str:
    """``prefix`` and five characters that spell nothing."""
    return prefix[: 63 - 5] + "".join(rng.choice(_ALPHABET) for _ in range(5))


def begin_create(definition: KindDefinition, obj: Obj, *, namespace: str) -> Obj:
    """A new object as admission sees it: in its namespace, without what only the server may set. Raises ``Failure``."""
    meta = dict(obj.get("metadata") or {})
    resource = definition.resource
    if resource.namespaced:
        if meta.get("namespace") and meta["namespace"] != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = namespace
    elif meta.get("namespace"):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    for name in (*_SERVER_FIELDS, "managedFields"):
        meta.pop(name, None)
    if definition.generation:
        meta.pop("generation", None)  # kinds whose generation is not counted keep what the client says
    result = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    result |= {key: value for key, value in obj.items() if key not in result}
    if definition.status and not definition.status_on_create:
        result.pop("status", None)
        blank, _ = definition.decode({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}})
        if "status" in blank:
            result["status"] = blank["status"]
    return result


def complete_create(definition: KindDefinition, obj: Obj, *, now: datetime, rng: random.Random) -> Obj:
    """The object after admission, with its name, UID, time and generation. Raises ``Failure`` for one that has a version."""
    meta = dict(obj["metadata"])
    if meta.pop("resourceVersion", None):
        raise internal("resourceVersion should not be set on objects to be created")
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generate_name(meta["generateName"], rng)
    meta["uid"] = new_uid(rng)
    meta["creationTimestamp"] = timestamp(now)
    if definition.generation:
        meta["generation"] = 1
    return {**obj, "metadata": meta}


def prepare_update(definition: KindDefinition, obj: Obj, old: Obj, *, subresource: str) -> Obj:
    """The object as it is to be stored: what an update must not touch comes from ``old``. Raises ``Failure`` for stale versions.

    An update of ``status`` takes the status, and for built-in kinds the metadata as well; any other takes all but the status.
    """
    meta, before = dict(obj.get("metadata") or {}), old["metadata"]
    resource, name = definition.resource, before["name"]
    version = meta.get("resourceVersion")
    if version and not (version.isascii() and version.isdecimal()):
        raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version and version != "0" and version != before["resourceVersion"]:  # 0 is any version
        raise stale(resource, name)
    # What a client leaves out stays; a UID or a deletion that it makes up is for validation to refuse.
    for key in ("creationTimestamp", "generation", "namespace", "name"):
        _set(meta, key, before.get(key))
    for key in ("uid", "deletionGracePeriodSeconds"):
        if meta.get(key) is None:
            _set(meta, key, before.get(key))
    if before.get("deletionTimestamp"):
        meta["deletionTimestamp"] = before["deletionTimestamp"]
    meta["resourceVersion"] = before["resourceVersion"]
    result = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    result |= {key: value for key, value in obj.items() if key not in result}
    if subresource == "status":
        if own_metadata(definition):
            meta = {**before, "managedFields": meta.get("managedFields", before.get("managedFields"))}
            if meta["managedFields"] is None:
                del meta["managedFields"]
        elif is_pod(resource):
            _set(meta, "ownerReferences", before.get("ownerReferences"))
        elif is_deployment(resource):
            _set(meta, "labels", before.get("labels"))
        result = {**old, "metadata": meta}
        result.pop("status", None)
        if "status" in obj:
            result["status"] = obj["status"]
    elif definition.status:
        result.pop("status", None)
        if "status" in old:
            result["status"] = old["status"]
    if before.get("deletionTimestamp"):
        fresh = [entry for entry in meta.get("finalizers") or [] if entry not in (before.get("finalizers") or [])]
        if fresh:
            error = FieldError(
                "metadata.finalizers",
                "Forbidden",
                detail="no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{', '.join(_quoted(fresh))}}}",
            )
            raise invalid(resource, name, [error, error])  # a real server says it twice: on metadata, and on its update
    if definition.generation and counts_changes(resource) and _spec_of(definition, result) != _spec_of(definition, old):
        meta["generation"] = before.get("generation", 1) + 1
    return result


def own_metadata(definition: KindDefinition) -> bool:
    """Whether writes of the status leave the metadata alone: so it is for custom resources and for their definitions."""
    return definition.custom or is_definition(definition.resource)


def check_uid(definition: KindDefinition, obj: Obj, old: Obj) -> None:
    """A PUT of an object with another UID is a PUT of another object. Raises ``Failure`` (409)."""
    uid, before, resource = obj["metadata"].get("uid"), old["metadata"], definition.resource
    if not uid or uid == before["uid"]:
        return
    where = "/".join(part for part in (resource.plural, before.get("namespace", ""), before["name"]) if part)
    raise conflict(
        resource,
        before["name"],
        f"StorageError: invalid object, Code: 4, Key: /registry/{where}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}",
    )


def _set(meta: Obj, key: str, value: Any) -> None:
    if value is None:
        meta.pop(key, None)
    else:
        meta[key] = value


def same(new: Obj, old: Obj) -> bool:
    """Whether an update changes nothing but the times of ``managedFields``: then it must not be stored."""
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    return _without_times(new["metadata"]) == _without_times(old["metadata"])


def deleted(obj: Obj, *, now: datetime, grace: int | None, finalizers: list[str]) -> Obj:
    """``obj`` told to go: its deletion time, grace and finalizers. A shorter grace moves the time forward, a longer one never."""
    meta = dict(obj["metadata"])
    seconds = grace or 0
    known = meta.get("deletionGracePeriodSeconds")
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = timestamp(now + timedelta(seconds=seconds))
        meta["deletionGracePeriodSeconds"] = seconds
        if "generation" in meta:
            meta["generation"] += 1
    elif known is not None and seconds < known:
        start = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=known)
        meta["deletionTimestamp"] = timestamp(start + timedelta(seconds=seconds))
        meta["deletionGracePeriodSeconds"] = seconds
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    return {**obj, "metadata": meta}


def is_gone(obj: Obj) -> bool:
    """Whether nothing holds a deleting object any more: no finalizer, no grace, and for a namespace nothing left to empty."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    is_namespace = obj.get("kind") == NAMESPACES.kind and obj.get("apiVersion") == NAMESPACES.api_version
    return not (is_namespace and (obj.get("spec") or {}).get("finalizers"))


def deletion_finalizers(obj: Obj, propagation: str | None) -> list[str]:
    """The finalizers that an object has while it goes in the way asked for; None keeps what an earlier request chose."""
    current = list(obj["metadata"].get("finalizers") or [])
    if propagation is None:
        return current
    kept = [entry for entry in current if entry not in {FOREGROUND, ORPHAN}]
    match propagation:
        case "Foreground":
            return [*kept, FOREGROUND]
        case "Orphan":
            return [*kept, ORPHAN]
        case _:
            return kept


def pod_grace(pod: Obj, asked: int | None) -> int:
    """Seconds that a pod has to end: 0 when it never ran or has ended, else what was asked for or its own (at least 1)."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    own = spec.get("terminationGracePeriodSeconds")
    seconds = asked if asked is not None else (POD_GRACE if own is None else own)
    if not spec.get("nodeName") or status.get("phase") in {"Failed", "Succeeded"}:
        return 0
    return max(seconds, 0) if asked == 0 else max(seconds, 1)


def check_preconditions(definition: KindDefinition, obj: Obj, preconditions: Mapping[str, Any]) -> None:
    """UID and resourceVersion are what the caller judged. Raises ``Failure`` (409)."""
    meta, resource = obj["metadata"], definition.resource
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    if uid and uid != meta["uid"]:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']})."
        raise conflict(resource, meta["name"], f"{why} The object might have been deleted and then recreated", kind=kind)
    if version and version != meta["resourceVersion"]:
        why = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
        raise conflict(
            resource, meta["name"], f"{why}({meta['resourceVersion']}). The object might have been modified", kind=kind
        )


def _spec_of(definition: KindDefinition, obj: Obj) -> Obj:
    skipped = {"metadata", "status", "kind", "apiVersion"} if definition.status else {"metadata", "kind", "apiVersion"}
    return {key: value for key, value in obj.items() if key not in skipped}


def _without_times(meta: Obj) -> Obj:
    fields = [{**entry, "time": None} for entry in meta.get("managedFields") or []]
    return {**meta, "managedFields": fields, "resourceVersion": None}


def _quoted(values: list[str]) -> list[str]:
    return [f'"{value}"' for value in values]
