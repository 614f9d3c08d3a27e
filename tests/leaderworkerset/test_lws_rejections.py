"""Pacing of Hash groups whose pods are refused as soon as they are there: case C136."""

from datetime import timedelta

import msgspec
import pytest
from tests.leaderworkerset.lws_builders import NOW, pod

from regroup.kube.pod import ContainerState, ContainerStatus, Pod, Running, Terminated
from regroup.leaderworkerset.controller.memory import Rejections
from regroup.leaderworkerset.groups.failure import was_refused
from regroup.leaderworkerset.view import GroupKey


def key(number: int) -> GroupKey:
    return GroupKey("t", "demo", f"{number:040x}")


def waits(times: int) -> list[float]:
    found = Rejections()
    result = []
    for number in range(times):
        found.note(key(number), now=NOW)
        found.note(key(number), now=NOW + timedelta(seconds=9))
        until = found.until(key(times))
        assert until is not None
        result.append((until - NOW).total_seconds())
    return result


def test_the_wait_grows_and_ends() -> None:
    """The first successor is let in at once; a successor has another key; events of one group count once."""
    assert waits(8) == [0, 1, 2, 4, 8, 16, 30, 30]
    assert waits(40)[-1] == 30


def test_it_is_over_when_a_group_is_ready_or_gone() -> None:
    found = Rejections()
    for number in range(3):
        found.note(key(number), now=NOW)
    assert found.until(GroupKey("t", "other", "0" * 40)) is None
    assert found.until(GroupKey("t", "demo", "0")) is None, "Ordinal groups have their own"
    found.over(key(9))
    assert found.until(key(9)) is None
    found.note(key(1), now=NOW)
    found.forget("t", "demo")
    assert len(found) == 0


def _with(state: ContainerState | None, *, phase: str = "Failed") -> Pod:
    found = pod(0, phase=phase)
    statuses = (ContainerStatus(name="main", state=state),) if state is not None else ()
    return msgspec.structs.replace(found, raw_status=msgspec.structs.replace(found.status, raw_container_statuses=statuses))


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (_with(None), True),
        (_with(ContainerState()), True),
        (_with(None, phase="Pending"), False),
        (_with(ContainerState(running=Running())), False),
        (_with(ContainerState(terminated=Terminated(exit_code=1))), False),
        (pod(0, phase="Failed", restarts=1), False),
    ],
)
def test_who_was_refused(found: Pod, refused: bool) -> None:
    """What has run once is a failure like any other, and is recreated at once."""
    assert was_refused(found) is refused
