"""The shape of an answer: what must be equal on every server. UIDs, versions, times, addresses and made-up names become symbols.

A symbol is numbered by its first appearance in the conversation, so that equal things stay equal: an update that changed nothing
shows the version of before. Pure.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"^(\d+[smhdy])+$|^<invalid>$")
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_ADDRESS = re.compile(r"^10\.\d+\.\d+\.\d+$")
_SUFFIX = re.compile(r"^[a-z0-9]{5}$")
_MADE_UP = frozenset({"<time>", "<uid>"})


class Shaper:
    """Turns the answers of one conversation into shapes, in order."""

    def __init__(self) -> None:
        self._symbols: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def shape(self, value: Any) -> Any:
        """The shape of a decoded body."""
        self._collect(value, listed=_is_list(value))
        return self._shape(value)

    def _collect(self, value: Any, *, listed: bool) -> None:
        """Name what is new in a body before it is shaped: messages come before the objects that they speak of."""
        if isinstance(value, list):
            for entry in value:
                self._collect(entry, listed=False)
            return
        if not isinstance(value, dict):
            return
        meta = value.get("metadata")
        if isinstance(meta, dict) and not listed:
            for kind, field in (("uid", "uid"), ("rv", "resourceVersion")):
                if isinstance(text := meta.get(field), str) and text:
                    self._name(kind, text)
            prefix, name = meta.get("generateName"), meta.get("name")
            if prefix and isinstance(name, str) and name.startswith(prefix) and _SUFFIX.match(name[len(prefix) :]):
                self._symbols.setdefault(name, f"{prefix}<5>")
        for entry in value.values():
            self._collect(entry, listed=False)

    def _name(self, kind: str, text: str) -> None:
        if text not in self._symbols:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._symbols[text] = f"<{kind} {self._counts[kind]}>"

    def _shape(self, value: Any, *, key: str = "") -> Any:
        match value:
            case dict():
                shaped = {name: self._shape(entry, key=name) for name, entry in value.items()}
                if key == "metadata" and isinstance(shaped.get("managedFields"), list):
                    shaped["managedFields"] = sorted(shaped["managedFields"], key=_manager)
                if value.get("kind") == "Status" and isinstance(shaped.get("details"), dict):
                    _sort_causes(shaped)
                if _is_list(value) and isinstance(shaped.get("metadata"), dict):
                    shaped["metadata"] = _list_meta(shaped["metadata"])
                return shaped
            case list():
                return [_cell(self._shape(entry)) if key == "cells" else self._shape(entry) for entry in value]
            case str():
                return self._text(value, key=key)
            case int() if key == "nodePort" and value:
                return "<port>"
            case _:
                return value

    def _text(self, text: str, *, key: str) -> str:
        if key == "continue" and text:
            return "<continue>"
        if text in self._symbols and (key != "resourceVersion" or text != "0"):
            return self._symbols[text]
        if key == "clusterIP" or (key == "" and _ADDRESS.match(text)):
            return _ADDRESS.sub("<address>", text)
        if _UUID.match(text):
            return "<uid>"
        text = _TIME.sub(lambda found: "<microtime>" if found[1] else "<time>", text)
        if len(text) < 5:
            return text
        for known, symbol in self._symbols.items():
            if len(known) > 2 and known in text:
                text = re.sub(rf"(?<![\w-]){re.escape(known)}(?![\w-])", symbol, text)
        return text


def pick(value: Any, paths: Mapping[str, str]) -> dict[str, Any]:
    """The parts of a body that ``paths`` name: ``a.b[0]``, ``a[name=x].b``, ``a[*].b``; None where there is nothing."""
    return {name: _find(value, _parts(path)) for name, path in paths.items()}


def find(value: Any, path: str) -> Any:
    """One part of a body."""
    return _find(value, _parts(path))


def _parts(path: str) -> list[str]:
    return [part for part in re.split(r"\.(?![^\[]*\])|(?=\[)", path) if part]


def _find(value: Any, parts: list[str]) -> Any:
    if not parts:
        return value
    part, rest = parts[0], parts[1:]
    if part == "[*]":
        return [_find(entry, rest) for entry in value] if isinstance(value, list) else None
    if part.startswith("["):
        inner = part[1:-1]
        if not isinstance(value, list):
            return _find(value.get(inner), rest) if isinstance(value, dict) else None
        if "=" in inner:
            name, _, wanted = inner.partition("=")
            return next((_find(entry, rest) for entry in value if str(entry.get(name)) == wanted), None)
        return _find(value[int(inner)], rest) if int(inner) < len(value) else None
    return _find(value.get(part), rest) if isinstance(value, dict) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, dict) and (isinstance(value.get("items"), list) or isinstance(value.get("rows"), list))


def _list_meta(meta: dict[str, Any]) -> dict[str, Any]:
    return {**meta, "resourceVersion": "<rv of the list>"} if meta.get("resourceVersion") else meta


def _sort_causes(status: dict[str, Any]) -> None:
    """Several causes come in the order of a Go map, and some several times, as often as the server judged: each once here,
    sorted, and the message that repeats them is cut."""
    causes = status["details"].get("causes") or []
    if len(causes) < 2:
        return
    each = {json.dumps(cause, sort_keys=True): cause for cause in causes}
    status["details"]["causes"] = [each[text] for text in sorted(each)]
    status["message"] = re.sub(r"is invalid: \[.*\]$", "is invalid: [all causes]", status["message"], flags=re.DOTALL)


def _manager(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(name, "")) for name in ("operation", "manager", "subresource", "apiVersion"))


def _cell(value: Any) -> Any:
    return "<age>" if isinstance(value, str) and _AGE.match(value) else value


def differences(real: Any, ours: Any, path: str = "") -> Iterable[tuple[str, Any, Any]]:
    """Where two shapes differ: path, real value, our value. What is not there is ``...``."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for name in sorted({*real, *ours}):
            yield from differences(real.get(name, ...), ours.get(name, ...), f"{path}.{name}" if path else name)
    elif isinstance(real, list) and isinstance(ours, list):
        for index in range(max(len(real), len(ours))):
            one = real[index] if index < len(real) else ...
            other = ours[index] if index < len(ours) else ...
            yield from differences(one, other, f"{path}[{index}]")
    elif real != ours or type(real) is not type(ours):
        yield path, real, ours
