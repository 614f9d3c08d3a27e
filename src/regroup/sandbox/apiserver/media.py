"""Media types of requests, and how large a body may be. Pure."""

from regroup.sandbox.apiserver.failures import Failure
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


def media_type(request: Request) -> str:
    """The content type without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip()


def check_size(body: bytes | None) -> None:
    """Raises ``Failure`` (413) for a body that is too large."""
    if body is not None and len(body) > BODY_LIMIT:
        raise Failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}", details={})
