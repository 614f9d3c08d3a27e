"""Admission of InferenceServices (spec/omenative.md 1.1)."""

import copy
from typing import Any

import pytest

from regroup.omenative.admission.validation import validate_service, warnings
from regroup.omenative.admission.webhook import validate_service as admit
from regroup.omenative.keys import INFERENCE_SERVICES
from regroup.runtime.admission import AdmissionRequest

Object = dict[str, Any]

PAIR = "InvalidLeaderWorkerPairing"


def obj(name: str = "svc", *, annotations: Object | None = None, **spec: Any) -> Object:
    base: Object = {"deploymentMode": "OMENative", "runtime": {"name": "srt"}, "engine": {}}
    spec = {key: value for key, value in {**base, **spec}.items() if value is not ...}
    return {"metadata": {"name": name, "namespace": "ns", "annotations": annotations or {}}, "spec": spec}


def _lifecycle(**fields: Any) -> Object:
    return obj(engine={"lifecycle": fields})


def _rolling(**fields: Any) -> Object:
    return _lifecycle(updateStrategy={"rollingUpdate": fields})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (obj(runtime=...), "spec: Required value: at least one of spec.model or spec.runtime must be set"),
        (obj("1abc"), 'metadata.name: Invalid value: "1abc": must be a DNS label that begins with a letter'),
        (obj("a" * 64), "of at most 63 characters"),
        (obj(runtime={}), "spec.runtime.name: Required value: must be set"),
        (obj(model={"name": "m", "kind": "Model"}), 'spec.model.kind: Unsupported value: "Model"'),
        (obj(runtime={"name": "r", "apiGroup": "x.io"}), 'spec.runtime.apiGroup: Unsupported value: "x.io"'),
        (obj(runtime={"name": "r", "autoSync": False}), "spec.runtime.autoSync: Forbidden: pinning a runtime is not supported"),
        (obj(runtime={"name": "r", "revision": "r-1"}), "spec.runtime.revision: Forbidden: pinning a runtime is not supported"),
        (obj(deploymentMode="MultiNode"), 'spec.deploymentMode: Unsupported value: "MultiNode": supported values: "OMENative"'),
        (obj(engine=[]), "spec.engine: Invalid value: []: must be an object"),
        # 1.1.2
        (
            _lifecycle(restartPolicy="Always"),
            (
                'spec.engine.lifecycle.restartPolicy: Unsupported value: "Always": supported values: "None", '
                '"RecreateInstanceOnPodRestart"'
            ),
        ),
        (_lifecycle(updateStrategy={"type": "Fast"}), 'spec.engine.lifecycle.updateStrategy.type: Unsupported value: "Fast"'),
        (_lifecycle(readyPolicy="Some"), 'readyPolicy: Unsupported value: "Some": supported values: "AllPodReady", "None"'),
        (_lifecycle(migrationPolicy={"mode": "x"}), "spec.engine.lifecycle.migrationPolicy.mode: Unsupported value"),
        (_lifecycle(instanceReadyTimeout="60"), 'instanceReadyTimeout: Invalid value: "60": missing unit in duration "60"'),
        (_lifecycle(instanceReadyTimeout=60), "instanceReadyTimeout: Invalid value: 60: must be a duration with a unit"),
        (_lifecycle(instanceReadyTimeout="-1m"), "must not be negative"),
        (
            _lifecycle(minReadySeconds=-1),
            "spec.engine.lifecycle.minReadySeconds must be >= 0, got -1 (InvalidMinReadySeconds)",
        ),
        (_rolling(maxSurge=0, maxUnavailable="0%"), "RollingUpdateZeroBudget"),
        (
            _rolling(maxSurge="110%"),
            'rollingUpdate.maxSurge: Invalid value: "110%": must be 0% to 100% (InvalidRollingUpdatePercent)',
        ),
        (_rolling(maxUnavailable="x"), "(InvalidRollingUpdatePercent)"),
        (_rolling(maxUnavailable=-1), "(InvalidRollingUpdateInteger)"),
        (_rolling(partition=-1), "rollingUpdate.partition: Invalid value: -1: must be a whole number >= 0"),
        (
            _lifecycle(updateStrategy={"inPlaceUpdateStrategy": {"gracePeriodSeconds": -1}}),
            "inPlaceUpdateStrategy.gracePeriodSeconds",
        ),
        (_lifecycle(updateStrategy=7), "spec.engine.lifecycle.updateStrategy: Invalid value: 7: must be an object"),
        (obj(engine={"lifecycle": "x"}), "spec.engine.lifecycle: Invalid value"),
        (
            obj(engine={"leader": {}, "worker": {}, "lifecycle": {"readyPolicy": "None"}}),
            "spec.engine.lifecycle.readyPolicy: Invalid value",
        ),
        # 1.1.1
        (obj(engine={"leader": {}}), f"spec.engine.worker: Required value: {PAIR}"),
        (obj(engine={"worker": {"size": 2}}), f"spec.engine.leader: Required value: {PAIR}"),
        (obj(engine={"leader": {}, "worker": {"size": 0}}), f"spec.engine.worker.size: Invalid value: 0: {PAIR}"),
        (obj(router={"worker": {}}), f"spec.router.worker: Forbidden: {PAIR}"),
        (obj(engine={"minAvailable": 1, "maxUnavailable": 1}), "must not be set together with maxUnavailable"),
        (obj(engine={"maxUnavailable": "x"}), 'spec.engine.maxUnavailable: Invalid value: "x"'),
        # 1.1.4
        (
            obj(deploymentMode=..., engine={"annotations": {"ome.io/deploymentMode": "OMENative"}}, decoder={}),
            (
                'InvalidDeploymentModeCombination: engine deploymentMode="OMENative" does not match decoder deploymentMode=""; '
                "when either is OMENative, both must use the same value"
            ),
        ),
        # What is not built.
        (obj(rollout={"groups": [{"name": "a"}]}), "spec.rollout.groups: Forbidden: rolling components out in groups is not"),
        (obj(rollout={"pairingProtocol": "x" * 64}), "spec.rollout.pairingProtocol"),
        (obj(annotations={"ome.io/migration-request-v1-1": "{}"}), "migrating Instances is not supported by this version"),
        (obj(annotations={"ome.io/rollout-promote": "abcdef"}), "rolling out by canary is not supported by this version"),
        (obj(annotations={"ome.io/rollout-rollback": "true"}), "metadata.annotations[ome.io/rollout-rollback]: Forbidden"),
        (obj(annotations={"ome.io/revision-history-limit": "0"}), "must be a whole number above 0"),
    ],
)
def test_each_refusal_names_path_value_and_rule(bad: Object, message: str) -> None:
    """1.1 and its parts, one row a rule; behaviours 9, 124, 125, 126."""
    problems = validate_service(bad)
    assert len(problems) == 1, problems
    assert message in problems[0].message


@pytest.mark.parametrize(
    "good",
    [
        obj(),
        obj(runtime=..., model={"name": "m"}),
        obj(model={"name": "m", "kind": "BaseModel", "apiGroup": "ome.io", "fineTunedWeights": ["x"]}),
        _lifecycle(instanceReadyTimeout="0s"),
        _rolling(maxSurge=0),
        _rolling(maxUnavailable=0),
        _rolling(maxSurge=0, maxUnavailable=1),
        _rolling(maxSurge=None, maxUnavailable=0),
        _lifecycle(minReadySeconds=0),
        _lifecycle(readyPolicy="None"),
        obj(engine={"leader": {}, "worker": {}}),
        obj(engine={"maxUnavailable": "50%"}),
        obj(decoder={}, router={}),
        obj(deploymentMode=..., engine={}, decoder={}),
        obj(deploymentMode="RawDeployment", engine={"annotations": {"ome.io/deploymentMode": "Quick"}}, decoder={}),
        obj(annotations={"ome.io/rollout-paused": "anything", "ome.io/rollout-rollback": "false"}),
        obj(acceleratorSelector={}, traffic={}, scalingPolicy={}, placement={}, routing={}, replicaRefs=[]),
        obj(engine={"autoscaler": {}, "timeoutSeconds": 3, "servicePortAppProtocols": {}}),
        obj(rollout={"pairingProtocol": "v2"}),
    ],
)
def test_what_is_admitted(good: Object) -> None:
    """1.1: what OME takes, and a zero on only one budget."""
    assert validate_service(good) == []


@pytest.mark.parametrize(
    "spec", [None, 7, [], "x", {"engine": {"lifecycle": {"updateStrategy": {"rollingUpdate": []}}}}, {"runtime": 1, "model": []}]
)
def test_nothing_that_can_be_written_stops_it(spec: Any) -> None:
    """Bad input: a problem, never an exception."""
    assert validate_service({"metadata": {"name": "x"}, "spec": spec})


def test_warnings() -> None:
    """1.1.1, 1.1.4: what is admitted and does not do what its author may think."""
    told = warnings(
        obj(
            annotations={"ome.io/deploymentMode": "OMENative"},
            engine={
                "deploymentStrategy": {"type": "Recreate"},
                "autoscaler": {},
                "lifecycle": {"readyPolicy": "None", "migrationPolicy": {"mode": "Surge"}},
            },
            model={"name": "m", "overlays": [{}]},
            traffic={},
        )
    )
    assert [one.split(":")[0] for one in told] == [
        "metadata.annotations[ome.io/deploymentMode]",
        "spec.traffic",
        "spec.model.overlays",
        "spec.engine.autoscaler",
        "spec.engine.deploymentStrategy",
        "spec.engine.lifecycle.readyPolicy",
        "spec.engine.lifecycle.migrationPolicy",
    ]
    quiet = {"lifecycle": {"readyPolicy": "AllPodReady", "migrationPolicy": {"mode": "Never"}}}
    assert warnings(obj(engine=quiet)) == []
    assert "nothing runs" in warnings(obj(engine=...))[0]
    assert warnings(obj(deploymentMode="RawDeployment", engine={"deploymentStrategy": {}})) == []


def _request(new: Object | None, old: Object | None = None) -> AdmissionRequest:
    return AdmissionRequest(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        group=INFERENCE_SERVICES.group,
        version=INFERENCE_SERVICES.version,
        kind=INFERENCE_SERVICES.kind,
        resource=INFERENCE_SERVICES.plural,
        sub_resource="",
        namespace="ns",
        name="svc",
        object=new,
        old_object=old,
        user="me",
        dry_run=False,
    )


def test_the_answer_to_a_review() -> None:
    """A refusal has the summary and one cause a field; an admission has the warnings."""
    bad = admit(_request(_lifecycle(restartPolicy="Always", minReadySeconds=-1)))
    assert not bad.allow
    assert bad.message.startswith('InferenceService.ome.io "svc" is invalid: [spec.engine.lifecycle.restartPolicy')
    assert [cause["field"].rpartition(".")[2] for cause in bad.causes] == ["restartPolicy", "minReadySeconds"]
    good = admit(_request(obj(engine={"autoscaler": {}})))
    assert (good.allow, len(good.warnings)) == (True, 1)


def test_what_was_admitted_once_can_always_leave() -> None:
    """Design 9: a finalizer can be taken off, and metadata changed, whatever the spec says by newer rules."""
    bad = _lifecycle(restartPolicy="Always")
    labelled = copy.deepcopy(bad)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert admit(_request(labelled, bad)).allow
    leaving = copy.deepcopy(bad)
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {"ome.io/rollout-promote": "x"}}
    assert admit(_request(leaving, obj())).allow
    assert not admit(_request(bad, obj())).allow


def test_requests_that_were_there_before_are_not_refused_again() -> None:
    """An annotation that a cluster brings along from OME does not block other edits."""
    before = obj(annotations={"ome.io/rollout-promote": "abcdef"})
    after = obj(annotations={"ome.io/rollout-promote": "abcdef"}, engine={"minReplicas": 2})
    assert admit(_request(after, before)).allow
