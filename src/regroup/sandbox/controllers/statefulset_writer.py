"""The writes of the StatefulSet controller: carries a plan out, and tells what became of it."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from regroup.kube.meta import object_ref
from regroup.kube.resources import PODS, STATEFULSETS
from regroup.runtime.events import EventRecorder, EventType
from regroup.runtime.expectations import Expectations
from regroup.runtime.manager import Manager
from regroup.runtime.store import Store
from regroup.sandbox.controllers.batches import slow_start
from regroup.sandbox.controllers.resources import PERSISTENT_VOLUME_CLAIMS
from regroup.sandbox.controllers.stateful.claims import deleting_claims, misowned_claims, missing_claims
from regroup.sandbox.controllers.stateful.identity import (
    POD_INDEX_LABEL,
    POD_NAME_LABEL,
    build_pod,
    identity_matches,
    ordinal_of,
    pod_name,
)
from regroup.sandbox.controllers.stateful.model import API_VERSION, KIND, StatefulSet
from regroup.sandbox.controllers.stateful.plan import (
    Action,
    Create,
    Delete,
    MakeClaims,
    OwnClaims,
    Plan,
    Repair,
    Status,
    completed,
    needs_writing,
)
from regroup.sandbox.controllers.stateful.revisions import revision_template
from regroup.sandbox.controllers.views import Claim, ControllerRevision, Pod
from regroup.wire.errors import AlreadyExists, Conflict, NotFound, WireError

Key = tuple[str, str]
"""Namespace and name of a set."""


class ClaimsUnavailable(Exception):
    """A pod cannot be made, because a claim of it is being deleted or was refused."""


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions that one pass works with."""

    current: ControllerRevision
    update: ControllerRevision
    collision_count: int
    all: tuple[ControllerRevision, ...]

    def template(self, name: str) -> dict[str, Any]:
        """The pod template of one of the two."""
        return revision_template(self.current if name == self.current.metadata.name else self.update)


class StatefulSetWriter:
    """Carries plans out. Own writes are noted in ``expectations``, so that the next pass waits for them to show."""

    def __init__(
        self,
        manager: Manager,
        *,
        recorder: EventRecorder | None,
        expectations: Expectations[Key],
        sets: Store[StatefulSet],
        pods: Store[Pod],
    ) -> None:
        self._client = manager.client
        self._recorder = recorder
        self._expectations = expectations
        self._sets = sets
        self._pods = pods
        self._claims = manager.cache.informer(PERSISTENT_VOLUME_CLAIMS, type=Claim)
        self._log = structlog.get_logger("statefulset-controller")

    def claims_of(self, set_: StatefulSet) -> Mapping[str, Claim]:
        """The claims of the set's namespace, by name; none when it has no claim templates."""
        if not set_.claim_templates:
            return {}
        return {entry.metadata.name: entry for entry in self._claims.store.values() if entry.metadata.namespace == set_.namespace}

    async def act(self, key: Key, set_: StatefulSet, made: Plan, used: Revisions) -> None:
        """Carry the plan out and write the status, also when a step failed: it says what was seen before the steps."""
        status = made.status
        failure: Exception | None = None
        try:
            for phase in (made.replicas, made.condemned_claims, made.condemned):
                await self._run_phase(key, set_, phase, used, parallel=made.parallel)
            for step in made.update:
                if await self._delete(key, set_, step):
                    # Not below none: the pod may be of neither revision, when its own was deleted.
                    status = replace(status, current_replicas=max(status.current_replicas - 1, 0))
        except (WireError, ClaimsUnavailable) as error:
            failure = error
        await self.write_status(key, set_, status)
        if failure is not None:
            raise failure

    async def _run_phase(
        self, key: Key, set_: StatefulSet, rows: Sequence[Sequence[Action]], used: Revisions, *, parallel: bool
    ) -> None:
        async def run(row: Sequence[Action]) -> None:
            for action in row:
                await self._do(key, set_, action, used)

        if parallel:
            await slow_start([partial(run, row) for row in rows])
        else:
            for row in rows:
                await run(row)

    def _do(self, key: Key, set_: StatefulSet, action: Action, used: Revisions) -> Awaitable[Any]:
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
        self._expectations.expect_created(key, uid=made.metadata.uid, by_uid=self._pods.by_uid)
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
        self._expectations.expect_deleted(key, uid=meta.uid, by_uid=self._pods.by_uid)
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
        self._expectations.expect_version(
            key, uid=meta.uid, resource_version=patched.metadata.resource_version, by_uid=self._pods.by_uid
        )
        self._tell_pod(set_, meta.name, "update")

    # -- claims

    async def _make_claims(self, set_: StatefulSet, ordinal: int) -> None:
        claims = self.claims_of(set_)
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
        for entry, owners in misowned_claims(set_, pod, self.claims_of(set_)):
            meta = entry.metadata
            body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": owners}}
            try:
                await self._client.merge_patch(PERSISTENT_VOLUME_CLAIMS, meta.name, body, namespace=meta.namespace)
            except NotFound:
                continue

    # -- tell

    async def write_status(self, key: Key, set_: StatefulSet, status: Status) -> None:
        """Write the status when it says something new."""
        final = completed(set_, status)
        if not needs_writing(set_, final):
            return
        body = {"metadata": {"uid": set_.metadata.uid}, "status": final.body()}
        try:
            written = await self._client.merge_patch(
                STATEFULSETS, set_.name, body, namespace=set_.namespace, subresource="status", type=StatefulSet
            )
        except (NotFound, Conflict):
            return  # Gone, or another set has the name: its own event brings the key back.
        self._expectations.expect_version(
            key, uid=set_.metadata.uid, resource_version=written.metadata.resource_version, by_uid=self._sets.by_uid
        )

    def _tell_pod(self, set_: StatefulSet, pod: str, verb: str, error: Exception | None = None) -> None:
        outcome = "successful" if error is None else f"failed error: {error}"
        self._tell(set_, verb, f"{verb.title()} Pod {pod} in StatefulSet {set_.name} {outcome}", failed=error is not None)

    def _tell_claim(self, set_: StatefulSet, name: str, pod: str, error: Exception | None = None) -> None:
        if error is None:
            self._tell(set_, "create", f"Create Claim {name} Pod {pod} in StatefulSet {set_.name} success", failed=False)
        else:
            message = f"Create Claim {name} for Pod {pod} in StatefulSet {set_.name} failed error: {error}"
            self._tell(set_, "create", message, failed=True)

    def _tell(self, set_: StatefulSet, verb: str, message: str, *, failed: bool) -> None:
        if self._recorder is None:
            return
        regarding = object_ref(set_, api_version=API_VERSION, kind=KIND)
        reason = f"{'Failed' if failed else 'Successful'}{verb.capitalize()}"
        kind: EventType = "Warning" if failed else "Normal"
        self._recorder.event(regarding, type=kind, reason=reason, message=message, action=verb.capitalize())


def _refuse_lost_volumes(set_: StatefulSet, pod: Pod) -> None:
    if identity_matches(set_, pod):
        raise ClaimsUnavailable("the pod lacks volumes of the set's claims, and volumes of a pod cannot be changed")
