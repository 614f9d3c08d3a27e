"""One pass over one InferenceService: resolve its components, keep their InferenceReplicas, Services, budgets; write its status.

A component that cannot be resolved, or whose name is taken, leaves what runs as it is and stops no other component
(spec/omenative.md 1.2, 1.3). Rows and pods are the InferenceReplica controller's.
"""

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from regroup.kube.meta import HasMeta, object_ref
from regroup.kube.resources import POD_DISRUPTION_BUDGETS, SERVICES
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.types import InferenceService
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.controller import belongings
from regroup.omenative.controller.belongings import NameTaken, controlled
from regroup.omenative.controller.projections import Projection, Projections
from regroup.omenative.controller.service_statuses import ServiceStatuses
from regroup.omenative.controller.service_stores import BY_SERVICE, ServiceKey, ServiceStores
from regroup.omenative.keys import COMPONENTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, ROUTER
from regroup.omenative.names import replica_name, stable_service
from regroup.omenative.objects import exposure
from regroup.omenative.objects.applied import stands
from regroup.omenative.service import readiness
from regroup.omenative.service.readiness import ComponentState
from regroup.omenative.service.resolve import REPLICA_REFUSED, Trouble
from regroup.runtime.clock import Clock
from regroup.runtime.controller import Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.runtime.store import Store
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from regroup.wire.resource import Resource

NAME_TAKEN = "NameTaken"
REPLICA_TERMINATING = "ReplicaTerminating"
FAILED_CREATE = "FailedCreate"

_BEHIND = 0.5
"""Seconds until another look where our own last writes do not show in the cache yet; their events come sooner."""
_AGAIN = 10.0
"""Seconds until another look while something stands in the way whose end we may not see."""
_MESSAGE_LIMIT = 1024


class ServicePasses:
    """The InferenceService controller's pass."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        stores: ServiceStores,
        live: Callable[[], LiveSettings],
        expectations: Expectations[ServiceKey],
        recorder: EventRecorder,
        statuses: ServiceStatuses,
    ) -> None:
        self._client = client
        self._clock = clock
        self._stores = stores
        self._live = live
        self._expectations = expectations
        self._recorder = recorder
        self._statuses = statuses
        self._projections = Projections()
        self._log = structlog.get_logger("omenative.service")

    async def look(self, key: ServiceKey) -> Result:
        """One pass. Raises ``WireError`` for what must be tried again with back-off."""
        service = self._stores.services.get(*key)
        if service is None:
            self._forget(key)
            return Result()
        if service.metadata.deleting:
            return Result()  # garbage collection tells the replicas, whose finalizers see to the pods (5.7)
        if not self._expectations.satisfied(key):
            return Result(requeue_after=_BEHIND)
        live = self._live()
        sources = self._stores.sources(service)
        states: dict[str, ComponentState] = {}
        errors: list[ApiError] = []
        for name in service.spec.declared:
            projection = self._projections.of(service, name, sources=sources, live=live)
            try:
                states[name] = await self._component(service, name, projection)
            except ApiError as error:
                self._log.warning("a component was not kept", service=service.metadata.key, component=name, error=str(error))
                errors.append(error)
                states[name] = ComponentState(self._live_replica(service, name))
        await self._remove_undeclared(service)
        again = await self._report(service, states, live)
        if errors:
            raise errors[0]
        stuck = any(state.trouble is not None and state.trouble.reason in _IN_THE_WAY for state in states.values())
        stuck = stuck or not all(state.exposed for state in states.values())
        return Result(requeue_after=min(again or _AGAIN, _AGAIN) if stuck else again)

    # -- components

    async def _component(self, service: InferenceService, name: str, projection: Projection) -> ComponentState:
        if isinstance(projection.found, Trouble):
            return ComponentState(self._live_replica(service, name), projection.found)
        there = self._stores.replicas.get(service.namespace, replica_name(service.name, name))
        if there is not None and not _ours(service, there):
            return ComponentState(None, _taken(there))
        if there is not None and there.metadata.deleting:
            return ComponentState(None, _terminating(there))
        try:
            replica = await self._keep_replica(service, projection, there)
        except AlreadyExists:
            # Not in our cache yet, which will show whose it is.
            return ComponentState(None, Trouble(NAME_TAKEN, f"InferenceReplica {replica_name(service.name, name)} exists"))
        except (Invalid, Forbidden) as error:
            # The API server does not want it, and will not until something changes: told, and the others go on.
            message = f"InferenceReplica was not written: {error}"
            return ComponentState(there, Trouble(REPLICA_REFUSED, message[:_MESSAGE_LIMIT]))
        exposed = await self._keep_exposure(service, replica, projection)
        return ComponentState(replica, exposed=exposed)

    async def _keep_replica(
        self, service: InferenceService, projection: Projection, there: InferenceReplica | None
    ) -> InferenceReplica:
        """The replica as it is after the pass; written only when it says something else."""
        if there is None:
            made = await self._client.create(
                INFERENCE_REPLICAS, projection.wanted, namespace=service.namespace, type=InferenceReplica
            )
            self._expectations.expect_created(_key(service), uid=made.metadata.uid, by_uid=self._stores.replicas.by_uid)
            return made
        changes = projection.patch(there)
        if changes is None:
            return there
        # Another replica of that name is not ours to change. Whatever else was written meanwhile, our fields are ours.
        metadata = changes.setdefault("metadata", {})
        metadata["uid"] = there.metadata.uid
        if "finalizers" in metadata or "ownerReferences" in metadata:
            # A whole list is written: what somebody else puts on it meanwhile is not to be lost.
            metadata["resourceVersion"] = there.metadata.resource_version
        try:
            written = await self._client.merge_patch(
                INFERENCE_REPLICAS, there.name, changes, namespace=service.namespace, type=InferenceReplica
            )
        except (Conflict, NotFound) as error:
            self._log.info("a replica changed hands", replica=there.metadata.key, error=str(error))
            return there
        self._expect_version(service, written, self._stores.replicas)
        return written

    async def _keep_exposure(self, service: InferenceService, replica: InferenceReplica, projection: Projection) -> bool:
        """The stable Service and the disruption budget (2.5, 2.6); False where a name of theirs is somebody else's."""
        stores: dict[Resource, Store[Any]] = {SERVICES: self._stores.stable, POD_DISRUPTION_BUDGETS: self._stores.budgets}
        exposed = projection.exposure(replica)
        kept = [await self._keep(service, replica, resource, body, stores[resource]) for resource, body in exposed]
        if any(resource == POD_DISRUPTION_BUDGETS for resource, _ in exposed):
            return all(kept)
        there = self._stores.budgets.get(service.namespace, stable_service(replica.name))
        if there is not None and controlled(replica, there) and not there.metadata.deleting:
            await self._delete(service, POD_DISRUPTION_BUDGETS, there, self._stores.budgets)
        return all(kept)

    async def _keep(
        self,
        service: InferenceService,
        replica: InferenceReplica,
        resource: Resource,
        body: Mapping[str, Any],
        store: Store[Any],
    ) -> bool:
        name = body["metadata"]["name"]
        there: HasMeta | None = store.get(service.namespace, name)
        if there is not None and controlled(replica, there) and (stands(there, body) or there.metadata.deleting):
            return True
        try:
            if there is None:
                made = await belongings.create(self._client, resource, body, replica=replica)
                self._expectations.expect_created(_key(service), uid=made.metadata.uid, by_uid=store.by_uid)
                return True
            written = await belongings.change(self._client, resource, body, there=there, replica=replica)
        except NameTaken as taken:
            if not taken.leftover:
                self._tell(service, FAILED_CREATE, str(taken))
            return False
        except (Conflict, NotFound) as error:
            self._log.info("an object changed hands", object=f"{resource.kind} {name}", error=str(error))
            return True
        self._expect_version(service, written, store)
        return True

    async def _remove_undeclared(self, service: InferenceService) -> None:
        """Replicas of components that the service does not declare any more go; their finalizers drain them first (5.7)."""
        declared = set(service.spec.declared)
        for replica in self._stores.replicas.index(BY_SERVICE, f"{service.namespace}/{service.name}"):
            gone = replica.spec.component in COMPONENTS and replica.spec.component not in declared
            if gone and controlled(service, replica) and not replica.metadata.deleting:
                await self._delete(service, INFERENCE_REPLICAS, replica, self._stores.replicas)

    async def _delete(self, service: InferenceService, resource: Resource, there: HasMeta, store: Store[Any]) -> None:
        meta = there.metadata
        try:
            await self._client.delete(resource, meta.name, namespace=meta.namespace, uid=meta.uid, propagation="Background")
        except (NotFound, Conflict):
            return
        self._expectations.expect_deleted(_key(service), uid=meta.uid, by_uid=store.by_uid)

    # -- status

    async def _report(self, service: InferenceService, states: Mapping[str, ComponentState], live: LiveSettings) -> float | None:
        status = readiness.service_status(service, states, live=live, url=_url(service, states), now=self._clock.now())
        return await self._statuses.write(service, status, states)

    def _live_replica(self, service: InferenceService, name: str) -> InferenceReplica | None:
        found = self._stores.replicas.get(service.namespace, replica_name(service.name, name))
        return found if found is not None and _ours(service, found) else None

    def _expect_version(self, service: InferenceService, written: HasMeta, store: Store[Any]) -> None:
        meta = written.metadata
        self._expectations.expect_version(
            _key(service), uid=meta.uid, resource_version=meta.resource_version, by_uid=store.by_uid
        )

    def _tell(self, service: InferenceService, reason: str, message: str) -> None:
        reference = object_ref(service, api_version=INFERENCE_SERVICES.api_version, kind=INFERENCE_SERVICES.kind)
        self._recorder.event(reference, type="Warning", reason=reason, message=message, action=reason)

    def _forget(self, key: ServiceKey) -> None:
        namespace, name = key
        self._expectations.forget(key)
        self._statuses.forget(key)
        self._projections.forget(namespace, name)


_IN_THE_WAY = frozenset({NAME_TAKEN, REPLICA_TERMINATING, REPLICA_REFUSED})


def _key(service: InferenceService) -> ServiceKey:
    return (service.namespace, service.name)


def _ours(service: InferenceService, replica: InferenceReplica) -> bool:
    """Whether a replica belongs to ``service``. One that says so and was left without a controller is taken in again."""
    parent = replica.spec.parent_ref
    orphaned = replica.metadata.controller is None and parent is not None and parent.name == service.name
    return orphaned or controlled(service, replica)


def _taken(there: InferenceReplica) -> Trouble:
    owner = there.metadata.controller
    if there.metadata.deleting:
        return _terminating(there)
    whose = f"{owner.kind} {owner.name}" if owner is not None else "nobody"
    return Trouble(NAME_TAKEN, f"InferenceReplica {there.name} exists and belongs to {whose}: it is left as it is")


def _terminating(there: InferenceReplica) -> Trouble:
    return Trouble(REPLICA_TERMINATING, f"InferenceReplica {there.name} is being deleted: it is made again once it is gone")


def _url(service: InferenceService, states: Mapping[str, ComponentState]) -> str:
    """Where clients inside the cluster reach it: the router, else the first component."""
    names = [ROUTER] if ROUTER in states else list(states)
    replica = states[names[0]].replica if names else None
    if replica is None:
        return service.status.url or ""
    [port, *_] = exposure.stable_service(replica, leaders_only=False)["spec"]["ports"]
    suffix = "" if port["port"] == 80 else f":{port['port']}"
    return f"http://{stable_service(replica.name)}.{service.namespace}.svc.cluster.local{suffix}"
