"""OpenAPI v3 documents of a group and version, as kubectl reads them for validation and ``explain``. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.kinds.definition import KindDefinition

Obj = dict[str, Any]

_STRING = {"type": "string"}
_STRINGS = {"type": "object", "additionalProperties": {"type": "string", "default": ""}}
_TIME = {"type": "string", "format": "date-time"}
META = "io.k8s.apimachinery.pkg.apis.meta.v1"

OBJECT_META: Obj = {
    "description": "Metadata that all persisted objects have.",
    "type": "object",
    "properties": {
        "annotations": {"description": "Unstructured information that tools keep with the object.", **_STRINGS},
        "creationTimestamp": {"description": "When the server created the object. Read-only.", **_TIME},
        "deletionGracePeriodSeconds": {
            "description": "Seconds that the object has to end. Read-only.",
            "type": "integer",
            "format": "int64",
        },
        "deletionTimestamp": {"description": "When the object is to be gone. Read-only.", **_TIME},
        "finalizers": {
            "description": "Must be empty before the object is removed.",
            "type": "array",
            "items": {"type": "string", "default": ""},
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "generateName": {"description": "Prefix of a name that the server completes.", **_STRING},
        "generation": {"description": "Counts changes of the desired state. Read-only.", "type": "integer", "format": "int64"},
        "labels": {"description": "Keys and values that select and group objects.", **_STRINGS},
        "managedFields": {
            "description": "Which manager owns which fields.",
            "type": "array",
            "items": {"type": "object"},
            "x-kubernetes-list-type": "atomic",
        },
        "name": {"description": "Unique within its namespace. Cannot be updated.", **_STRING},
        "namespace": {"description": "The space within which the name is unique. Cannot be updated.", **_STRING},
        "ownerReferences": {
            "description": "Objects that this one depends on: when all are gone it is collected.",
            "type": "array",
            "items": {
                "type": "object",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": {"type": "string", "default": ""},
                    "blockOwnerDeletion": {"type": "boolean"},
                    "controller": {"type": "boolean"},
                    "kind": {"type": "string", "default": ""},
                    "name": {"type": "string", "default": ""},
                    "uid": {"type": "string", "default": ""},
                },
                "x-kubernetes-map-type": "atomic",
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-merge-key": "uid",
            "x-kubernetes-patch-strategy": "merge",
        },
        "resourceVersion": {"description": "The version of the object, for optimistic concurrency and watches.", **_STRING},
        "selfLink": {"description": "Not set any more.", **_STRING},
        "uid": {"description": "Unique in time and space. Read-only.", **_STRING},
    },
}


def document(group: str, version: str, kinds: Sequence[KindDefinition]) -> Obj:
    """The document of one group and version."""
    schemas: Obj = {f"{META}.ObjectMeta": OBJECT_META}
    paths: Obj = {}
    for kind in kinds:
        name = f"{_reversed(group)}.{version}.{kind.resource.kind}"
        schemas[name] = _kind_schema(kind)
        for path, item in _paths(kind, name):
            paths[path] = item
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _kind_schema(kind: KindDefinition) -> Obj:
    resource = kind.resource
    properties = dict(kind.schema.get("properties") or {})
    for name, text in (
        ("apiVersion", "The versioned schema of this representation."),
        ("kind", "The REST resource it represents."),
    ):
        properties[name] = {"description": text, "type": "string"}
    properties["metadata"] = {
        "description": "Standard object's metadata.",
        "default": {},
        "allOf": [{"$ref": f"#/components/schemas/{META}.ObjectMeta"}],
    }
    schema = {**kind.schema, "type": "object", "properties": properties}
    if not kind.schema:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    schema["x-kubernetes-group-version-kind"] = [{"group": resource.group, "version": resource.version, "kind": resource.kind}]
    return schema


def _paths(kind: KindDefinition, schema: str) -> list[tuple[str, Obj]]:
    resource = kind.resource
    base = resource.path(namespace="\0") if resource.namespaced else resource.path()
    base = base.replace("%00", "{namespace}")
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]

    def operation(action: str, *, body: bool, media: Sequence[str] = ("*/*",)) -> Obj:
        result: Obj = {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
            "responses": {"200": {"description": "OK", "content": content}},
        }
        if body:
            result["parameters"] = parameters
            result["requestBody"] = {"content": {name: content["application/json"] for name in media}}
        return result

    patches = (
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    )
    collection = {"get": operation("list", body=False), "post": operation("post", body=True)}
    single = {
        "get": operation("get", body=False),
        "put": operation("put", body=True),
        "patch": operation("patch", body=True, media=patches[:3] if kind.custom else patches),
        "delete": operation("delete", body=False),
    }
    return [(base, collection), (f"{base}/{{name}}", single)]


def _reversed(group: str) -> str:
    """The package-like name of a group: ``io.x-k8s.leaderworkerset``; core is ``io.k8s.api.core``."""
    if not group:
        return "io.k8s.api.core"
    if "." not in group:
        return f"io.k8s.api.{group}"
    if group.endswith(".k8s.io"):
        return f"io.k8s.api.{group.removesuffix('.k8s.io').split('.')[0]}"
    return ".".join(reversed(group.split(".")))
