"""The ConfigMap (spec/omenative.md 6.4)."""

import json
from typing import Any

import pytest

from regroup.omenative.configuration.config import ConfigInvalid, live_settings, start_settings
from regroup.omenative.configuration.settings import LiveSettings, StartSettings, UpdateRetry

CHART_LIFECYCLE = {
    "instanceReadyTimeout": "30m",
    "stuckPodGracePeriod": "60s",
    "repairBatchSize": 10,
    "unschedulableGracePeriod": "15m",
    "updateRetry": {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 2.0},
    "requeue": {"operation": "5s", "gate": "3s"},
    "scaleUpPodBatchSize": 100,
    "scaleDownPodBatchSize": 100,
    "scaleDownRequeueInterval": "5s",
    "revisionHistoryLimit": 10,
    "teardown": {"deadline": "30m"},
    "gangScheduleTimeout": {"min": "60s", "max": "600s"},
    "audit": {"maxInFlightMigrations": 3},
}
CHART_DEPLOY = {
    "defaultDeploymentMode": "RawDeployment",
    "replicas": {"defaultMinReplicas": 1, "defaultMaxReplicas": {"engine": 3}},
    "terminationGracePeriodSeconds": 600,
    "updateStrategy": {"engine": {"type": "SurgeThenDrain", "maxSurge": "25%", "maxUnavailable": "25%"}},
}


def _data(lifecycle: Any = None, deploy: Any = None, **more: Any) -> dict[str, str]:
    parts = {"lifecycle": lifecycle, "deploy": deploy, **more}
    return {key: json.dumps(value) for key, value in parts.items() if value is not None}


def test_the_charts_values() -> None:
    """6.4: all chart defaults."""
    data = _data(CHART_LIFECYCLE, CHART_DEPLOY, podDisruptionBudget={"omeNative": {"maxUnavailable": 1}})
    assert start_settings(data) == StartSettings(
        repair_batch_size=10, scale_up_pod_batch_size=100, scale_down_pod_batch_size=100, scale_down_requeue_interval=5.0
    )
    read = live_settings(data)
    assert read.complaints == ()
    live = read.settings
    assert (live.instance_ready_timeout, live.stuck_pod_grace, live.unschedulable_grace) == (1800.0, 60.0, 900.0)
    assert live.update_retry == UpdateRetry(max_attempts=3, initial_delay=60.0, max_delay=1800.0, multiplier=2.0)
    assert (live.requeue_operation, live.requeue_gate) == (5.0, 3.0)
    assert (live.revision_history_limit, live.teardown_deadline) == (10, 1800.0)
    assert (live.gang_timeout_min, live.gang_timeout_max) == (60.0, 600.0)
    assert (live.termination_grace_period_seconds, live.min_ready_seconds, live.default_min_replicas) == (600, None, 1)
    assert live.update_strategies["engine"].type == "SurgeThenDrain"
    assert live.pdb_max_unavailable == 1


@pytest.mark.parametrize("data", [{}, {"lifecycle": ""}, {"lifecycle": "{}", "deploy": " "}])
def test_nothing_set_is_nothing_on(data: dict[str, str]) -> None:
    """6.4, column Absent; behaviours 42, 52 and 89 rest on it."""
    assert start_settings(data) == StartSettings()
    assert live_settings(data).settings == LiveSettings()


@pytest.mark.parametrize("value", [0, -3])
@pytest.mark.parametrize("name", ["repairBatchSize", "scaleUpPodBatchSize", "scaleDownPodBatchSize"])
def test_batch_sizes_below_one_stop_the_start(name: str, value: int) -> None:
    """Behaviour 57: an error that names the field."""
    with pytest.raises(ConfigInvalid, match=rf"^invalid lifecycle\.{name}: must be > 0, got {value}$"):
        start_settings(_data({name: value}))


@pytest.mark.parametrize(
    "text",
    [
        '{"stuckPodGracePeriod": 60}',
        "{",
        "[]",
        '{"instanceReadyTimeout": 1800}',
        '{"repairBatchSize": "10"}',
        "\ud800",
        "[" * 5000,
    ],
)
def test_what_cannot_be_parsed_stops_the_start_and_is_ignored_as_a_whole_later(text: str) -> None:
    """Behaviour 127, and 6.4: a running manager ignores the whole entry."""
    with pytest.raises(ConfigInvalid, match=r"^unable to parse lifecycle config json: "):
        start_settings({"lifecycle": text})
    read = live_settings({"lifecycle": text})
    assert read.settings == LiveSettings()
    assert "unable to parse lifecycle config json" in read.complaints[0]


@pytest.mark.parametrize("text", ["60", "soon", "0s", "-1m", "60 s"])
def test_a_bad_duration_text_is_unset_and_stops_nothing(text: str) -> None:
    """6.4: <= 0 or unparsable string = unset at runtime; bad grace = off (9.23)."""
    data = _data({"instanceReadyTimeout": text, "stuckPodGracePeriod": text, "repairBatchSize": 4})
    assert start_settings(data).repair_batch_size == 4
    read = live_settings(data)
    assert (read.settings.instance_ready_timeout, read.settings.stuck_pod_grace) == (None, None)
    assert len(read.complaints) == 2


@pytest.mark.parametrize(
    ("deploy", "message"),
    [
        ({"minReadySeconds": -1}, "invalid deploy config, minReadySeconds must be >= 0, got -1"),
        (
            {"defaultDeploymentMode": "OMENative"},
            "defaultDeploymentMode must be RawDeployment, got OMENative",
        ),
        ({"updateStrategy": {"engine": {"maxSurge": 0}}}, "updateStrategy.engine.maxSurge must be > 0, got 0"),
        ({"updateStrategy": {"router": {"type": "RecreatePod", "maxUnavailable": "0%"}}}, "RollingUpdateZeroBudget"),
        ({"updateStrategy": {"router": {"type": "Quick"}}}, "updateStrategy.router.type must be one of SurgeThenDrain"),
        ({"updateStrategy": {"router": {"maxSurge": "101%"}}}, "updateStrategy.router.maxSurge must be a number or 0% to 100%"),
        ({"updateStrategy": {"predictor": {}}}, "updateStrategy.predictor: must be one of engine, decoder, router"),
        ({"replicas": 3}, "unable to parse deploy config json"),
    ],
)
def test_a_bad_deploy_entry_stops_the_start(deploy: Any, message: str) -> None:
    """6.4, key ``deploy``."""
    with pytest.raises(ConfigInvalid, match=message):
        start_settings(_data(deploy=deploy))
    read = live_settings(_data({"stuckPodGracePeriod": "60s"}, deploy))
    assert read.settings == LiveSettings(stuck_pod_grace=60.0), "the other entries go on"
    assert len(read.complaints) == 1


def test_a_zero_in_the_budget_that_the_strategy_does_not_read_is_no_matter() -> None:
    """5.2: each strategy reads one budget."""
    start_settings(_data(deploy={"updateStrategy": {"engine": {"maxUnavailable": 0}}}))


@pytest.mark.parametrize(
    "retry",
    [
        {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30s", "multiplier": 2},
        {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 0.5},
        {"maxAttempts": 0, "initialDelay": "1m", "maxDelay": "30m"},
        {"maxAttempts": 3, "initialDelay": "x", "maxDelay": "30m"},
        {},
    ],
)
def test_a_ladder_that_makes_no_sense_is_ignored(retry: Any) -> None:
    """6.4: multiplier >= 1, maxDelay >= initialDelay."""
    read = live_settings(_data({"updateRetry": retry}))
    assert read.settings.update_retry is None
    assert "updateRetry" in read.complaints[0]


@pytest.mark.parametrize("requeue", [{"operation": "9s"}, {"gate": "9s"}, {"operation": "9s", "gate": "0s"}])
def test_requeue_is_both_or_neither(requeue: Any) -> None:
    """6.4."""
    read = live_settings(_data({"requeue": requeue}))
    assert (read.settings.requeue_operation, read.settings.requeue_gate) == (5.0, 3.0)
    assert any("both or neither" in one for one in read.complaints)


def test_other_oddities_are_ignored_and_told() -> None:
    """6.4: limits of the remaining fields."""
    data = _data(
        {"revisionHistoryLimit": 0, "gangScheduleTimeout": {"min": "10m", "max": "5m"}},
        podDisruptionBudget={"omeNative": {"maxUnavailable": "200%"}},
    )
    read = live_settings(data)
    assert read.settings == LiveSettings()
    assert len(read.complaints) == 3
