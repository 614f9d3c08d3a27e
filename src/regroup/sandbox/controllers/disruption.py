"""The disruption controller: keeps the status of PodDisruptionBudgets, on which evictions are granted."""

from collections.abc import Iterable, Sequence

from regroup.kube.meta import OwnerReference, View, object_ref
from regroup.kube.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, REPLICASETS, STATEFULSETS
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder, EventType
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.budgets import Budget, expected, failsafe, needs_scale, needs_writing, recheck_after, status
from regroup.sandbox.controllers.discovery import discover
from regroup.sandbox.controllers.informers import NAMESPACE, pod_informer, replica_set_informer
from regroup.sandbox.controllers.selecting import LABELS, Selectors, by_labels, candidates, equal_values
from regroup.sandbox.controllers.views import Pod
from regroup.wire.errors import NotFound, WireError
from regroup.wire.resource import Resource
from regroup.wire.selectors import from_object

NAME = "disruption-controller"
WORKERS = 2

Key = tuple[str, str]

_KNOWN = {
    ("apps/v1", "StatefulSet"): STATEFULSETS,
    ("apps/v1", "Deployment"): DEPLOYMENTS,
    ("apps/v1", "ReplicaSet"): REPLICASETS,
}


class NoScale(Exception):
    """The size that the pods' controllers want cannot be told."""


class _ScaleSpec(View, frozen=True, gc=False, kw_only=True):
    replicas: int = 0


class Scale(View, frozen=True, gc=False, kw_only=True):
    """The subresource ``scale``."""

    spec: _ScaleSpec = _ScaleSpec()


class Disruptions:
    """PodDisruptionBudgets. A key is a budget."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder | None) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._recorder = recorder
        self._budgets = manager.cache.informer(POD_DISRUPTION_BUDGETS, type=Budget)
        self._selectors: Selectors[Key] = Selectors()
        self._budgets.add_handler(self._note)
        self._pods = pod_informer(manager)
        self._pods.store.add_indexer(LABELS, by_labels)
        self._sets = replica_set_informer(manager)
        self.controller: Controller[Key] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS)
        self.controller.watches(self._budgets, _own_key)
        self.controller.watches(self._pods, self._budgets_of_pod)

    async def reconcile(self, key: Key) -> Result:
        """Compute one budget anew."""
        budget = self._budgets.store.get(*key)
        if budget is None:
            return Result()
        now = self._clock.now()
        near = candidates(self._pods.store, key[0], equal_values(budget.spec.selector or {}), otherwise=NAMESPACE)
        pods = [pod for pod in near if _selects(budget, pod)]
        if not pods:
            self._tell(budget, "NoPods", "No matching pods found", type="Normal")
        failure: Exception | None = None
        try:
            scale = await self._scale(pods) if needs_scale(budget) else 0
            body = status(budget, pods, expected(budget, pods, scale), now)
        except NoScale as error:
            why = f"Failed to calculate the number of expected pods: {error}"
            self._tell(budget, "CalculateExpectedPodCountFailed", why, type="Warning")
            body = failsafe(budget, str(error), now)
        except WireError as error:
            body = failsafe(budget, str(error), now)
            failure = error
        if needs_writing(budget, body):
            await self._write(budget, body)
        if failure is not None:
            raise failure
        return Result(requeue_after=recheck_after(budget, pods, now))

    async def _write(self, budget: Budget, body: dict[str, object]) -> None:
        # The version is a precondition: the eviction endpoint counts this status down, and its count must not be lost.
        meta = budget.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": body}
        try:
            await self._client.merge_patch(
                POD_DISRUPTION_BUDGETS, meta.name, patch, namespace=meta.namespace, subresource="status"
            )
        except NotFound:
            return

    async def _scale(self, pods: Sequence[Pod]) -> int:
        """The sum of the sizes that the controllers of ``pods`` want, each counted once."""
        owners: dict[str, OwnerReference] = {}
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None:
                continue  # An unmanaged pod has no size that is wanted.
            rs = self._sets.store.by_uid(owner.uid) if owner.kind == "ReplicaSet" else None
            if rs is not None and rs.metadata.controller is not None:
                owner = rs.metadata.controller
            owners[owner.uid] = owner
        return sum([await self._size(owner, pods[0].metadata.namespace) for owner in owners.values()])

    async def _size(self, owner: OwnerReference, namespace: str) -> int:
        resource = await self._resource(owner)
        try:
            scale = await self._client.get(resource, owner.name, namespace=namespace, subresource="scale", type=Scale)
        except NotFound as error:
            raise NoScale(f"{resource}.{owner.name} does not implement the scale subresource") from error
        return scale.spec.replicas

    async def _resource(self, owner: OwnerReference) -> Resource:
        known = _KNOWN.get((owner.api_version, owner.kind))
        if known is not None:
            return known
        found = (await discover(self._client)).find(api_version=owner.api_version, kind=owner.kind)
        if found is None:
            raise NoScale(f"found no controllers for {owner.kind} {owner.name}")
        return found

    def _tell(self, budget: Budget, reason: str, message: str, *, type: EventType) -> None:
        if self._recorder is not None:
            regarding = object_ref(budget, api_version="policy/v1", kind="PodDisruptionBudget")
            self._recorder.event(regarding, type=type, reason=reason, message=message, action="Sync")

    def _budgets_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        found: dict[Key, None] = {}
        for pod in (change.old, change.new):
            if pod is None:
                continue
            for key in self._selectors.of(pod.metadata.namespace, pod.metadata.labels):
                budget = self._budgets.store.get(*key)
                if budget is not None and _selects(budget, pod):
                    found[key] = None
        return found

    def _note(self, change: Change[Budget]) -> None:
        """Keep who selects what."""
        meta, budget = change.object.metadata, change.new
        key = (meta.namespace, meta.name)
        if budget is not None and budget.spec.selector is not None:
            self._selectors.put(key, namespace=meta.namespace, wanted=equal_values(budget.spec.selector))
        else:
            self._selectors.drop(key)


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:
    """Add the controller to the manager."""
    manager.add_controller(Disruptions(manager, recorder=recorder).controller)


def _selects(budget: Budget, pod: Pod) -> bool:
    """An absent selector matches nothing, an empty one everything in the namespace."""
    if budget.spec.selector is None:
        return False
    try:
        return from_object(budget.spec.selector).matches(pod.metadata.labels)
    except ValueError:
        return False


def _own_key(change: Change[Budget]) -> Iterable[Key]:
    meta = change.object.metadata
    return ((meta.namespace, meta.name),)
