"""Which kinds are served now: the built-in ones, and those that CRDs add. Pure bookkeeping."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from regroup.sandbox.kinds.definition import KindDefinition
from regroup.wire.resource import Resource

Obj = dict[str, Any]


def _same(obj: Obj) -> Obj:
    return obj


@dataclass(frozen=True, slots=True)
class Served:
    """One kind at one version, and how it is stored when that is another form."""

    definition: KindDefinition
    stored_as: Resource
    to_stored: Callable[[Obj], Obj] = _same
    from_stored: Callable[[Obj], Obj] = _same

    @property
    def converted(self) -> bool:
        return self.from_stored is not _same

    @property
    def resource(self) -> Resource:
        return self.definition.resource


class Registry:
    """Kinds by group, version and plural."""

    def __init__(self, built_in: Iterable[Served]) -> None:
        self._kinds: dict[tuple[str, str, str], Served] = {}
        self.revision = 0
        """Grows with every change, for whoever keeps documents made from it."""
        for served in built_in:
            self.add(served)

    def add(self, served: Served) -> None:
        resource = served.resource
        self._kinds[resource.group, resource.version, resource.plural] = served
        self.revision += 1

    def remove(self, resource: Resource) -> None:
        self._kinds.pop((resource.group, resource.version, resource.plural), None)
        self.revision += 1

    def get(self, group: str, version: str, plural: str) -> Served | None:
        return self._kinds.get((group, version, plural))

    def knows(self, api_version: str, kind: str) -> bool:
        """Whether an object's ``apiVersion`` and ``kind`` are served."""
        resources = (served.resource for served in self._kinds.values())
        return any(resource.api_version == api_version and resource.kind == kind for resource in resources)

    def __iter__(self) -> Iterator[Served]:
        return iter(tuple(self._kinds.values()))
