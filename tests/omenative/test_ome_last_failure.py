"""Which failure is recorded, and in what words (spec/omenative.md 4.7, 9.31)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from regroup.omenative.pods import last_failure
from regroup.omenative.view import InstancePod

NOW = datetime(2026, 8, 1, 12, 0, 0, 999, tzinfo=UTC)


def ended(code: int, reason: str = "Error", *, ago: int = 5) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": (NOW - timedelta(seconds=ago)).isoformat()}}


def container(name: str = "ome-container", **states: Any) -> dict[str, Any]:
    return {"name": name, **states}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), name: str = "p", **status: Any) -> InstancePod:
    full = {"phase": "Running", **status, "containerStatuses": list(containers), "initContainerStatuses": list(init)}
    return msgspec.convert({"metadata": {"name": name}, "status": full}, InstancePod)


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": "back-off"}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod(container(lastState=ended(137, "OOMKilled"))), ("ome-container", "OOMKilled", 137)),
        (pod(container(state=ended(2), lastState=ended(137, "OOMKilled"))), ("ome-container", "Error", 2)),
        (pod(container(lastState=ended(1, ""))), ("ome-container", "Error", 1)),
        (pod(container(state=waiting("ImagePullBackOff"))), ("ome-container", "ImagePullBackOff", None)),
        (pod(container(state=waiting("CrashLoopBackOff"), lastState=ended(3))), ("ome-container", "Error", 3)),
        (pod(container("side", lastState=ended(9)), container()), ("side", "Error", 9)),
        (pod(container("side", lastState=ended(9)), container(lastState=ended(4))), ("ome-container", "Error", 4)),
        (
            pod(container("side", lastState=ended(9)), container(state=waiting("ErrImagePull"))),
            ("ome-container", "ErrImagePull", None),
        ),
        (pod(container(), init=(container("fetch", state=ended(1)),)), ("fetch", "Error", 1)),
        (pod(phase="Failed"), ("", "PodFailed", None)),
        (pod(phase="Failed", reason="Evicted", message="low on memory"), ("", "Evicted", None)),
        (pod(container(state=ended(137)), phase="Failed", reason="Evicted"), ("ome-container", "Evicted", 137)),
        (pod(container(state=ended(0, "Completed")), phase="Failed"), ("ome-container", "Completed", 0)),
    ],
)
def test_what_is_read(found: InstancePod, expected: tuple[str, str, int | None]) -> None:
    """4.7: non-zero exit, then terminal waiting, then any; live before last; the main container's own failure first."""
    failure = last_failure.read([found], now=NOW)
    assert failure is not None
    assert (failure.container_name, failure.reason, failure.exit_code) == expected
    assert failure.pod_name == "p"


@pytest.mark.parametrize(
    "found",
    [
        pod(container()),
        pod(container(state=waiting("ContainerCreating"))),
        pod(container(), init=(container("fetch", state=ended(0, "Completed")),)),
        pod(container("side", lastState=ended(0, "Completed"))),
    ],
)
def test_what_is_no_failure(found: InstancePod) -> None:
    """4.7: an ordinary wait, or an init container that ended well."""
    assert last_failure.read([found], now=NOW) is None


def test_the_failed_pod_comes_first() -> None:
    """84: wherever it stands; a failed pod of which nothing can be read comes after one that says something."""
    old = pod(container(lastState=ended(1)), name="old")
    failed = pod(container(state=ended(2)), phase="Failed", name="failed")
    mute = pod(phase="Failed", name="mute")
    for pods, name in (([old, failed], "failed"), ([mute, old], "old"), ([mute, failed], "failed"), ([mute], "mute")):
        found = last_failure.read(pods, now=NOW)
        assert found is not None
        assert found.pod_name == name


def test_what_ended_before_belongs_to_another_story() -> None:
    """83: a boot crash is not why a Ready Instance restarts."""
    found = pod(container(lastState=ended(1, ago=60)))
    assert last_failure.read([found], now=NOW, since=NOW - timedelta(seconds=30)) is None
    assert last_failure.read([found], now=NOW, since=NOW - timedelta(seconds=90)) is not None


def test_times_are_whole_seconds_and_texts_bounded() -> None:
    """9.34; every text from a pod is bounded."""
    long = pod(container(state={"waiting": {"reason": "CrashLoopBackOff", "message": "x" * 9999}}))
    found = last_failure.read([long], now=NOW)
    assert found is not None
    assert found.time == NOW.replace(microsecond=0)
    assert len(found.message) == 1024
    odd = last_failure.read([pod(container(lastState=ended(1, "R" * 5000)))], now=NOW)
    assert odd is not None
    assert len(odd.reason) == 128


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (pod(container(state=ended(1)), phase="Failed"), "pod p container ome-container failed (Error, exit 1)"),
        (pod(container(state=waiting("ErrImagePull"))), "pod p container ome-container stuck (ErrImagePull)"),
        (pod(phase="Failed"), "pod p failed (PodFailed)"),
    ],
)
def test_sentences(found: InstancePod, words: str) -> None:
    """4.2: the shapes of trigger (b)."""
    failure = last_failure.read([found], now=NOW)
    assert failure is not None
    assert last_failure.sentence(failure) == words
