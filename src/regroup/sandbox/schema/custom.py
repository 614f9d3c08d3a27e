"""From a CRD to the kinds that it defines. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any

from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.schema import structural
from regroup.sandbox.schema.columns import custom_columns, json_path
from regroup.sandbox.schema.errors import FieldError
from regroup.wire.resource import Resource

Obj = dict[str, Any]


def definitions(crd: Obj) -> list[KindDefinition]:
    """One kind for each served version."""
    return [_definition(crd["spec"], version) for version in crd["spec"]["versions"] if version.get("served")]


def _definition(spec: Obj, version: Obj) -> KindDefinition:
    names = spec["names"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    return KindDefinition(
        resource=Resource(
            spec["group"], version["name"], names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
        ),
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
        scale=(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")) if scale else None,
        schema=schema,
        columns=custom_columns(version.get("additionalPrinterColumns")),
        default=partial(_default, schema),
        validate=partial(_validate, schema),
        decode=partial(_decode, schema),
        field_selectors={
            entry["jsonPath"].lstrip("."): partial(_field, entry["jsonPath"]) for entry in version.get("selectableFields") or []
        },
        custom=True,
    )


def _default(schema: Mapping[str, Any], obj: Obj) -> None:
    filled = deepcopy(obj)  # parts of the object may be shared with a stored one
    structural.drop_nulls(filled, schema)
    structural.default(filled, schema)
    obj.clear()
    obj.update(filled)


def _decode(schema: Mapping[str, Any], obj: Obj) -> tuple[Obj, list[str]]:
    kept = deepcopy(obj)
    return kept, structural.prune(kept, schema)


def _validate(schema: Mapping[str, Any], obj: Obj, old: Obj | None) -> list[FieldError]:
    errors = structural.validate(obj, schema)
    if old is None or not errors:
        return errors
    # What was stored wrong before may stay as it is: an update is judged by what it changes.
    known = {error.message() for error in structural.validate(old, schema)}
    return [error for error in errors if error.message() not in known]


def _field(path: str, obj: Obj) -> str:
    value = json_path(path, obj)
    return "" if value is None else str(value)
