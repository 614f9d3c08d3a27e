"""EndpointSlices as the drain evidence needs them (spec/omenative.md 2.5). Pure."""

from collections.abc import Iterable, Mapping, Sequence

from regroup.kube.meta import ObjectRef, ObjectView, View
from regroup.omenative.view import Routing

SERVICE_NAME = "kubernetes.io/service-name"


class EndpointConditions(View, frozen=True, gc=False, kw_only=True):
    """``endpoints[].conditions``. An absent value is unknown."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(View, frozen=True, gc=False, kw_only=True):
    """``endpoints[]``."""

    conditions: EndpointConditions | None = None
    target_ref: ObjectRef | None = None

    @property
    def ready(self) -> bool:
        """A missing value counts as ready (2.5)."""
        return self.conditions is None or self.conditions.ready is not False


class EndpointSlice(ObjectView, frozen=True, gc=False, kw_only=True):
    """An EndpointSlice."""

    endpoints: tuple[Endpoint, ...] | None = None

    @property
    def service(self) -> str:
        return self.metadata.labels.get(SERVICE_NAME, "")

    def targets(self, *, ready_only: bool) -> Iterable[str]:
        """UIDs of the pods that are listed; names where a target has no UID."""
        for endpoint in self.endpoints or ():
            if endpoint.target_ref is not None and (endpoint.ready or not ready_only):
                yield endpoint.target_ref.uid or endpoint.target_ref.name


def by_service(slices: Iterable[EndpointSlice]) -> Mapping[str, Sequence[EndpointSlice]]:
    """Slices by the name of their Service."""
    found: dict[str, list[EndpointSlice]] = {}
    for one in slices:
        found.setdefault(one.service, []).append(one)
    return found


def routing(slices: Sequence[EndpointSlice], *, service_exists: bool) -> Routing:
    """What the slices of one routed Service say."""
    ready = frozenset(uid for one in slices for uid in one.targets(ready_only=True))
    return Routing(service_exists=service_exists, slices=len(slices), ready_pods=ready)
