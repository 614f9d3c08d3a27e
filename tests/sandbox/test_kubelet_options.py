"""What annotations of a pod tell the simulated kubelet."""

import pytest
from tests.sandbox.kubelet_fixtures import OPTIONS, make_pod

from regroup.sandbox.kubelet.options import Fault, KubeletOptions, parse_duration, parse_fault, plan


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("250ms", 0.25), ("2", 2), ("0.5", 0.5), ("1h", 3600), (" 5s ", 5)]
)
def test_durations(text: str, seconds: float) -> None:
    """Go's durations and bare seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "5 s", "1d", "s", "1m;2s"])
def test_bad_durations_are_named(text: str) -> None:
    """What cannot be read is an error that shows the text."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_values_hold_for_all_regular_containers_or_for_a_named_one() -> None:
    """``30s`` for all but init containers, ``name=...`` for one, an init container only by name."""
    pod = make_pod(
        containers=("a", "b"),
        init=({"name": "setup"},),
        annotations={"exit-after": "30s,b=1m", "exit-code": "a=3,setup=9", "start-delay": "setup=7", "ready-delay": "2"},
    )
    found = {entry.name: entry for entry in plan(pod, OPTIONS).containers}
    assert [found[name].run_for for name in ("setup", "a", "b")] == [3, 30, 60]
    assert [found[name].exit_code for name in ("setup", "a", "b")] == [9, 3, 0]
    assert [found[name].start_delay for name in ("setup", "a", "b")] == [7, 1, 1]
    assert [found[name].ready_delay for name in ("a", "b")] == [2, 2]


def test_a_readiness_probe_delays_readiness() -> None:
    """``initialDelaySeconds`` is waited for, unless switched off or overridden."""
    container = {"name": "main", "readinessProbe": {"initialDelaySeconds": 20}}
    assert plan(make_pod(containers=(container,)), OPTIONS).containers[0].ready_delay == 20
    assert plan(make_pod(containers=(container,)), KubeletOptions(probe_delays=False)).containers[0].ready_delay == 0.5
    given = make_pod(containers=(container,), annotations={"ready-delay": "1s"})
    assert plan(given, OPTIONS).containers[0].ready_delay == 1


def test_bad_annotations_are_reported_and_ignored() -> None:
    """An annotation must not be able to stop a kubelet: defaults hold, each problem is named."""
    pod = make_pod(
        annotations={"start-delay": "soon", "exit-code": "300", "fault": "explode now", "stop-delay": "1s"},
    )
    found = plan(pod, OPTIONS)
    assert found.containers[0].start_delay == OPTIONS.start_delay
    assert found.containers[0].exit_code == 0
    assert found.fault is None
    assert found.stop_delay == 1
    assert [problem.split(":")[0] for problem in found.problems] == [
        "annotation sandbox.regroup.dev/start-delay",
        "annotation sandbox.regroup.dev/exit-code",
        "annotation sandbox.regroup.dev/fault",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("crash", Fault(id="crash", action="crash")),
        ("crash container=worker code=3 id=a", Fault(id="a", action="crash", container="worker", code=3)),
        ("crash reason=OOMKilled id=b", Fault(id="b", action="crash", code=137, reason="OOMKilled")),
        ("fail reason=Evicted message='low on memory' id=c", Fault("c", "fail", reason="Evicted", message="low on memory")),
        ('{"action": "crash", "code": 2, "id": 7}', Fault(id="7", action="crash", code=2)),
        ("unready for=1m id=d", Fault(id="d", action="unready", seconds=60)),
    ],
)
def test_faults(text: str, fault: Fault) -> None:
    """Words or JSON; without an id the text is the id."""
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    "text",
    ["explode", "crash worker", "crash code=999", "crash code=x", "crash colour=red", "{", "[1]", '{"code": 1}', "crash 'x"],
)
def test_bad_faults_are_refused(text: str) -> None:
    """Unknown actions, fields and codes are errors, never a guess."""
    with pytest.raises(ValueError):  # noqa: PT011 - several messages
        parse_fault(text)


def test_long_texts_are_cut() -> None:
    """Nothing from an annotation is taken over unbounded."""
    fault = parse_fault(f"fail reason={'x' * 5000} message={'y' * 5000} id={'z' * 5000}")
    assert max(len(fault.id), len(fault.reason), len(fault.message)) == 256
