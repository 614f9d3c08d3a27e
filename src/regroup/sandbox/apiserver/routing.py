"""What a request asks for: path, verb and the query, taken apart. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from regroup.wire.transport import Request

UNSET = {"false", "0"}


@dataclass(frozen=True, slots=True)
class Target:
    """A resource path: ``/api/v1/namespaces/NS/pods/NAME/status``."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


def parse_path(path: str) -> Target | None:
    """The resource that a path names, or None when it is no resource path (discovery, health)."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])
    return Target(group, version, rest[0], namespace, name, subresource)


def query_of(request: Request) -> dict[str, str]:
    """The query with the last value of each name."""
    return dict(request.query)


def flag(query: Mapping[str, str], name: str) -> bool:
    """A switch is on when it is there with anything but ``false`` and ``0``: Go's conversion of query values."""
    return name in query and query[name].lower() not in UNSET


def verb_of(method: str, target: Target, query: Mapping[str, str]) -> str:
    """Kubernetes' verb: get, list, watch, create, update, patch, delete, deletecollection."""
    match method:
        case "GET":
            if target.name:
                return "get"
            return "watch" if flag(query, "watch") else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if target.name else "deletecollection"
        case _:
            return ""
