"""Bodies of requests: JSON, YAML or protobuf, as one object of the kind that the path names."""

from collections.abc import Callable
from typing import Any

from regroup.sandbox.apiserver import failures
from regroup.sandbox.apiserver.media import JSON, PROTOBUF, SCHEME, YAML, check_size, media_type, why_not_json
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.protobuf import ProtobufError, decode_protobuf
from regroup.sandbox.schema.errors import FieldError
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.transport import Request
from regroup.wire.yamlish import YamlError, load_documents

Obj = dict[str, Any]


def read_object(request: Request, definition: KindDefinition, *, known: Callable[[str, str], bool]) -> Obj:
    """The object of the path's own kind in the body. Raises ``Failure`` for another kind or version.

    ``known`` tells whether there is a kind of an API version and a name.
    """
    resource = definition.resource
    obj = _decoded(request, resource)
    if definition.custom:
        _check_custom(request, resource, obj)
    else:
        _check_built_in(resource, obj, known=known)
    return obj


def _check_built_in(resource: Resource, obj: Obj, *, known: Callable[[str, str], bool]) -> None:
    kind, version = obj.get("kind") or resource.kind, obj.get("apiVersion") or resource.api_version
    if (kind, version) == (resource.kind, resource.api_version):
        return
    short = str(version).rpartition("/")[2]
    if known(version, kind):
        group = resource.group.partition(".")[0] or "core"
        why = f"converting ({short}.{kind}) to ({group}.{resource.kind}): unknown conversion"
    else:
        why = f'no kind "{kind}" is registered for version "{version}" in scheme "{SCHEME}"'
    raise failures.bad_request(f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {why}')


def _check_custom(request: Request, resource: Resource, obj: Obj) -> None:
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if not kind:
        text = (request.body or b"").decode(errors="replace")
        shown = text if len(text) <= 30 else f"{text[:30]} ..."
        raise failures.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"Object 'Kind' is missing in '{text}' ({shown})"
        )
    if version != resource.api_version:
        version = version or ""
        raise failures.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if kind != resource.kind:
        error = FieldError("kind", "Invalid", kind, f"must be {resource.kind}")
        raise failures.invalid(resource, (obj.get("metadata") or {}).get("name", ""), [error], kind=str(kind))


def read_other(request: Request, resource: Resource, *, known: Callable[[str, str], bool]) -> Obj:
    """The object in the body of a subresource that has a kind of its own, as it comes. Raises ``Failure``."""
    obj = _decoded(request, resource)
    _check_built_in(resource, obj, known=known)
    return obj


def _decoded(request: Request, resource: Resource) -> Obj:
    body = request.body or b""
    check_size(body)
    content_type = media_type(request)
    try:
        if content_type in {"", "*/*", JSON}:
            return dict(codec.decode(body, dict))
        if content_type == PROTOBUF:
            return decode_protobuf(body)
        if content_type == YAML:
            return _yaml(body)
    except codec.DecodeError as error:
        raise failures.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"couldn't get version/kind; json parse error: {_shown(why_not_json(error), body)}"
        ) from error
    except (ProtobufError, YamlError) as error:
        raise failures.bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {error}") from error
    raise failures.unsupported_media_type((JSON, YAML, PROTOBUF))


def _shown(why: str, body: bytes) -> str:
    """The parser's complaint; one about an early end shows what there was."""
    if not why.startswith("unexpected end"):
        return why
    text = body.decode(errors="replace")
    return f"{why} ({text[:30] + ' ...' if len(text) > 30 else text or '<empty>'})"


def _yaml(body: bytes) -> Obj:
    documents = load_documents(body.decode(errors="replace"))
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise YamlError("one object is wanted")
    return documents[0]
