"""Which resources the API server serves, read from its aggregated discovery document."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from regroup.kube.meta import View
from regroup.wire.client import Client
from regroup.wire.errors import WireError, api_error
from regroup.wire.resource import Resource
from regroup.wire.transport import Request

ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Served:
    """A resource in one of its versions, and what can be done with it."""

    resource: Resource
    verbs: frozenset[str]

    @property
    def collectable(self) -> bool:
        """Whether its objects can be watched and deleted for want of an owner. Events are not worth it: they expire."""
        return {"delete", "list", "watch"} <= self.verbs and self.resource.plural != "events"

    @property
    def removable(self) -> bool:
        """Whether its objects go with their namespace; events as well."""
        return {"deletecollection", "list"} <= self.verbs


class _ResponseKind(View, frozen=True, gc=False, kw_only=True):
    kind: str = ""


class _Resource(View, frozen=True, gc=False, kw_only=True):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = "Namespaced"
    verbs: tuple[str, ...] | None = None


class _Version(View, frozen=True, gc=False, kw_only=True):
    version: str
    resources: tuple[_Resource, ...] | None = None
    freshness: str = "Current"


class _Name(View, frozen=True, gc=False, kw_only=True):
    name: str = ""


class _Group(View, frozen=True, gc=False, kw_only=True):
    metadata: _Name = _Name()
    versions: tuple[_Version, ...] | None = None


class _GroupList(View, frozen=True, gc=False, kw_only=True):
    kind: str = ""
    items: tuple[_Group, ...] | None = None


@dataclass(frozen=True, slots=True)
class Catalog:
    """All served resources, the versions of a group in the server's order of preference."""

    served: tuple[Served, ...]

    def find(self, *, api_version: str, kind: str) -> Resource | None:
        """The resource that objects of that kind are kept in."""
        for entry in self.served:
            if entry.resource.kind == kind and entry.resource.api_version == api_version:
                return entry.resource
        return None

    def collectable(self) -> tuple[Resource, ...]:
        """Each resource that can be watched and deleted, once, in its preferred version."""
        return _once(entry.resource for entry in self.served if entry.collectable)

    def removable(self) -> tuple[Resource, ...]:
        """Each resource of which all objects of a namespace can be deleted at once, in its preferred version."""
        return _once(entry.resource for entry in self.served if entry.removable)


def _once(resources: Iterable[Resource]) -> tuple[Resource, ...]:
    chosen: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        chosen.setdefault((resource.group, resource.plural), resource)
    return tuple(chosen.values())


async def discover(client: Client) -> Catalog:
    """Read what is served now. Raises ``WireError``; a group whose own server does not answer is an error, not an absence."""
    served: list[Served] = []
    for path in ("/api", "/apis"):
        response = await client.raw(Request("GET", path, headers={"accept": ACCEPT}))
        if response.status != 200:
            raise api_error(response.status, fallback=f"discovery of {path} failed with HTTP {response.status}")
        served += parse(response.body)
    return Catalog(tuple(served))


def parse(document: bytes) -> list[Served]:
    """The resources of an ``APIGroupDiscoveryList``. Raises ``WireError`` for another document, or when a group is stale."""
    groups = msgspec.json.decode(document, type=_GroupList)
    if groups.kind != "APIGroupDiscoveryList":
        raise WireError(f"the server does not serve aggregated discovery: it sent a {groups.kind!r}")
    served: list[Served] = []
    for group in groups.items or ():
        for version in group.versions or ():
            if version.freshness == "Stale":
                raise WireError(f"discovery of {group.metadata.name}/{version.version} is stale")
            for entry in version.resources or ():
                if entry.response_kind is None:
                    continue
                resource = Resource(
                    group.metadata.name,
                    version.version,
                    entry.resource,
                    entry.response_kind.kind,
                    namespaced=entry.scope == "Namespaced",
                )
                served.append(Served(resource, frozenset(entry.verbs or ())))
    return served
