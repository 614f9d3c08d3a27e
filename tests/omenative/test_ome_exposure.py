"""Services and disruption budgets (spec/omenative.md 2.5, 2.6)."""

from typing import Any

import pytest
from tests.omenative.ome_api_builders import gang, single, stored, template

from regroup.omenative.objects import exposure

COMPONENT = {"ome.io/inferenceservice": "llama", "component": "engine", "ome.io/managed-by": "OMENative"}


def test_the_stable_service_selects_leaders_only_where_the_service_declares_workers() -> None:
    """2.5: plus ``ome.io/runner=leader`` when the InferenceService itself declares ``worker``."""
    assert exposure.stable_service(gang(), leaders_only=False)["spec"]["selector"] == COMPONENT
    assert exposure.stable_service(gang(), leaders_only=True)["spec"]["selector"] == {**COMPONENT, "ome.io/runner": "leader"}


def test_the_headless_service_publishes_all_pods() -> None:
    """2.5: publishNotReadyAddresses."""
    made = exposure.headless_service(gang())
    assert made["metadata"]["name"] == "llama-engine-headless"
    assert made["spec"] == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": COMPONENT}


def test_a_revisions_services() -> None:
    """2.5: revision hash, and the leader for multi-pod: workers are never listed as routed."""
    revision = stored(gang())
    routed, headless = exposure.revision_services(gang(), revision)
    label = {"ome.io/revision-hash": revision.hash}
    assert routed["metadata"]["name"] == f"llama-engine-rev-{revision.hash}"
    assert routed["spec"]["selector"] == {**COMPONENT, **label, "ome.io/runner": "leader"}
    assert headless["spec"]["selector"] == {**COMPONENT, **label}
    alone = stored(single())
    routed, _ = exposure.revision_services(single(), alone)
    assert "ome.io/runner" not in routed["spec"]["selector"]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        (None, [("http", 8080)]),
        ([{"containerPort": 8000}], [("tcp-8000", 8000)]),
        ([{"name": "web", "containerPort": 80}, {"name": "web", "containerPort": 81}], [("tcp-80", 80), ("tcp-81", 81)]),
        ([{"containerPort": 80}, {"containerPort": 80}, {"containerPort": "x"}, 7], [("tcp-80", 80)]),
    ],
)
def test_ports_come_from_the_main_container(ports: Any, expected: list[tuple[str, int]]) -> None:
    """2.5: a Service needs ports; what a template has wrong makes no invalid Service."""
    pod = template()
    if ports is not None:
        pod["spec"]["containers"].insert(0, {"name": "sidecar", "ports": [{"containerPort": 1}]})
        pod["spec"]["containers"][1]["ports"] = ports
    made = exposure.stable_service(single(pod=pod), leaders_only=False)
    assert [(port["name"], port["port"]) for port in made["spec"]["ports"]] == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, None),
        ({"default_max_unavailable": 1}, 12),
        ({"max_unavailable": "25%"}, 12),
        ({"max_unavailable": 0, "default_max_unavailable": 1}, 16),
        ({"min_available": 2}, 8),
        ({"min_available": "50%"}, 8),
        ({"min_available": "26%"}, 8),
        ({"min_available": 9}, 16),
        ({"max_unavailable": 9}, 0),
    ],
)
def test_a_disruption_budget_counts_pods(limits: dict[str, Any], expected: int | None) -> None:
    """2.6: integer minAvailable in pods; Instances, percentages rounded up, times pods per Instance."""
    made = exposure.disruption_budget(gang(replicas=4), **limits)
    assert (made["spec"]["minAvailable"] if made else None) == expected
