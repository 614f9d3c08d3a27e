"""Admission of InferenceReplicas (spec/omenative.md 1.2)."""

import copy
from typing import Any

import pytest
from tests.omenative.ome_service_builders import resolved, service

from regroup.omenative.admission.replica_validation import validate_replica
from regroup.omenative.admission.webhook import validate_replica as admit
from regroup.omenative.keys import INFERENCE_REPLICAS
from regroup.omenative.service.project import manifest
from regroup.omenative.service.resolve import Resolved
from regroup.runtime.admission import AdmissionRequest, AdmissionResponse

Object = dict[str, Any]

TEMPLATE = {"spec": {"containers": [{"name": "ome-container", "image": "i"}]}}


def projected(**engine: Any) -> Object:
    of = service(engine=engine)
    found = resolved(of)
    assert isinstance(found, Resolved)
    return manifest(of, found)


def standalone(**spec: Any) -> Object:
    base: Object = {"component": "engine", "runners": [{"name": "default", "template": TEMPLATE}]}
    spec = {key: value for key, value in {**base, **spec}.items() if value is not ...}
    return {"metadata": {"name": "alone", "namespace": "ns"}, "spec": spec}


def review(new: Object, old: Object | None = None) -> AdmissionResponse:
    return admit(
        AdmissionRequest(
            uid="u",
            operation="CREATE" if old is None else "UPDATE",
            group=INFERENCE_REPLICAS.group,
            version=INFERENCE_REPLICAS.version,
            kind=INFERENCE_REPLICAS.kind,
            resource=INFERENCE_REPLICAS.plural,
            sub_resource="",
            namespace="ns",
            name=new["metadata"]["name"],
            object=new,
            old_object=old,
            user="me",
            dry_run=False,
        )
    )


def _with(obj: Object, **spec: Any) -> Object:
    changed = copy.deepcopy(obj)
    changed["spec"].update(spec)
    return changed


def test_the_projection_may_create_and_update() -> None:
    """1.2: the projector's writes pass."""
    before, after = projected(), projected(lifecycle={"restartPolicy": "None"})
    assert review(before).allow
    assert review(after, before).allow


@pytest.mark.parametrize("change", [{"replicas": 5}, {"lifecycle": {"restartPolicy": "None"}}, {"runners": []}, {"paused": True}])
def test_edits_of_a_projected_spec_are_refused(change: Object) -> None:
    """1.2: message ends ``edit the InferenceService instead``."""
    before = projected()
    answer = review(_with(before, **change), before)
    assert not answer.allow
    assert answer.message.endswith("edit the InferenceService instead")
    assert "InferenceService qwen3-0-6b" in answer.message


def test_metadata_is_anybodys() -> None:
    """1.2: annotations such as ``ome.io/reset-instances`` may be changed freely; what defaults add is no edit."""
    before = projected()
    after = _with(before, paused=False)
    after["metadata"]["annotations"]["ome.io/reset-instances"] = "all"
    after["metadata"]["labels"]["x"] = "y"
    assert review(after, before).allow


def test_a_replica_with_a_parent_is_made_by_the_projection_only() -> None:
    """1.2: somebody else's replica of a service is refused; so is leaving the parent."""
    forged = projected()
    del forged["metadata"]["annotations"]["omenative.regroup.dev/projected"]
    assert review(forged).message.endswith("edit the InferenceService instead")
    before = projected()
    orphan = copy.deepcopy(before)
    del orphan["spec"]["parentRef"]
    assert not review(orphan, before).allow


def test_teardown_is_never_blocked() -> None:
    """Design 9: an object that is being deleted can be changed to its end."""
    before = projected()
    after = _with(before, replicas=9)
    after["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert review(after, before).allow


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (standalone(component="predictor"), 'spec.component: Unsupported value: "predictor"'),
        (standalone(runners=...), "spec.runners: Required value: at least one is needed"),
        (standalone(modelRef={"name": "m"}), "spec.modelRef: Forbidden: is not supported by this version of regroup"),
        (standalone(runtimeRef={"name": "m"}), "spec.runtimeRef: Forbidden"),
        (standalone(lifecycle={"minReadySeconds": 3}), "spec.lifecycle.minReadySeconds: Forbidden: set spec.minReadySeconds"),
        (standalone(minReadySeconds=-1), "(InvalidMinReadySeconds)"),
        (standalone(lifecycle={"restartPolicy": "Always"}), "spec.lifecycle.restartPolicy: Unsupported value"),
        (standalone(runners=[{"name": "leader", "template": TEMPLATE}]), "InvalidLeaderWorkerPairing"),
        (standalone(runners=[{"name": "default", "size": 2, "template": TEMPLATE}]), "spec.runners[0].size: Invalid value: 2"),
        (standalone(runners=[{"name": "worker", "size": 0}]), "must be at least 1"),
        (standalone(runners=[{"name": "main"}]), 'spec.runners[0].name: Unsupported value: "main"'),
        (standalone(runners=7), "spec.runners: Invalid value: 7: must be a list"),
        ({"metadata": {"name": "x"}, "spec": None}, "spec: Invalid value: null: must be an object"),
        ({**standalone(), "metadata": {"name": "1a"}}, "metadata.name: Invalid value"),
    ],
)
def test_each_refusal_of_a_replica_of_its_own(bad: Object, message: str) -> None:
    """1.2, Spec table and "Standalone IR"."""
    problems = validate_replica(bad)
    assert len(problems) == 1, problems
    assert message in problems[0].message


def test_a_replica_of_its_own_is_admitted_and_edited() -> None:
    """1.2: user-created, no parentRef, runners."""
    gang = [{"name": "leader", "template": TEMPLATE}, {"name": "worker", "size": 3, "template": TEMPLATE}]
    assert review(standalone(runners=gang, replicas=2)).allow
    assert review(standalone(replicas=3), standalone()).allow
    moved = review(standalone(component="router"), standalone())
    assert 'spec.component: Invalid value: "router": field is immutable' in moved.message
