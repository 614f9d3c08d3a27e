"""The ReplicaSet controller: observe, plan, act. What is to be done is decided in ``deploying.replicas``."""

from collections.abc import Iterable, Sequence
from functools import partial

from regroup.kube.meta import object_ref, owner_reference
from regroup.kube.resources import PODS, REPLICASETS
from regroup.runtime.controller import Controller, Result, TerminalError
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.batches import slow_start
from regroup.sandbox.controllers.claiming import adoption_patch, claim, release_patch
from regroup.sandbox.controllers.deploying.replicas import (
    API_VERSION,
    KIND,
    ReplicaPlan,
    ReplicaSet,
    build_pod,
    needs_writing,
    plan,
    recheck_after,
    status,
)
from regroup.sandbox.controllers.informers import (
    CONTROLLER,
    NAMESPACE,
    ORPHANS,
    STALE_RECHECK,
    pod_informer,
    replica_set_informer,
)
from regroup.sandbox.controllers.views import Pod, labels_equal
from regroup.wire.errors import Conflict, NotFound, WireError
from regroup.wire.selectors import LabelSelector, from_object

NAME = "replicaset-controller"
WORKERS = 5

Key = tuple[str, str]


class ReplicaSets:
    """ReplicaSets and their pods. A key is a set."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder | None) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._recorder = recorder
        self._sets = replica_set_informer(manager)
        self._pods = pod_informer(manager)
        self._expectations: Expectations[Key] = Expectations(clock=manager.clock)
        self.controller: Controller[Key] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS)
        self.controller.watches(self._sets, _own_key)
        self.controller.watches(self._pods, self._keys_of_pod)

    async def reconcile(self, key: Key) -> Result:
        """One pass over a set."""
        rs = self._sets.store.get(*key)
        if rs is None:
            self._expectations.forget(key)
            return Result()
        if not self._expectations.satisfied(key):
            # Names are made by the server, so a pass on a cache without our last pods would make them again.
            return Result(requeue_after=STALE_RECHECK)
        try:
            selector = from_object(rs.spec.selector or {})
        except ValueError as error:
            raise TerminalError(f"selector of ReplicaSet {rs.metadata.key}: {error}") from error
        pods = await self._claim_pods(rs, selector)
        made = plan(rs, pods, self._related(rs), self._clock.now())
        failure: Exception | None = None
        try:
            await self._act(key, rs, made)
        except WireError as error:
            failure = error
        failed = "FailedCreate" if made.create else "FailedDelete"
        await self._write_status(key, rs, pods, failure=str(failure or ""), failed=failed)
        if failure is not None:
            raise failure
        return Result(requeue_after=recheck_after(rs, pods, self._clock.now()))

    async def _claim_pods(self, rs: ReplicaSet, selector: LabelSelector) -> list[Pod]:
        store = self._pods.store
        namespace = rs.metadata.namespace
        candidates = (*store.index(CONTROLLER, rs.metadata.uid), *store.index(ORPHANS, namespace))
        running = [pod for pod in candidates if not pod.terminal]
        sorted_out = claim(rs.metadata, running, lambda pod: selector.matches(pod.metadata.labels))
        owned = list(sorted_out.owned)
        for pod in sorted_out.release:
            try:
                patch = release_patch(pod, rs.metadata.uid)
                await self._client.strategic_patch(PODS, pod.metadata.name, patch, namespace=namespace)
            except NotFound:
                continue
        if sorted_out.adopt:
            live = await self._client.get(REPLICASETS, rs.name, namespace=namespace, type=ReplicaSet)
            if live.metadata.uid != rs.metadata.uid or live.metadata.deleting:
                raise WireError(f"ReplicaSet {rs.metadata.key} is gone or going: it adopts nothing")
        for pod in sorted_out.adopt:
            patch = adoption_patch(pod, owner_reference(rs, api_version=API_VERSION, kind=KIND))
            try:
                owned.append(await self._client.strategic_patch(PODS, pod.metadata.name, patch, namespace=namespace, type=Pod))
            except NotFound:
                continue
        return owned

    def _related(self, rs: ReplicaSet) -> Sequence[Pod]:
        """The pods of all sets with the same owner."""
        owner = rs.metadata.controller
        uids = [rs.metadata.uid]
        if owner is not None:
            uids = [entry.metadata.uid for entry in self._sets.store.index(CONTROLLER, owner.uid)]
        return [pod for uid in uids for pod in self._pods.store.index(CONTROLLER, uid)]

    async def _act(self, key: Key, rs: ReplicaSet, made: ReplicaPlan) -> None:
        await slow_start([partial(self._create, key, rs)] * made.create)
        await slow_start([partial(self._delete, key, rs, pod) for pod in made.delete])

    async def _create(self, key: Key, rs: ReplicaSet) -> None:
        try:
            pod = await self._client.create(PODS, build_pod(rs), namespace=rs.metadata.namespace, type=Pod)
        except WireError as error:
            self._tell(rs, "FailedCreate", f"Error creating: {error}")
            raise
        self._expectations.expect_created(key, uid=pod.metadata.uid, by_uid=self._pods.store.by_uid)
        self._tell(rs, "SuccessfulCreate", f"Created pod: {pod.metadata.name}")

    async def _delete(self, key: Key, rs: ReplicaSet, pod: Pod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return
        except WireError as error:
            self._tell(rs, "FailedDelete", f"Error deleting: {error}")
            raise
        self._expectations.expect_deleted(key, uid=meta.uid, by_uid=self._pods.store.by_uid)
        self._tell(rs, "SuccessfulDelete", f"Deleted pod: {meta.name}")

    async def _write_status(self, key: Key, rs: ReplicaSet, pods: Sequence[Pod], *, failure: str, failed: str) -> None:
        body = status(rs, pods, failure=failure, failed=failed, now=self._clock.now())
        if not needs_writing(rs, body):
            return
        patch = {"metadata": {"uid": rs.metadata.uid}, "status": body}
        try:
            written = await self._client.merge_patch(
                REPLICASETS, rs.name, patch, namespace=rs.metadata.namespace, subresource="status", type=ReplicaSet
            )
        except (NotFound, Conflict):
            return  # Gone, or another set has the name: its own event brings the key back.
        version = written.metadata.resource_version
        self._expectations.expect_version(key, uid=rs.metadata.uid, resource_version=version, by_uid=self._sets.store.by_uid)

    def _tell(self, rs: ReplicaSet, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.event(
                object_ref(rs, api_version=API_VERSION, kind=KIND),
                type="Warning" if reason.startswith("Failed") else "Normal",
                reason=reason,
                message=message,
                action=reason.removeprefix("Failed").removeprefix("Successful"),
            )

    def _keys_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        keys: list[Key] = []
        for pod in (change.old, change.new):
            owner = pod.metadata.controller if pod is not None else None
            if pod is not None and owner is not None and owner.kind == KIND:
                key = (pod.metadata.namespace, owner.name)
                if change.new is None:
                    self._expectations.note_gone(key, uid=pod.metadata.uid)
                keys.append(key)
        new = change.new
        if new is not None and new.metadata.controller is None and not new.deleting and _newly_orphaned(change.old, new):
            keys += [
                (rs.metadata.namespace, rs.name)
                for rs in self._sets.store.index(NAMESPACE, new.metadata.namespace)
                if _selects(rs, new)
            ]
        return dict.fromkeys(keys)


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:
    """Add the controller to the manager."""
    manager.add_controller(ReplicaSets(manager, recorder=recorder).controller)


def _own_key(change: Change[ReplicaSet]) -> Iterable[Key]:
    return ((change.object.metadata.namespace, change.object.name),)


def _newly_orphaned(old: Pod | None, new: Pod) -> bool:
    return old is None or old.metadata.controller is not None or not labels_equal(old.metadata.labels, new.metadata.labels)


def _selects(rs: ReplicaSet, pod: Pod) -> bool:
    try:
        return from_object(rs.spec.selector or {}).matches(pod.metadata.labels)
    except ValueError:
        return False
