"""The ``scale`` subresource: ``autoscaling/v1`` Scale over objects that have replicas."""

from collections.abc import Callable
from typing import Any

from regroup.sandbox.apiserver import failures, forms, patching
from regroup.sandbox.apiserver.bodies import read_other
from regroup.sandbox.apiserver.media import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, media_type
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.storage import Stored
from regroup.sandbox.apiserver.writing import WriteContext, Writer
from regroup.sandbox.kinds.builder import built_in
from regroup.sandbox.kinds.columns import AGE, NAME, cell, number
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.schema.errors import FieldError
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.transport import Request, Response

Obj = dict[str, Any]

Known = Callable[[str, str], bool]
"""Whether there is a kind of an API version and a name."""
SCALES = Resource("autoscaling", "v1", "scale", "Scale")
DEFINITION = built_in(
    SCALES,
    columns=(
        NAME,
        cell("Desired", number("spec.replicas"), "Replicas wanted.", type="integer"),
        cell("Available", number("status.replicas"), "Replicas that exist.", type="integer"),
        AGE,
    ),
)
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def get_scale(served: Served, stored: Stored, form: forms.Form) -> Response:
    """The Scale of an object. Raises ``Failure``."""
    scale = scale_of(served.definition, served.from_stored(stored.obj))
    return form.object(Served(DEFINITION, SCALES), Stored(scale, stored.version, codec.encode(scale)))


async def set_scale(writer: Writer, context: WriteContext, stored: Stored, request: Request, *, known: Known) -> Response:
    """Write the replicas of an object. Raises ``Failure``."""
    served, name = context.served, context.target.name
    live = served.from_stored(stored.obj)
    wanted = _wanted(request, served.definition, _scale(served.definition, live), known=known)
    said = (wanted.get("metadata") or {}).get("name")
    if said != name:
        raise failures.bad_request(f"the name of the object ({said or ''}) does not match the name on the URL ({name})")
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    if version and version != live["metadata"]["resourceVersion"]:
        raise failures.stale(served.resource, name)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        error = FieldError("spec.replicas", "Invalid", replicas, "must be greater than or equal to 0")
        raise failures.invalid(SCALES, name, [error])
    path, _, _ = _paths(served.definition)
    written = await writer.update(context, _with(live, path, replicas))
    return _answer(served, served.from_stored(written.stored.obj))


def scale_of(definition: KindDefinition, obj: Obj) -> Obj:
    """The Scale that an object shows. Raises ``Failure`` (500) for a custom object that says nothing of replicas."""
    replicas, _, _ = _paths(definition)
    if definition.custom and _at(obj, replicas) is None:
        why = f'the spec replicas field "{replicas}" does not exist'
        message = f"Internal error occurred: {why}"
        raise failures.Failure(500, "InternalError", message, details={"causes": [{"message": why}]})
    return _scale(definition, obj)


def _scale(definition: KindDefinition, obj: Obj) -> Obj:
    replicas, actual, selector = _paths(definition)
    meta = obj["metadata"]
    status: Obj = {"replicas": _at(obj, actual) or 0}
    text = _at(obj, selector) if selector else _selector_text(obj)
    if text:
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": SCALES.api_version,
        "metadata": {name: meta[name] for name in _SHOWN if name in meta},
        "spec": {"replicas": count} if (count := _at(obj, replicas)) else {},
        "status": status,
    }


def _wanted(request: Request, definition: KindDefinition, scale: Obj, *, known: Known) -> Obj:
    if request.method == "PUT":
        wanted = read_other(request, SCALES, known=known)
    else:
        content_type = media_type(request)
        taken = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)
        if content_type not in taken:
            raise failures.unsupported_media_type(taken)
        wanted = patching.patched(definition, content_type, scale, patching.decode_patch(content_type, request.body), schema={})
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        kind = "string" if isinstance(replicas, str) else type(replicas).__name__
        why = f"json: cannot unmarshal {kind} into Go struct field ScaleSpec.spec.replicas of type int32"
        if request.method == "PATCH":
            raise failures.undecodable_patch(codec.encode(wanted).decode(), why)
        raise failures.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {why}')
    return wanted


def _answer(served: Served, obj: Obj) -> Response:
    return Response(200, forms.JSON, codec.encode(scale_of(served.definition, obj)))


def _paths(definition: KindDefinition) -> tuple[str, str, str]:
    if definition.scale is None:
        raise ValueError(f"{definition.resource} cannot be scaled")
    return definition.scale


def _selector_text(obj: Obj) -> str:
    selector = (obj.get("spec") or {}).get("selector") or {}
    found = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    found += [(entry["key"], _expression(entry)) for entry in selector.get("matchExpressions") or []]
    return ",".join(text for _, text in sorted(found, key=lambda entry: entry[0]))


def _expression(entry: Obj) -> str:
    values = ",".join(sorted(entry.get("values") or []))
    match entry["operator"]:
        case "In":
            return f"{entry['key']} in ({values})"
        case "NotIn":
            return f"{entry['key']} notin ({values})"
        case "Exists":
            return str(entry["key"])
        case _:
            return f"!{entry['key']}"


def _at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _with(obj: Obj, path: str, value: Any) -> Obj:
    head, _, rest = path.strip(".").partition(".")
    return {**obj, head: _with(obj.get(head) or {}, rest, value) if rest else value}
