"""What is worked out once is worked out again when what it is made from changes (design 3: only a memory)."""

from typing import Any

import msgspec
import pytest
from tests.omenative.ome_service_builders import runtime, service

from regroup.omenative.api.replica import InferenceReplica, decode
from regroup.omenative.api.types import InferenceService, ServingRuntime
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.controller.projections import Projections
from regroup.omenative.service.project import manifest
from regroup.omenative.service.resolve import Resolved, Sources, Trouble, resolve

Object = dict[str, Any]


def _stamped(found: ServingRuntime, version: str) -> ServingRuntime:
    meta = msgspec.structs.replace(found.metadata, uid="r", resource_version=version)
    return msgspec.structs.replace(found, metadata=meta)


OLD = _stamped(runtime(), "1")
NEW = _stamped(runtime(engineConfig={"runner": {"image": "server:2"}}), "2")


@pytest.mark.parametrize(
    ("of", "by", "live"),
    [
        (service(engine={"minReplicas": 2}, metadata={"generation": 4}), OLD, LiveSettings()),
        (service(engine={}, metadata={"annotations": {"ome.io/rollout-paused": "true"}}), OLD, LiveSettings()),
        (service(engine={}, metadata={"labels": {"a": "b"}}), OLD, LiveSettings()),
        (service(engine={}, metadata={"uid": "another"}), OLD, LiveSettings()),
        (service(engine={}), NEW, LiveSettings()),
        (service(engine={}), Trouble("RuntimeNotFound", "x"), LiveSettings()),
        (service(engine={}), OLD, LiveSettings(min_ready_seconds=4)),
    ],
)
def test_every_input_counts(of: InferenceService, by: ServingRuntime | Trouble, live: LiveSettings) -> None:
    """Spec, annotations, labels, identity, runtime and configuration: after any of them it is as if nothing had been known."""
    memory = Projections()
    first = memory.of(service(engine={}), "engine", sources=Sources(runtime=OLD), live=LiveSettings())
    assert memory.of(service(engine={}), "engine", sources=Sources(runtime=OLD), live=LiveSettings()) is first
    sources = Sources(runtime=by)
    after = memory.of(of, "engine", sources=sources, live=live)
    fresh = resolve(of, "engine", sources=sources, live=live)
    assert after.found == fresh
    assert after.wanted == (manifest(of, fresh) if isinstance(fresh, Resolved) else {})
    assert after is not first


def test_a_replica_that_was_changed_is_looked_at_again() -> None:
    """1.2: what says the right thing is compared once for each version of it; a status is no other version."""
    memory = Projections()
    projection = memory.of(service(engine={}), "engine", sources=Sources(runtime=OLD), live=LiveSettings(pdb_max_unavailable=1))
    made: Object = dict(projection.wanted)

    def live(generation: int, status: Object | None = None, **spec: Any) -> InferenceReplica:
        meta = {**made["metadata"], "uid": "u", "generation": generation}
        return decode({"metadata": meta, "spec": {**made["spec"], **spec}, "status": status or {}})

    assert projection.patch(live(1)) is None
    assert projection.patch(live(1, {"servingReplicas": 1})) is None
    changed = projection.patch(live(2, replicas=9))
    assert changed is not None
    assert changed["spec"] == {"replicas": 1}
    kinds = [resource.kind for resource, _ in projection.exposure(live(1))]
    assert kinds == ["Service", "PodDisruptionBudget"]
    budget = projection.exposure(live(3, replicas=9))[1][1]
    assert budget["spec"]["minAvailable"] == 8


def test_what_is_gone_is_forgotten() -> None:
    """Memory follows the objects."""
    memory = Projections()
    for name in ("engine", "router"):
        memory.of(service(engine={}, router={}), name, sources=Sources(runtime=OLD), live=LiveSettings())
    assert len(memory) == 2
    memory.forget("ns", "qwen3-0-6b")
    assert len(memory) == 0
