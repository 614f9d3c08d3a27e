"""Keeps the Workload of a LeaderWorkerSet that is scheduled by Kubernetes' own gangs, and clears its PodGroups away
(spec/leaderworkerset.md 3.6). Groups make their own PodGroups: ``controller.act``.
"""

from typing import Any

from regroup.kube.meta import Condition
from regroup.leaderworkerset import gang
from regroup.leaderworkerset.controller.gangs import PROBE_AGAIN, Gangs
from regroup.leaderworkerset.controller.stores import BY_GROUP, Stores
from regroup.leaderworkerset.controller.telling import reference
from regroup.leaderworkerset.gang import Provider, Workload
from regroup.leaderworkerset.keys import GROUP_INDEX, NAME, REVISION
from regroup.leaderworkerset.status import SCHEDULING
from regroup.leaderworkerset.types import LeaderWorkerSet
from regroup.leaderworkerset.view import GroupKey
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound

Key = tuple[str, str]

CREATED = "SchedulingPrerequisitesCreated"


class Workloads:
    """The Workloads of all LeaderWorkerSets with ``spec.scheduling``."""

    def __init__(
        self, client: Client, *, gangs: Gangs, stores: Stores, expectations: Expectations[Key], recorder: EventRecorder
    ) -> None:
        self._client = client
        self._gangs = gangs
        self._stores = stores
        self._expectations = expectations
        self._recorder = recorder
        self._told: dict[Key, str] = {}

    async def keep(self, key: Key, lws: LeaderWorkerSet) -> tuple[Condition | None, float | None]:
        """See that the Workload is there; gives the condition that says so, and seconds until it is to be tried again.

        A failure stops nobody: the groups wait behind their gates, and everything else goes on. Raises ``ApiError`` for what
        only the caller's back-off helps against.
        """
        if lws.spec.scheduling is None or self._gangs.provider is Provider.VOLCANO:
            return None, None
        if self._gangs.provider is Provider.NONE:
            # Admitted by another operator, or by this one under another setting: never ignored without a word.
            why = "spec.scheduling is not followed: this operator was started without --scheduler-provider"
            return self._failed(key, lws, "UnsupportedProviderCapability", why), None
        await self._gangs.ready()
        try:
            gang.level(lws.spec.scheduling)
        except gang.SeveralLevels as error:
            return self._failed(key, lws, "InvalidSchedulingConfiguration", f"spec.scheduling: {error}"), None
        served = self._gangs.served
        if served is None or served.workload is None or served.workloads is None:
            return self._failed(key, lws, "APINotAvailable", self._gangs.why_not), PROBE_AGAIN
        wanted = gang.workload(lws, version=served.version)
        name = wanted["metadata"]["name"]
        found = served.workloads.get(lws.namespace, name)
        try:
            if found is None:
                found = await self._create(lws, wanted)
                self._expectations.expect_created(key, uid=found.metadata.uid, by_uid=served.workloads.by_uid)
            owner = found.metadata.controller
            if owner is None or owner.uid != lws.metadata.uid:
                why = f"Workload {name} exists and belongs to somebody else"
                return self._failed(key, lws, "WorkloadCreateFailed", why), PROBE_AGAIN
            await self._resize(key, found, wanted)
        except Invalid as error:
            return self._failed(key, lws, "WorkloadCreateFailed", f"Workload {name}: {error}"[:500]), None
        except ApiError as error:
            self._failed(key, lws, "WorkloadCreateFailed", f"Workload {name}: {error}"[:500])
            raise
        self._told.pop(key, None)
        return _condition("True", CREATED, "The objects that the scheduler places the groups by exist"), None

    async def clean_up(self, lws: LeaderWorkerSet, *, current: str, replicas: int) -> None:
        """Delete PodGroups of ours that no pod is placed by and none will be: of groups that are gone and of old revisions."""
        served = self._gangs.served
        if served is None or self._gangs.provider is not Provider.KUBERNETES or lws.spec.scheduling is None:
            return
        for found in served.pod_groups.values():
            meta = found.metadata
            owner = meta.controller
            if owner is None or owner.uid != lws.metadata.uid or meta.deleting:
                continue
            group, revision = meta.labels.get(GROUP_INDEX, ""), meta.labels.get(REVISION, "")
            if revision == current and group.isdecimal() and int(group) < replicas:
                continue
            pods = self._stores.pods.index(BY_GROUP, str(GroupKey(lws.namespace, lws.name, group)))
            if any(pod.metadata.labels.get(REVISION) == revision for pod in pods):
                continue
            try:
                await self._client.delete(served.pod_group, meta.name, namespace=lws.namespace, uid=meta.uid)
            except (NotFound, Conflict):
                continue

    def forget(self, key: Key) -> None:
        """The LeaderWorkerSet is gone."""
        self._told.pop(key, None)

    async def _create(self, lws: LeaderWorkerSet, wanted: dict[str, Any]) -> Workload:
        served = self._gangs.served
        assert served is not None  # noqa: S101 - the caller has looked
        assert served.workload is not None  # noqa: S101 - as above
        try:
            return await self._client.create(served.workload, wanted, namespace=lws.namespace, type=Workload)
        except AlreadyExists:
            # The cache is behind, or it lacks our label because another operator made it.
            name = wanted["metadata"]["name"]
            found = await self._client.get(served.workload, name, namespace=lws.namespace, type=Workload)
            owner = found.metadata.controller
            if NAME in found.metadata.labels or owner is None or owner.uid != lws.metadata.uid:
                return found
            patch = {"metadata": {"uid": found.metadata.uid, "labels": {NAME: lws.name}}}
            return await self._client.merge_patch(served.workload, name, patch, namespace=lws.namespace, type=Workload)

    async def _resize(self, key: Key, found: Workload, wanted: dict[str, Any]) -> None:
        """Let the gangs of the Workload have the size of the newest revision, where the API lets it change.

        In v1alpha2 it cannot: each PodGroup has its own, and the Workload only shows where it came from.
        """
        served = self._gangs.served
        assert served is not None  # noqa: S101 - the caller has looked
        assert served.workload is not None  # noqa: S101 - as above
        assert served.workloads is not None  # noqa: S101 - as above
        if served.version == "v1alpha2":
            return
        counts = gang.min_counts(wanted["spec"]["podGroupTemplates"])
        if gang.min_counts(found.spec.templates) == counts:
            return
        patch = {"metadata": {"uid": found.metadata.uid}, "spec": {"podGroupTemplates": wanted["spec"]["podGroupTemplates"]}}
        meta = found.metadata
        written = await self._client.merge_patch(served.workload, meta.name, patch, namespace=meta.namespace, type=Workload)
        version = written.metadata.resource_version
        self._expectations.expect_version(key, uid=meta.uid, resource_version=version, by_uid=served.workloads.by_uid)

    def _failed(self, key: Key, lws: LeaderWorkerSet, reason: str, why: str) -> Condition:
        if self._told.get(key) != why:
            self._told[key] = why
            self._recorder.event(reference(lws), type="Warning", reason="FailedCreate", message=why, action=reason)
        return _condition("False", reason, why)


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=SCHEDULING, status=status, reason=reason, message=message)
