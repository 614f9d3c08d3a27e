"""Questions that clients ask about themselves: who am I, and may I do this. The sandbox knows neither users nor rights.

Everybody is one user who may do everything; an answer says so, that nobody takes it for a test of the rights that a real cluster
would check.
"""

from collections.abc import Callable
from typing import Any

from regroup.runtime.clock import Clock, timestamp
from regroup.sandbox.apiserver import failures
from regroup.sandbox.apiserver.bodies import read_other
from regroup.sandbox.apiserver.forms import JSON
from regroup.sandbox.apiserver.media import PROTOBUF, media_type
from regroup.sandbox.apiserver.routing import Target
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.transport import Request, Response

Obj = dict[str, Any]

USER = "sandbox-user"
GROUPS = ["system:masters", "system:authenticated"]
WHY = "the sandbox checks no rights: everybody may do everything"

_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_ACCESS = (
    Resource(_AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False),
    Resource(_AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False),
    Resource(_AUTHORIZATION, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"),
)
_RULES = Resource(_AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False)
_SELF = Resource(_AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
REVIEWS = {(one.group, one.version, one.plural): one for one in (*_ACCESS, _RULES, _SELF)}


def review_of(target: Target) -> Resource | None:
    """The kind of question that a path asks, None when it asks none."""
    return REVIEWS.get((target.group, target.version, target.plural))


def answer(request: Request, target: Target, review: Resource, *, clock: Clock, known: Callable[[str, str], bool]) -> Response:
    """Answer a question: its object comes back with the status filled in. Nothing is kept. Raises ``Failure``.

    ``known`` tells whether there is a kind of an API version and a name.
    """
    if target.name or target.subresource or bool(target.namespace) is not review.namespaced:
        raise failures.no_such_path()
    if request.method != "POST":
        raise failures.method_not_allowed()
    # The answer is the same for every question, so one in protobuf need not be understood.
    body = {} if media_type(request) == PROTOBUF else read_other(request, review, known=known)
    meta = {"creationTimestamp": timestamp(clock.now())} if review == _SELF else {}
    head = {"kind": review.kind, "apiVersion": review.api_version, "metadata": meta}
    spec = {} if review == _SELF else {"spec": body.get("spec") or {}}
    return Response(201, JSON, codec.encode({**head, **spec, "status": _status(review)}))


def _status(review: Resource) -> Obj:
    if review == _SELF:
        return {"userInfo": {"username": USER, "groups": GROUPS}}
    if review == _RULES:
        return {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
    return {"allowed": True, "reason": WHY}
