"""Conditions and status of an InferenceService (spec/omenative.md 1.1.5, 4.13, 6.2)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.omenative.ome_service_builders import service

from regroup.kube.meta import Condition, find_condition
from regroup.omenative.api.lifecycle import RollingUpdate, UpdateStrategy
from regroup.omenative.api.replica import InferenceReplica, decode
from regroup.omenative.api.types import InferenceServiceStatus
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.service.readiness import ComponentState, component_condition, lifecycle_status, service_status, status_wire
from regroup.omenative.service.resolve import Trouble

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)


def _replica(serving: int, desired: int, *, rolling: Any = None, kind: str = "", status: Any = None) -> InferenceReplica:
    strategy = {"type": kind or None, "rollingUpdate": rolling or {}}
    return decode(
        {
            "metadata": {"name": "x-engine", "namespace": "ns"},
            "spec": {"component": "engine", "replicas": desired, "lifecycle": {"updateStrategy": strategy}},
            "status": {"servingReplicas": serving, **(status or {})},
        }
    )


@pytest.mark.parametrize(
    ("serving", "replicas", "rolling", "expected"),
    [
        (0, 1, {}, ("False", "InsufficientAvailable", "0/1 Instances serving, need 1")),
        (1, 1, {}, ("True", "Ready", "All Instances are Ready")),
        (1, 2, {"maxUnavailable": 1}, ("True", "MinimumAvailable", "1/2 Instances serving (min 1)")),
        (0, 2, {"maxUnavailable": 1}, ("False", "InsufficientAvailable", "0/2 Instances serving, need 1")),
        (2, 2, {"maxUnavailable": 1}, ("True", "Ready", "All Instances are Ready")),
        (3, 5, {"maxUnavailable": "25%"}, ("True", "MinimumAvailable", "3/5 Instances serving (min 3)")),
        (1, 2, {}, ("False", "InsufficientAvailable", "1/2 Instances serving, need 2")),
        (1, 2, {"maxUnavailable": 0}, ("False", "InsufficientAvailable", "1/2 Instances serving, need 2")),
    ],
)
def test_a_components_condition(serving: int, replicas: int, rolling: Any, expected: tuple[str, str, str]) -> None:
    """Behaviours 112, 113, 114, and 6.2."""
    state = ComponentState(_replica(serving, replicas, rolling=rolling))
    found = component_condition("engine", state, live=LiveSettings())
    assert found.type == "EngineReady"
    assert (found.status, found.reason, found.message) == expected


@pytest.mark.parametrize(("kind", "reason"), [("SurgeThenDrain", "InsufficientAvailable"), ("RecreatePod", "MinimumAvailable")])
def test_the_clusters_budget_lowers_the_minimum_only_where_the_strategy_reads_it(kind: str, reason: str) -> None:
    """1.1.3, consequence: with chart defaults SurgeThenDrain needs all Instances, RecreatePod all but 25%."""
    chart = UpdateStrategy(type="SurgeThenDrain", rolling_update=RollingUpdate(max_surge="25%", max_unavailable="25%"))
    live = LiveSettings(update_strategies={"engine": chart})
    assert component_condition("engine", ComponentState(_replica(3, 4, kind=kind)), live=live).reason == reason


def _status(
    *, declared: dict[str, ComponentState], before: list[Any] | None = None, now: datetime = NOW
) -> InferenceServiceStatus:
    components: dict[str, Any] = {name: {} for name in declared}
    of = service(metadata={"generation": 7}, **components)
    if before:
        of = type(of)(metadata=of.metadata, spec=of.spec, raw_status=InferenceServiceStatus(raw_conditions=tuple(before)))
    return service_status(of, declared, live=LiveSettings(), url="http://x", now=now)


def _condition(status: InferenceServiceStatus, kind: str) -> Condition:
    found = find_condition(status.conditions, kind)
    assert found is not None, kind
    return found


def test_ready_is_every_declared_component_and_ingress() -> None:
    """1.1.5: with ingress off, IngressReady is True/IngressDisabled."""
    good, bad = ComponentState(_replica(1, 1)), ComponentState(_replica(0, 1))
    found = _status(declared={"engine": good, "router": good})
    assert _condition(found, "Ready").status == "True"
    ingress = _condition(found, "IngressReady")
    assert (ingress.status, ingress.reason) == ("True", "IngressDisabled")
    assert find_condition(found.conditions, "DecoderReady") is None
    assert find_condition(found.conditions, "RuntimeReady") is None
    found = _status(declared={"engine": good, "decoder": bad})
    ready = _condition(found, "Ready")
    assert (ready.status, ready.reason) == ("False", "InsufficientAvailable")
    assert ready.message == "DecoderReady: 0/1 Instances serving, need 1"


def test_a_missing_runtime_is_told_and_what_runs_keeps_its_readiness() -> None:
    """1.3: RuntimeReady=False, workload untouched."""
    trouble = Trouble("RuntimeNotFound", "spec.runtime.name: x")
    found = _status(declared={"engine": ComponentState(_replica(1, 1), trouble), "router": ComponentState(None, trouble)})
    runtime = _condition(found, "RuntimeReady")
    assert (runtime.status, runtime.reason, runtime.message) == ("False", "RuntimeNotFound", "spec.runtime.name: x")
    assert _condition(found, "EngineReady").status == "True"
    assert _condition(found, "RouterReady").reason == "RuntimeNotFound"
    assert _condition(found, "Ready").status == "False"


def test_conditions_come_and_go_and_keep_their_times() -> None:
    """1.1.5: those of components that are gone go; foreign ones stay; the time moves with the status only."""
    old = [
        Condition(type="EngineReady", status="False", reason="x", message="y", last_transition_time=NOW),
        Condition(type="DecoderReady", status="True", reason="x", message="y", last_transition_time=NOW),
        Condition(type="RuntimeReady", status="False", reason="x", message="y", last_transition_time=NOW),
        Condition(type="Theirs", status="True", reason="x", message="y", last_transition_time=NOW),
    ]
    found = _status(declared={"engine": ComponentState(_replica(0, 1))}, before=old, now=LATER)
    assert {one.type for one in found.conditions} == {"EngineReady", "IngressReady", "Ready", "Theirs"}
    assert _condition(found, "EngineReady").last_transition_time == NOW
    assert _condition(found, "Ready").last_transition_time == LATER
    assert _condition(found, "EngineReady").observed_generation == 7


def test_figures_are_copied_and_rows_are_not() -> None:
    """1.1.5: LifecycleStatus; no per-Instance rows on the InferenceService."""
    figures = {
        "observedGeneration": 2,
        "currentRevision": "a",
        "updateRevision": "b",
        "labelSelector": "s",
        "replicas": 2,
        "readyReplicas": 1,
        "servingReplicas": 1,
        "availableReplicas": 1,
        "updatedReplicas": 2,
        "updatedReadyReplicas": 1,
    }
    extra = {
        "instanceStatuses": [{"index": 0}],
        "collisionCount": 1,
        "conditions": [{"type": "Ready", "status": "False", "reason": "InstanceFailed", "message": "m"}],
        "rolloutHold": {"gate": "Budget", "reason": "r", "target": "b", "since": "2026-01-02T03:04:05Z"},
    }
    found = lifecycle_status(_replica(1, 2, status={**figures, **extra}))
    assert found == {
        **figures,
        "collisionCount": 1,
        "conditions": [{"type": "Ready", "status": "False", "reason": "InstanceFailed", "message": "m"}],
        "rolloutHold": {"gate": "Budget", "reason": "r", "target": "b", "since": "2026-01-02T03:04:05Z"},
    }


def test_the_status_as_it_is_written() -> None:
    """1.1.5."""
    wire = status_wire(_status(declared={"engine": ComponentState(_replica(1, 1))}))
    assert wire["observedGeneration"] == 7
    assert wire["url"] == "http://x"
    assert wire["components"]["engine"]["lifecycle"]["servingReplicas"] == 1
    assert [one["type"] for one in wire["conditions"]] == ["EngineReady", "IngressReady", "Ready"]
