"""The status of a Deployment: counts, and the conditions that tell how its rollout goes."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.sandbox.controllers_fixtures import NOW

from regroup.sandbox.controllers.deploying.progress import needs_writing, progress_deadline_in, status
from regroup.sandbox.controllers.deploying.replicas import ReplicaSet
from regroup.sandbox.controllers.deploying.rollout import Deployment


def deployment(*, status_: dict[str, Any] | None = None, **spec: Any) -> Deployment:
    body = {
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1},
        "spec": {"replicas": 4, "progressDeadlineSeconds": 600, **spec},
        "status": status_ or {},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Deployment)


def rs(name: str, replicas: int, available: int, *, failure: str = "") -> ReplicaSet:
    conditions = [{"type": "ReplicaFailure", "status": "True", "message": failure}] if failure else []
    counts = {"replicas": replicas, "readyReplicas": available, "availableReplicas": available, "conditions": conditions}
    body = {"metadata": {"name": name, "uid": name}, "spec": {"replicas": replicas}, "status": counts}
    return msgspec.json.decode(msgspec.json.encode(body), type=ReplicaSet)


def told(body: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in body["conditions"]}


def test_counts_are_those_of_the_sets() -> None:
    """Updated are the pods of the new set only."""
    body = status(deployment(), rs("new", 2, 1), [rs("old", 3, 3)], created=False, failure="", now=NOW)
    counts = {
        key: body[key] for key in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    }
    assert counts == {
        "replicas": 5,
        "updatedReplicas": 2,
        "readyReplicas": 4,
        "availableReplicas": 4,
        "unavailableReplicas": 1,
    }


@pytest.mark.parametrize(
    ("available", "wanted"),
    [
        (4, ("True", "MinimumReplicasAvailable")),
        (3, ("True", "MinimumReplicasAvailable")),
        (2, ("False", "MinimumReplicasUnavailable")),
    ],
)
def test_available_allows_for_max_unavailable(available: int, wanted: tuple[str, str]) -> None:
    """One of four may be missing (25 %)."""
    body = status(deployment(), rs("new", 4, available), [], created=False, failure="", now=NOW)
    assert told(body)["Available"] == wanted


def test_a_rollout_is_created_progresses_and_completes() -> None:
    """The reason says how far it is; the message names the set."""
    first = status(deployment(), rs("new", 4, 0), [], created=True, failure="", now=NOW)
    assert told(first)["Progressing"] == ("True", "NewReplicaSetCreated")
    seen = deployment(status_={**first, "observedGeneration": 1})
    second = status(seen, rs("new", 4, 2), [], created=False, failure="", now=NOW + timedelta(seconds=9))
    assert told(second)["Progressing"] == ("True", "ReplicaSetUpdated")
    progressing = next(entry for entry in second["conditions"] if entry["type"] == "Progressing")
    assert (progressing["lastUpdateTime"], progressing["lastTransitionTime"]) == ("2026-03-01T12:00:09Z", "2026-03-01T12:00:00Z")
    done = status(deployment(status_=second), rs("new", 4, 4), [rs("old", 0, 0)], created=False, failure="", now=NOW)
    assert told(done)["Progressing"] == ("True", "NewReplicaSetAvailable")
    assert 'ReplicaSet "new" has successfully progressed.' in {entry["message"] for entry in done["conditions"]}
    settled = deployment(status_=done)
    again = status(settled, rs("new", 4, 4), [], created=False, failure="", now=NOW + timedelta(days=1))
    assert not needs_writing(settled, again)
    assert progress_deadline_in(settled, NOW) is None
    renewed = status(settled, rs("newer", 0, 0), [rs("new", 4, 4)], created=True, failure="", now=NOW)
    assert told(renewed)["Progressing"] == ("True", "NewReplicaSetCreated")


def test_a_rollout_that_stands_still_exceeds_its_deadline() -> None:
    """Counted from the last progress; the controller looks again in time, without an event."""
    stuck = deployment(
        status_={**status(deployment(), rs("new", 4, 2), [], created=False, failure="", now=NOW), "observedGeneration": 1}
    )
    assert progress_deadline_in(stuck, NOW + timedelta(seconds=100)) == pytest.approx(501)
    early = status(stuck, rs("new", 4, 2), [], created=False, failure="", now=NOW + timedelta(seconds=599))
    assert not needs_writing(stuck, early)
    late = status(stuck, rs("new", 4, 2), [], created=False, failure="", now=NOW + timedelta(seconds=601))
    assert told(late)["Progressing"] == ("False", "ProgressDeadlineExceeded")
    still = status(deployment(status_=late), rs("new", 4, 2), [], created=False, failure="", now=NOW + timedelta(seconds=900))
    assert told(still)["Progressing"] == ("False", "ProgressDeadlineExceeded")
    moved = status(deployment(status_=late), rs("new", 4, 3), [], created=False, failure="", now=NOW + timedelta(seconds=900))
    assert told(moved)["Progressing"] == ("True", "ReplicaSetUpdated")


def test_refusals_are_told() -> None:
    """Of this pass, or of a set that cannot make its pods."""
    body = status(deployment(), None, [], created=False, failure="quota", now=NOW)
    assert told(body)["Progressing"] == ("False", "ReplicaSetCreateError")
    assert told(body)["ReplicaFailure"] == ("True", "FailedCreate")
    body = status(deployment(), rs("new", 4, 0, failure="quota"), [], created=False, failure="", now=NOW)
    assert told(body)["ReplicaFailure"] == ("True", "FailedCreate")


def test_a_resumed_deployment_says_so() -> None:
    """Until something moves."""
    paused = status(deployment(paused=True), rs("new", 4, 4), [], created=False, failure="", now=NOW)
    seen = deployment(status_={**paused, "observedGeneration": 0})
    body = status(seen, rs("new", 4, 4), [], created=False, failure="", now=NOW)
    assert told(body)["Progressing"] == ("Unknown", "DeploymentResumed")
    later = deployment(status_=body)
    assert (
        told(status(later, rs("new", 4, 4), [], created=False, failure="", now=NOW))["Progressing"][1] == "NewReplicaSetAvailable"
    )


def test_a_paused_deployment_says_so_and_an_unlimited_one_says_nothing() -> None:
    """No deadline, no condition."""
    assert told(status(deployment(paused=True), rs("new", 4, 4), [], created=False, failure="", now=NOW))["Progressing"] == (
        "Unknown",
        "DeploymentPaused",
    )
    body = status(deployment(progressDeadlineSeconds=None), rs("new", 4, 4), [], created=False, failure="", now=NOW)
    assert "Progressing" not in told(body)
