"""The StatefulSet controller: observe, plan, act. What is to be done is decided in ``stateful.plan``.

Pods are told apart by UID: a deletion never hits a replacement of the same name, and a set is not looked at again before its own
last writes have come back through the watch.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from regroup.kube.meta import ObjectRef, object_ref, owner_reference
from regroup.kube.resources import CONTROLLER_REVISIONS, PODS, STATEFULSETS
from regroup.runtime.controller import Controller, Result, TerminalError
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.batches import slow_start
from regroup.sandbox.controllers.claiming import adoption_patch, claim, release_patch
from regroup.sandbox.controllers.freshness import Freshness
from regroup.sandbox.controllers.informers import CONTROLLER, NAMESPACE, ORPHANS, by_namespace, pod_informer
from regroup.sandbox.controllers.resources import PERSISTENT_VOLUME_CLAIMS
from regroup.sandbox.controllers.stateful.claims import deleting_claims, misowned_claims, missing_claims
from regroup.sandbox.controllers.stateful.identity import (
    POD_INDEX_LABEL,
    POD_NAME_LABEL,
    build_pod,
    identity_matches,
    is_member,
    ordinal_of,
    pod_name,
    revision_of,
)
from regroup.sandbox.controllers.stateful.model import API_VERSION, KIND, StatefulSet
from regroup.sandbox.controllers.stateful.plan import (
    Action,
    Create,
    Delete,
    MakeClaims,
    Observed,
    OwnClaims,
    Plan,
    Repair,
    Status,
    completed,
    needs_writing,
    plan,
)
from regroup.sandbox.controllers.stateful.revisions import (
    canonical,
    ordered,
    outdated,
    revise,
    revision_data,
    revision_object,
    revision_template,
    same_data,
)
from regroup.sandbox.controllers.views import (
    Claim,
    ControllerRevision,
    Pod,
    controller_uids,
    labels_equal,
    uncontrolled_namespaces,
)
from regroup.wire.errors import AlreadyExists, Conflict, NotFound, WireError
from regroup.wire.selectors import LabelSelector, from_object

NAME = "statefulset-controller"
WORKERS = 5

Key = tuple[str, str]


class ClaimsUnavailable(Exception):
    """A pod cannot be made, because a claim of it is being deleted or was refused."""


@dataclass(frozen=True, slots=True)
class _Revisions:
    """The revisions that one pass works with."""

    current: ControllerRevision
    update: ControllerRevision
    collision_count: int
    all: tuple[ControllerRevision, ...]

    def template(self, name: str) -> dict[str, Any]:
        """The pod template of one of the two."""
        return revision_template(self.current if name == self.current.metadata.name else self.update)


class StatefulSets:
    """StatefulSets and their pods. A key is a set."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder | None, max_unavailable_gate: bool) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._recorder = recorder
        self._gate = max_unavailable_gate
        self._log = structlog.get_logger(NAME)
        cache = manager.cache
        self._sets = cache.informer(STATEFULSETS, type=StatefulSet, indexers={NAMESPACE: by_namespace})
        self._pods = pod_informer(manager)
        self._revisions = cache.informer(
            CONTROLLER_REVISIONS,
            type=ControllerRevision,
            indexers={CONTROLLER: controller_uids, ORPHANS: uncontrolled_namespaces},
        )
        self._claims = cache.informer(PERSISTENT_VOLUME_CLAIMS, type=Claim)
        self._fresh: Freshness[Key] = Freshness(clock=manager.clock)
        self.controller: Controller[Key] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS)
        self.controller.watches(self._sets, self._keys_of_set)
        self.controller.watches(self._pods, self._keys_of_pod)

    async def reconcile(self, key: Key) -> Result:
        """One pass over a set."""
        set_ = self._sets.store.get(*key)
        if set_ is None:
            self._fresh.forget(key)
            return Result()
        wait = self._fresh.behind(key, self._pods.store.by_uid)
        if wait is not None:
            # The pod cache does not show our own last writes yet. Their events bring the key back; the time is for a lost one.
            return Result(requeue_after=wait)
        try:
            selector = from_object(set_.spec.selector or {})
        except ValueError as error:
            raise TerminalError(f"selector of StatefulSet {set_.metadata.key}: {error}") from error
        revisions = await self._adopt_revisions(set_, selector)
        pods = await self._claim_pods(set_, selector)
        used = await self._pick_revisions(set_, revisions)
        made = plan(
            Observed(
                set=set_,
                pods=pods,
                claims=self._claims_of(set_),
                current_revision=used.current.metadata.name,
                update_revision=used.update.metadata.name,
                collision_count=used.collision_count,
                now=self._clock.now(),
                max_unavailable_gate=self._gate,
            )
        )
        await self._act(key, set_, made, used)
        await self._truncate(set_, used, pods)
        return Result(requeue_after=made.recheck_after)

    # -- observe: what is ours

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

    def _claims_of(self, set_: StatefulSet) -> Mapping[str, Claim]:
        if not set_.claim_templates:
            return {}
        return {entry.metadata.name: entry for entry in self._claims.store.values() if entry.metadata.namespace == set_.namespace}

    # -- revisions

    async def _pick_revisions(self, set_: StatefulSet, revisions: list[ControllerRevision]) -> _Revisions:
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
        if update is None:
            update, collisions = await self._create_revision(set_, data, text, number=found.next_number, collisions=collisions)
        return _Revisions(found.current or update, update, collisions, tuple(revisions))

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

    async def _truncate(self, set_: StatefulSet, used: _Revisions, pods: Sequence[Pod]) -> None:
        live = [used.current.metadata.name, used.update.metadata.name, *(revision_of(pod) for pod in pods)]
        for revision in outdated(used.all, live=live, limit=set_.history_limit):
            meta = revision.metadata
            try:
                await self._client.delete(CONTROLLER_REVISIONS, meta.name, namespace=meta.namespace, uid=meta.uid)
            except NotFound:
                continue

    # -- act

    async def _act(self, key: Key, set_: StatefulSet, made: Plan, used: _Revisions) -> None:
        """Carry the plan out and write the status, also when a step failed: it says what was seen before the steps."""
        status = made.status
        failure: Exception | None = None
        try:
            for phase in (made.replicas, made.condemned_claims, made.condemned):
                await self._run_phase(key, set_, phase, used, parallel=made.parallel)
            for step in made.update:
                if await self._delete(key, set_, step):
                    status = replace(status, current_replicas=status.current_replicas - 1)
        except (WireError, ClaimsUnavailable) as error:
            failure = error
        await self._write_status(set_, status)
        if failure is not None:
            raise failure

    async def _run_phase(
        self, key: Key, set_: StatefulSet, rows: Sequence[Sequence[Action]], used: _Revisions, *, parallel: bool
    ) -> None:
        async def run(row: Sequence[Action]) -> None:
            for action in row:
                await self._do(key, set_, action, used)

        if parallel:
            await slow_start([partial(run, row) for row in rows])
        else:
            for row in rows:
                await run(row)

    def _do(self, key: Key, set_: StatefulSet, action: Action, used: _Revisions) -> Awaitable[Any]:
        match action:
            case Create(ordinal, revision):
                return self._create(key, set_, used.template(revision), revision=revision, ordinal=ordinal)
            case Delete():
                return self._delete(key, set_, action)
            case Repair(pod):
                return self._repair(key, set_, pod)
            case MakeClaims(pod):
                return self._make_claims(set_, ordinal_of(pod))
            case OwnClaims(pod):
                return self._own_claims(set_, pod)

    async def _create(self, key: Key, set_: StatefulSet, template: Mapping[str, Any], *, revision: str, ordinal: int) -> None:
        name = pod_name(set_, ordinal)
        try:
            await self._make_claims(set_, ordinal)
            made = await self._client.create(
                PODS, build_pod(set_, template, revision=revision, ordinal=ordinal), namespace=set_.namespace, type=Pod
            )
        except AlreadyExists:
            # Ours that the cache has not shown, or somebody else's pod of that name: the next pass sees which.
            raise
        except (WireError, ClaimsUnavailable) as error:
            self._tell_pod(set_, name, "create", error)
            raise
        self._fresh.created(key, made.metadata)
        self._tell_pod(set_, name, "create")

    async def _delete(self, key: Key, set_: StatefulSet, action: Delete) -> bool:
        """Delete the very pod that was judged. False when it is gone already, or replaced."""
        meta = action.pod.metadata
        try:
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return False
        except WireError as error:
            self._tell_pod(set_, meta.name, "delete", error)
            raise
        self._fresh.deleted(key, meta)
        self._log.info("pod deleted", pod=meta.key, why=action.reason)
        self._tell_pod(set_, meta.name, "delete")
        return True

    async def _repair(self, key: Key, set_: StatefulSet, pod: Pod) -> None:
        """Bring identity labels and claims back. Volumes of a pod cannot be changed, so a lost volume is only reported."""
        ordinal = ordinal_of(pod)
        meta = pod.metadata
        try:
            _refuse_lost_volumes(set_, pod)
            labels = {POD_NAME_LABEL: meta.name, POD_INDEX_LABEL: str(ordinal)}
            patched = await self._client.merge_patch(
                PODS, meta.name, {"metadata": {"uid": meta.uid, "labels": labels}}, namespace=meta.namespace, type=Pod
            )
        except NotFound:
            return
        except (WireError, ClaimsUnavailable) as error:
            self._tell_pod(set_, meta.name, "update", error)
            raise
        self._fresh.created(key, patched.metadata)
        self._tell_pod(set_, meta.name, "update")

    # -- claims

    async def _make_claims(self, set_: StatefulSet, ordinal: int) -> None:
        claims = self._claims_of(set_)
        going = deleting_claims(set_, ordinal, claims)
        if going:
            raise ClaimsUnavailable(f"pvc {', '.join(going)} is being deleted")
        for body in missing_claims(set_, ordinal, claims):
            name = body["metadata"]["name"]
            try:
                await self._client.create(PERSISTENT_VOLUME_CLAIMS, body, namespace=set_.namespace)
            except AlreadyExists:
                continue
            except WireError as error:
                self._tell_claim(set_, name, pod_name(set_, ordinal), error)
                raise ClaimsUnavailable(f"failed to create PVC {name}: {error}") from error
            self._tell_claim(set_, name, pod_name(set_, ordinal))

    async def _own_claims(self, set_: StatefulSet, pod: Pod) -> None:
        for entry, owners in misowned_claims(set_, pod, self._claims_of(set_)):
            meta = entry.metadata
            body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": owners}}
            try:
                await self._client.merge_patch(PERSISTENT_VOLUME_CLAIMS, meta.name, body, namespace=meta.namespace)
            except NotFound:
                continue

    # -- tell

    async def _write_status(self, set_: StatefulSet, status: Status) -> None:
        final = completed(set_, status)
        if not needs_writing(set_, final):
            return
        body = {"metadata": {"uid": set_.metadata.uid}, "status": final.body()}
        try:
            await self._client.merge_patch(STATEFULSETS, set_.name, body, namespace=set_.namespace, subresource="status")
        except NotFound:
            return

    def _tell_pod(self, set_: StatefulSet, pod: str, verb: str, error: Exception | None = None) -> None:
        outcome = "successful" if error is None else f"failed error: {error}"
        self._tell(set_, verb, f"{verb} Pod {pod} in StatefulSet {set_.name} {outcome}", failed=error is not None)

    def _tell_claim(self, set_: StatefulSet, name: str, pod: str, error: Exception | None = None) -> None:
        if error is None:
            self._tell(set_, "create", f"create Claim {name} Pod {pod} in StatefulSet {set_.name} success", failed=False)
        else:
            message = f"create Claim {name} for Pod {pod} in StatefulSet {set_.name} failed error: {error}"
            self._tell(set_, "create", message, failed=True)

    def _tell(self, set_: StatefulSet, verb: str, message: str, *, failed: bool) -> None:
        if self._recorder is None:
            return
        regarding: ObjectRef = object_ref(set_, api_version=API_VERSION, kind=KIND)
        reason = f"{'Failed' if failed else 'Successful'}{verb.capitalize()}"
        kind = "Warning" if failed else "Normal"
        self._recorder.event(regarding, type=kind, reason=reason, message=message, action=verb.capitalize())

    # -- keys

    def _keys_of_set(self, change: Change[StatefulSet]) -> Iterable[Key]:
        present = change.new if change.new is not None else change.old
        return ((present.namespace, present.name),) if present is not None else ()

    def _keys_of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        """The set that owns the pod or owned it; for an orphan all that might adopt it."""
        keys: list[Key] = []
        for pod in (change.old, change.new):
            owner = pod.metadata.controller if pod is not None else None
            if pod is not None and owner is not None and owner.kind == KIND:
                key = (pod.metadata.namespace, owner.name)
                set_ = self._sets.store.get(*key)
                self._fresh.seen(key, change)
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


def _refuse_lost_volumes(set_: StatefulSet, pod: Pod) -> None:
    if identity_matches(set_, pod):
        raise ClaimsUnavailable("the pod lacks volumes of the set's claims, and volumes of a pod cannot be changed")


def _newly_orphaned(old: Pod | None, new: Pod) -> bool:
    return old is None or old.metadata.controller is not None or not labels_equal(old.metadata.labels, new.metadata.labels)
