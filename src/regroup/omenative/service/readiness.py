"""Conditions and component statuses of an InferenceService (spec/omenative.md 1.1.5, 4.13, 6.2). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from regroup.kube.meta import Condition
from regroup.omenative.api.counts import resolve_count
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.types import InferenceService, InferenceServiceStatus
from regroup.omenative.configuration import effective
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.service.resolve import (
    BASE_MODEL_NOT_FOUND,
    INVALID_COMPONENT,
    REPLICA_REFUSED,
    RUNTIME_NOT_FOUND,
    UNSUPPORTED_MODE,
    Trouble,
)
from regroup.runtime.clock import timestamp
from regroup.runtime.conditions import set_conditions, to_wire

Object = dict[str, Any]

READY = "Ready"
RUNTIME_READY = "RuntimeReady"
INGRESS_READY = "IngressReady"
MINIMUM_AVAILABLE = "MinimumAvailable"
INSUFFICIENT_AVAILABLE = "InsufficientAvailable"
NO_REPLICAS = "NoReplicas"
INGRESS_DISABLED = "IngressDisabled"
_UNRESOLVED = frozenset({RUNTIME_NOT_FOUND, BASE_MODEL_NOT_FOUND, INVALID_COMPONENT, REPLICA_REFUSED})
"""What RuntimeReady tells: what is wanted cannot be had, and what runs goes on as it is (1.3)."""
_OWN = ("EngineReady", "DecoderReady", "RouterReady", INGRESS_READY, RUNTIME_READY, READY)


@dataclass(frozen=True, slots=True)
class ComponentState:
    """A declared component as it stands: its replica, if there is one, and why it could not be resolved, if it could not."""

    replica: InferenceReplica | None = None
    trouble: Trouble | None = None
    exposed: bool = True
    """Its stable Service and its disruption budget stand."""


def condition_type(component: str) -> str:
    """``EngineReady`` and so on."""
    return f"{component.capitalize()}Ready"


def minimum_serving(replica: InferenceReplica, live: LiveSettings) -> int:
    """How many Instances have to serve: all, less ``maxUnavailable`` where one is in force (4.13)."""
    desired = replica.spec.replicas
    strategy = effective.strategy(replica.spec.lifecycle, component=replica.spec.component, live=live)
    if strategy.max_unavailable is None:
        return desired
    try:
        return max(desired - resolve_count(strategy.max_unavailable, desired), 0)
    except ValueError:
        return desired


def component_condition(component: str, state: ComponentState, *, live: LiveSettings) -> Condition:
    """``<Component>Ready``. What cannot be resolved but runs is as ready as what runs; what asks for another mode is refused."""
    kind, replica, trouble = condition_type(component), state.replica, state.trouble
    if trouble is not None and (replica is None or trouble.reason == UNSUPPORTED_MODE):
        return Condition(type=kind, status="False", reason=trouble.reason, message=trouble.message)
    if replica is None:
        return Condition(type=kind, status="False", reason=INSUFFICIENT_AVAILABLE, message="InferenceReplica is not created yet")
    desired, serving = replica.spec.replicas, replica.status.serving_replicas
    minimum = minimum_serving(replica, live)
    if desired <= 0:
        return Condition(type=kind, status="False", reason=NO_REPLICAS, message="Component has no desired Instances")
    if serving >= desired:
        return Condition(type=kind, status="True", reason=READY, message="All Instances are Ready")
    if serving >= minimum:
        message = f"{serving}/{desired} Instances serving (min {minimum})"
        return Condition(type=kind, status="True", reason=MINIMUM_AVAILABLE, message=message)
    message = f"{serving}/{desired} Instances serving, need {minimum}"
    return Condition(type=kind, status="False", reason=INSUFFICIENT_AVAILABLE, message=message)


def service_status(
    service: InferenceService, states: Mapping[str, ComponentState], *, live: LiveSettings, url: str, now: datetime
) -> InferenceServiceStatus:
    """The whole status. ``states`` has every declared component; conditions of others go, those that are not ours stay."""
    wanted = [component_condition(name, states[name], live=live) for name in service.spec.declared]
    message = "Ingress is not managed by regroup"
    wanted.append(Condition(type=INGRESS_READY, status="True", reason=INGRESS_DISABLED, message=message))
    ready = _all(wanted)
    troubles = [state.trouble for state in states.values() if state.trouble is not None]
    unresolved = next((trouble for trouble in troubles if trouble.reason in _UNRESOLVED), None)
    if unresolved is not None:
        wanted.append(Condition(type=RUNTIME_READY, status="False", reason=unresolved.reason, message=unresolved.message))
    wanted.append(ready)
    generation = service.metadata.generation
    stamped = [msgspec.structs.replace(one, observed_generation=generation) for one in wanted]
    names = {one.type for one in wanted}
    kept = [one for one in service.status.conditions if one.type in names or one.type not in _OWN]
    components = {
        name: {"lifecycle": lifecycle_status(state.replica)} for name, state in states.items() if state.replica is not None
    }
    return InferenceServiceStatus(
        raw_conditions=set_conditions(kept, stamped, now=now),
        raw_components=components,
        url=url or None,
        observed_generation=generation,
    )


def lifecycle_status(replica: InferenceReplica) -> Object:
    """``components.<c>.lifecycle``: the replica's figures; rows stay on the replica."""
    status = replica.status
    found: Object = {
        "observedGeneration": status.observed_generation,
        "currentRevision": status.current_revision,
        "updateRevision": status.update_revision,
        "collisionCount": status.collision_count,
        "labelSelector": status.label_selector,
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "servingReplicas": status.serving_replicas,
        "availableReplicas": status.available_replicas,
        "updatedReplicas": status.updated_replicas,
        "updatedReadyReplicas": status.updated_ready_replicas,
    }
    if status.conditions:
        found["conditions"] = to_wire(status.conditions)
    hold = status.rollout_hold
    if hold is not None:
        found["rolloutHold"] = {"gate": hold.gate, "reason": hold.reason, "target": hold.target}
        if hold.since is not None:
            found["rolloutHold"]["since"] = timestamp(hold.since)
    return {key: value for key, value in found.items() if value not in ("", None)}


def status_wire(status: InferenceServiceStatus) -> Object:
    """``status`` as it is written."""
    found: Object = {
        "observedGeneration": status.observed_generation,
        "conditions": to_wire(status.conditions),
        "components": dict(status.components),
    }
    return found | ({"url": status.url} if status.url else {})


def _all(conditions: Sequence[Condition]) -> Condition:
    """``Ready``: all of them (1.1.5)."""
    for condition in conditions:
        if condition.status != "True":
            message = f"{condition.type}: {condition.message}"
            return Condition(type=READY, status="False", reason=condition.reason, message=message)
    if len(conditions) == 1:
        return Condition(type=READY, status="False", reason=NO_REPLICAS, message="No component is declared")
    return Condition(type=READY, status="True", reason=READY, message="All components are ready")
