"""Rows that another operator left in columns are read, and rows that cannot be read are not taken for none (1.2, 9.33)."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.omenative.ome_columns import columns, compacted, index_set
from tests.omenative.ome_simulator import World

from regroup.omenative.api.columns import UnreadableRows, expand
from regroup.omenative.api.replica import InferenceReplicaStatus
from regroup.omenative.api.row import PHASES, LastFailure, Operation, Row

R = "RecreateInstanceOnPodRestart"
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_counts = st.integers(0, 20)
_names = st.sampled_from(["", "svc-engine-00000001", "svc-engine-00000002"])
_rows = st.builds(
    Row,
    index=st.integers(0, 200),
    incarnation=st.integers(0, 5),
    phase=st.sampled_from(PHASES),
    running_revision=_names,
    target_revision=_names,
    pod_count=_counts,
    serving_pod_count=_counts,
    available_pod_count=_counts,
    admitted=st.booleans(),
    active_ordinal=st.integers(0, 1),
    ready_since=st.none() | st.just(TIME),
    operation=st.none()
    | st.builds(Operation, id=st.just("restart-1-2"), type=st.just("Restart"), deadline=st.none() | st.just(TIME)),
    last_failure=st.none()
    | st.builds(LastFailure, pod_name=st.just("p"), exit_code=st.none() | st.integers(1, 255), time=st.just(TIME)),
    raw_announced=st.none() | st.just(("RepairHeld@#1",)),
)


@given(rows=st.lists(_rows, min_size=1, max_size=40, unique_by=lambda row: row.index))
def test_each_row_comes_back_as_it_was(rows: list[Row]) -> None:
    """1.2: every field of a row, whatever is grouped with whatever."""
    assert expand(columns(rows)) == tuple(sorted(rows, key=lambda row: row.index))


def test_the_form_that_is_read() -> None:
    """1.2: sets of indices, groups in any number, entries for what is an Instance's own, defaults for the rest."""
    stored = {
        "members": "0-2,7",
        "rowOrder": [7, 0, 1, 2],
        "phases": [{"value": "Failed", "indexes": "7"}, {"value": "Ready", "indexes": "0-2"}],
        "incarnations": [{"value": 1, "indexes": "0,2"}, {"value": 4, "indexes": "1,7"}],
        "podCounts": [{"value": 2, "indexes": "0-2"}],
        "admitted": "0-1",
        "entries": [
            {
                "index": 7,
                "operation": {"type": "Restart", "step": "Drain", "id": "restart-7-1"},
                "lastFailure": {"podName": "p", "containerName": "ome-container", "reason": "Error", "exitCode": 3},
                "conditions": [{"type": "X", "status": "True"}],
            }
        ],
    }
    rows = {row.index: row for row in expand(stored)}
    assert sorted(rows) == [0, 1, 2, 7]
    assert [(row.phase, row.incarnation, row.pod_count, row.admitted) for row in rows.values()] == [
        ("Ready", 1, 2, True),
        ("Ready", 4, 2, True),
        ("Ready", 1, 2, False),
        ("Failed", 4, 0, False),
    ]
    assert rows[7].operation is not None
    assert rows[7].operation.type == "Restart"
    assert rows[7].last_failure is not None
    assert rows[7].last_failure.exit_code == 3


READY = {"members": "0-1", "phases": [{"value": "Ready", "indexes": "0-1"}]}


@pytest.mark.parametrize(
    "damage",
    [
        {"members": ""},
        {"members": None},
        {"members": "1-0"},
        {"members": "0,0"},
        {"members": "0-1,1"},
        {"members": "00-1"},
        {"members": "0-1 "},
        {"members": "-1"},
        {"members": "0-4000000000"},
        {"members": 7},
        {"phases": [{"value": "Ready", "indexes": "0"}]},
        {"phases": []},
        {"phases": [{"value": "Well", "indexes": "0-1"}]},
        {"phases": [{"value": "Ready", "indexes": "0-1"}, {"value": "Failed", "indexes": "1"}]},
        {"phases": [{"value": "Ready", "indexes": "0-2"}]},
        {"phases": "Ready"},
        {"incarnations": [{"value": "1", "indexes": "0"}]},
        {"incarnations": [{"indexes": "0"}]},
        {"admitted": "5"},
        {"activeOrdinalOne": ""},
        {"entries": [{"index": 5, "readySince": "2026-01-02T03:04:05Z"}]},
        {"entries": [{"index": 0}, {"index": 0}]},
        {"entries": [{"index": 0, "readySince": "yesterday"}]},
    ],
    ids=str,
)
def test_damage_is_told_and_nothing_of_it_believed(damage: dict[str, Any]) -> None:
    """Bad input: the field and what is wrong, in few words."""
    assert len(expand(READY)) == 2
    with pytest.raises(UnreadableRows, match=next(iter(damage))) as told:
        expand({**READY, **damage})
    assert len(str(told.value)) < 200
    status = InferenceReplicaStatus(raw_encoding="ColumnarV2", raw_columns={**READY, **damage})
    assert status.rows == ()
    assert status.unreadable.startswith(f"status.instanceStatusColumns.{next(iter(damage))}")


@pytest.mark.parametrize("crashed", [False, True])
def test_a_pass_judges_columns_as_it_judges_rows(crashed: bool) -> None:
    """9.33: a replica that is taken over plans what its twin with plain rows plans, and the first write makes the rows plain."""
    worlds = []
    for compact in (False, True):
        world = World(policy=R, replicas=3, workers=1).settle()
        world.run(10)
        if crashed:
            world.crash(world.pod(1, "worker"))
        if compact:
            assert world.stored is not None
            world.stored = compacted(world.stored)
            assert world.stored.encoding == "ColumnarV2"
        worlds.append((world, world.operate()))
    (_, plain), (taken, found) = worlds
    assert (found.actions, found.events) == (plain.actions, plain.events)
    assert found.status == plain.status
    assert taken.stored is not None
    assert (taken.stored.encoding, taken.stored.raw_columns) == ("DenseV1", None)
    writes = list(taken.writes)
    taken.run(60)
    assert taken.phases() == ["Ready"] * 3
    assert [row.incarnation for row in taken.status.rows] == [1, 2 if crashed else 1, 1]
    assert crashed or taken.writes == writes


@pytest.mark.parametrize(
    "broken", [{"raw_encoding": "ColumnarV2", "raw_columns": None}, {"raw_encoding": "RowsV9", "raw_columns": READY}]
)
def test_nothing_is_done_on_rows_that_cannot_be_read(broken: dict[str, Any]) -> None:
    """9.33: taken for none they would start over what is kept as Failed. It is told, nothing is written, and teardown goes on."""
    world = World(policy=R, workers=1).settle()
    assert world.stored is not None
    world.stored = msgspec.structs.replace(world.stored, raw_rows=None, **broken)
    status, writes = world.status_writes, list(world.writes)
    world.crash(world.pod(0, "leader"))
    outcome = world.operate()
    assert not outcome.actions
    assert outcome.problems
    [told] = world.told("InstanceRowsUnreadable")
    assert "nothing is done until its rows can be read: status.instanceStatus" in told
    assert (world.status_writes, world.writes) == (status, writes)
    world.deleted_at = world.now
    world.until(lambda: not world.pods)


def test_plain_rows_beside_columns_are_the_newer() -> None:
    """9.33: who writes columns takes plain rows away."""
    row = Row(index=0, phase="Failed", incarnation=3)
    status = InferenceReplicaStatus(raw_rows=(row,), raw_encoding="ColumnarV2", raw_columns=READY)
    assert status.rows == (row,)
    assert (status.unreadable, status.encoding) == ("", "DenseV1")


def test_sets_of_indices() -> None:
    """The form that the tests write is the one that is documented."""
    assert index_set([116, *range(9), *range(10, 115)]) == "0-8,10-114,116"
