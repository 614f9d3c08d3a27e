"""Building blocks of the schemas of custom resources. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]


def string(description: str, *, enum: Sequence[str] = (), default: str | None = None) -> Schema:
    """A text, perhaps one of a few."""
    schema: Schema = {"type": "string", "description": description}
    if enum:
        schema["enum"] = list(enum)
    if default is not None:
        schema["default"] = default
    return schema


def integer(
    description: str, *, minimum: int | None = None, maximum: int | None = None, default: int | None = None, width: int = 32
) -> Schema:
    """A whole number of ``width`` bits."""
    schema: Schema = {"type": "integer", "format": f"int{width}", "description": description}
    limits = {"minimum": minimum, "maximum": maximum, "default": default}
    return schema | {key: value for key, value in limits.items() if value is not None}


def boolean(description: str) -> Schema:
    """Yes or no."""
    return {"type": "boolean", "description": description}


def array_of(description: str, items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "description": description, "items": items}


def map_of(description: str, items: Schema) -> Schema:
    """A list whose items are told apart by their ``name``."""
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    return {**array_of(description, items), **keyed}


def text_map(description: str) -> Schema:
    """Labels, annotations and the like."""
    return {"type": "object", "description": description, "additionalProperties": {"type": "string"}}


def obj(description: str, properties: Mapping[str, Schema], *, required: Sequence[str] = ()) -> Schema:
    """An object with exactly these fields."""
    schema: Schema = {"type": "object", "description": description, "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return schema


def open_object(description: str, *, properties: Mapping[str, Schema] | None = None, required: Sequence[str] = ()) -> Schema:
    """An object that may have other fields as well, which are kept."""
    schema = obj(description, properties or {}, required=required)
    if not properties:
        del schema["properties"]
    return {**schema, "x-kubernetes-preserve-unknown-fields": True}
