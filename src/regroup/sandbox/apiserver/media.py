"""Media types of requests, and how large a body may be. Pure."""

from regroup.sandbox.apiserver.failures import Failure
from regroup.wire.codec import DecodeError
from regroup.wire.transport import Request

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes that an API server takes."""
SCHEME = "pkg/runtime/scheme.go:111"
"""What Kubernetes 1.36 calls its table of kinds in messages."""


def media_type(request: Request) -> str:
    """The content type without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip()


def why_not_json(error: DecodeError) -> str:
    """What is wrong with a body, without what our own codec says in front."""
    text = str(error).removeprefix("cannot decode the answer: ")
    return "unexpected end of JSON input" if text == "Input data was truncated" else text


def check_size(body: bytes | None) -> None:
    """Raises ``Failure`` (413) for a body that is too large."""
    if body is not None and len(body) > BODY_LIMIT:
        raise Failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}", details={})
