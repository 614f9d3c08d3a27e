"""Who wins: the component, then the cluster (spec/omenative.md 1.1.3)."""

from typing import Any

import msgspec
import pytest

from regroup.omenative.api.lifecycle import Lifecycle, RollingUpdate, UpdateStrategy
from regroup.omenative.configuration import effective
from regroup.omenative.configuration.settings import LiveSettings

CLUSTER = LiveSettings(
    instance_ready_timeout=1800.0,
    min_ready_seconds=20,
    update_strategies={
        "engine": UpdateStrategy(type="SurgeThenDrain", rolling_update=RollingUpdate(max_surge="25%", max_unavailable="25%"))
    },
)


def _lifecycle(**fields: Any) -> Lifecycle:
    return msgspec.convert(fields, Lifecycle)


@pytest.mark.parametrize(
    ("own", "cluster", "expected"),
    [
        ("45m", CLUSTER, 2700.0),
        (None, CLUSTER, 1800.0),
        ("0s", CLUSTER, 1800.0),
        ("0s", LiveSettings(), None),
        (None, LiveSettings(), None),
        ("45", CLUSTER, 1800.0),
    ],
)
def test_the_readiness_timeout(own: str | None, cluster: LiveSettings, expected: float | None) -> None:
    """Behaviours 88 and 89; 9.29: ``0s`` is not set at component level."""
    assert effective.instance_ready_timeout(_lifecycle(instanceReadyTimeout=own), cluster) == expected


@pytest.mark.parametrize(("own", "expected"), [(None, 20), (0, 0), (5, 5)])
def test_min_ready_seconds(own: int | None, expected: int) -> None:
    """1.1.3: an explicit 0 wins."""
    assert effective.min_ready_seconds(_lifecycle(minReadySeconds=own), CLUSTER) == expected


@pytest.mark.parametrize(
    ("strategy", "kind", "surge", "unavailable"),
    [
        ({}, "SurgeThenDrain", "25%", None),
        ({"type": "RecreatePod"}, "RecreatePod", None, "25%"),
        ({"type": "InPlaceOnly", "rollingUpdate": {"maxUnavailable": 2}}, "InPlaceOnly", None, 2),
        ({"rollingUpdate": {"maxUnavailable": 1}}, "SurgeThenDrain", "25%", 1),
        ({"rollingUpdate": {"maxSurge": 0}}, "SurgeThenDrain", 0, None),
    ],
)
def test_the_cluster_fills_only_the_budget_that_the_strategy_reads(
    strategy: Any, kind: str, surge: int | str | None, unavailable: int | str | None
) -> None:
    """1.1.3 and 9.19: under SurgeThenDrain ``maxUnavailable`` stays unset; behaviour 66: one that is set counts."""
    found = effective.strategy(_lifecycle(updateStrategy=strategy), component="engine", live=CLUSTER)
    assert (found.type, found.max_surge, found.max_unavailable) == (kind, surge, unavailable)


def test_without_any_setting_instances_surge_without_cap() -> None:
    """1.1.3, last column."""
    found = effective.strategy(Lifecycle(), component="router", live=CLUSTER)
    assert (found.type, found.max_surge, found.max_unavailable, found.partition) == ("SurgeThenDrain", None, None, None)
    assert (found.grace_period_seconds, found.mark_not_ready) == (0, True)
