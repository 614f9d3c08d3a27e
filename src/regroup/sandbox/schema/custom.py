"""From a CRD to the kinds that it defines. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.kinds.tables import TABLE
from regroup.sandbox.kinds.validation import metadata
from regroup.sandbox.kinds.validation.report import Report
from regroup.sandbox.kinds.versions import version_rank
from regroup.sandbox.schema import structural
from regroup.sandbox.schema.columns import custom_columns, json_path
from regroup.sandbox.schema.decoding import DecodeFailure, decode
from regroup.sandbox.schema.errors import FieldError, show
from regroup.sandbox.schema.values import validate
from regroup.wire.resource import Resource

Obj = dict[str, Any]
Schema = Mapping[str, Any]
Scale = tuple[str, str, str]

_META = TABLE.message("ObjectMeta")
_GO_NAMES = {str: "string", float: "float64", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}


def definitions(crd: Obj) -> list[KindDefinition]:
    """One kind for each served version."""
    return [_definition(crd["spec"], version) for version in crd["spec"]["versions"] if version.get("served")]


def _definition(spec: Obj, version: Obj) -> KindDefinition:
    names = spec["names"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    paths = (scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")) if scale else None
    return KindDefinition(
        resource=Resource(
            spec["group"], version["name"], names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
        ),
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
        scale=paths,
        schema=_with_meta(schema),
        columns=custom_columns(version.get("additionalPrinterColumns")),
        decode=partial(_decode, schema),
        without_nulls=partial(_without_nulls, schema),
        default=partial(_default, schema),
        validate=partial(_validate, schema, paths),
        field_selectors={
            entry["jsonPath"].lstrip("."): partial(_field, entry["jsonPath"]) for entry in version.get("selectableFields") or []
        },
        custom=True,
        warnings=_deprecation(spec, version),
    )


def _with_meta(schema: Schema) -> Obj:
    """The schema with what the server itself knows of every object's metadata, for whoever tracks fields."""
    known = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": TABLE.schema(_META)}
    return {**schema, "properties": {**(schema.get("properties") or {}), **known}}


def _deprecation(spec: Obj, version: Obj) -> Callable[[Obj], Sequence[str]] | None:
    """What every user of a deprecated version is told."""
    if not version.get("deprecated"):
        return None
    name = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
    text = version.get("deprecationWarning") or f"{name} is deprecated{_instead(spec, version)}"
    return lambda _: [text]


def _instead(spec: Obj, version: Obj) -> str:
    """The better version that is named, when there is one: served, not deprecated, and more stable."""
    better = [
        entry["name"]
        for entry in spec["versions"]
        if entry.get("served") and not entry.get("deprecated") and version_rank(entry["name"]) < version_rank(version["name"])
    ]
    return f"; use {spec['group']}/{min(better, key=version_rank)} {spec['names']['kind']}" if better else ""


def _decode(schema: Schema, obj: Obj) -> tuple[Obj, list[str]]:
    """The object as it is kept. Raises ``DecodeFailure`` for metadata that cannot be read."""
    kept: Obj = _whole_numbers(obj)
    unknown: list[str] = []
    if kept.get("metadata") is not None:
        if not isinstance(kept["metadata"], dict):
            raise DecodeFailure(f"json: cannot unmarshal {_json_kind(kept['metadata'])} into Go value of type v1.ObjectMeta")
        kept["metadata"], names = decode(_META, kept["metadata"])
        unknown += [f"metadata.{name}" for name in names]
    unknown += structural.prune(kept, schema)
    unknown += _embedded(kept, schema, "")
    return kept, unknown


def _json_kind(value: Any) -> str:
    return {str: "string", bool: "bool", list: "array"}.get(type(value), "number")


def _whole_numbers(value: Any) -> Any:
    """A copy in which numbers without a fraction are integers, as the server writes them back."""
    if isinstance(value, dict):
        return {key: _whole_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def _embedded(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """Read the metadata of objects inside of the object; the result names what nobody knows there."""
    if isinstance(value, dict):
        if path and schema.get(structural.EMBEDDED) and value.get("metadata") is not None:
            place = f"{path}.metadata"
            if not isinstance(value["metadata"], dict):
                why = f"json: cannot unmarshal {_json_kind(value['metadata'])} into Go value of type v1.ObjectMeta"
                raise DecodeFailure(f"{place}: Invalid value: {show(value['metadata'])}: {why}")
            value["metadata"], names = decode(_META, value["metadata"])
            yield from (f"{place}.{name}" for name in names)
        for name, entry in value.items():
            child = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties")
            if isinstance(child, Mapping):
                yield from _embedded(entry, child, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for number, entry in enumerate(value):
            yield from _embedded(entry, schema["items"], f"{path}[{number}]")


def _without_nulls(schema: Schema, obj: Obj) -> Obj:
    kept: Obj = structural.without_nulls(obj, schema)
    return kept


def _default(schema: Schema, obj: Obj) -> None:
    filled = deepcopy(obj)  # parts of the object may be shared with a stored one
    structural.default(filled, schema)
    obj.clear()
    obj.update(filled)


def _validate(schema: Schema, scale: Scale | None, obj: Obj, old: Obj | None) -> list[FieldError]:
    report = Report()
    metadata.check(report, obj, old)
    errors = [*report.errors, *_values(schema, scale, obj)]
    if old is None or not errors:
        return errors
    # What was stored wrong before may stay as it is: an update is judged by what it changes.
    known = {error.message() for error in _values(schema, scale, old)}
    return [error for error in errors if error.message() not in known]


def _values(schema: Schema, scale: Scale | None, obj: Obj) -> list[FieldError]:
    body = {name: value for name, value in obj.items() if name != "metadata"}
    return [*validate(body, schema), *_scale(obj, scale)]


def _scale(obj: Obj, scale: Scale | None) -> Iterator[FieldError]:
    """The scale subresource must be able to read its numbers."""
    for path, wanted in zip(scale or (), (int, int, str), strict=False):
        value = json_path(path, obj) if path else None
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            zero, name = (0, "int64") if wanted is int else ("", "string")
            given = _GO_NAMES.get(type(value), "int64")
            yield FieldError(path, "Invalid", zero, f"{path} accessor error: {value} is of the type {given}, expected {name}")


def _field(path: str, obj: Obj) -> str:
    value = json_path(path, obj)
    return "" if value is None else str(value)
