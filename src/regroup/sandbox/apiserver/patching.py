"""From a patch request to the object that it asks for. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from regroup.sandbox.apiserver import failures
from regroup.sandbox.apiserver.media import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, check_size, why_not_json
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.strategic import StrategicError, strategic_merge
from regroup.wire import codec
from regroup.wire.patches import PatchError, apply_json_patch, apply_merge_patch
from regroup.wire.resource import Resource
from regroup.wire.yamlish import YamlError, load_documents

Obj = dict[str, Any]

BUILT_IN_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


def check_type(definition: KindDefinition, content_type: str) -> None:
    """The kind takes patches of that type. Raises ``Failure`` (415)."""
    if content_type not in BUILT_IN_TYPES:
        raise failures.unsupported_media_type()
    if definition.custom and content_type not in CUSTOM_TYPES:
        raise failures.unsupported_media_type(CUSTOM_TYPES)


def decode_patch(content_type: str, body: bytes | None) -> Any:
    """A JSON, merge or strategic merge patch. Raises ``Failure`` (400)."""
    check_size(body)
    try:
        return codec.decode(body or b"", Any)
    except codec.DecodeError as error:
        what = "" if content_type == STRATEGIC_PATCH else "error decoding patch: "
        raise failures.bad_request(f"{what}{why_not_json(error)}") from error


def decode_configuration(body: bytes | None, resource: Resource) -> Obj:
    """The configuration of an apply patch: YAML, of which JSON is a part. Raises ``Failure`` (400)."""
    check_size(body)
    text = body or b""
    try:
        configuration: Any = codec.decode(text, Any)
    except codec.DecodeError:
        try:
            documents = load_documents(text.decode(errors="replace"))
        except YamlError as error:
            raise failures.bad_request(f"error decoding YAML: {error}") from error
        configuration = documents[0] if len(documents) == 1 else None
    if not isinstance(configuration, dict):
        found = "array" if isinstance(configuration, list) else "string" if isinstance(configuration, str) else "number"
        raise failures.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{found} into Go value of type map[string]interface {{}}"
        )
    group, _, version = str(configuration.get("apiVersion") or "").rpartition("/")
    if (group, version, configuration.get("kind")) != (resource.group, resource.version, resource.kind):
        raise failures.bad_request(f"invalid object type: {group}/{version}, Kind={configuration.get('kind', '')}")
    if (configuration.get("metadata") or {}).get("managedFields"):
        raise failures.bad_request("metadata.managedFields must be nil")
    return configuration


def patched(definition: KindDefinition, content_type: str, live: Obj, patch: Any, *, schema: Mapping[str, Any]) -> Obj:
    """``live`` after a JSON, merge or strategic merge patch. Raises ``Failure``."""
    apply = _PATCHES[content_type]
    try:
        result = apply(live, patch, schema)
    except PatchError as error:
        if content_type == JSON_PATCH:
            message = "the server rejected our request due to an error in our request"
            raise failures.Failure(422, "Invalid", message, details={}) from error
        raise failures.bad_request(str(error)) from error
    except StrategicError as error:
        raise failures.Failure(error.code, "BadRequest" if error.code == 400 else "", str(error)) from error
    if not isinstance(result, dict):
        raise failures.bad_request(f"the patch of {definition.resource} gives no object")
    return result


def _json(live: Obj, patch: Any, _: Mapping[str, Any]) -> Any:
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise failures.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    return apply_json_patch(live, patch, lenient=True)


def _merge(live: Obj, patch: Any, _: Mapping[str, Any]) -> Any:
    if patch is None:
        raise failures.bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        found = "array" if isinstance(patch, list) else "string" if isinstance(patch, str) else "number"
        raise failures.bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
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
