"""What is wrong with an InferenceReplica, or with who wrote it (spec/omenative.md 1.2). Pure.

The spec of a projected replica is its InferenceService's business: an edit of it is taken only with the hash that the projection
puts beside it. Metadata, the mailboxes among it, are anybody's.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from regroup.kube.problem import Problem, not_supported
from regroup.omenative import keys
from regroup.omenative.admission.validation import NAME, NAME_LIMIT
from regroup.omenative.api.lifecycle_rules import lifecycle_problems
from regroup.omenative.keys import COMPONENTS, DEFAULT_RUNNER, INFERENCE_REPLICAS, LEADER, WORKER
from regroup.omenative.service.project import spec_hash

Object = Mapping[str, Any]

_ELSEWHERE = "edit the InferenceService instead"
_RUNNERS = (DEFAULT_RUNNER, LEADER, WORKER)


def refusal(obj: Object, old: Object | None) -> str | None:
    """Why the writer may not write this at all; the sentence ends with what to do instead. None: it may."""
    parent = _parent(obj) or (_parent(old) if old is not None else "")
    if not parent:
        return None
    if old is not None and (old.get("spec") == obj.get("spec") or _hash(old) == _hash(obj) != ""):
        return None
    mark = _map(_map(obj.get("metadata")).get("annotations")).get(keys.PROJECTED)
    if mark is not None and mark == _hash(obj):
        return None
    name = _map(obj.get("metadata")).get("name") or ""
    return f"{INFERENCE_REPLICAS.kind} {name} is made from InferenceService {parent} and follows it: {_ELSEWHERE}"


def validate_replica(obj: Object, old: Object | None = None) -> list[Problem]:
    """Problems of an InferenceReplica. Empty: it can be admitted."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return [Problem("spec", spec, "must be an object", kind="TypeInvalid")]
    problems = _immutable(spec, _map(old.get("spec"))) if old is not None else []
    if spec.get("component") not in COMPONENTS:
        problems.append(not_supported("spec.component", spec.get("component"), COMPONENTS))
    problems += _runners(spec)
    seconds = spec.get("minReadySeconds")
    if isinstance(seconds, int) and seconds < 0:
        problems.append(Problem("spec.minReadySeconds", seconds, "must be >= 0 (InvalidMinReadySeconds)"))
    runners = spec.get("runners")
    multi_pod = isinstance(runners, list | tuple) and len(runners) > 1
    # A projected block was merged, so two zero budgets in it may have met there.
    problems += lifecycle_problems(spec.get("lifecycle"), "spec.lifecycle", multi_pod=multi_pod, explicit=not _parent(obj))
    if not _parent(obj):
        problems += _standalone(obj, spec, new=old is None)
    return problems


def _immutable(spec: Object, old: Object) -> list[Problem]:
    return [
        Problem(f"spec.{name}", spec.get(name), "field is immutable")
        for name in ("parentRef", "component")
        if spec.get(name) != old.get(name)
    ]


def _runners(spec: Object) -> list[Problem]:
    runners = spec.get("runners")
    if runners is None:
        return []
    if not isinstance(runners, list | tuple):
        return [Problem("spec.runners", runners, "must be a list", kind="TypeInvalid")]
    problems = []
    names = []
    for position, runner in enumerate(runners[:10]):
        path = f"spec.runners[{position}]"
        name = _map(runner).get("name", DEFAULT_RUNNER)
        if name not in _RUNNERS:
            problems.append(not_supported(f"{path}.name", name, _RUNNERS))
        names.append(name)
        size = _map(runner).get("size")
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            problems.append(Problem(f"{path}.size", size, "must be at least 1"))
        elif size is not None and name != WORKER and size != 1:
            problems.append(Problem(f"{path}.size", size, f"must be 1 for {name}: only workers can be several"))
    if not problems and sorted(names) not in ([DEFAULT_RUNNER], [LEADER, WORKER]):
        rule = "must be one default, or one leader and one worker (InvalidLeaderWorkerPairing)"
        problems.append(Problem("spec.runners", names, rule))
    return problems


def _standalone(obj: Object, spec: Object, *, new: bool) -> list[Problem]:
    """A replica that a person made: its templates are its own."""
    problems = []
    name = _map(obj.get("metadata")).get("name")
    if new and isinstance(name, str) and name and not (NAME.fullmatch(name) and len(name) <= NAME_LIMIT):
        problems.append(Problem("metadata.name", name, "must be a DNS label that begins with a letter"))
    for field in ("modelRef", "runtimeRef"):
        if spec.get(field) is not None:
            rule = "is not supported by this version of regroup: set spec.runners"
            problems.append(Problem(f"spec.{field}", None, rule, kind="Forbidden"))
    if not spec.get("runners"):
        problems.append(Problem("spec.runners", None, "at least one is needed", kind="Required"))
    if _map(spec.get("lifecycle")).get("minReadySeconds") is not None:
        rule = "set spec.minReadySeconds instead"
        problems.append(Problem("spec.lifecycle.minReadySeconds", None, rule, kind="Forbidden"))
    return problems


def _parent(obj: Object) -> str:
    return str(_map(_map(obj.get("spec")).get("parentRef")).get("name") or "")


def _hash(obj: Object) -> str:
    """Empty for what cannot be read: equal to no hash that the projection gives."""
    try:
        return spec_hash(obj)
    except msgspec.ValidationError:
        return ""


def _map(value: Any) -> Object:
    return value if isinstance(value, Mapping) else {}
