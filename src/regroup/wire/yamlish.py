"""YAML as kubectl reads it: many documents, YAML 1.1 scalars by kubectl's rules, duplicate keys refused.

Kept apart from PyYAML's own loader because that one makes dates, sexagesimal numbers and other values of strings that kubectl
leaves alone, and takes the last of two equal keys in silence.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml


class YamlError(ValueError):
    """Text that is not YAML, with the line."""


class _Loader(yaml.CSafeLoader):
    """A loader with kubectl's scalars only."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's way to configure a class

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        self.flatten_mapping(node)
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain value", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is set twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_BOOLEANS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INTEGER = re.compile(r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
)


def _boolean(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> bool:
    return _BOOLEANS[str(loader.construct_scalar(node))]


def _integer(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    for prefix, base in (("0b", 2), ("0x", 16), ("0o", 8)):
        if digits.startswith(prefix):
            return sign * int(digits[2:], base)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits, 8)
    return sign * int(digits)


def _float(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    value = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    # JSON knows one kind of number: 1e3 is 1000.
    return int(value) if value.is_integer() and abs(value) < 2**53 and "." not in text else value


def _resolve(tag: str, pattern: re.Pattern[str], first: str) -> None:
    for character in first:
        _Loader.yaml_implicit_resolvers.setdefault(character, []).append((tag, pattern))


_resolve("tag:yaml.org,2002:bool", re.compile("^(?:" + "|".join(_BOOLEANS) + ")$"), "yYnNtTfFoO")
_resolve("tag:yaml.org,2002:int", _INTEGER, "-+0123456789")
_resolve("tag:yaml.org,2002:float", _FLOAT, "-+0123456789.")
_resolve("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), "~nN")
_Loader.yaml_implicit_resolvers.setdefault("", []).append(("tag:yaml.org,2002:null", re.compile("^$")))
_resolve("tag:yaml.org,2002:merge", re.compile("^<<$"), "<")
_Loader.add_constructor("tag:yaml.org,2002:bool", _boolean)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks, and quotes what kubectl would not read back as a string."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    if "\n" in value:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|")
    ambiguous = value in _BOOLEANS or _INTEGER.match(value) or _FLOAT.match(value) or value in {"", "~", "null", "Null", "NULL"}
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if ambiguous else None)


_Dumper.add_representer(str, _text)


def load_documents(text: str) -> list[Any]:
    """All documents of ``text``; empty ones are left out. Raises ``YamlError`` with the line."""
    try:
        return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark is not None else ""
        raise YamlError(f"{place}{getattr(error, 'problem', None) or error}") from error
    except (ValueError, RecursionError) as error:
        raise YamlError(str(error)) from error


def dump(value: Any) -> str:
    """One document, which ``load_documents`` and kubectl read back as the same value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
