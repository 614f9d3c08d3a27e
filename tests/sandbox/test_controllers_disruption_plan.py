"""What a PodDisruptionBudget allows."""

from typing import Any

import msgspec
import pytest
from tests.sandbox.controllers_fixtures import NOW, set_pod

from regroup.sandbox.controllers.budgets import Budget, expected, failsafe, needs_scale, needs_writing, recheck_after, status


def budget(*, status_: dict[str, Any] | None = None, **spec: Any) -> Budget:
    body = {"metadata": {"name": "b", "namespace": "default", "uid": "b", "generation": 3}, "spec": spec, "status": status_ or {}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Budget)


@pytest.mark.parametrize(
    ("spec", "scale", "wanted"),
    [
        ({"minAvailable": 2}, 0, (3, 2, 1)),
        ({"minAvailable": 3}, 0, (3, 3, 0)),
        ({"minAvailable": "50%"}, 5, (5, 3, 0)),
        ({"minAvailable": "50%"}, 3, (3, 2, 1)),
        ({"maxUnavailable": 1}, 3, (3, 2, 1)),
        ({"maxUnavailable": "50%"}, 3, (3, 1, 2)),
        ({"maxUnavailable": 9}, 3, (3, 0, 3)),
        ({"maxUnavailable": 1}, 0, (0, 0, 0)),
    ],
)
def test_expected_desired_and_allowed(spec: dict[str, Any], scale: int, wanted: tuple[int, int, int]) -> None:
    """Three healthy pods: how many are expected, how many must stay, how many may go. Percentages round up."""
    pods = [set_pod(0), set_pod(1), set_pod(2)]
    entry = budget(**spec)
    body = status(entry, pods, expected(entry, pods, scale), NOW)
    assert (body["expectedPods"], body["desiredHealthy"], body["disruptionsAllowed"]) == wanted
    assert body["conditions"][0]["reason"] == ("SufficientPods" if wanted[2] else "InsufficientPods")
    assert needs_scale(entry) == (not isinstance(spec.get("minAvailable"), int))


def test_unready_terminating_and_granted_pods_are_not_healthy() -> None:
    """An eviction that was granted counts as a loss until its deletion shows, or until two minutes have passed."""
    granted = {"web-1": "2026-03-01T11:59:00Z", "web-2": "2026-03-01T11:00:00Z", "gone": "2026-03-01T11:59:59Z"}
    entry = budget(minAvailable=1, status_={"disruptedPods": granted})
    pods = [set_pod(0, ready=False), set_pod(1), set_pod(2), set_pod(3, deleting=True)]
    body = status(entry, pods, expected(entry, pods, 0), NOW)
    assert body["currentHealthy"] == 1
    assert body["disruptedPods"] == {"web-1": "2026-03-01T11:59:00Z"}
    assert recheck_after(entry, pods, NOW) == pytest.approx(60.001)


def test_a_budget_that_cannot_be_computed_allows_nothing() -> None:
    """Failing safe, and saying why."""
    body = failsafe(budget(maxUnavailable=1), "no scale", NOW)
    assert body["disruptionsAllowed"] == 0
    assert (body["conditions"][0]["reason"], body["conditions"][0]["message"]) == ("SyncFailed", "no scale")


def test_an_unchanged_budget_is_not_written() -> None:
    """No write that changes nothing."""
    pods = [set_pod(0)]
    body = status(budget(minAvailable=1), pods, expected(budget(minAvailable=1), pods, 0), NOW)
    assert needs_writing(budget(minAvailable=1), body)
    assert not needs_writing(budget(minAvailable=1, status_=body), body)
