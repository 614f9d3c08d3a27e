"""Label and field selectors: parsing and matching. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUAL = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*([A-Za-z0-9._-]*)$")
_COMPARE = re.compile(rf"^({_KEY})\s*(>|<)\s*(-?[0-9]+)$")
_FIELD_PART = re.compile(r"(?:\\.|[^,\\]|\\$)+")
_FIELD = re.compile(r"^\s*([^=!\s\\]+)\s*(==|=|!=)(.*)$", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\,=])")
_EXISTS = re.compile(rf"^(!?)\s*({_KEY})$")


class SelectorError(ValueError):
    """A selector that cannot be parsed; the message names the part."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and _compare(value, self.operator, self.values)


def _compare(value: str, operator: str, bounds: Sequence[str]) -> bool:
    try:
        left, right = int(value), int(bounds[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One requirement on one field path."""

    path: str
    value: str
    equal: bool

    def matches(self, value: str) -> bool:
        return (value == self.value) is self.equal


def parse_label_selector(text: str) -> LabelSelector:
    """A selector as in a URL: ``a=b,c!=d,e in (f,g),h,!i``. Raises ``SelectorError``."""
    return LabelSelector(tuple(_requirement(part) for part in _parts(text)))


def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """A selector as objects carry it, with ``matchLabels`` and ``matchExpressions``; empty matches everything.

    Raises ``SelectorError`` for one that no API server would have let in.
    """
    selector = selector or {}
    try:
        labels = [Requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
        expressions = [
            _expression(entry["key"], entry["operator"], tuple(entry.get("values") or ()))
            for entry in selector.get("matchExpressions") or []
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise SelectorError(
            f"a selector needs matchLabels as a map and matchExpressions with key and operator: {error}"
        ) from error
    return LabelSelector((*labels, *expressions))


def _expression(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
        raise SelectorError(f"operator {operator!r} of {key!r}: In, NotIn, Exists or DoesNotExist is expected")
    if bool(values) is (operator in {"Exists", "DoesNotExist"}):
        raise SelectorError(f"operator {operator} of {key!r} takes {'no values' if values else 'at least one value'}")
    return Requirement(key, operator, values)  # type: ignore[arg-type]  # looked at above


def parse_field_selector(text: str) -> tuple[FieldRequirement, ...]:
    """``a.b=c,d!=e``; commas, equals signs and backslashes in values stand behind backslashes. Raises ``SelectorError``."""
    parts = [part for part in _FIELD_PART.findall(text) if part.strip()]
    return tuple(map(_field, parts))


def _field(part: str) -> FieldRequirement:
    match = _FIELD.match(part)
    if match is None or re.search(r"[\\=]", _ESCAPED.sub("", match[3])):
        raise SelectorError(f"invalid selector: {part!r}; can't understand {part!r}")
    return FieldRequirement(match[1], _ESCAPED.sub(r"\1", match[3]), match[2] != "!=")


def _parts(text: str) -> list[str]:
    """Split at commas outside of parentheses."""
    parts = [part.strip() for part in re.split(r",(?![^()]*\))", text)]
    return [] if parts == [""] else parts


def _requirement(part: str) -> Requirement:
    if match := _EXISTS.match(part):
        return Requirement(match[2], "DoesNotExist" if match[1] else "Exists")
    if match := _EQUAL.match(part):
        return Requirement(match[1], "NotIn" if match[2] == "!=" else "In", (match[3],))
    if match := _SET.match(part):
        values = tuple(value.strip() for value in match[3].split(","))
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _COMPARE.match(part):
        return Requirement(match[1], "Gt" if match[2] == ">" else "Lt", (match[3],))
    raise SelectorError(f"unable to parse requirement: {part!r}")
