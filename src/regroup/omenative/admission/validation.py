"""What is wrong with an InferenceService, each problem with path, value and rule (spec/omenative.md 1.1). Pure.

The schema has looked at types and enums before; nothing here relies on it.
"""

import re
from collections.abc import Mapping
from typing import Any

from regroup.kube.problem import Problem, not_supported
from regroup.omenative import keys
from regroup.omenative.api.lifecycle_rules import budget_problem, lifecycle_problems
from regroup.omenative.api.types import OME_NATIVE, SPEC_DEPLOYMENT_MODES
from regroup.omenative.keys import (
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    COMPONENTS,
    DECODER,
    ENGINE,
    GROUP,
    ROUTER,
    SERVING_RUNTIMES,
)
from regroup.omenative.service.resolve import declared_mode

Object = Mapping[str, Any]

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
NAME_LIMIT = 63
_NOT_YET = "is not supported by this version of regroup"
_IGNORED = ("autoscaler", "autoscalerPolicyRef", "deploymentStrategy")
"""Fields of a component that are taken and do nothing in OMENative mode."""
_IGNORED_OF_SERVICE = {
    "spec": ("acceleratorSelector", "placement", "replicaRefs", "routing", "scalingPolicy", "traffic"),
    "spec.model": ("fineTunedWeights", "overlays"),
}
"""Fields that are taken, because OME's manifests have them, and do nothing."""
_MIGRATION_REQUEST = keys.PREFIX + "migration-request-"
_PROMOTE = keys.PREFIX + "rollout-promote"
_ROLLBACK = keys.PREFIX + "rollout-rollback"
_PAIRING_LIMIT = 63


def validate_service(obj: Object, old: Object | None = None) -> list[Problem]:
    """Problems of an InferenceService; of ``old`` only what was already asked for is known. Empty: it can be admitted."""
    spec = obj.get("spec")
    problems = [] if old is not None else _name(obj)
    problems += _annotations(obj, old)
    if not isinstance(spec, Mapping):
        return [*problems, Problem("spec", spec, "must be an object", kind="TypeInvalid")]
    if spec.get("model") is None and spec.get("runtime") is None:
        problems.append(Problem("spec", None, "at least one of spec.model or spec.runtime must be set", kind="Required"))
    problems += _reference(spec.get("model"), "spec.model", (CLUSTER_BASE_MODELS.kind, BASE_MODELS.kind))
    problems += _reference(spec.get("runtime"), "spec.runtime", (CLUSTER_SERVING_RUNTIMES.kind, SERVING_RUNTIMES.kind))
    problems += _pinning(spec.get("runtime"))
    mode = spec.get("deploymentMode")
    if mode is not None and mode not in SPEC_DEPLOYMENT_MODES:
        problems.append(not_supported("spec.deploymentMode", mode, SPEC_DEPLOYMENT_MODES))
    for name in COMPONENTS:
        problems += _component(spec.get(name), name)
    problems += _mode_combination(spec)
    problems += _rollout(spec.get("rollout"))
    return problems


def warnings(obj: Object) -> list[str]:
    """What is admitted and does not do what its author may think."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return []
    found = []
    if keys.DEPLOYMENT_MODE in _map(_map(obj.get("metadata")).get("annotations")):
        found.append(
            f"metadata.annotations[{keys.DEPLOYMENT_MODE}]: selects no component's mode; set spec.deploymentMode or the "
            "component's own annotations"
        )
    for path, fields in _IGNORED_OF_SERVICE.items():
        part = spec if path == "spec" else _map(spec.get("model"))
        found += [f"{path}.{field}: is ignored by this version of regroup" for field in fields if part.get(field) is not None]
    components = [name for name in COMPONENTS if spec.get(name) is not None]
    if not components:
        found.append("spec: declares no engine, decoder or router, so nothing runs")
    for name in components:
        component = _map(spec.get(name))
        if declared_mode(str(spec.get("deploymentMode") or ""), component) != OME_NATIVE:
            continue
        found += [
            f"spec.{name}.{field}: is ignored in {OME_NATIVE} mode" for field in _IGNORED if component.get(field) is not None
        ]
        lifecycle = _map(component.get("lifecycle"))
        if lifecycle.get("readyPolicy") == "None":
            found.append(f"spec.{name}.lifecycle.readyPolicy: None is ignored: an Instance is Ready when all its pods are")
        if _map(lifecycle.get("migrationPolicy")).get("mode") not in {None, "Never"}:
            found.append(f"spec.{name}.lifecycle.migrationPolicy: is ignored: this version of regroup does not migrate")
    return found


def _name(obj: Object) -> list[Problem]:
    name = _map(obj.get("metadata")).get("name")
    if not isinstance(name, str) or not name:
        return []  # made from generateName; what comes out is checked by the API server
    if NAME.fullmatch(name) and len(name) <= NAME_LIMIT:
        return []
    rule = f"must be a DNS label that begins with a letter, of at most {NAME_LIMIT} characters: Services and labels carry it"
    return [Problem("metadata.name", name, rule)]


def _annotations(obj: Object, old: Object | None) -> list[Problem]:
    annotations = _map(_map(obj.get("metadata")).get("annotations"))
    before = _map(_map(old.get("metadata")).get("annotations")) if old is not None else {}
    problems = []
    for key, value in annotations.items():
        if before.get(key) == value:
            continue
        path = f"metadata.annotations[{key}]"
        if key.startswith(_MIGRATION_REQUEST):
            problems.append(Problem(path, value, f"migrating Instances {_NOT_YET}", kind="Forbidden"))
        elif key == _PROMOTE or (key == _ROLLBACK and value != "false"):
            problems.append(Problem(path, value, f"rolling out by canary {_NOT_YET}", kind="Forbidden"))
        elif key == keys.REVISION_HISTORY_LIMIT and not (isinstance(value, str) and re.fullmatch("0*[1-9][0-9]{0,8}", value)):
            problems.append(Problem(path, value, "must be a whole number above 0"))
    return problems


def _reference(value: Any, path: str, kinds: tuple[str, str]) -> list[Problem]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [Problem(path, value, "must be an object", kind="TypeInvalid")]
    problems = []
    if not value.get("name"):
        problems.append(Problem(f"{path}.name", None, "must be set", kind="Required"))
    if value.get("kind") not in (None, "", *kinds):
        problems.append(not_supported(f"{path}.kind", value.get("kind"), kinds))
    if value.get("apiGroup") not in (None, "", GROUP):
        problems.append(not_supported(f"{path}.apiGroup", value.get("apiGroup"), [GROUP]))
    return problems


def _pinning(runtime: Any) -> list[Problem]:
    """Following a runtime that was to be pinned would roll pods that nobody wanted rolled: refused rather than ignored."""
    problems = []
    if _map(runtime).get("autoSync") is False:
        problems.append(Problem("spec.runtime.autoSync", False, f"pinning a runtime {_NOT_YET}", kind="Forbidden"))
    if _map(runtime).get("revision"):
        problems.append(Problem("spec.runtime.revision", None, f"pinning a runtime {_NOT_YET}", kind="Forbidden"))
    return problems


def _component(value: Any, name: str) -> list[Problem]:
    path = f"spec.{name}"
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [Problem(path, value, "must be an object", kind="TypeInvalid")]
    leader, worker = value.get("leader"), value.get("worker")
    multi_pod = leader is not None and worker is not None
    problems = _pairing(name, path, leader, worker)
    problems += lifecycle_problems(value.get("lifecycle"), f"{path}.lifecycle", multi_pod=multi_pod)
    budgets = {field: value.get(field) for field in ("minAvailable", "maxUnavailable") if value.get(field) is not None}
    for field, budget in budgets.items():
        problem = budget_problem(budget, f"{path}.{field}")
        if problem is not None:
            problems.append(problem)
    if len(budgets) == 2:
        problems.append(Problem(f"{path}.minAvailable", budgets["minAvailable"], "must not be set together with maxUnavailable"))
    return problems


def _pairing(name: str, path: str, leader: Any, worker: Any) -> list[Problem]:
    umbrella = "InvalidLeaderWorkerPairing"
    if name == ROUTER and (leader is not None or worker is not None):
        field = "leader" if leader is not None else "worker"
        return [Problem(f"{path}.{field}", None, f"{umbrella}: a router has one pod, no leader and no worker", kind="Forbidden")]
    if leader is not None and worker is None:
        return [Problem(f"{path}.worker", None, f"{umbrella}: a leader needs workers (LeaderRequiresWorker)", kind="Required")]
    if worker is not None and leader is None:
        return [Problem(f"{path}.leader", None, f"{umbrella}: workers need a leader (WorkerRequiresLeader)", kind="Required")]
    size = _map(worker).get("size")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        return [Problem(f"{path}.worker.size", size, f"{umbrella}: must be at least 1 (WorkerSizeMustBePositive)")]
    return []


def _mode_combination(spec: Object) -> list[Problem]:
    """Engine and decoder: where either is OMENative, both are (1.1.4)."""
    engine, decoder = spec.get(ENGINE), spec.get(DECODER)
    if not isinstance(engine, Mapping) or not isinstance(decoder, Mapping):
        return []
    of_spec = str(spec.get("deploymentMode") or "")
    one, two = declared_mode(of_spec, engine), declared_mode(of_spec, decoder)
    if one == two or OME_NATIVE not in (one, two):
        return []
    rule = (
        f'InvalidDeploymentModeCombination: engine deploymentMode="{one}" does not match decoder deploymentMode="{two}"; '
        "when either is OMENative, both must use the same value"
    )
    return [Problem("spec.decoder.annotations", two, rule)]


def _rollout(value: Any) -> list[Problem]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [Problem("spec.rollout", value, "must be an object", kind="TypeInvalid")]
    problems = []
    if value.get("groups"):
        problems.append(Problem("spec.rollout.groups", None, f"rolling components out in groups {_NOT_YET}", kind="Forbidden"))
    protocol = value.get("pairingProtocol")
    if protocol is not None and not (isinstance(protocol, str) and len(protocol) <= _PAIRING_LIMIT):
        problems.append(
            Problem("spec.rollout.pairingProtocol", protocol, f"must be a text of at most {_PAIRING_LIMIT} characters")
        )
    return problems


def _map(value: Any) -> Object:
    return value if isinstance(value, Mapping) else {}
