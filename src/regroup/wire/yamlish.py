"""YAML as kubectl reads it: many documents, YAML 1.1 scalars by kubectl's rules, values that JSON can carry.

PyYAML only parses here. Its own construction of values is not used: it makes dates, sexagesimal numbers, sets and bytes of what
kubectl leaves alone or turns into plain values. Stricter than kubectl in one thing: a key that is set twice is an error, because
taking the last in silence hides mistakes. The tests ask the real kubectl.
"""

import base64
import binascii
import math
import re
from decimal import Decimal
from typing import Any

import yaml

NODES_LIMIT = 1_000_000
"""Values of one document that are taken, aliases counted each time: a short text of aliases can stand for billions."""

_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _STR = (f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str"))
_MERGE, _BINARY, _TIMESTAMP = (f"{_TAG}{name}" for name in ("merge", "binary", "timestamp"))

_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INTEGER = re.compile(r"^[-+]?(?:0[bB][01_]+|0[oO]?[0-7_]+|0[xX][0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOATING = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$")
_NOT_FINITE = re.compile(r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")
_BASES = {"0b": 2, "0x": 16, "0o": 8}


class YamlError(ValueError):
    """Text that kubectl would not take, in one line with the line number."""


def load_documents(text: str) -> list[Any]:
    """All documents of ``text`` as JSON values (maps have text keys); empty ones are left out. Raises ``YamlError``."""
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=_Loader) if node is not None]
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise YamlError(f"line {line}: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}: " if mark is not None else ""
        raise YamlError(f"{place}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from error
    return [value for value in (_Values().value(node) for node in nodes) if value is not None]


def dump(value: Any) -> str:
    """One document, which ``load_documents`` and kubectl read back as the same value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)


class _Loader(yaml.CSafeLoader):
    """Tells plain scalars apart by kubectl's rules; only composes."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's way to configure a class


def _resolve(tag: str, pattern: re.Pattern[str], first: str) -> None:
    for character in first:
        _Loader.yaml_implicit_resolvers.setdefault(character, []).append((tag, pattern))


_resolve(_BOOL, re.compile("^(?:" + "|".join(_BOOLEANS) + ")$"), "yYnNtTfFoO")
_resolve(_INT, _INTEGER, "-+0123456789")
_resolve(_FLOAT, _FLOATING, "-+0123456789.")
_resolve(_FLOAT, _NOT_FINITE, "-+.")
_resolve(_NULL, re.compile("^(?:~|null|Null|NULL)$"), "~nN")
_resolve(_MERGE, re.compile("^<<$"), "<")
_Loader.yaml_implicit_resolvers[""] = [(_NULL, re.compile("^$"))]


class _Values:
    """Makes values of the nodes of one document."""

    def __init__(self) -> None:
        self._count = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node) -> Any:
        self._count += 1
        if self._count > NODES_LIMIT:
            raise _error(node, f"the document has more than {NODES_LIMIT} values, aliases counted each time")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            raise _error(node, "an anchored value contains itself")
        self._open.add(id(node))
        result = self._mapping(node) if isinstance(node, yaml.MappingNode) else [self.value(item) for item in node.value]
        self._open.remove(id(node))
        return result

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        result: dict[str, Any] = {}
        written: set[str] = set()
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                # In order, as kubectl: what is merged wins over keys before it and loses to keys after it.
                result.update(self._merged(value_node))
                continue
            key = self._key(key_node)
            if key in written:
                raise _error(key_node, f"key {key[:100]!r} is set twice")
            written.add(key)
            result[key] = self.value(value_node)
        return result

    def _merged(self, node: yaml.Node) -> dict[str, Any]:
        value = self.value(node)
        maps = value[::-1] if isinstance(value, list) else [value]
        result: dict[str, Any] = {}
        for entry in maps:
            if not isinstance(entry, dict):
                raise _error(node, "only a map or a list of maps can be merged with <<")
            result.update(entry)
        return result

    def _key(self, node: yaml.Node) -> str:
        value = self.value(node)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise _error(node, "a key must be a plain value and not null")


def _scalar(node: yaml.ScalarNode) -> Any:
    text = node.value
    tag = node.tag
    if tag == _NULL and text in _NULLS:
        return None
    if tag == _BOOL and text in _BOOLEANS:
        return _BOOLEANS[text]
    if tag in {_INT, _FLOAT} and _INTEGER.match(text):
        return _integer(text)
    if tag == _FLOAT and _NOT_FINITE.match(text):
        raise _error(node, f"{text} is no number that JSON can carry")
    if tag == _FLOAT and _FLOATING.match(text):
        return _float(text)
    if tag == _BINARY:
        return _binary(node)
    if tag in {_NULL, _BOOL, _INT, _FLOAT}:
        raise _error(node, f"{text[:100]!r} is not a !!{tag.removeprefix(_TAG)}")
    return text


def _integer(text: str) -> int | float | str:
    digits = text.replace("_", "").lower()
    negative = digits.startswith("-")
    digits = digits.lstrip("+-")
    base = _BASES.get(digits[:2], 8 if len(digits) > 1 and digits.startswith("0") else 10)
    digits = digits[2:] if digits[:2] in _BASES else digits
    if not digits or len(digits) > 400:  # past what a float holds: not a number to kubectl either
        return text
    value = -int(digits, base) if negative else int(digits, base)
    if -(2**63) <= value < 2**63:
        return value
    # Larger ones go through a float, as in kubectl; those of another base than ten are no numbers to it.
    return float(value) if base == 10 or 0 <= value < 2**64 else text


def _float(text: str) -> int | float | str:
    value = float(text.replace("_", ""))
    if math.isinf(value):
        return text
    # JSON knows one kind of number: 1e3 and 1.0 are integers to whoever reads them there.
    if value.is_integer() and -(2**63) <= value < 2**63:
        return int(Decimal(repr(value)))
    return value


def _binary(node: yaml.ScalarNode) -> str:
    try:
        return base64.b64decode("".join(node.value.split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _error(node, "a !!binary value is not base64 of UTF-8 text") from error


def _error(node: yaml.Node, message: str) -> YamlError:
    return YamlError(f"line {node.start_mark.line + 1}: {message}")


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks, and quotes what kubectl would not read back as a string."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    if "\n" in value:
        return dumper.represent_scalar(_STR, value, style="|")
    ambiguous = (
        value in _BOOLEANS or value in _NULLS or any(pattern.match(value) for pattern in (_INTEGER, _FLOATING, _NOT_FINITE))
    )
    return dumper.represent_scalar(_STR, value, style='"' if ambiguous else None)


_Dumper.add_representer(str, _text)
