"""Rows in the compact form, as another operator writes them (spec/omenative.md 1.2)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from regroup.omenative.api.replica import InferenceReplicaStatus
from regroup.omenative.api.row import Row

_GROUPED = {
    "phases": "phase",
    "runningRevisions": "running_revision",
    "targetRevisions": "target_revision",
    "incarnations": "incarnation",
    "podCounts": "pod_count",
    "servingPodCounts": "serving_pod_count",
    "availablePodCounts": "available_pod_count",
}
_SINGLE = ("readySince", "operation", "lastFailure", "announced")


def columns(rows: Sequence[Row]) -> dict[str, Any]:
    """The columns of ``rows``: values shared by many once, and entries for what is an Instance's own."""
    found: dict[str, Any] = {"members": index_set(row.index for row in rows)}
    for column, name in _GROUPED.items():
        groups: dict[Any, list[int]] = defaultdict(list)
        for row in rows:
            if getattr(row, name):
                groups[getattr(row, name)].append(row.index)
        if groups:
            found[column] = [{"value": value, "indexes": index_set(groups[value])} for value in sorted(groups)]
    for column, name in (("admitted", "admitted"), ("activeOrdinalOne", "active_ordinal")):
        indices = [row.index for row in rows if getattr(row, name)]
        if indices:
            found[column] = index_set(indices)
    entries = []
    for row in sorted(rows, key=lambda row: row.index):
        wire = msgspec.to_builtins(row)
        single = {name: wire[name] for name in _SINGLE if wire.get(name)}
        if single:
            entries.append({"index": row.index, **single})
    return {**found, "entries": entries} if entries else found


def index_set(indices: Iterable[int]) -> str:
    """``0-3,5``."""
    terms: list[list[int]] = []
    for index in sorted(indices):
        if terms and terms[-1][1] == index - 1:
            terms[-1][1] = index
        else:
            terms.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in terms)


def compacted(status: InferenceReplicaStatus) -> InferenceReplicaStatus:
    """The same status with its rows in columns."""
    return msgspec.structs.replace(status, raw_rows=None, raw_encoding="ColumnarV2", raw_columns=columns(status.rows))
