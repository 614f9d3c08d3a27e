"""What the server serves, told in both forms that clients ask for, and the documents beside it: version, health, OpenAPI."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from regroup.sandbox.apiserver import failures
from regroup.sandbox.apiserver.forms import JSON
from regroup.sandbox.apiserver.registry import Registry, Served
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.sandbox.kinds.versions import version_rank
from regroup.sandbox.schema.openapi import document
from regroup.wire import codec
from regroup.wire.transport import Request, Response

Obj = dict[str, Any]

CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which custom resources tell them."""
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CHANGES = ("get", "patch", "update")
_HEALTH = frozenset({"healthz", "livez", "readyz"})
_TEXT = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
_AGGREGATED = {
    "v2": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "v2beta1": "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
}
"""Content types by the version of aggregated discovery: Kubernetes 1.36 speaks v2 only, kubectl up to 1.29 asks for v2beta1."""
_SWAGGER_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_SWAGGER_PROTO = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""As it is answered: no media type may have an ``@``, by which clients ask for it."""
_NO_SWAGGER = b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned\x42\x00"
"""The same as ``_openapi_v2`` says in JSON: swagger (field 1), info (2) with title (1) and version (2), paths (8)."""


@dataclass(frozen=True, slots=True)
class _Subresource:
    """One subresource as discovery names it; ``group`` and ``version`` only where they are not the parent's."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class Discovery:
    """Answers every path that is no resource. Documents are made once for each state of the registry."""

    def __init__(self, registry: Registry, *, version: str) -> None:
        self._registry = registry
        self._version = version
        self._made: dict[tuple[str, ...], Response] = {}
        self._revision = -1

    def answer(self, request: Request) -> Response:
        """A discovery document, the version, health or OpenAPI. Raises ``Failure``."""
        parts = tuple(part for part in request.path.split("/") if part)
        if request.method not in {"GET", "HEAD"} and parts[:1] in {("api",), ("apis",), ("version",)}:
            raise failures.method_not_allowed()
        if self._revision != self._registry.revision:
            self._made.clear()
            self._revision = self._registry.revision
        if parts == ("openapi", "v2"):
            return _openapi_v2(request.headers.get("accept", ""))
        aggregated = _wanted(request.headers.get("accept", "")) if parts in {("api",), ("apis",)} else ""
        key = (*parts, aggregated)
        if key not in self._made:
            answer = self._make(parts, aggregated)
            if answer is None:
                return not_a_path()
            self._made[key] = answer
        return self._made[key]

    def knows_group(self, group: str) -> bool:
        """Whether any built-in kind of the group is served: paths of custom groups are not known until a CRD serves them."""
        return any(served.resource.group == group and not served.definition.custom for served in self._registry)

    def _make(self, parts: tuple[str, ...], aggregated: str) -> Response | None:
        match parts:
            case ("version",):
                return _json(_version(self._version))
            case ("api",):
                return self._aggregated(aggregated, core=True) if aggregated else _json(_core_versions())
            case ("apis",):
                return self._aggregated(aggregated, core=False) if aggregated else _json(self._groups())
            case ("api", version):
                return self._resources("", version)
            case ("apis", group):
                return self._group(group)
            case ("apis", group, version):
                return self._resources(group, version)
            case ("openapi", "v3"):
                return self._openapi_index()
            case ("openapi", "v3", "api", version):
                return self._openapi("", version)
            case ("openapi", "v3", "apis", group, version):
                return self._openapi(group, version)
            case ("openapi", *_):
                return None
            case ():
                return _json({"paths": self._paths()})
            case (name, *_) if name in _HEALTH:
                return Response(200, _TEXT, b"ok")
            case _:
                return None

    def _kinds(self, group: str, version: str) -> list[Served]:
        found = [served for served in self._registry if (served.resource.group, served.resource.version) == (group, version)]
        return sorted(found, key=lambda served: served.resource.plural)

    def _versions(self) -> dict[str, list[str]]:
        """Versions by group, the preferred first; groups in the order of their registration, the core group first."""
        versions: dict[str, list[str]] = {"": ["v1"]}
        for served in self._registry:
            known = versions.setdefault(served.resource.group, [])
            if served.resource.version not in known:
                known.append(served.resource.version)
        return {group: sorted(known, key=version_rank) for group, known in versions.items()}

    def _groups(self) -> Obj:
        groups = [_group(name, versions) for name, versions in self._versions().items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, name: str) -> Response | None:
        versions = self._versions().get(name)
        return _json({"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}) if name and versions else None

    def _resources(self, group: str, version: str) -> Response | None:
        kinds = self._kinds(group, version)
        if not kinds:
            if group and not self.knows_group(group):
                return None
            raise failures.no_such_path()
        entries = [entry for served in kinds for entry in _legacy(served.definition)]
        head: Obj = {"kind": "APIResourceList"} if not group else {"kind": "APIResourceList", "apiVersion": "v1"}
        return _json({**head, "groupVersion": f"{group}/{version}" if group else version, "resources": entries})

    def _aggregated(self, form: str, *, core: bool) -> Response:
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated(served.definition) for served in self._kinds(group, version)],
                        "freshness": "Current",
                    }
                    for version in versions
                ],
            }
            for group, versions in self._versions().items()
            if core is (group == "")
        ]
        body = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{form}", "metadata": {}, "items": items}
        return Response(200, {"content-type": _AGGREGATED[form], "vary": "Accept"}, codec.encode(body))

    def _openapi(self, group: str, version: str) -> Response | None:
        kinds = self._kinds(group, version)
        if not kinds:
            return None
        return _json(document([served.definition for served in kinds]))

    def _openapi_index(self) -> Response:
        paths: Obj = {}
        for group, versions in self._versions().items():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                # Clients keep documents by their hash, so it has to tell the content.
                answer = self._openapi(group, version)
                digest = hashlib.sha256(answer.body).hexdigest().upper() if answer else ""
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return _json({"paths": paths})

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
        for group, versions in self._versions().items():
            if group:
                paths += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        return sorted(paths)


def not_a_path() -> Response:
    """The answer to a path that nothing is registered at."""
    return Response(404, _TEXT, b"404 page not found\n")


def _wanted(accept: str) -> str:
    """The version of aggregated discovery that a client takes first, empty for the legacy form."""
    for entry in accept.split(","):
        media, *parameters = (part.strip() for part in entry.split(";"))
        wanted = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media == "application/json" and wanted.get("as") == "APIGroupDiscoveryList" and wanted.get("v") in _AGGREGATED:
            return wanted["v"]
        if media in {"application/json", "*/*"} and "as" not in wanted:
            return ""
    return ""


def _openapi_v2(accept: str) -> Response:
    """A document of OpenAPI v2 that describes nothing. kubectl asks for it about kinds that v3 does not have: only when there
    is a document does it go on to say that the kind is unknown and its definition may have to be installed first."""
    if _SWAGGER_ASKED in accept:
        return Response(200, {"content-type": _SWAGGER_PROTO}, _NO_SWAGGER)
    return _json({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "unversioned"}, "paths": {}})


def _json(body: Obj) -> Response:
    return Response(200, JSON, codec.encode(body))


def _version(version: str) -> Obj:
    major, _, minor = version.partition(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}.0+regroup-sandbox",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def _core_versions() -> Obj:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group(name: str, versions: Sequence[str]) -> Obj:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _verbs(definition: KindDefinition) -> tuple[str, ...]:
    if definition.resource.plural == "namespaces" and not definition.resource.group:
        return tuple(verb for verb in VERBS if verb != "deletecollection")
    return CUSTOM_VERBS if definition.custom else VERBS


def _subresources(definition: KindDefinition) -> Iterable[_Subresource]:
    kind = definition.resource.kind
    key = (definition.resource.group, definition.resource.plural)
    if key == ("", "pods"):
        yield _Subresource("binding", "Binding", ("create",))
        yield _Subresource("eviction", "Eviction", ("create",), "policy", "v1")
        yield _Subresource("log", kind, ("get",))
    if key == ("", "namespaces"):
        yield _Subresource("finalize", kind, ("update",))
    if definition.scale:
        yield _Subresource("scale", "Scale", _CHANGES, "autoscaling", "v1")
    if definition.status:
        yield _Subresource("status", kind, _CHANGES)


def _aggregated(definition: KindDefinition) -> Obj:
    resource = definition.resource
    # Built-in kinds leave group and version to be taken from where they stand; custom ones name them.
    own = (resource.group, resource.version) if definition.custom else ("", "")
    entry: Obj = {
        "resource": resource.plural,
        "responseKind": _kind(resource.kind, *own),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": definition.singular,
        "verbs": list(_verbs(definition)),
    }
    if definition.short_names:
        entry["shortNames"] = list(definition.short_names)
    if definition.categories:
        entry["categories"] = list(definition.categories)
    subresources = [
        {
            "subresource": sub.name,
            "responseKind": _kind(sub.kind, *((sub.group, sub.version) if sub.group else own)),
            "verbs": list(sub.verbs),
        }
        for sub in _subresources(definition)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry


def _kind(kind: str, group: str, version: str) -> Obj:
    return {"group": group, "version": version, "kind": kind}


def _legacy(definition: KindDefinition) -> Iterable[Obj]:
    resource = definition.resource
    entry: Obj = {
        "name": resource.plural,
        "singularName": definition.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(_verbs(definition)),
    }
    if definition.short_names:
        entry["shortNames"] = list(definition.short_names)
    if definition.categories:
        entry["categories"] = list(definition.categories)
    entry["storageVersionHash"] = _storage_hash(definition)
    yield entry
    for sub in _subresources(definition):
        where = {"group": sub.group, "version": sub.version} if sub.group else {}
        yield {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **where,
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }


def _storage_hash(definition: KindDefinition) -> str:
    """A short text that changes when objects are stored in another form."""
    resource = definition.resource
    text = f"{resource.group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
