"""Structural schemas of custom resources: what they make of an object before it is judged. Mostly in place, else pure.

CEL rules (``x-kubernetes-validations``) are not evaluated; ``unevaluated`` names where they are, so that nobody is misled.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

Obj = dict[str, Any]
Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"


def prune(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Drop what the schema does not know, in place; the result names the paths."""
    dropped: list[str] = []
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        embedded = {"apiVersion", "kind", "metadata"} if schema.get(EMBEDDED) or not path else set()
        for name in list(value):
            child = f"{path}.{name}" if path else name
            if name in properties:
                if name != "metadata" or name not in embedded:
                    dropped += prune(value[name], properties[name], child)
            elif isinstance(additional, Mapping):
                dropped += prune(value[name], additional, child)
            elif additional is not True and not schema.get(PRESERVE) and name not in embedded:
                del value[name]
                dropped.append(child)
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for number, entry in enumerate(value):
            dropped += prune(entry, items, f"{path}[{number}]")
    return dropped


def default(value: Any, schema: Schema) -> None:
    """Fill in the defaults that the schema names, in place. A null that is not allowed gives way to a default."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, child in properties.items():
            if "default" in child and (name not in value or (value[name] is None and not child.get("nullable"))):
                value[name] = deepcopy(child["default"])
            if name in value:
                default(value[name], child)
        if isinstance(additional, Mapping):
            for name, entry in value.items():
                if name not in properties:
                    default(entry, additional)
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for entry in value:
            default(entry, items)


def without_nulls(value: Any, schema: Schema) -> Any:
    """The value without nulls of fields that are not nullable, as a server reads it; itself where there are none."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        kept = {}
        for name, entry in value.items():
            child = properties.get(name) or {}
            if entry is not None or not child or child.get("nullable"):
                kept[name] = without_nulls(entry, child)
        same = len(kept) == len(value) and all(kept[name] is entry for name, entry in value.items())
        return value if same else kept
    if isinstance(value, list):
        entries = [without_nulls(entry, schema.get("items") or {}) for entry in value]
        return value if all(new is old for new, old in zip(entries, value, strict=True)) else entries
    return value


def unevaluated(schema: Schema, path: str = "") -> list[str]:
    """Paths of the schema that carry CEL rules, which are not evaluated here."""
    found = [path or "."] if schema.get("x-kubernetes-validations") else []
    for name, child in (schema.get("properties") or {}).items():
        found += unevaluated(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            found += unevaluated(schema[name], f"{path}[]")
    return found
