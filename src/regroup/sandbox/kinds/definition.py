"""What the API server has to know of a kind, built in or custom. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from regroup.sandbox.schema.errors import FieldError
from regroup.wire.resource import Resource

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. Priority 0 is always shown, 1 with ``-o wide``."""

    name: str
    cell: Callable[[Obj, datetime], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def _nothing(_: Obj) -> None:
    return


def _plain_row(_: Obj) -> Sequence[Obj]:
    return ()


def _valid(_: Obj, __: Obj | None) -> Sequence[FieldError]:
    return ()


def _same(obj: Obj) -> Obj:
    return obj


def _as_it_is(obj: Obj) -> tuple[Obj, list[str]]:
    return obj, []


def _unprepared(_: Obj, __: Obj | None) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDefinition:
    """One served kind. All functions are pure but ``default`` and ``prepare``, which fill in the object that they are given."""

    resource: Resource
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = True
    """Whether there is a ``status`` subresource that separates spec and status."""
    status_on_create: bool = False
    """Whether a new object keeps the status that it is sent with (nodes)."""
    scale: tuple[str, str, str] | None = None
    """JSON paths of replicas in spec and status and of the selector, when there is a ``scale`` subresource."""
    generation: bool = True
    """Whether ``metadata.generation`` counts changes of everything but metadata and status."""
    schema: Obj = field(default_factory=dict)
    """OpenAPI v3 schema of the whole object."""
    type_name: str = ""
    """Full name of the type in ``kinds.tables``; empty for custom kinds."""
    columns: tuple[Column, ...] = ()
    row_conditions: Callable[[Obj], Sequence[Obj]] = _plain_row
    """What a table says of an object's row beside its cells."""
    decode: Callable[[Obj], tuple[Obj, list[str]]] = _as_it_is
    """The object as the server keeps it, and the paths that nobody knows. Raises ``schema.decoding.DecodeFailure``."""
    prepare: Callable[[Obj, Obj | None], None] = _unprepared
    """``(new, old)``: sets in place, after defaults, what is the server's own: first status, addresses, built-in admission."""
    without_nulls: Callable[[Obj], Obj] = _same
    """What is read, without the nulls that mean nothing. What server-side apply comes to is not read again: it keeps them."""
    default: Callable[[Obj], None] = _nothing
    validate: Callable[[Obj, Obj | None], Sequence[FieldError]] = _valid
    """``(new, old)``; old is None on create."""
    field_selectors: Mapping[str, Callable[[Obj], str]] = field(default_factory=dict)
    """Beside ``metadata.name`` and ``metadata.namespace``, which every kind has."""
    custom: bool = False
    """A custom resource: no strategic merge patch."""
    warnings: Callable[[Obj], Sequence[str]] | None = None

    @property
    def list_kind(self) -> str:
        return f"{self.resource.kind}List"
