"""Keeps what stands around the pods of a replica: its stored revisions and their Services (spec/omenative.md 2.5, 2.6, 5.1).

A routed Service of a revision is there before a pod of that revision serves, and goes when the revision is gone.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from regroup.kube.meta import HasMeta
from regroup.kube.resources import CONTROLLER_REVISIONS, SERVICES
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.configuration.settings import Settings
from regroup.omenative.controller import belongings
from regroup.omenative.controller.belongings import NameTaken, controlled
from regroup.omenative.controller.stores import BY_COMPONENT, ReplicaKey, Stores, component_text
from regroup.omenative.keys import REVISION_HASH
from regroup.omenative.objects import exposure, revision
from regroup.omenative.objects import instances as objects
from regroup.omenative.objects.applied import marked, stands
from regroup.omenative.view import InstancePod, Revision
from regroup.runtime.expectations import Expectations
from regroup.runtime.store import Store
from regroup.wire.client import Client
from regroup.wire.errors import Conflict, NotFound
from regroup.wire.resource import Resource


@dataclass(frozen=True, slots=True)
class Around:
    """The stored revisions, the wanted one included, and its name."""

    revisions: Sequence[Revision]
    update_revision: str


class Surroundings:
    """The keeper. Remembers only what it worked out from a generation that did not change since."""

    def __init__(
        self, client: Client, *, stores: Stores, expectations: Expectations[ReplicaKey], settings: Callable[[], Settings]
    ) -> None:
        self._client = client
        self._stores = stores
        self._expectations = expectations
        self._settings = settings
        self._wanted: dict[str, tuple[int, str]] = {}
        """By the replica's UID: its generation, and the name of the revision that it wants."""

    async def keep(self, replica: InferenceReplica, *, pods: Sequence[InstancePod], known: Sequence[Revision]) -> Around:
        """See that all of it stands; no request when it does. Raises ``WireError``, and ``NameTaken``: no pod is made then."""
        if replica.metadata.deleting:
            self._wanted.pop(replica.metadata.uid, None)
            return Around(known, replica.status.update_revision)
        revisions, wanted = await self._keep_revision(replica, known)
        live = _live_hashes(replica, wanted=wanted, revisions=revisions, pods=pods)
        await self._keep_services(replica, [one for one in revisions if one.hash in live])
        return Around(await self._prune(replica, revisions, live), wanted.name)

    async def _keep_revision(self, replica: InferenceReplica, known: Sequence[Revision]) -> tuple[Sequence[Revision], Revision]:
        meta = replica.metadata
        generation, name = self._wanted.get(meta.uid, (-1, ""))
        found = next((one for one in known if one.name == name), None) if generation == meta.generation else None
        excluded = revision.excluded_annotations(replica)
        if found is None:
            found = revision.find(known, revision.revision_data(replica), excluded=excluded)
        if found is None:
            found, _ = revision.new_revision(
                replica, stored=known, collision_count=replica.status.collision_count or 0, excluded=excluded
            )
            await self._store(replica, found)
            known = (*known, found)
        self._wanted[meta.uid] = (meta.generation, found.name)
        return known, found

    async def _store(self, replica: InferenceReplica, wanted: Revision) -> None:
        body = objects.revision_object(replica, wanted)
        made = await belongings.create(self._client, CONTROLLER_REVISIONS, body, replica=replica)
        self._expectations.expect_created(_key(replica), uid=made.metadata.uid, by_uid=self._stores.revisions.by_uid)

    async def _keep_services(self, replica: InferenceReplica, live: Sequence[Revision]) -> None:
        """Write what differs, and delete the Services of revisions that are gone. Raises ``NameTaken``."""
        wanted = [exposure.headless_service(replica)]
        for one in live:
            wanted += exposure.revision_services(replica, one)
        store = self._stores.services
        names = set()
        for manifest in wanted:
            body = marked(manifest)
            name = body["metadata"]["name"]
            names.add(name)
            there = store.get(replica.namespace, name)
            if there is None:
                made = await belongings.create(self._client, SERVICES, body, replica=replica)
                self._expectations.expect_created(_key(replica), uid=made.metadata.uid, by_uid=store.by_uid)
            elif not controlled(replica, there):
                raise NameTaken(SERVICES, name, there.metadata.controller, replica=replica)
            elif not stands(there, body):
                written = (await belongings.change(self._client, SERVICES, body, there=there, replica=replica)).metadata
                version = written.resource_version
                self._expectations.expect_version(_key(replica), uid=written.uid, resource_version=version, by_uid=store.by_uid)
        for there in store.index(BY_COMPONENT, component_text(replica)):
            meta = there.metadata
            if REVISION_HASH in meta.labels and meta.name not in names and controlled(replica, there) and not meta.deleting:
                await self._delete(SERVICES, there, replica, store)

    async def _prune(self, replica: InferenceReplica, revisions: Sequence[Revision], live: frozenset[str]) -> Sequence[Revision]:
        """Keep live revisions and the newest others (2.6)."""
        limit = replica.spec.revision_history_limit or self._settings().live.revision_history_limit
        if limit is None:
            return revisions
        others = [one for one in revisions if one.hash not in live]
        spent = {one.name for one in others[: max(0, len(others) - limit)]}
        for one in self._stores.revisions.index(BY_COMPONENT, component_text(replica)):
            if one.metadata.name in spent and controlled(replica, one):
                await self._delete(CONTROLLER_REVISIONS, one, replica, self._stores.revisions)
        return [one for one in revisions if one.name not in spent]

    async def _delete(self, resource: Resource, there: HasMeta, replica: InferenceReplica, store: Store[Any]) -> None:
        meta = there.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(resource, meta.name, namespace=replica.namespace, uid=meta.uid)
            self._expectations.expect_deleted(_key(replica), uid=meta.uid, by_uid=store.by_uid)


def _live_hashes(
    replica: InferenceReplica, *, wanted: Revision, revisions: Sequence[Revision], pods: Sequence[InstancePod]
) -> frozenset[str]:
    """Revisions that are wanted, run, are being moved to, or have a pod."""
    named = {wanted.name, replica.status.current_revision}
    for row in replica.status.rows:
        named |= {row.running_revision, row.target_revision}
        if row.operation is not None:
            named.add(row.operation.target_revision)
    return frozenset(one.hash for one in revisions if one.name in named) | {pod.revision_hash for pod in pods} - {""}


def _key(replica: InferenceReplica) -> ReplicaKey:
    return (replica.namespace, replica.name)
