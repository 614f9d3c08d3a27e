"""What each component comes to, worked out once for what it is made from.

A pass follows every change of a replica's status, and nothing of this depends on a status. Only a memory: what it forgets is
worked out again, to the same end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regroup.kube.resources import POD_DISRUPTION_BUDGETS, SERVICES
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.types import BaseModel, InferenceService, ServingRuntime
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.keys import COMPONENTS
from regroup.omenative.objects import exposure
from regroup.omenative.objects.applied import marked
from regroup.omenative.service import project
from regroup.omenative.service.resolve import Resolved, Sources, Trouble, resolve
from regroup.wire.resource import Resource

Object = dict[str, Any]


@dataclass(slots=True)
class Projection:
    """One component: what it resolves to, and the manifests that follow from it."""

    found: Resolved | Trouble
    wanted: Mapping[str, Any] = field(default_factory=dict)
    """The InferenceReplica; empty for a trouble."""
    default_max_unavailable: int | str | None = None
    inputs: tuple[Any, ...] = ()
    """What it was made from."""
    _says: tuple[Any, ...] = ()
    _exposed: tuple[tuple[Any, ...], Sequence[tuple[Resource, Object]]] = ((), ())

    def patch(self, there: InferenceReplica) -> Object | None:
        """The change that makes ``there`` say what is wanted; None when it does."""
        seen = _version(there)
        if self._says == seen:
            return None
        changes = project.patch(there, self.wanted)
        if changes is None:
            self._says = seen
        return changes

    def exposure(self, replica: InferenceReplica) -> Sequence[tuple[Resource, Object]]:
        """The stable Service and, if one is asked for, the disruption budget, both marked (``applied``)."""
        at = (replica.metadata.uid, replica.metadata.generation)
        if self._exposed[0] != at:
            self._exposed = (at, self._expose(replica))
        return self._exposed[1]

    def _expose(self, replica: InferenceReplica) -> list[tuple[Resource, Object]]:
        found = self.found
        if isinstance(found, Trouble):
            return []
        made = [(SERVICES, marked(exposure.stable_service(replica, leaders_only=found.declares_worker)))]
        budget = exposure.disruption_budget(
            replica,
            min_available=found.min_available,
            max_unavailable=found.max_unavailable,
            default_max_unavailable=self.default_max_unavailable,
        )
        if budget is not None:
            made.append((POD_DISRUPTION_BUDGETS, marked(budget)))
        return made


class Projections:
    """The projections of all components."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Projection] = {}

    def of(self, service: InferenceService, component: str, *, sources: Sources, live: LiveSettings) -> Projection:
        """The declared ``component`` of ``service``."""
        meta = service.metadata
        inputs = (
            meta.uid,
            meta.generation,
            dict(meta.labels),
            dict(meta.annotations),
            _source(sources.runtime),
            _source(sources.model),
            live,
        )
        key = (meta.namespace, meta.name, component)
        known = self._known.get(key)
        if known is not None and known.inputs == inputs:
            return known
        found = resolve(service, component, sources=sources, live=live)
        wanted = project.manifest(service, found) if isinstance(found, Resolved) else {}
        made = Projection(found, wanted, live.pdb_max_unavailable, inputs)
        self._known[key] = made
        return made

    def forget(self, namespace: str, name: str) -> None:
        """The service is gone."""
        for component in COMPONENTS:
            self._known.pop((namespace, name, component), None)

    def __len__(self) -> int:
        return len(self._known)


def _source(found: ServingRuntime | BaseModel | Trouble | None) -> Any:
    if found is None or isinstance(found, Trouble):
        return found
    return found.metadata.uid, found.metadata.resource_version


def _version(replica: InferenceReplica) -> tuple[Any, ...]:
    """All of a replica that the projection looks at."""
    meta = replica.metadata
    return meta.uid, meta.generation, dict(meta.labels), dict(meta.annotations), tuple(meta.owner_references)
