"""OpenAPI v3 documents of a group and version, as kubectl reads them for validation and ``explain``. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.kinds.tables import TABLE
from regroup.sandbox.schema.typetable import scalar_components

Obj = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_REFERENCE = "#/components/schemas/"
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def document(kinds: Sequence[KindDefinition]) -> Obj:
    """The document of the kinds of one group and version."""
    schemas: Obj = {}
    paths: Obj = {}
    for kind in kinds:
        name = component_name(kind)
        schemas |= _components(kind, name)
        schemas[f"{name}List"] = _list(kind, name)
        paths |= _paths(kind, name)
        paths |= _subresource_paths(kind, name)
    if any(kind.scale for kind in kinds):
        schemas |= _closure("io.k8s.api.autoscaling.v1.Scale")
    schemas |= _closure(f"{META}.ObjectMeta") | _closure(f"{META}.ListMeta") | _closure(f"{META}.DeleteOptions")
    schemas |= scalar_components()
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def component_name(kind: KindDefinition) -> str:
    """``io.k8s.api.core.v1.Pod``; a custom kind's group is turned round: ``io.x-k8s.leaderworkerset.v1.LeaderWorkerSet``."""
    if kind.type_name:
        return kind.type_name
    resource = kind.resource
    return f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}.{resource.kind}"


def _components(kind: KindDefinition, name: str) -> Obj:
    if kind.type_name:
        found = _closure(name)
        found[name] = {**found[name], **_marks(kind)}
        return found
    meta = TABLE.message("ObjectMeta")
    properties = dict(kind.schema.get("properties") or {})
    for field, description in (("apiVersion", _API_VERSION), ("kind", _KIND)):
        properties[field] = {"description": description, "type": "string"}
    properties["metadata"] = {"description": _METADATA, "allOf": [{"$ref": f"{_REFERENCE}{meta.full_name}"}]}
    schema = {**kind.schema, "type": "object", "properties": properties, **_marks(kind)}
    return {name: schema}


_API_VERSION = "Group and version of the API that this object is written for."
_KIND = "Which kind of object this is."
_METADATA = "Name, labels and what else every object has."


def _marks(kind: KindDefinition) -> Obj:
    resource = kind.resource
    return {"x-kubernetes-group-version-kind": [{"group": resource.group, "version": resource.version, "kind": resource.kind}]}


def _closure(name: str) -> Obj:
    return {full: TABLE.component(message) for full, message in TABLE.closure(TABLE.message(name)).items()}


def _list(kind: KindDefinition, name: str) -> Obj:
    resource = kind.resource
    return {
        "description": f"A list of {resource.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": _API_VERSION, "type": "string"},
            "items": {"description": "The objects.", "type": "array", "items": {"$ref": f"{_REFERENCE}{name}"}},
            "kind": {"description": _KIND, "type": "string"},
            "metadata": {
                "description": "Version of the list and how to go on.",
                "allOf": [{"$ref": f"{_REFERENCE}{META}.ListMeta"}],
            },
        },
        "x-kubernetes-group-version-kind": [{"group": resource.group, "version": resource.version, "kind": kind.list_kind}],
    }


def _operation(kind: KindDefinition, action: str, schema: str, *, media: Sequence[str] = ()) -> Obj:
    """One operation. With ``media`` it takes a body, and the parameters of a write."""
    resource = kind.resource
    content = {"schema": {"$ref": f"{_REFERENCE}{schema}"}}
    result: Obj = {
        "responses": {"200": {"description": "OK", "content": {"application/json": content}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
    }
    if media:
        result["parameters"] = _PARAMETERS
        result["requestBody"] = {"content": dict.fromkeys(media, content)}
    return result


def _paths(kind: KindDefinition, name: str) -> Obj:
    collection: Obj = {
        "get": _operation(kind, "list", f"{name}List"),
        "post": _operation(kind, "post", name, media=("*/*",)),
        "delete": _operation(kind, "deletecollection", name),
    }
    base = _base(kind)
    found = {base: collection, f"{base}/{{name}}": _single(kind, name) | {"delete": _operation(kind, "delete", name)}}
    if kind.resource.namespaced:
        found[kind.resource.path()] = {"get": _operation(kind, "list", f"{name}List")}
    return found


def _subresource_paths(kind: KindDefinition, name: str) -> Obj:
    found: Obj = {}
    if kind.status:
        found[f"{_base(kind)}/{{name}}/status"] = _single(kind, name)
    if kind.scale:
        found[f"{_base(kind)}/{{name}}/scale"] = _single(kind, "io.k8s.api.autoscaling.v1.Scale")
    return found


def _single(kind: KindDefinition, schema: str) -> Obj:
    return {
        "get": _operation(kind, "get", schema),
        "put": _operation(kind, "put", schema, media=("*/*",)),
        "patch": _operation(kind, "patch", schema, media=_PATCHES[:3] if kind.custom else _PATCHES),
    }


def _base(kind: KindDefinition) -> str:
    resource = kind.resource
    path = resource.path(namespace="\0") if resource.namespaced else resource.path()
    return path.replace("%00", "{namespace}")
