"""What a replica's status is worth a write for, and when (spec/omenative.md 3.3; design 3: one status write a pass)."""

from typing import Any

import msgspec
import pytest

from regroup.kube.meta import Condition
from regroup.omenative.api.replica import InferenceReplicaStatus
from regroup.omenative.api.row import READY, RESTARTING, Row
from regroup.omenative.controller.statuses import may_wait, says

GOOD = Condition(type="Ready", status="True", reason="AllInstancesReady", message="2/2 Instances Ready")
BAD = Condition(type="Ready", status="False", reason="ReplicaCountMismatch", message="1/2 Instances serving, need 2")
ROWS = (
    Row(index=0, incarnation=1, phase=READY, pod_count=1, serving_pod_count=1),
    Row(index=1, incarnation=1, phase=READY, pod_count=1, serving_pod_count=1),
)
WELL = InferenceReplicaStatus(replicas=2, ready_replicas=2, serving_replicas=2, raw_rows=ROWS, raw_conditions=(GOOD,))


def _changed(status: InferenceReplicaStatus = WELL, **fields: Any) -> InferenceReplicaStatus:
    return msgspec.structs.replace(status, **fields)


def _rows(**fields: Any) -> tuple[Row, ...]:
    return (msgspec.structs.replace(ROWS[0], **fields), ROWS[1])


ILL = _changed(ready_replicas=1, serving_replicas=1, raw_rows=_rows(serving_pod_count=0), raw_conditions=(BAD,))


def test_a_pod_that_is_not_ready_for_a_moment_may_wait() -> None:
    """A container that ended is started again within moments, or its Instance restarts: numbers, and the condition that follows
    from them, are no hurry."""
    assert may_wait(WELL, ILL)
    assert may_wait(WELL, _changed(available_replicas=1))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (ILL, WELL, "good news: the component is Ready"),
        (WELL, _changed(raw_rows=_rows(phase=RESTARTING, incarnation=2)), "a restart is announced before it is done"),
        (WELL, _changed(raw_rows=ROWS[:1]), "an Instance is gone"),
        (WELL, _changed(update_revision="svc-engine-2"), "another revision"),
        (WELL, _changed(observed_generation=2), "a generation was seen"),
        (WELL, _changed(ILL, raw_conditions=(BAD, Condition(type="RolloutStalled", status="True"))), "another condition"),
    ],
)
def test_what_somebody_may_wait_for_is_never_held_back(
    old: InferenceReplicaStatus, new: InferenceReplicaStatus, why: str
) -> None:
    """All but numbers is written in the pass that decided it."""
    assert not may_wait(old, new), why


def test_statuses_that_are_written_alike_say_the_same() -> None:
    """Absent and empty lists are one on the wire; a row that differs is not."""
    assert says(_changed(raw_retry_blocks=None), _changed(raw_retry_blocks=()))
    assert says(WELL, msgspec.json.decode(msgspec.json.encode(WELL), type=InferenceReplicaStatus))
    assert not says(WELL, ILL)
