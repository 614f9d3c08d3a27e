"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386). Pure: documents that come in are never changed."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from regroup.wire import codec

OPERATIONS_LIMIT = 10_000
"""Operations of one patch that are taken, as a real API server."""
Operation = dict[str, Any]
"""One operation of a JSON patch."""
_VALUED = frozenset({"add", "replace"})
COPIES_LIMIT = 3 * 1024 * 1024
"""Bytes of JSON that the copies of one patch may make together: a few operations can double a document over and over."""


class PatchError(ValueError):
    """A patch that does not fit its document. ``test_failed`` tells a failed ``test`` from the rest."""

    def __init__(self, message: str, *, test_failed: bool = False) -> None:
        super().__init__(message)
        self.test_failed = test_failed


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """``document`` after the merge patch: maps merge, null removes, all else replaces. Raises ``PatchError``."""
    try:
        return _merge(document, patch)
    except RecursionError as error:
        raise PatchError("the document or the patch is nested too deeply") from error


def _merge(document: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return deepcopy(patch)
    result = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def apply_json_patch(document: Any, operations: Sequence[Mapping[str, Any]], *, lenient: bool = False) -> Any:
    """``document`` after all operations, or ``PatchError`` and no change at all.

    ``lenient`` takes what API servers take beyond the RFC: ``replace`` sets a key that is not there, a ``value`` that is left
    out is null.
    """
    if len(operations) > OPERATIONS_LIMIT:
        raise PatchError(f"the patch has {len(operations)} operations, at most {OPERATIONS_LIMIT} are taken")
    copied = 0
    try:
        result = deepcopy(document)
        for position, operation in enumerate(operations):
            try:
                if operation["op"] == "copy":
                    copied += len(codec.encode(_value(result, _parts(operation["from"]))))
                    if copied > COPIES_LIMIT:
                        raise PatchError(f"operation {position}: the copies of the patch exceed {COPIES_LIMIT} bytes")
                full = {"value": None, **operation} if lenient and operation["op"] in _VALUED else operation
                result = _apply(result, full, lenient=lenient)
            except (KeyError, TypeError, AttributeError) as error:
                raise PatchError(f"operation {position} is malformed: {error}") from error
    except RecursionError as error:
        raise PatchError("the document or the patch is nested too deeply") from error
    return result


def _apply(document: Any, operation: Mapping[str, Any], *, lenient: bool) -> Any:
    path = _parts(operation["path"])
    match operation["op"]:
        case "add":
            return _add(document, path, deepcopy(operation["value"]))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            if not path:
                return deepcopy(operation["value"])
            return _replace(document, path, deepcopy(operation["value"]), lenient=lenient)
        case "move":
            source = _parts(operation["from"])
            if path[: len(source)] == source and len(path) > len(source):
                raise PatchError(f"cannot move {operation['from']} into itself")
            document, value = _remove(document, source)
            return _add(document, path, value)
        case "copy":
            return _add(document, path, deepcopy(_value(document, _parts(operation["from"]))))
        case "test":
            _test(document, path, operation)
            return document
        case other:
            raise PatchError(f"unexpected kind: {other}")


def _test(document: Any, path: list[str], operation: Mapping[str, Any]) -> None:
    try:
        actual = _value(document, path)
    except PatchError:
        if operation.get("value") is None:
            return
        raise PatchError(f"testing path {operation['path']} failed: it is not there", test_failed=True) from None
    if not _equal(actual, operation.get("value")):
        raise PatchError(f"testing value {operation['path']} failed", test_failed=True)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def json_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Operation]:
    """The operations that make ``new`` of ``old``, as ``apply_json_patch`` takes them. Lists are replaced as a whole."""
    return _differences(old, new, ())


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[str, ...]) -> list[Operation]:
    """Pointers are spelled only for what differs: that is little of a pod, and a pod is what is compared most."""
    operations: list[Operation] = [{"op": "remove", "path": pointer(*path, key)} for key in old if key not in new]
    for key, value in new.items():
        if key not in old:
            operations.append({"op": "add", "path": pointer(*path, key), "value": value})
            continue
        before = old[key]
        if value is before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            operations += _differences(before, value, (*path, key))
        elif not _equal(value, before):
            operations.append({"op": "replace", "path": pointer(*path, key), "value": value})
    return operations


def pointer(*parts: str) -> str:
    """The JSON pointer (RFC 6901) that leads through ``parts``."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _parts(text: str) -> list[str]:
    """The keys and positions that a JSON pointer leads through."""
    if text == "":
        return []
    if not text.startswith("/"):
        raise PatchError(f"path {text!r} does not start with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _step(document: Any, part: str) -> Any:
    if isinstance(document, dict):
        if part not in document:
            raise PatchError(f"key {part!r} is missing")
        return document[part]
    if isinstance(document, list):
        return document[_index(part, len(document) - 1)]
    raise PatchError(f"there is nothing below a plain value at {part!r}")


def _index(part: str, last: int) -> int:
    if not (part.isascii() and part.isdecimal()) or len(part) > 18 or (part != "0" and part.startswith("0")):
        raise PatchError(f"{part!r} is not an index")
    if int(part) > last:
        raise PatchError(f"index {part} is out of bounds")
    return int(part)


def _value(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _step(document, part)
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _value(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else _index(path[-1], len(parent)), value)
    else:
        raise PatchError(f"cannot add {path[-1]!r} to a plain value")
    return document


def _replace(document: Any, path: list[str], value: Any, *, lenient: bool) -> Any:
    parent = _value(document, path[:-1])
    if not (lenient and isinstance(parent, dict)):
        _step(parent, path[-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        parent[int(path[-1])] = value
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    if not path:
        raise PatchError("cannot remove the whole document")
    parent = _value(document, path[:-1])
    value = _step(parent, path[-1])
    if isinstance(parent, dict):
        del parent[path[-1]]
    else:
        del parent[int(path[-1])]
    return document, value
