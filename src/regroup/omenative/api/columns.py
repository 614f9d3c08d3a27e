"""The compact form of an InferenceReplica's rows, ``ColumnarV2``: read where it is found, never written (spec/omenative.md 1.2,
9.33). Pure.

A value that many Instances share is stored once, beside the set of their indices: ``0-8,10,12-114``. ``members`` is the set of
all Instances; where an Instance is in no set of a column it has the default; records of single Instances are ``entries``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from regroup.kube.meta import View
from regroup.omenative.api.row import PHASES, LastFailure, Operation, Row

COLUMNAR = "ColumnarV2"
DENSE = "DenseV1"
"""What plain rows are called (7.2)."""
_TERM = re.compile(r"(0|[1-9]\d{0,9})(?:-([1-9]\d{0,9}))?", re.ASCII)
_MOST = 100_000
"""Instances that a replica can have: what says more is damaged, and not worth the memory."""
_SHOWN = 60
_COUNTS = {"podCounts": "pod_count", "servingPodCounts": "serving_pod_count", "availablePodCounts": "available_pod_count"}
_TEXTS = {"phases": "phase", "runningRevisions": "running_revision", "targetRevisions": "target_revision"}


class UnreadableRows(ValueError):
    """Rows that are there and cannot be understood. The message names the field and the value."""


class _Group(View, frozen=True, gc=False, kw_only=True):
    value: str | int
    indexes: str


class _Entry(View, frozen=True, gc=False, kw_only=True):
    index: int
    ready_since: datetime | None = None
    operation: Operation | None = None
    last_failure: LastFailure | None = None
    announced: tuple[str, ...] | None = None


def expand(columns: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows by index. Raises ``UnreadableRows``; then nothing of them may be believed."""
    members = _indices("members", columns.get("members"))
    values: dict[int, dict[str, Any]] = {index: {} for index in members}
    for column, name in _TEXTS.items():
        _spread(values, name, column, columns.get(column), kind=str)
    for column, name in {**_COUNTS, "incarnations": "incarnation"}.items():
        _spread(values, name, column, columns.get(column), kind=int)
    for index, row in values.items():
        if row.get("phase") not in PHASES:
            raise UnreadableRows(f"phases: Instance {index} has {row.get('phase', 'none')!r:.{_SHOWN}}")
    for column, name, value in (("admitted", "admitted", True), ("activeOrdinalOne", "active_ordinal", 1)):
        if columns.get(column) is not None:
            for index in _known(values, column, _indices(column, columns[column])):
                values[index][name] = value
    seen: set[int] = set()
    for entry in _convert("entries", columns.get("entries") or (), tuple[_Entry, ...]):
        if entry.index in seen:
            raise UnreadableRows(f"entries: Instance {entry.index} has two")
        seen.update(_known(values, "entries", (entry.index,)))
        values[entry.index] |= {
            "ready_since": entry.ready_since,
            "operation": entry.operation,
            "last_failure": entry.last_failure,
            "raw_announced": entry.announced,
        }
    return tuple(Row(index=index, **row) for index, row in sorted(values.items()))


def _spread(values: dict[int, dict[str, Any]], name: str, column: str, groups: Any, *, kind: type) -> None:
    """Give each Instance its value of one column."""
    for group in _convert(column, groups or (), tuple[_Group, ...]):
        if not isinstance(group.value, kind):
            raise UnreadableRows(f"{column}: {group.value!r:.{_SHOWN}} is no value of it")
        for index in _known(values, column, _indices(column, group.indexes)):
            if name in values[index]:
                raise UnreadableRows(f"{column}: Instance {index} has two values")
            values[index][name] = group.value


def _known(values: Mapping[int, Any], column: str, indices: Iterable[int]) -> Iterable[int]:
    for index in indices:
        if index not in values:
            raise UnreadableRows(f"{column}: Instance {index} is no member")
        yield index


def _indices(column: str, text: Any) -> Sequence[int]:
    """An index set. Terms rise, so that no index is in it twice."""
    found: list[int] = []
    last = -1
    for term in text.split(",") if isinstance(text, str) else [""]:
        match = _TERM.fullmatch(term)
        first, end = (int(match[1]), int(match[2] or match[1])) if match is not None else (0, -1)
        if not last < first <= end or len(found) + end - first >= _MOST:
            raise UnreadableRows(f"{column}: {text!r:.{_SHOWN}} is no set of indices")
        found += range(first, end + 1)
        last = end
    return found


def _convert(column: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UnreadableRows(f"{column}: {error}") from error
