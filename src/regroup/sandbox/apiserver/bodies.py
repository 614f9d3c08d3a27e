"""Bodies of requests: JSON, YAML or protobuf, as one object of the kind that the path names."""

from typing import Any

from regroup.sandbox.apiserver import failures
from regroup.sandbox.protobuf import ProtobufError, decode_protobuf
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.transport import Request

Obj = dict[str, Any]

PROTOBUF = "application/vnd.kubernetes.protobuf"
BODY_LIMIT = 3 * 1024 * 1024


def read_body(request: Request, resource: Resource, *, strict: bool = True) -> Obj:
    """The object in the body. Raises ``Failure``.

    ``strict`` demands the path's own kind; subresources carry kinds of their own.
    """
    body = request.body or b""
    if len(body) > BODY_LIMIT:
        raise failures.Failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
    content_type = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if content_type == PROTOBUF:
        try:
            return decode_protobuf(body)
        except ProtobufError as error:
            raise failures.bad_request(str(error)) from error
    if content_type not in {"application/json", "application/yaml", "*/*", ""}:
        raise failures.unsupported_media_type(("application/json", "application/yaml", PROTOBUF))
    try:
        obj = codec.decode(body, dict)
    except codec.DecodeError as error:
        raise failures.bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {error}") from error
    if strict and obj.get("kind") and obj["kind"] != resource.kind:
        raise failures.bad_request(
            f"{resource.kind} in version {resource.version!r} cannot be handled as a {resource.kind}: "
            f"no kind {obj['kind']!r} is registered for version {resource.api_version!r}"
        )
    if strict and obj.get("apiVersion") and obj["apiVersion"] != resource.api_version:
        raise failures.bad_request(
            f"the API version in the data ({obj['apiVersion']}) does not match the expected API version ({resource.api_version})"
        )
    return dict(obj)
