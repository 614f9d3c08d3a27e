"""The StatefulSet controller: observe, plan, act. What is to be done is decided in ``stateful.plan``.

Pods are told apart by UID: a deletion never hits a replacement of the same name, and a set is not looked at again before its own
last writes have come back through the watch.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regroup.kube.meta import owner_reference
from regroup.kube.resources import CONTROLLER_REVISIONS, PODS, STATEFULSETS
from regroup.runtime.controller import Controller, Result, TerminalError
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.claiming import adoption_patch, claim, release_patch
from regroup.sandbox.controllers.informers import CONTROLLER, NAMESPACE, ORPHANS, STALE_RECHECK, by_namespace, pod_informer
from regroup.sandbox.controllers.stateful.identity import is_member, ordinal_of, revision_of
from regroup.sandbox.controllers.stateful.model import API_VERSION, KIND, StatefulSet
from regroup.sandbox.controllers.stateful.plan import Observed, plan
from regroup.sandbox.controllers.stateful.revisions import (
    canonical,
    ordered,
    outdated,
    revise,
    revision_data,
    revision_object,
    same_data,
)
from regroup.sandbox.controllers.statefulset_writer import ClaimsUnavailable, Key, Revisions, StatefulSetWriter
from regroup.sandbox.controllers.views import ControllerRevision, Pod, controller_uids, labels_equal, uncontrolled_namespaces
from regroup.wire.errors import AlreadyExists, NotFound, WireError
from regroup.wire.selectors import LabelSelector, from_object

NAME = "statefulset-controller"
WORKERS = 5


class StatefulSets:
    """StatefulSets and their pods. A key is a set."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder | None, max_unavailable_gate: bool) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._gate = max_unavailable_gate
        cache = manager.cache
        self._sets = cache.informer(STATEFULSETS, type=StatefulSet, indexers={NAMESPACE: by_namespace})
        self._pods = pod_informer(manager)
        self._revisions = cache.informer(
            CONTROLLER_REVISIONS,
            type=ControllerRevision,
            indexers={CONTROLLER: controller_uids, ORPHANS: uncontrolled_namespaces},
        )
        self._expectations: Expectations[Key] = Expectations(clock=manager.clock)
        self._writer = StatefulSetWriter(
            manager, recorder=recorder, expectations=self._expectations, sets=self._sets.store, pods=self._pods.store
        )
        self.controller: Controller[Key] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS)
        self.controller.watches(self._sets, self._keys_of_set)
        self.controller.watches(self._pods, self._keys_of_pod)
        self.controller.watches(self._revisions, self._keys_of_revision)

    async def reconcile(self, key: Key) -> Result:
        """One pass over a set."""
        set_ = self._sets.store.get(*key)
        if set_ is None:
            self._expectations.forget(key)
            return Result()
        if not self._expectations.satisfied(key):
            # The caches do not show our own last writes yet. Their events bring the key back; the time is for a lost one.
            return Result(requeue_after=STALE_RECHECK)
        try:
            selector = from_object(set_.spec.selector or {})
        except ValueError as error:
            raise TerminalError(f"selector of StatefulSet {set_.metadata.key}: {error}") from error
        revisions = await self._adopt_revisions(set_, selector)
        pods = await self._claim_pods(set_, selector)
        if set_.metadata.deleting:
            # Its revisions are being collected as its pods are: to make one anew would keep the set from going.
            status = set_.status
            seen = self._seen(set_, pods, status.current_revision, status.update_revision, status.collision_count or 0)
            await self._writer.write_status(key, set_, plan(seen).status)
            return Result()
        used = await self._pick_revisions(key, set_, revisions)
        made = plan(self._seen(set_, pods, used.current.metadata.name, used.update.metadata.name, used.collision_count))
        try:
            await self._writer.act(key, set_, made, used)
        except (WireError, ClaimsUnavailable):
            await self._truncate(key, set_, used, pods)
            raise
        await self._truncate(key, set_, used, pods)
        return Result(requeue_after=made.recheck_after)

    # -- observe

    def _seen(self, set_: StatefulSet, pods: tuple[Pod, ...], current: str, update: str, collisions: int) -> Observed:
        return Observed(
            set=set_,
            pods=pods,
            claims=self._writer.claims_of(set_),
            current_revision=current,
            update_revision=update,
            collision_count=collisions,
            now=self._clock.now(),
            max_unavailable_gate=self._gate,
        )

    async def _claim_pods(self, set_: StatefulSet, selector: LabelSelector) -> tuple[Pod, ...]:
        """The set's pods; orphans that match are adopted, owned pods that no longer match are released."""
        store = self._pods.store
        candidates = (*store.index(CONTROLLER, set_.metadata.uid), *store.index(ORPHANS, set_.namespace))
        sorted_out = claim(set_.metadata, candidates, lambda pod: is_member(set_, pod) and selector.matches(pod.metadata.labels))
        for pod in sorted_out.release:
            try:
                patch = release_patch(pod, set_.metadata.uid)
                await self._client.strategic_patch(PODS, pod.metadata.name, patch, namespace=set_.namespace)
            except NotFound:
                continue
        owned = list(sorted_out.owned)
        if sorted_out.adopt:
            await self._check_adopter(set_)
        for pod in sorted_out.adopt:
            reference = owner_reference(set_, api_version=API_VERSION, kind=KIND)
            try:
                patch = adoption_patch(pod, reference)
                owned.append(
                    await self._client.strategic_patch(PODS, pod.metadata.name, patch, namespace=set_.namespace, type=Pod)
                )
            except NotFound:
                continue
        return tuple(sorted(owned, key=ordinal_of))

    async def _check_adopter(self, set_: StatefulSet) -> None:
        """A live look before an adoption: a set that is gone or going adopts nothing, whatever the cache says."""
        live = await self._client.get(STATEFULSETS, set_.name, namespace=set_.namespace, type=StatefulSet)
        if live.metadata.uid != set_.metadata.uid:
            raise WireError(f"StatefulSet {set_.metadata.key} is gone: its UID is now {live.metadata.uid}")
        if live.metadata.deleting:
            raise WireError(f"StatefulSet {set_.metadata.key} is being deleted")

    async def _adopt_revisions(self, set_: StatefulSet, selector: LabelSelector) -> list[ControllerRevision]:
        """The set's history, oldest first."""
        store = self._revisions.store
        found = [entry for entry in store.index(CONTROLLER, set_.metadata.uid) if selector.matches(entry.metadata.labels)]
        orphans = [entry for entry in store.index(ORPHANS, set_.namespace) if selector.matches(entry.metadata.labels)]
        if orphans and not set_.metadata.deleting:
            await self._check_adopter(set_)
            reference = owner_reference(set_, api_version=API_VERSION, kind=KIND)
            for orphan in orphans:
                patch = adoption_patch(orphan, reference)
                found.append(
                    await self._client.strategic_patch(
                        CONTROLLER_REVISIONS,
                        orphan.metadata.name,
                        patch,
                        namespace=set_.namespace,
                        type=ControllerRevision,
                    )
                )
        return ordered(found)

    # -- revisions

    async def _pick_revisions(self, key: Key, set_: StatefulSet, revisions: list[ControllerRevision]) -> Revisions:
        """The current and the wanted revision; the latter is made or renumbered when it must be."""
        data = revision_data(set_)
        text = canonical(data)
        found = revise(set_, revisions, text)
        collisions = set_.status.collision_count or 0
        update = found.update
        if found.bump is not None:
            update = await self._client.merge_patch(
                CONTROLLER_REVISIONS,
                found.bump.metadata.name,
                {"metadata": {"uid": found.bump.metadata.uid}, "revision": found.next_number},
                namespace=set_.namespace,
                type=ControllerRevision,
            )
            self._expectations.expect_version(
                key,
                uid=update.metadata.uid,
                resource_version=update.metadata.resource_version,
                by_uid=self._revisions.store.by_uid,
            )
        if update is None:
            update, collisions = await self._create_revision(set_, data, text, number=found.next_number, collisions=collisions)
            self._expectations.expect_created(key, uid=update.metadata.uid, by_uid=self._revisions.store.by_uid)
        return Revisions(found.current or update, update, collisions, tuple(revisions))

    async def _create_revision(
        self, set_: StatefulSet, data: Mapping[str, Any], text: bytes, *, number: int, collisions: int
    ) -> tuple[ControllerRevision, int]:
        """Make a revision; a name that other data has taken is a collision, which changes the name."""
        while True:
            body = revision_object(set_, data, number=number, collision_count=collisions)
            try:
                made = await self._client.create(CONTROLLER_REVISIONS, body, namespace=set_.namespace, type=ControllerRevision)
            except AlreadyExists:
                present = await self._client.get(
                    CONTROLLER_REVISIONS, body["metadata"]["name"], namespace=set_.namespace, type=ControllerRevision
                )
                if same_data(present, text):
                    return present, collisions
                collisions += 1
            else:
                return made, collisions

    async def _truncate(self, key: Key, set_: StatefulSet, used: Revisions, pods: Sequence[Pod]) -> None:
        live = [used.current.metadata.name, used.update.metadata.name, *(revision_of(pod) for pod in pods)]
        for revision in outdated(used.all, live=live, limit=set_.history_limit):
            meta = revision.metadata
            try:
                await self._client.delete(CONTROLLER_REVISIONS, meta.name, namespace=meta.namespace, uid=meta.uid)
            except NotFound:
                continue
            self._expectations.expect_deleted(key, uid=meta.uid, by_uid=self._revisions.store.by_uid)

    # -- keys

    def _keys_of_set(self, change: Change[StatefulSet]) -> Iterable[Key]:
        return ((change.object.namespace, change.object.name),)

    def _keys_of_revision(self, change: Change[ControllerRevision]) -> Iterable[Key]:
        """Only a set that waits for its own write to show has to look; for the others the pass finds nothing to do."""
        meta = change.object.metadata
        owner = meta.controller
        if owner is None or owner.kind != KIND:
            return ()
        key = (meta.namespace, owner.name)
        if change.new is None:
            self._expectations.note_gone(key, uid=meta.uid)
        return (key,)

    def _keys_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        """The set that owns the pod or owned it; for an orphan all that might adopt it."""
        keys: list[Key] = []
        for pod in (change.old, change.new):
            owner = pod.metadata.controller if pod is not None else None
            if pod is not None and owner is not None and owner.kind == KIND:
                key = (pod.metadata.namespace, owner.name)
                set_ = self._sets.store.get(*key)
                if change.new is None:
                    self._expectations.note_gone(key, uid=pod.metadata.uid)
                if set_ is not None and set_.metadata.uid == owner.uid:
                    keys.append(key)
        new = change.new
        if new is not None and new.metadata.controller is None and not new.deleting and _newly_orphaned(change.old, new):
            keys += [
                (set_.namespace, set_.name)
                for set_ in self._sets.store.index(NAMESPACE, new.metadata.namespace)
                if is_member(set_, new)
            ]
        return dict.fromkeys(keys)


def setup(manager: Manager, *, recorder: EventRecorder | None = None, max_unavailable_gate: bool = False) -> None:
    """Add the controller. ``max_unavailable_gate``: the feature gate ``MaxUnavailableStatefulSet``, off by default in 1.36."""
    manager.add_controller(StatefulSets(manager, recorder=recorder, max_unavailable_gate=max_unavailable_gate).controller)


def _newly_orphaned(old: Pod | None, new: Pod) -> bool:
    return old is None or old.metadata.controller is not None or not labels_equal(old.metadata.labels, new.metadata.labels)
