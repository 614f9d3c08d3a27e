"""From a patch request to the object that it asks for. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from regroup.sandbox.apiserver import failures
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.strategic import StrategicError, strategic_merge
from regroup.wire import codec
from regroup.wire.patches import PatchError, apply_json_patch, apply_merge_patch

Obj = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
BUILT_IN_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


def check_type(definition: KindDefinition, content_type: str) -> None:
    """The kind takes patches of that type. Raises ``Failure`` (415)."""
    known = CUSTOM_TYPES if definition.custom else BUILT_IN_TYPES
    if content_type not in known:
        raise failures.unsupported_media_type(known)


def decode_body(body: bytes | None) -> Any:
    """A JSON body. Raises ``Failure`` (400)."""
    try:
        return codec.decode(body or b"", Any)  # type: ignore[arg-type]  # msgspec takes Any as a type
    except codec.DecodeError as error:
        raise failures.bad_request(f"error decoding patch: {error}") from error


def patched(definition: KindDefinition, content_type: str, live: Obj, patch: Any, *, schema: Mapping[str, Any]) -> Obj:
    """``live`` after a JSON, merge or strategic merge patch. Raises ``Failure``."""
    apply = _PATCHES[content_type]
    try:
        result = apply(live, patch, schema)
    except PatchError as error:
        if error.test_failed or content_type == JSON_PATCH:
            details = {"causes": [{"message": str(error)}]}
            raise failures.Failure(
                422, "Invalid", "the server rejected our request due to an error in our request", details=details
            ) from error
        raise failures.bad_request(str(error)) from error
    except StrategicError as error:
        raise failures.bad_request(str(error)) from error
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise failures.bad_request(f"the patch of {definition.resource} gives no object")
    return result


def _json(live: Obj, patch: Any, _: Mapping[str, Any]) -> Any:
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise failures.bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    return apply_json_patch(live, patch)


def _merge(live: Obj, patch: Any, _: Mapping[str, Any]) -> Any:
    if not isinstance(patch, dict):
        raise failures.bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    return apply_merge_patch(live, patch)


def _strategic(live: Obj, patch: Any, schema: Mapping[str, Any]) -> Any:
    if not isinstance(patch, dict):
        raise failures.bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    return strategic_merge(live, patch, schema=schema)


_PATCHES: dict[str, Callable[[Obj, Any, Mapping[str, Any]], Any]] = {
    JSON_PATCH: _json,
    MERGE_PATCH: _merge,
    STRATEGIC_PATCH: _strategic,
}
