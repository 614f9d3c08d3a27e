"""Metrics under controller-runtime's names, so that existing dashboards work."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from regroup.runtime.metrics import Metrics


def values(metrics: Metrics) -> dict[str, float]:
    page = metrics.render().decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return {f"{one.name}{sorted(one.labels.values())}": one.value for one in samples if not one.name.endswith("_created")}


def test_a_controller_is_there_before_its_first_pass() -> None:
    """Series start at 0, so that rates see the first failure."""
    metrics = Metrics()
    metrics.controller("groups", workers=8)
    found = values(metrics)
    assert found["controller_runtime_max_concurrent_reconciles['groups']"] == 8
    assert found["controller_runtime_reconcile_errors_total['groups']"] == 0
    assert found["controller_runtime_reconcile_total['error', 'groups']"] == 0


@pytest.mark.parametrize(
    ("result", "label", "errors", "terminal"),
    [
        ("success", "success", 0, 0),
        ("requeue", "requeue", 0, 0),
        ("requeue_after", "requeue_after", 0, 0),
        ("error", "error", 1, 0),
        ("terminal", "error", 1, 1),
    ],
)
def test_each_result_is_counted_where_controller_runtime_counts_it(result: str, label: str, errors: int, terminal: int) -> None:
    """A terminal error is an error as well."""
    metrics = Metrics()
    metrics.observe_pass("groups", result=result, seconds=0.02)
    found = values(metrics)
    for name in ("success", "requeue", "requeue_after", "error"):
        assert found[f"controller_runtime_reconcile_total{sorted([name, 'groups'])}"] == (name == label)
    assert found["controller_runtime_reconcile_errors_total['groups']"] == errors
    assert found["controller_runtime_terminal_reconcile_errors_total['groups']"] == terminal
    assert found["controller_runtime_reconcile_time_seconds_count['groups']"] == 1


def test_an_unknown_result_is_a_bug() -> None:
    """A typo must not vanish in a metric of its own."""
    with pytest.raises(ValueError, match="unknown result"):
        Metrics().observe_pass("groups", result="sucess", seconds=0.1)


def test_two_operators_in_one_process_do_not_share_metrics() -> None:
    """The registry belongs to the operator, not to the module."""
    one, two = Metrics(), Metrics()
    one.leading("regroup", leads=True)
    assert values(one)["leader_election_master_status['regroup']"] == 1
    assert "leader_election_master_status['regroup']" not in values(two)
