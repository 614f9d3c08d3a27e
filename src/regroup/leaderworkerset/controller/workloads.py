"""Keeps the scheduler's objects of a LeaderWorkerSet that is placed by Kubernetes' own gangs: its Workload, the PodGroup of all
replicas where they are one gang, and the clean-up of those of single groups (spec/leaderworkerset.md 3.6). Groups make their own
PodGroups: ``controller.act``.
"""

from dataclasses import dataclass
from typing import Any

from regroup.kube.meta import Condition
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.gangs import PROBE_AGAIN, Gangs, Served
from regroup.leaderworkerset.controller.ownership import is_owned
from regroup.leaderworkerset.controller.stores import BY_GROUP, BY_LEADERS, Stores
from regroup.leaderworkerset.controller.telling import reference
from regroup.leaderworkerset.keys import GROUP_INDEX, NAME, REVISION, SCHEDULING_LEVEL
from regroup.leaderworkerset.objects import gang
from regroup.leaderworkerset.objects.gang import FIXED_VERSION, Level, PodGroup, Provider, Workload
from regroup.leaderworkerset.status.ordinal import SCHEDULING
from regroup.leaderworkerset.view import GroupKey
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from regroup.wire.resource import Resource

Key = tuple[str, str]

CREATED = "SchedulingPrerequisitesCreated"
FAILED = "WorkloadCreateFailed"
UNSUPPORTED = "UnsupportedProviderCapability"


@dataclass(frozen=True, slots=True)
class Kept:
    """How the objects stand: the condition that says so, seconds until another try, and the name of the Workload."""

    condition: Condition | None = None
    again: float | None = None
    workload: str = ""


class _Refused(Exception):
    """They cannot be as they should be, for a reason that a person has to know. ``again``: seconds until another try."""

    def __init__(self, reason: str, why: str, *, again: float | None = None) -> None:
        super().__init__(why)
        self.reason = reason
        self.again = again


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

    async def keep(self, key: Key, lws: LeaderWorkerSet, *, count: int) -> Kept:
        """See that the Workload is there, and the PodGroup of all replicas, which can count on ``count`` pods.

        A failure stops nobody: the groups wait behind their gates, and everything else goes on. Raises ``ApiError`` for what
        only the caller's back-off helps against.
        """
        if lws.spec.scheduling is None or self._gangs.provider is Provider.VOLCANO:
            return Kept()
        name = ""
        try:
            served = await self._served(lws)
            found = await self._workload(key, lws, served, count=count)
            name = found.metadata.name
            if gang.used_level(lws) is Level.ALL:
                await self._group_of_all(key, lws, served, workload=found, count=count)
        except _Refused as error:
            self._tell(key, lws, error.reason, str(error))
            return Kept(_condition("False", error.reason, str(error)), error.again, name)
        except Invalid as error:
            why = f"Workload {name}: {error}"[:500]
            self._tell(key, lws, FAILED, why)
            return Kept(_condition("False", FAILED, why), workload=name)
        except ApiError as error:
            self._tell(key, lws, FAILED, f"Workload {name}: {error}"[:500])
            raise
        self._told.pop(key, None)
        return Kept(_condition("True", CREATED, "The objects that the scheduler places the groups by exist"), workload=name)

    async def clean_up(self, lws: LeaderWorkerSet, *, current: str, replicas: int) -> None:
        """Delete PodGroups of ours that no pod is placed by and none will be: of groups and incarnations that are gone and of old
        revisions, and that of all replicas while there are none."""
        served = self._gangs.served
        if served is None or self._gangs.provider is not Provider.KUBERNETES or lws.spec.scheduling is None:
            return
        for found in served.pod_groups.values():
            meta = found.metadata
            if not is_owned(found, lws) or meta.deleting:
                continue
            if self._is_needed(found, lws, current=current, replicas=replicas):
                continue
            try:
                await self._client.delete(served.pod_group, meta.name, namespace=lws.namespace, uid=meta.uid)
            except (NotFound, Conflict):
                continue

    def forget(self, key: Key) -> None:
        """The LeaderWorkerSet is gone."""
        self._told.pop(key, None)

    async def _served(self, lws: LeaderWorkerSet) -> Served:
        """What the cluster serves, once everything that this operator cannot do is ruled out."""
        if self._gangs.provider is Provider.NONE:
            # Admitted by another operator, or by this one under another setting: never ignored without a word.
            raise _Refused(UNSUPPORTED, "spec.scheduling is not followed: this operator was started without --scheduler-provider")
        if parent := gang.delegated_by(lws):
            raise _Refused(UNSUPPORTED, f"metadata.annotations[{parent}]: the Workload of a parent is not supported")
        await self._gangs.ready()
        try:
            at = gang.level(lws.spec.scheduling or {})
        except gang.SeveralLevels as error:
            raise _Refused("InvalidSchedulingConfiguration", f"spec.scheduling: {error}") from error
        served = self._gangs.served
        if served is None or served.workload is None or served.workloads is None:
            raise _Refused("APINotAvailable", self._gangs.why_not, again=PROBE_AGAIN)
        whole = at is Level.ALL and gang.is_gang(lws.spec.scheduling or {}, template=at)
        if whole and served.version == FIXED_VERSION:
            why = "a gang of all replicas needs an API whose gangs can be resized, or no scaling would ever end"
            raise _Refused(
                UNSUPPORTED, f"spec.scheduling.schedulingPolicy.gang: {why}; this cluster serves {served.pod_group.api_version}"
            )
        return served

    # -- the Workload

    async def _workload(self, key: Key, lws: LeaderWorkerSet, served: Served, *, count: int) -> Workload:
        wanted = gang.workload(lws, count=count, version=served.version)
        found = self._gangs.workload_of(lws)
        if found is None:
            found = await self._find_or_create(lws, served, wanted)
            assert served.workloads is not None  # noqa: S101 - the caller has looked
            self._expectations.expect_created(key, uid=found.metadata.uid, by_uid=served.workloads.by_uid)
        await self._resize(key, served, found, wanted)
        return found

    async def _find_or_create(self, lws: LeaderWorkerSet, served: Served, wanted: dict[str, Any]) -> Workload:
        """The one that another operator made carries no label of ours and need not have our name: its owner tells (KEP-666)."""
        resource = served.workload
        assert resource is not None  # noqa: S101 - the caller has looked
        for found in (await self._client.list_all(resource, namespace=lws.namespace, type=Workload)).items:
            if is_owned(found, lws) and not found.metadata.deleting:
                return await self._label(lws, resource, found)
        name = wanted["metadata"]["name"]
        try:
            return await self._client.create(resource, wanted, namespace=lws.namespace, type=Workload)
        except AlreadyExists:
            found = await self._client.get(resource, name, namespace=lws.namespace, type=Workload)
        if is_owned(found, lws) and found.metadata.deleting:
            raise _Refused(FAILED, f"Workload {name} is terminating", again=PROBE_AGAIN)
        if not is_owned(found, lws):
            raise _Refused(FAILED, f"Workload {name} exists and belongs to somebody else", again=PROBE_AGAIN)
        return found

    async def _label(self, lws: LeaderWorkerSet, resource: Resource, found: Workload) -> Workload:
        meta = found.metadata
        if meta.labels.get(NAME) == lws.name:
            return found
        patch = {"metadata": {"uid": meta.uid, "labels": {NAME: lws.name}}}
        return await self._client.merge_patch(resource, meta.name, patch, namespace=lws.namespace, type=Workload)

    async def _resize(self, key: Key, served: Served, found: Workload, wanted: dict[str, Any]) -> None:
        """Let the gangs of the Workload have the size of the newest revision, where the API lets it change.

        In v1alpha2 it cannot: each PodGroup has its own, and the Workload only shows where it came from.
        """
        if served.version == FIXED_VERSION:
            return
        assert served.workload is not None  # noqa: S101 - the caller has looked
        assert served.workloads is not None  # noqa: S101 - as above
        counts, templates = gang.min_counts(wanted["spec"]["podGroupTemplates"]), found.spec.templates
        if all(counts.get(name, count) == count for name, count in gang.min_counts(templates).items()):
            return
        meta = found.metadata
        patch = {"metadata": {"uid": meta.uid}, "spec": {"podGroupTemplates": gang.resized(templates, counts)}}
        written = await self._client.merge_patch(served.workload, meta.name, patch, namespace=meta.namespace, type=Workload)
        version = written.metadata.resource_version
        self._expectations.expect_version(key, uid=meta.uid, resource_version=version, by_uid=served.workloads.by_uid)

    # -- the PodGroup of all replicas

    async def _group_of_all(self, key: Key, lws: LeaderWorkerSet, served: Served, *, workload: Workload, count: int) -> None:
        """One that exists before any leader is let in, and whose gang is never larger than what there can be (KEP-666)."""
        body = gang.pod_group_of_all(lws, workload=workload, count=count, version=served.version)
        name, by_uid = body["metadata"]["name"], served.pod_groups.by_uid
        found = served.pod_groups.get(lws.namespace, name)
        if found is None:
            if lws.spec.replicas == 0:
                return
            try:
                found = await self._client.create(served.pod_group, body, namespace=lws.namespace, type=PodGroup)
            except AlreadyExists:
                found = await self._client.get(served.pod_group, name, namespace=lws.namespace, type=PodGroup)
            if not is_owned(found, lws):
                raise _Refused("PodGroupCreateFailed", f"PodGroup {name} exists and belongs to somebody else", again=PROBE_AGAIN)
            if SCHEDULING_LEVEL not in found.metadata.labels or NAME not in found.metadata.labels:
                patch = {"metadata": {"uid": found.metadata.uid, "labels": body["metadata"]["labels"]}}
                found = await self._client.merge_patch(served.pod_group, name, patch, namespace=lws.namespace, type=PodGroup)
            self._expectations.expect_created(key, uid=found.metadata.uid, by_uid=by_uid)
        if not is_owned(found, lws):
            raise _Refused("PodGroupCreateFailed", f"PodGroup {name} exists and belongs to somebody else", again=PROBE_AGAIN)
        if found.metadata.deleting or found.min_count in {None, count}:
            return
        policy = {"schedulingPolicy": {"gang": {"minCount": count}}}
        patch = {"metadata": {"uid": found.metadata.uid}, "spec": policy}
        written = await self._client.merge_patch(served.pod_group, name, patch, namespace=lws.namespace, type=PodGroup)
        version = written.metadata.resource_version
        self._expectations.expect_version(key, uid=found.metadata.uid, resource_version=version, by_uid=by_uid)

    # -- clean-up

    def _is_needed(self, found: PodGroup, lws: LeaderWorkerSet, *, current: str, replicas: int) -> bool:
        meta = found.metadata
        group, revision = meta.labels.get(GROUP_INDEX, ""), meta.labels.get(REVISION, "")
        if not group:
            return replicas > 0 or bool(self._stores.pods.index(BY_LEADERS, lws.metadata.key))
        pods = self._stores.pods.index(BY_GROUP, str(GroupKey(lws.namespace, lws.name, group)))
        if any(gang.native_name(pod.metadata.labels, pod.metadata.annotations) == meta.name for pod in pods):
            return True
        leader = any(pod.metadata.labels.get(REVISION) == revision for pod in pods)
        if leader or not group.isdecimal():
            # Of another incarnation, or the workers of this one are still to come.
            return leader and meta.labels.get(SCHEDULING_LEVEL) == Level.ROLE
        return revision == current and int(group) < replicas

    def _tell(self, key: Key, lws: LeaderWorkerSet, reason: str, why: str) -> None:
        if self._told.get(key) != why:
            self._told[key] = why
            self._recorder.event(reference(lws), type="Warning", reason="FailedCreate", message=why, action=reason)


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=SCHEDULING, status=status, reason=reason, message=message)
