"""Answers that say no, as ``Status`` objects worded like a real API server's."""

from collections.abc import Sequence
from typing import Any

from regroup.sandbox.schema.errors import FieldError
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.transport import Response


class Failure(Exception):
    """Ends a request with a failure ``Status``."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: dict[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details = details
        self.retry_after = retry_after

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    def response(self) -> Response:
        headers = {"content-type": "application/json"}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        return Response(self.code, headers, codec.encode(self.status()))


def _details(resource: Resource, name: str = "", *, kind: str = "") -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    details["kind"] = kind or resource.plural
    return details


def not_found(resource: Resource, name: str) -> Failure:
    return Failure(404, "NotFound", f'{resource} "{name}" not found', details=_details(resource, name))


def no_such_path() -> Failure:
    return Failure(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: Resource, name: str, *, generated: bool = False) -> Failure:
    """409. A name that the server made up itself says so, since another attempt may do better."""
    why = ", the server was not able to generate a unique name for the object" if generated else ""
    return Failure(409, "AlreadyExists", f'{resource} "{name}" already exists{why}', details=_details(resource, name))


def conflict(resource: Resource, name: str, why: str, *, kind: str = "") -> Failure:
    """409. ``kind`` names the object in another way than by its resource, as preconditions do."""
    message = f'Operation cannot be fulfilled on {kind or resource} "{name}": {why}'
    return Failure(409, "Conflict", message, details=_details(resource, name, kind=kind))


def stale(resource: Resource, name: str) -> Failure:
    return conflict(resource, name, "the object has been modified; please apply your changes to the latest version and try again")


def invalid(resource: Resource, name: str, errors: Sequence[FieldError], *, kind: str = "") -> Failure:
    """422. ``kind`` stands for the resource's own kind where the object claims another one."""
    kind = kind or resource.kind
    texts = list(dict.fromkeys(error.message() for error in errors))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _details(resource, name, kind=kind)
    details["causes"] = [error.cause() for error in errors]
    full = f"{kind}.{resource.group}" if resource.group else kind
    return Failure(422, "Invalid", f'{full} "{name}" is invalid: {text}', details=details)


def unversioned(resource: Resource, name: str) -> Failure:
    """422: an update of this kind has to say which version it is of."""
    error = FieldError("metadata.resourceVersion", "Invalid", 0, "must be specified for an update")
    return invalid(resource, name, [error], kind=resource.plural)


def undecodable_patch(text: str, why: str) -> Failure:
    """422: the object that a patch gives cannot be read."""
    error = FieldError("patch", "Invalid", text, why)
    return Failure(422, "Invalid", f' "" is invalid: {error.message()}', details={"causes": [error.cause()]})


def forbidden(resource: Resource, name: str, why: str, *, causes: Sequence[dict[str, str]] = ()) -> Failure:
    details = _details(resource, name)
    if causes:
        details["causes"] = list(causes)
    return Failure(403, "Forbidden", f'{resource} "{name}" is forbidden: {why}', details=details)


def bad_request(message: str) -> Failure:
    return Failure(400, "BadRequest", message)


def gone(message: str) -> Failure:
    return Failure(410, "Expired", message)


def internal(message: str) -> Failure:
    """500 without a reason, as errors come out that no handler has given a meaning."""
    return Failure(500, "", message)


def method_not_allowed() -> Failure:
    return Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={})


def not_acceptable() -> Failure:
    message = "only the following media types are accepted: application/json"
    return Failure(406, "NotAcceptable", message)


def unsupported_media_type(allowed: Sequence[str] = ()) -> Failure:
    if not allowed:
        return Failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(allowed)}"
    return Failure(415, "UnsupportedMediaType", message)


def expired_version(version: int, oldest: int) -> Failure:
    return Failure(410, "Expired", f"too old resource version: {version} ({oldest})")


def future_version(version: int, current: int) -> Failure:
    text = f"Too large resource version: {version}, current: {current}"
    return Failure(
        504,
        "Timeout",
        f"Timeout: {text}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        retry_after=1,
    )
