"""The Deployment controller: observe, plan, act. How the sets are scaled is decided in ``deploying.rollout``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from regroup.kube.meta import object_ref, owner_reference
from regroup.kube.resources import DEPLOYMENTS, REPLICASETS
from regroup.runtime.controller import Controller, Result, TerminalError
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.claiming import adoption_patch, claim, release_patch
from regroup.sandbox.controllers.deploying.progress import needs_writing, progress_deadline_in, status
from regroup.sandbox.controllers.deploying.replicas import ReplicaSet
from regroup.sandbox.controllers.deploying.rollout import (
    API_VERSION,
    DESIRED,
    KIND,
    MAXIMUM,
    REVISION,
    REVISION_HISTORY,
    Deployment,
    Scale,
    build_replica_set,
    complete,
    initial_size,
    new_replica_set,
    outdated,
    recreate,
    rescale,
    resized,
    revision_of,
    roll,
    same_template,
    size_annotations,
)
from regroup.sandbox.controllers.informers import (
    CONTROLLER,
    NAMESPACE,
    ORPHANS,
    STALE_RECHECK,
    by_namespace,
    pod_informer,
    replica_set_informer,
)
from regroup.sandbox.controllers.views import Pod
from regroup.wire.errors import AlreadyExists, Conflict, NotFound, WireError
from regroup.wire.selectors import LabelSelector, from_object

NAME = "deployment-controller"
WORKERS = 5

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Sets:
    """The sets of a Deployment, after what this pass has written."""

    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]
    created: bool = False
    """Whether this pass has made the new one."""

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        return (*self.old, self.new) if self.new is not None else self.old


class Deployments:
    """Deployments and their ReplicaSets. A key is a Deployment."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder | None) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._recorder = recorder
        self._deployments = manager.cache.informer(DEPLOYMENTS, type=Deployment, indexers={NAMESPACE: by_namespace})
        self._sets = replica_set_informer(manager)
        self._pods = pod_informer(manager)
        self._expectations: Expectations[Key] = Expectations(clock=manager.clock)
        self.controller: Controller[Key] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS)
        self.controller.watches(self._deployments, _own_key)
        self.controller.watches(self._sets, self._keys_of_set)
        self.controller.watches(self._pods, self._keys_of_pod)

    async def reconcile(self, key: Key) -> Result:
        """One pass over a Deployment."""
        deployment = self._deployments.store.get(*key)
        if deployment is None:
            self._expectations.forget(key)
            return Result()
        if not self._expectations.satisfied(key):
            return Result(requeue_after=STALE_RECHECK)
        try:
            selector = from_object(deployment.spec.selector or {})
        except ValueError as error:
            raise TerminalError(f"selector of Deployment {deployment.metadata.key}: {error}") from error
        found = await self._claim_sets(deployment, selector)
        new = new_replica_set(deployment, found)
        sets = _Sets(new, tuple(rs for rs in found if rs is not new))
        failure: WireError | None = None
        if not deployment.metadata.deleting:
            try:
                sets = await self._act(key, deployment, sets)
            except WireError as error:
                failure = error
        await self._write_status(key, deployment, sets, str(failure or ""))
        if failure is not None:
            raise failure
        return Result(requeue_after=progress_deadline_in(deployment, self._clock.now()))

    # -- observe

    async def _claim_sets(self, deployment: Deployment, selector: LabelSelector) -> list[ReplicaSet]:
        store = self._sets.store
        namespace = deployment.metadata.namespace
        candidates = (*store.index(CONTROLLER, deployment.metadata.uid), *store.index(ORPHANS, namespace))
        sorted_out = claim(deployment.metadata, candidates, lambda rs: selector.matches(rs.metadata.labels))
        owned = list(sorted_out.owned)
        for rs in sorted_out.release:
            try:
                patch = release_patch(rs, deployment.metadata.uid)
                await self._client.strategic_patch(REPLICASETS, rs.name, patch, namespace=namespace)
            except NotFound:
                continue
        if sorted_out.adopt:
            live = await self._client.get(DEPLOYMENTS, deployment.name, namespace=namespace, type=Deployment)
            if live.metadata.uid != deployment.metadata.uid or live.metadata.deleting:
                raise WireError(f"Deployment {deployment.metadata.key} is gone or going: it adopts nothing")
        for rs in sorted_out.adopt:
            patch = adoption_patch(rs, owner_reference(deployment, api_version=API_VERSION, kind=KIND))
            try:
                owned.append(
                    await self._client.strategic_patch(REPLICASETS, rs.name, patch, namespace=namespace, type=ReplicaSet)
                )
            except NotFound:
                continue
        return owned

    # -- act

    async def _act(self, key: Key, deployment: Deployment, sets: _Sets) -> _Sets:
        if deployment.spec.paused:
            await self._drop_history(deployment, sets)
        if deployment.spec.paused or resized(deployment, sets.all):
            return await self._scale(key, deployment, sets, rescale(deployment, sets.new, sets.old))
        if deployment.recreates:
            steps = recreate(deployment, sets.new, sets.old, old_pods=self._old_pods(sets))
            sets = await self._scale(key, deployment, sets, [step for step in steps if step.replicas == 0])
            if any(rs.replicas for rs in sets.old) or self._old_pods(sets):
                return sets
        sets = await self._with_new(key, deployment, sets)
        if sets.new is not None and not deployment.recreates:
            sets = await self._scale(key, deployment, sets, roll(deployment, sets.new, sets.old))
        elif sets.new is not None:
            sets = await self._scale(key, deployment, sets, recreate(deployment, sets.new, sets.old, old_pods=False))
        if self._complete(deployment, sets):
            await self._drop_history(deployment, sets)
        return sets

    async def _with_new(self, key: Key, deployment: Deployment, sets: _Sets) -> _Sets:
        """The sets with one of the present template, numbered as the newest."""
        revision = max((revision_of(rs) for rs in sets.old), default=0) + 1
        if sets.new is None:
            return _Sets(await self._create(key, deployment, sets, revision), sets.old, created=True)
        new = sets.new
        if revision_of(new) < revision:
            history = [entry for entry in new.metadata.annotations.get(REVISION_HISTORY, "").split(",") if entry]
            if revision_of(new):
                history.append(str(revision_of(new)))
            annotations = {REVISION: str(revision), **size_annotations(deployment)}
            if history:
                annotations[REVISION_HISTORY] = ",".join(history)[-2000:]
            new = await self._patch_set(key, new, {"metadata": {"uid": new.metadata.uid, "annotations": annotations}})
        elif deployment.spec.min_ready_seconds != new.spec.min_ready_seconds:
            body = {"metadata": {"uid": new.metadata.uid}, "spec": {"minReadySeconds": deployment.spec.min_ready_seconds}}
            new = await self._patch_set(key, new, body)
        number = new.metadata.annotations.get(REVISION, "")
        if deployment.metadata.annotations.get(REVISION) != number:
            await self._annotate(key, deployment, number)
        return _Sets(new, sets.old)

    async def _create(self, key: Key, deployment: Deployment, sets: _Sets, revision: int) -> ReplicaSet | None:
        """Make the new set. A name that another template has taken is a collision: it is counted, and the next name differs."""
        collisions = deployment.status.collision_count or 0
        namespace = deployment.metadata.namespace
        size = initial_size(deployment, sets.old)
        body = build_replica_set(deployment, revision=revision, replicas=size, collision_count=collisions)
        try:
            made = await self._client.create(REPLICASETS, body, namespace=namespace, type=ReplicaSet)
        except AlreadyExists:
            present = await self._client.get(REPLICASETS, body["metadata"]["name"], namespace=namespace, type=ReplicaSet)
            owner = present.metadata.controller
            if owner is not None and owner.uid == deployment.metadata.uid and same_template(deployment, present):
                return present
            await self._patch(key, deployment, {"status": {"collisionCount": collisions + 1}}, subresource="status")
            raise
        self._expectations.expect_created(key, uid=made.metadata.uid, by_uid=self._sets.store.by_uid)
        if size > 0:
            self._tell(deployment, "ScalingReplicaSet", f"Scaled up replica set {made.name} from 0 to {size}")
        await self._annotate(key, deployment, str(revision))
        return made

    async def _scale(self, key: Key, deployment: Deployment, sets: _Sets, steps: Sequence[Scale]) -> _Sets:
        """Give sets their new sizes, with the annotations that say for which size of the Deployment."""
        annotations = size_annotations(deployment)
        changed: dict[str, ReplicaSet] = {}
        for step in steps:
            rs = step.rs
            told = {name: rs.metadata.annotations.get(name) for name in (DESIRED, MAXIMUM)}
            if step.replicas == rs.replicas and told == annotations:
                continue
            body: dict[str, Any] = {"metadata": {"uid": rs.metadata.uid, "annotations": annotations}}
            if step.replicas != rs.replicas:
                body["spec"] = {"replicas": step.replicas}
            changed[rs.metadata.uid] = await self._patch_set(key, rs, body)
            if step.replicas != rs.replicas:
                way = "up" if step.replicas > rs.replicas else "down"
                message = f"Scaled {way} replica set {rs.name} from {rs.replicas} to {step.replicas}"
                self._tell(deployment, "ScalingReplicaSet", message)
        new = changed.get(sets.new.metadata.uid, sets.new) if sets.new is not None else None
        return _Sets(new, tuple(changed.get(rs.metadata.uid, rs) for rs in sets.old), created=sets.created)

    async def _patch_set(self, key: Key, rs: ReplicaSet, body: dict[str, Any]) -> ReplicaSet:
        made = await self._client.merge_patch(REPLICASETS, rs.name, body, namespace=rs.metadata.namespace, type=ReplicaSet)
        version = made.metadata.resource_version
        self._expectations.expect_version(key, uid=rs.metadata.uid, resource_version=version, by_uid=self._sets.store.by_uid)
        return made

    async def _drop_history(self, deployment: Deployment, sets: _Sets) -> None:
        for rs in outdated(deployment, sets.old):
            try:
                await self._client.delete(
                    REPLICASETS, rs.name, namespace=rs.metadata.namespace, uid=rs.metadata.uid, propagation="Background"
                )
            except NotFound:
                continue

    async def _write_status(self, key: Key, deployment: Deployment, sets: _Sets, failure: str) -> None:
        body = status(deployment, sets.new, sets.old, created=sets.created, failure=failure, now=self._clock.now())
        if not needs_writing(deployment, body):
            return
        await self._patch(key, deployment, {"status": body}, subresource="status")

    async def _annotate(self, key: Key, deployment: Deployment, revision: str) -> None:
        await self._patch(key, deployment, {"metadata": {"annotations": {REVISION: revision}}})

    async def _patch(self, key: Key, deployment: Deployment, body: dict[str, Any], *, subresource: str | None = None) -> None:
        """Change the Deployment itself, by UID."""
        body = {**body, "metadata": {**body.get("metadata", {}), "uid": deployment.metadata.uid}}
        try:
            written = await self._client.merge_patch(
                DEPLOYMENTS,
                deployment.name,
                body,
                namespace=deployment.metadata.namespace,
                subresource=subresource,
                type=Deployment,
            )
        except (NotFound, Conflict):
            return  # Gone, or another Deployment has the name: its own event brings the key back.
        self._expectations.expect_version(
            key,
            uid=deployment.metadata.uid,
            resource_version=written.metadata.resource_version,
            by_uid=self._deployments.store.by_uid,
        )

    def _old_pods(self, sets: _Sets) -> bool:
        """Whether a pod of an old set still runs or may run."""
        if any(rs.status.replicas for rs in sets.old):
            return True
        return any(not pod.terminal for rs in sets.old for pod in self._pods.store.index(CONTROLLER, rs.metadata.uid))

    def _complete(self, deployment: Deployment, sets: _Sets) -> bool:
        return complete(
            deployment,
            updated=sets.new.status.replicas if sets.new is not None else 0,
            total=sum(rs.status.replicas for rs in sets.all),
            available=sum(rs.status.available_replicas for rs in sets.all),
        )

    def _tell(self, deployment: Deployment, reason: str, message: str) -> None:
        if self._recorder is not None:
            regarding = object_ref(deployment, api_version=API_VERSION, kind=KIND)
            self._recorder.event(regarding, type="Normal", reason=reason, message=message, action="Scale")

    # -- keys

    def _keys_of_set(self, change: Change[ReplicaSet]) -> Iterable[Key]:
        keys: list[Key] = []
        for rs in (change.old, change.new):
            owner = rs.metadata.controller if rs is not None else None
            if rs is not None and owner is not None and owner.kind == KIND:
                key = (rs.metadata.namespace, owner.name)
                if change.new is None:
                    self._expectations.note_gone(key, uid=rs.metadata.uid)
                keys.append(key)
        new = change.new
        if new is not None and new.metadata.controller is None and not new.metadata.deleting:
            keys += [
                (entry.metadata.namespace, entry.name)
                for entry in self._deployments.store.index(NAMESPACE, new.metadata.namespace)
            ]
        return dict.fromkeys(keys)

    def _keys_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        """A strategy ``Recreate`` waits for the last old pod to be gone, which changes no ReplicaSet."""
        if change.new is not None or change.old is None:
            return ()
        owner = change.old.metadata.controller
        rs = self._sets.store.by_uid(owner.uid) if owner is not None else None
        holder = rs.metadata.controller if rs is not None else None
        if holder is None or holder.kind != KIND:
            return ()
        return ((change.old.metadata.namespace, holder.name),)


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:
    """Add the controller to the manager."""
    manager.add_controller(Deployments(manager, recorder=recorder).controller)


def _own_key(change: Change[Deployment]) -> Iterable[Key]:
    return ((change.object.metadata.namespace, change.object.name),)
