"""Writes what makes a LeaderWorkerSet's leaders, whichever its kind: only what differs, and never what belongs to a stranger.

What is wanted is decided by ``leader_sets`` and ``leader_deployments``.
"""

from typing import Any, Generic, TypeVar

import msgspec
import structlog

from regroup.kube.canonical import canonical, covers
from regroup.kube.workloads import Deployment, StatefulSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.ownership import refuse_stranger
from regroup.leaderworkerset.controller.telling import Teller
from regroup.leaderworkerset.keys import WORKLOAD_NAME
from regroup.leaderworkerset.objects import gang
from regroup.runtime.expectations import Expectations
from regroup.runtime.store import Store
from regroup.wire.client import Client
from regroup.wire.errors import ApiError, Conflict, NotFound
from regroup.wire.resource import Resource

W = TypeVar("W", bound=StatefulSet | Deployment)
Key = tuple[str, str]


class LeaderWriter(Generic[W]):
    """One kind of workload. ``noun``: what a person is told that it is."""

    def __init__(
        self,
        client: Client,
        *,
        resource: Resource,
        view: type[W],
        store: Store[W],
        noun: str,
        expectations: Expectations[Key],
        teller: Teller,
    ) -> None:
        self._client = client
        self._resource = resource
        self._view = view
        self._store = store
        self._noun = noun
        self._expectations = expectations
        self._teller = teller
        self._as_applied: dict[Key, tuple[Any, ...]] = {}
        self._log = structlog.get_logger("leaderworkerset.set")

    def forget(self, key: Key) -> None:
        """The LeaderWorkerSet is gone."""
        self._as_applied.pop(key, None)

    def find(self, lws: LeaderWorkerSet) -> W | None:
        """The one that there is. Raises ``Taken``."""
        found = self._store.get(lws.namespace, lws.name)
        if found is not None:
            refuse_stranger(found, lws, kind=self._resource.kind)
        return found

    def says(self, key: Key, existing: W, wanted: dict[str, Any]) -> bool:
        """Whether labels, annotations and template are as wanted. The template is compared once for each version of both."""
        metadata = wanted["metadata"]
        if not covers(dict(existing.metadata.labels), metadata["labels"]):
            return False
        if not covers(dict(existing.metadata.annotations), metadata["annotations"]):
            return False
        version = (existing.metadata.uid, existing.metadata.generation, msgspec.json.encode(wanted["spec"]["template"]))
        if self._as_applied.get(key) == version:
            return True
        if not template_covers(existing, wanted):
            return False
        self._as_applied[key] = version
        return True

    async def apply(self, key: Key, lws: LeaderWorkerSet, existing: W | None, wanted: dict[str, Any]) -> W | None:
        """Apply it. None: it changed hands meanwhile, and the watch will tell. Raises ``ApiError``, ``Taken``."""
        if existing is None:
            await self._see_that_name_is_free(lws)
        else:
            # One of that name with another UID is refused instead of taken over.
            wanted["metadata"]["uid"] = existing.metadata.uid
            if template_covers(existing, wanted):
                # Another operator under our name (the Go controller) may have said more in it: an apply that leaves that out
                # would take it away, and so replace every leader of groups that only scale.
                wanted["spec"]["template"] = msgspec.json.decode(existing.spec.template)
        try:
            applied: W = await self._client.apply(
                self._resource, lws.name, wanted, namespace=lws.namespace, type=self._view, force=True, field_manager="lws"
            )
        except (Conflict, NotFound) as error:
            self._log.info("leader workload changed hands", kind=self._resource.kind, lws=lws.metadata.key, error=str(error))
            return None
        except ApiError as error:
            reason = "FailedCreate" if existing is None else "FailedUpdate"
            self._teller.tell(lws, "Warning", reason, f"Leader {self._noun} {lws.name} was not written: {error}")
            raise
        meta, by_uid = applied.metadata, self._store.by_uid
        if existing is None:
            self._expectations.expect_created(key, uid=meta.uid, by_uid=by_uid)
        else:
            self._expectations.expect_version(key, uid=meta.uid, resource_version=meta.resource_version, by_uid=by_uid)
        return applied

    async def _see_that_name_is_free(self, lws: LeaderWorkerSet) -> None:
        """An apply would take over an object that the cache does not show because it lacks our label (C98, C112)."""
        try:
            found = await self._client.get(self._resource, lws.name, namespace=lws.namespace, type=self._view)
        except NotFound:
            return
        refuse_stranger(found, lws, kind=self._resource.kind)


def template_covers(existing: StatefulSet | Deployment, wanted: dict[str, Any]) -> bool:
    """Whether the pod template says all that is wanted of it, and perhaps more."""
    live = msgspec.json.decode(existing.spec.template) if existing.spec.template else {}
    return covers(canonical(live), canonical(wanted["spec"]["template"]))


def noted_workload(existing: StatefulSet | Deployment | None) -> str:
    """The Workload that the pod template names. It stays for good: another name would replace every leader."""
    if existing is None or WORKLOAD_NAME.encode() not in bytes(existing.spec.template):
        return ""
    return gang.noted_workload(msgspec.json.decode(existing.spec.template))
