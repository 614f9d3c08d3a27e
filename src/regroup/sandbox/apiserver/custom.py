"""Custom resources: definitions become served kinds, at once, and take their objects with them when they go."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from regroup.kube.resources import CRDS
from regroup.runtime.clock import Clock, timestamp
from regroup.sandbox.apiserver.registry import Registry, Served
from regroup.sandbox.apiserver.storage import Storage, Stored
from regroup.sandbox.apiserver.writing import Written
from regroup.sandbox.fieldmanager.manager import update
from regroup.sandbox.schema.custom import definitions
from regroup.wire.resource import Resource

Obj = dict[str, Any]

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer under which a definition waits for its objects to go."""

Delete = Callable[[Served, Stored], None]
"""Deletes one object as a client would."""


class CustomKinds:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, registry: Registry, storage: Storage, *, clock: Clock, delete: Delete) -> None:
        self._registry = registry
        self._storage = storage
        self._clock = clock
        self._delete = delete
        definition = registry.get(CRDS.group, CRDS.version, CRDS.plural)
        self._schema = definition.definition.schema if definition is not None else {}
        self._served: dict[str, list[Resource]] = {}

    def restore(self) -> None:
        """Serve what the storage already has."""
        for stored in self._storage.items(CRDS):
            self._serve(stored.obj)

    def after_write(self, served: Served, written: Written) -> None:
        """Follow a write of any object that was stored."""
        if served.stored_as == CRDS:
            if written.gone:
                self._withdraw(written.stored.obj["metadata"]["name"])
            else:
                self._follow(written.stored.obj)
        elif served.definition.custom and written.gone:
            self._collect(f"{served.stored_as.plural}.{served.stored_as.group}")

    def _follow(self, crd: Obj) -> None:
        name = crd["metadata"]["name"]
        if crd["metadata"].get("deletionTimestamp"):
            for served in self._kinds(name)[:1]:
                for stored in list(self._storage.items(served.stored_as)):
                    if not stored.obj["metadata"].get("deletionTimestamp"):
                        self._delete(served, stored)
            self._collect(name)
            return
        now = timestamp(self._clock.now())
        status = status_of(crd, taken_by=self._conflict(crd), now=now)
        if status != crd.get("status"):
            new = {**crd, "metadata": dict(crd["metadata"]), "status": status}
            new = update(crd, new, manager="kube-apiserver", subresource="status", now=now, schema=self._schema)
            crd = self._storage.put(CRDS, ("", name), new).obj
        if _condition(status, "NamesAccepted") == "True":
            self._serve(crd)

    def _serve(self, crd: Obj) -> None:
        if _condition(crd.get("status") or {}, "Established") != "True":
            return
        name = crd["metadata"]["name"]
        self._withdraw(name)
        self._served[name] = []
        for served in kinds_of(crd):
            self._registry.add(served)
            self._served[name].append(served.resource)

    def _withdraw(self, name: str) -> None:
        for resource in self._served.pop(name, []):
            self._registry.remove(resource)

    def _collect(self, name: str) -> None:
        """Let a definition that is going go, when none of its objects is left."""
        stored = self._storage.get(CRDS, ("", name))
        if stored is None or not stored.obj["metadata"].get("deletionTimestamp"):
            return
        kinds = self._kinds(name)
        if kinds and self._storage.count(kinds[0].stored_as):
            return
        finalizers = [entry for entry in stored.obj["metadata"].get("finalizers") or [] if entry != CLEANUP]
        if not finalizers:
            self._storage.remove(CRDS, ("", name))
        elif finalizers != stored.obj["metadata"].get("finalizers"):
            self._storage.put(CRDS, ("", name), {**stored.obj, "metadata": {**stored.obj["metadata"], "finalizers": finalizers}})
        self._withdraw(name)

    def _kinds(self, name: str) -> list[Served]:
        found = (self._registry.get(entry.group, entry.version, entry.plural) for entry in self._served.get(name, []))
        return [served for served in found if served is not None]

    def _conflict(self, crd: Obj) -> str:
        """The name that another definition of the group has taken, if any."""
        spec, own = crd["spec"], crd["metadata"]["name"]
        wanted = _names(spec["names"])
        for stored in self._storage.items(CRDS):
            other = stored.obj
            if other["metadata"]["name"] == own or other["spec"]["group"] != spec["group"]:
                continue
            accepted = (other.get("status") or {}).get("acceptedNames") or {}
            taken = wanted & _names(accepted)
            if taken:
                return min(taken)
        return ""


def _names(names: Obj) -> set[str]:
    found = {names.get(key) for key in ("plural", "singular", "kind", "listKind")} | set(names.get("shortNames") or [])
    return {str(name).lower() for name in found if name}


def _condition(status: Obj, kind: str) -> str:
    return next((entry["status"] for entry in status.get("conditions") or [] if entry["type"] == kind), "")


def complete_names(names: Obj) -> Obj:
    """``spec.names`` with what may be left out."""
    kind = str(names.get("kind", ""))
    return {**names, "singular": names.get("singular") or kind.lower(), "listKind": names.get("listKind") or f"{kind}List"}


def status_of(crd: Obj, *, taken_by: str, now: str) -> Obj:
    """The status that the server gives a definition."""
    spec, before = crd["spec"], crd.get("status") or {}
    stored = next((version["name"] for version in spec["versions"] if version.get("storage")), "")
    versions = list(before.get("storedVersions") or [])
    if stored and stored not in versions:
        versions.append(stored)
    established = _condition(before, "Established") == "True"
    accepted = not taken_by
    wanted = [
        ("NamesAccepted", accepted, "NoConflicts" if accepted else "NameConflict",
         "no conflicts found" if accepted else f'"{taken_by}" is already in use'),
        ("Established", accepted or established, "InitialNamesAccepted" if accepted or established else "NotAccepted",
         "the initial names have been accepted" if accepted or established else "not all names are accepted"),
    ]  # fmt: skip
    old = {entry["type"]: entry for entry in before.get("conditions") or []}
    conditions = [entry for entry in before.get("conditions") or [] if entry["type"] not in {"NamesAccepted", "Established"}]
    for kind, holds, reason, message in wanted:
        text = "True" if holds else "False"
        known = old.get(kind)
        moved = known["lastTransitionTime"] if known and known["status"] == text else now
        conditions.append({"type": kind, "status": text, "lastTransitionTime": moved, "reason": reason, "message": message})
    names = complete_names(spec["names"]) if accepted else before.get("acceptedNames") or {"plural": "", "kind": ""}
    return {**before, "conditions": conditions, "acceptedNames": names, "storedVersions": versions}


def terminating(crd: Obj, *, now: str) -> Obj:
    """The definition once its deletion was asked for."""
    status = crd.get("status") or {}
    kept = [entry for entry in status.get("conditions") or [] if entry["type"] != "Terminating"]
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    return {**crd, "status": {**status, "conditions": [*kept, condition]}}


def kinds_of(crd: Obj) -> Iterator[Served]:
    """The served kinds of a definition, one a version; objects are stored in the form of the storage version."""
    spec = {**crd["spec"], "names": complete_names(crd["spec"]["names"])}
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    for definition in definitions({**crd, "spec": spec}):
        resource = definition.resource
        if resource.version == storage:
            yield Served(definition, resource)
            continue
        stored_as = replace(resource, version=storage)
        yield Served(
            definition, stored_as, to_stored=partial(_as, stored_as.api_version), from_stored=partial(_as, resource.api_version)
        )


def _as(api_version: str, obj: Obj) -> Obj:
    return {**obj, "apiVersion": api_version}
