"""Makes the definition of a built-in kind from its tables. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from regroup.sandbox.kinds.columns import GENERIC
from regroup.sandbox.kinds.defaults import RULES
from regroup.sandbox.kinds.definition import Column, KindDefinition
from regroup.sandbox.kinds.tables import TABLE
from regroup.sandbox.schema.decoding import decode, zero
from regroup.sandbox.schema.defaulting import fill
from regroup.sandbox.schema.errors import FieldError
from regroup.sandbox.schema.typetable import Message
from regroup.wire.resource import Resource

Obj = dict[str, Any]
REPLICAS = (".spec.replicas", ".status.replicas", "")


def _nothing(_: Obj, __: Obj | None) -> None:
    return


def _plain_row(_: Obj) -> Sequence[Obj]:
    return ()


def _valid(_: Obj, __: Obj | None) -> Sequence[FieldError]:
    return ()


def built_in(
    resource: Resource,
    *,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    status: bool = False,
    status_on_create: bool = False,
    scale: tuple[str, str, str] | None = None,
    generation: bool = False,
    columns: tuple[Column, ...] = GENERIC,
    row_conditions: Callable[[Obj], Sequence[Obj]] = _plain_row,
    prepare: Callable[[Obj, Obj | None], None] = _nothing,
    validate: Callable[[Obj, Obj | None], Sequence[FieldError]] = _valid,
    fields: Iterable[str] = (),
    field_selectors: Mapping[str, Callable[[Obj], str]] | None = None,
    warnings: Callable[[Obj], Sequence[str]] | None = None,
) -> KindDefinition:
    """The definition of ``resource``, whose type the tables know. ``fields`` are the dotted paths that field selectors take."""
    message = TABLE.message(resource.kind, package=package_of(resource.group, resource.version))
    return KindDefinition(
        resource=resource,
        singular=resource.kind.lower(),
        short_names=short_names,
        categories=categories,
        status=status,
        status_on_create=status_on_create,
        scale=scale,
        generation=generation,
        schema={**TABLE.schema(message), "default": zero(message)},
        type_name=message.full_name,
        columns=columns,
        row_conditions=row_conditions,
        decode=partial(decode, message),
        default=partial(_default, message),
        prepare=prepare,
        validate=validate,
        field_selectors=field_selectors or {path: partial(_at, path) for path in fields},
        warnings=warnings,
    )


def package_of(group: str, version: str) -> str:
    """The package of a group's types: ``io.k8s.api.apps.v1``."""
    match group:
        case "":
            return f"io.k8s.api.core.{version}"
        case "apiextensions.k8s.io":
            return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}"
        case _:
            return f"io.k8s.api.{group.partition('.')[0]}.{version}"


def _default(message: Message, obj: Obj) -> None:
    """Fills in defaults; the object was decoded before."""
    fill(message, obj, RULES)


def _at(path: str, obj: Obj) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if path in _FLAGS else ""
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


_FLAGS = {"spec.unschedulable", "spec.hostNetwork"}
"""Fields that are false when they are not there."""
