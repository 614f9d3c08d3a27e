"""A definition of a custom kind with a field for each rule of schemas."""

from datetime import UTC, datetime
from typing import Any

NOW = datetime(2026, 1, 1, 1, 40, tzinfo=UTC)


def string(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def _obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def _list(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def schema() -> dict[str, Any]:
    fields = {
        "req": string(),
        "str": string(minLength=2, maxLength=4, pattern="^[a-z]*$"),
        "enum": string(enum=["a", "b"]),
        "int": {"type": "integer", "minimum": 1, "maximum": 5},
        "num": {"type": "number"},
        "ios": {"x-kubernetes-int-or-string": True},
        "arr": _list(string(), minItems=1, maxItems=3),
        "set": {**_list(string()), "x-kubernetes-list-type": "set"},
        "lmap": {
            **_list(_obj({"k": string(), "p": string(default="TCP"), "v": string()}, required=["k"])),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k", "p"],
        },
        "obj": _obj(
            {"x": string(default="dx"), "y": _obj({"z": {"type": "integer"}, "w": string(default="W")}, default={"z": 1})}
        ),
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "atomic": {"type": "object", "additionalProperties": string(), "x-kubernetes-map-type": "atomic"},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        "nul": string(nullable=True),
        "time": string(format="date-time"),
        "ip": string(format="ipv4"),
        "one": _obj({"a": string(), "b": string()}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]),
    }
    status = _obj({"n": {"type": "integer"}, "selector": string()})
    return _obj({"spec": _obj(fields, required=["req"]), "status": status}, required=["spec"])


def crd() -> dict[str, Any]:
    scale = {"specReplicasPath": ".spec.int", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.selector"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema()},
        "subresources": {"status": {}, "scale": scale},
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def widget(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "n"}, "spec": spec}
