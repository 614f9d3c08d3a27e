"""Admission of InferenceServices and InferenceReplicas (spec/omenative.md 1.1, 1.2).

The handlers are pure; the rules are in ``validation`` and ``replica_validation``. Nothing is defaulted here: what is not set is
filled while reconciling, so that a later default is not frozen into the object. Deletions are never asked about.
"""

from collections.abc import Mapping
from typing import Any

from regroup.kube.problem import Problem, summary
from regroup.omenative.admission import replica_validation, validation
from regroup.omenative.keys import GROUP, INFERENCE_REPLICAS, INFERENCE_SERVICES, VERSION
from regroup.runtime.admission import AdmissionRequest, AdmissionResponse, AdmissionServer, allowed, denied
from regroup.runtime.webhooks import Reach, rule
from regroup.wire.resource import Resource

VALIDATE_SERVICE = "/validate-inferenceservice"
VALIDATE_REPLICA = "/validate-inferencereplica"

_DOMAIN = "regroup.dev"


def register(server: AdmissionServer) -> None:
    """Answer our two kinds of reviews on ``server``."""
    server.register(VALIDATE_SERVICE, validate_service)
    server.register(VALIDATE_REPLICA, validate_replica)


def webhooks(reach: Reach) -> list[dict[str, Any]]:
    """The validating entries of a cluster's webhook configuration."""
    return [
        reach.webhook(f"validate.{path.removeprefix('/validate-')}.{_DOMAIN}", path=path, rules=[_asked(resource)])
        for resource, path in ((INFERENCE_SERVICES, VALIDATE_SERVICE), (INFERENCE_REPLICAS, VALIDATE_REPLICA))
    ]


def validate_service(request: AdmissionRequest) -> AdmissionResponse:
    """Refuse what breaks a rule or asks for what this version cannot do."""
    obj, old = request.object, request.old_object
    if obj is None or _leaving(obj) or (old is not None and _unchanged(obj, old)):
        return allowed()
    problems = validation.validate_service(obj, old)
    if problems:
        return _refused(INFERENCE_SERVICES, request, problems)
    return allowed(warnings=validation.warnings(obj))


def validate_replica(request: AdmissionRequest) -> AdmissionResponse:
    """Refuse what breaks a rule, and edits of what an InferenceService decides."""
    obj, old = request.object, request.old_object
    if obj is None or _leaving(obj):
        return allowed()
    refusal = replica_validation.refusal(obj, old)
    if refusal is not None:
        return denied(refusal, code=403, reason="Forbidden")
    if old is not None and obj.get("spec") == old.get("spec"):
        return allowed()
    problems = replica_validation.validate_replica(obj, old)
    return _refused(INFERENCE_REPLICAS, request, problems) if problems else allowed()


def _asked(resource: Resource) -> dict[str, Any]:
    return rule(GROUP, VERSION, [resource.plural], ["CREATE", "UPDATE"])


def _refused(resource: Resource, request: AdmissionRequest, problems: list[Problem]) -> AdmissionResponse:
    name = _metadata(request.object or {}).get("name") or request.name
    message = summary(problems, kind=resource.kind, group=GROUP, name=str(name))
    return denied(message, causes=[problem.cause() for problem in problems])


def _leaving(obj: Mapping[str, Any]) -> bool:
    """Being deleted: nothing may stand between it and its end."""
    return bool(_metadata(obj).get("deletionTimestamp"))


def _unchanged(obj: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Nothing that we look at has changed: what was admitted once is not judged by newer rules."""
    same = obj.get("spec") == old.get("spec")
    return same and _metadata(obj).get("annotations") == _metadata(old).get("annotations")


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    found = obj.get("metadata")
    return found if isinstance(found, Mapping) else {}
