"""Carries a decision out. Decides nothing.

Each write is idempotent, names the UID that was judged, and stands in an order in which a crash between any two leads to the same
end (design 3, step 6).
"""

from collections.abc import Mapping
from typing import Any

from regroup.kube.meta import ObjectRef
from regroup.kube.pod import Pod
from regroup.kube.resources import PODS, SERVICES, STATEFULSETS
from regroup.kube.workloads import Service, StatefulSet
from regroup.leaderworkerset.controller import podwrites
from regroup.leaderworkerset.controller.counters import Counters
from regroup.leaderworkerset.controller.endings import Ending, Endings
from regroup.leaderworkerset.controller.gangs import Gangs
from regroup.leaderworkerset.controller.podwrites import Overtaken
from regroup.leaderworkerset.controller.stores import Stores
from regroup.leaderworkerset.controller.target import Target, worker_set_body
from regroup.leaderworkerset.controller.telling import reference
from regroup.leaderworkerset.groups.decisions import (
    Admit,
    CreatePodGroups,
    CreateService,
    CreateWorkers,
    Decision,
    Defer,
    Exhaust,
    Force,
    PodId,
    Recover,
    Recreate,
    Release,
    RemoveWorkers,
    RepairWorkers,
    Skip,
    TellReady,
    Wait,
)
from regroup.leaderworkerset.keys import (
    ABSORBED_RESTARTS,
    EVIDENCE,
    EXHAUSTED,
    LEADER_UID,
    NAME,
    RECOVER,
    RECREATE_PENDING,
)
from regroup.leaderworkerset.objects import gang
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.telling.history import evidence
from regroup.leaderworkerset.view import GroupKey, GroupView
from regroup.runtime.clock import Clock
from regroup.runtime.events import EventRecorder, EventType
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, ApiError, Conflict, NotFound


class Actor:
    """The hands of the group controller."""

    def __init__(
        self,
        client: Client,
        *,
        recorder: EventRecorder,
        counters: Counters,
        stores: Stores,
        expectations: Expectations[GroupKey],
        gangs: Gangs,
        clock: Clock,
        endings: Endings,
    ) -> None:
        self._client = client
        self._clock = clock
        self._endings = endings
        self._gangs = gangs
        self._stores = stores
        self._expectations = expectations
        self._recorder = recorder
        self._counters = counters

    async def carry_out(self, decision: Decision, target: Target) -> None:
        """Do what was decided, and note what the cache has to show before the next look.

        Raises ``Overtaken`` when the judged object is not what it was, ``ApiError`` for what must be tried again.
        """
        match decision:
            case Recreate():
                await self._recreate(decision, target)
            case Exhaust():
                await self._exhaust(decision, target)
            case Recover():
                await self._recover(decision, target)
            case Release():
                if decision.forget_count and target.lws is not None:
                    await self._counters.clear(target.lws, target.view.key, revision=target.view.revision)
                await self._let_go(decision.pods, target)
            case Skip():
                await self._skip(decision, target)
            case Defer(marked=False):
                await self._defer(decision, target)
            case Force():
                await self._force(decision, target)
            case Admit():
                await self._admit(decision, target)
            case CreateService():
                await self._create_service(target)
            case CreatePodGroups():
                await self._create_pod_groups(decision, target)
            case CreateWorkers():
                await self._create_workers(target)
            case TellReady():
                written = await podwrites.tell_ready(
                    self._client, target.leader, ready=decision.ready, message=decision.why, now=self._clock.now()
                )
                self._expect_pod(target, written)
            case RepairWorkers():
                await self._repair_workers(decision, target)
            case RemoveWorkers():
                await self._remove_workers(decision, target)
            case Wait() if decision.event:
                kind: EventType = "Warning" if decision.warning else "Normal"
                self._tell(target, kind, decision.event, decision.why, related=decision.pod, on_pod=decision.on_pod)
            case _:
                pass

    async def _recreate(self, decision: Recreate, target: Target) -> None:
        """Count (where a counter is kept), delete the leader, tell all its workers at once, say so (5.2 steps 13-15)."""
        view, leader = target.view, decision.leader
        if decision.count is not None:
            await self._counters.raise_to(
                target.owner, view.key, revision=view.revision, leader_uid=leader.uid, to=decision.count
            )
        await self._delete_leader(view, leader)
        if not view.hash_mode:
            # Garbage collection would reach the workers one by one through their set. In Hash mode the condition group-ready
            # costs a write, and this is the one that can be done without. Parallel sets are taken away by a rule of their own.
            self._end_workers(view, leader.uid, with_set=not view.parallel)
        what = f"Recreating group {view.key.index} (leader pod {leader.name}): {decision.why}"
        self._tell(target, "Normal", "RecreateGroup", what, related=leader, evidence=evidence(decision, view))

    async def _admit(self, decision: Admit, target: Target) -> None:
        """Hand the counter over (Hash), then lift the gate: a crash in between finds the counter where it belongs (5.5)."""
        view = target.view
        if decision.owned is not None:
            await self._counters.hand_over(view.key, revision=view.revision, owned=decision.owned)
        self._expect_pod(target, await podwrites.lift_gate(self._client, target.leader))

    async def _exhaust(self, decision: Exhaust, target: Target) -> None:
        """Mark and retain the leader first, then the workers, then delete (5.6.1): a crash in between is finished later."""
        view = target.view
        if decision.mark:
            marks: Mapping[str, str | None] = {EXHAUSTED: "true", RECOVER: None, RECREATE_PENDING: None}
            await podwrites.retain(self._client, target.leader, annotations=marks)
        retain = {one.uid for one in decision.retain}
        for pod in view.workers:
            if pod.metadata.uid in retain:
                await podwrites.retain(self._client, pod, annotations={})
        if decision.delete:
            await self._delete_leader(view, decision.leader)
        what = f"Group {view.key.index} used up its restart budget and is retained: {decision.why}"
        self._tell(
            target,
            "Warning",
            "ReplicaRestartBudgetExceeded",
            what,
            related=decision.leader,
            evidence=evidence(decision, view),
        )

    async def _recover(self, decision: Recover, target: Target) -> None:
        """The count goes first: a crash after it leaves the group retained and the request standing (5.6.4)."""
        view = target.view
        await self._counters.clear(target.owner, view.key, revision=view.revision)
        await self._let_go(decision.pods, target)

    async def _let_go(self, pods: Any, target: Target) -> None:
        for pod in pods:
            await podwrites.let_go(self._client, pod, namespace=target.view.key.namespace, drop=(EXHAUSTED, RECOVER))

    async def _skip(self, decision: Skip, target: Target) -> None:
        for pod, absorbed in decision.absorb:
            note = {ABSORBED_RESTARTS: absorbed.text()}
            written = await podwrites.annotate(self._client, pod, note, namespace=target.view.key.namespace)
            self._expect_pod(target, written)
        if decision.unschedulable:
            first = decision.failures[0]
            what = f"Group {target.view.key.index} is not recreated: pod {decision.unschedulable} cannot be scheduled"
            noted = evidence(decision, target.view)
            self._tell(target, "Warning", "GroupUnschedulable", what, related=PodId(first.pod, first.uid), evidence=noted)

    async def _defer(self, decision: Defer, target: Target) -> None:
        note = {RECREATE_PENDING: str(decision.count + 1)}
        written = await podwrites.annotate(self._client, decision.leader, note, namespace=target.view.key.namespace)
        if written is None:
            raise Overtaken(f"leader {decision.leader.name} changed while its recreation was deferred")
        self._expect_pod(target, written)
        group = target.view.key.index
        what = f"Group {group} is recreated in {decision.remaining} s (restart count {decision.count}): {decision.why}"
        noted = evidence(decision, target.view)
        self._tell(target, "Warning", "GroupRestartBackoff", what, related=decision.leader, evidence=noted)

    async def _force(self, decision: Force, target: Target) -> None:
        namespace = target.view.key.namespace
        try:
            await self._client.delete(PODS, decision.pod.name, namespace=namespace, uid=decision.pod.uid, grace_period_seconds=0)
        except (NotFound, Conflict) as error:
            raise Overtaken(f"pod {decision.pod.name}: {error}") from error
        what = f"Removed pod {decision.pod.name} of group {target.view.key.index} by force: {decision.why}"
        noted = evidence(decision, target.view)
        self._tell(target, "Warning", "ForcedPodDeletion", what, related=decision.pod, evidence=noted)

    async def _create_service(self, target: Target) -> None:
        namespace = target.view.key.namespace
        service = objects.replica_service(target.owner, leader=target.leader)
        name = service["metadata"]["name"]
        try:
            made = await self._client.create(SERVICES, service, namespace=namespace, type=Service)
        except AlreadyExists:
            made = await self._client.get(SERVICES, name, namespace=namespace, type=Service)
            self._claim(made, target, what=f"Service {name}")
        except ApiError as error:
            self._tell(target, "Warning", "FailedCreate", f"Service {name} was not created: {error}")
            raise
        self._expectations.expect_created(target.view.key, uid=made.metadata.uid, by_uid=self._stores.services.by_uid)

    async def _create_pod_groups(self, decision: CreatePodGroups, target: Target) -> None:
        for wanted in gang.wanted(target.leader, provider=self._gangs.provider):
            if wanted.name in decision.names:
                await self._create_pod_group(wanted, target)

    async def _create_pod_group(self, wanted: gang.Wanted, target: Target) -> None:
        served = self._gangs.served
        assert served is not None  # noqa: S101 - what is not served is waited for, not created
        source = target.at_revision or target.owner
        if served.workloads is None:
            body = gang.volcano_pod_group(source, leader=target.leader, name=wanted.name)
        else:
            workload = self._gangs.workload_of(source)
            if workload is None:
                raise Overtaken(f"the Workload of {source.metadata.key} is gone")
            body = gang.native_pod_group(source, leader=target.leader, wanted=wanted, workload=workload, version=served.version)
        try:
            made = await self._client.create(served.pod_group, body, namespace=source.namespace, type=gang.PodGroup)
        except AlreadyExists:
            made = await self._adopt_pod_group(body, target)
        except ApiError as error:
            self._tell(target, "Warning", "FailedCreate", f"PodGroup {wanted.name} was not created: {error}")
            raise
        self._expectations.expect_created(target.view.key, uid=made.metadata.uid, by_uid=self._gangs.pod_group_by_uid)

    async def _adopt_pod_group(self, body: Mapping[str, Any], target: Target) -> gang.PodGroup:
        """A PodGroup that the cache does not show: it is behind, or the object lacks our labels. The Go controller sets none."""
        served, namespace, name = self._gangs.served, target.view.key.namespace, body["metadata"]["name"]
        assert served is not None  # noqa: S101 - as above
        found = await self._client.get(served.pod_group, name, namespace=namespace, type=gang.PodGroup)
        owner = found.metadata.controller
        ours = {target.leader.metadata.uid, target.owner.metadata.uid}
        if owner is None or owner.uid not in ours:
            whose = f"{owner.kind} {owner.name}" if owner is not None else "somebody else"
            why = f"PodGroup {name} exists and belongs to {whose}"
            if owner is None or owner.kind != "Pod" or owner.name != target.leader.metadata.name:
                meta = target.leader.metadata
                self._tell(target, "Warning", "UnexpectedPodGroupOwner", why, related=PodId(meta.name, meta.uid), on_pod=True)
            raise Overtaken(why)
        if NAME in found.metadata.labels:
            return found
        patch = {"metadata": {"uid": found.metadata.uid, "labels": body["metadata"]["labels"]}}
        return await self._client.merge_patch(served.pod_group, name, patch, namespace=namespace, type=gang.PodGroup)

    async def _create_workers(self, target: Target) -> None:
        namespace = target.view.key.namespace
        body = worker_set_body(target)
        name = body["metadata"]["name"]
        try:
            made = await self._client.create(STATEFULSETS, body, namespace=namespace, type=StatefulSet)
        except AlreadyExists:
            made = await self._client.get(STATEFULSETS, name, namespace=namespace, type=StatefulSet)
            self._claim(made, target, what=f"StatefulSet {name}")
        except ApiError as error:
            self._tell(target, "Warning", "FailedCreate", f"Worker set {name} was not created: {error}")
            raise
        self._expectations.expect_created(target.view.key, uid=made.metadata.uid, by_uid=self._stores.sets.by_uid)

    def _claim(self, found: Service | StatefulSet, target: Target, *, what: str) -> None:
        """A name that is taken: by ourselves (the cache is behind) or by a stranger, whose object is never touched."""
        owner = found.metadata.controller
        ours = {target.leader.metadata.uid, target.owner.metadata.uid}
        if owner is None or owner.uid not in ours:
            whose = f"{owner.kind} {owner.name}" if owner is not None else "somebody else"
            self._tell(target, "Warning", "FailedCreate", f"{what} exists and belongs to {whose}")
            raise Overtaken(f"{what} belongs to {whose}")

    async def _repair_workers(self, decision: RepairWorkers, target: Target) -> None:
        wanted = worker_set_body(target)
        patch: dict[str, Any] = {"metadata": {"uid": decision.set_uid}}
        if "owner" in decision.fields:
            patch["metadata"]["ownerReferences"] = wanted["metadata"]["ownerReferences"]
        spec = {name: wanted["spec"][name] for name in ("replicas", "template") if f"spec.{name}" in decision.fields}
        if spec:
            patch["spec"] = spec
        try:
            written = await self._client.merge_patch(
                STATEFULSETS, decision.set_name, patch, namespace=target.view.key.namespace, type=StatefulSet
            )
        except (NotFound, Conflict) as error:
            raise Overtaken(f"worker set {decision.set_name}: {error}") from error
        meta = written.metadata
        self._expectations.expect_version(
            target.view.key, uid=meta.uid, resource_version=meta.resource_version, by_uid=self._stores.sets.by_uid
        )

    async def _remove_workers(self, decision: RemoveWorkers, target: Target) -> None:
        namespace = target.view.key.namespace
        try:
            await self._client.delete(
                STATEFULSETS, decision.set_name, namespace=namespace, uid=decision.set_uid, propagation="Foreground"
            )
        except (NotFound, Conflict) as error:
            raise Overtaken(f"worker set {decision.set_name}: {error}") from error
        self._expectations.expect_deleted(target.view.key, uid=decision.set_uid, by_uid=self._stores.sets.by_uid)
        if decision.leader_uid:
            self._end_workers(target.view, decision.leader_uid, with_set=False)

    async def _delete_leader(self, view: GroupView, leader: PodId) -> None:
        try:
            await self._client.delete(PODS, leader.name, namespace=view.key.namespace, uid=leader.uid, propagation="Foreground")
        except (NotFound, Conflict) as error:
            # Gone, or replaced: what was judged does not exist any more (5.2 step 14), or the next look finds it again (C132).
            raise Overtaken(f"leader {leader.name}: {error}") from error
        self._expectations.expect_deleted(view.key, uid=leader.uid, by_uid=self._stores.pods.by_uid)

    def _end_workers(self, view: GroupView, leader_uid: str, *, with_set: bool) -> None:
        """Have all workers of one incarnation told to end. Their label names the incarnation, and nothing of a later one is made
        while that is under way; pods of sets that we did not make lack it and are left to garbage collection. A selector names
        nothing that our cache does not hold, so an impostor would be known; with one about, no pod is named by its label."""
        untold = [pod for pod in view.workers if not pod.deleting]
        workers = view.worker_set
        mine = with_set and workers is not None and not workers.deleting and workers.controlled_by(leader_uid)
        self._endings.add(
            Ending(
                group=view.key,
                leader_uid=leader_uid,
                pods=len(untold),
                set_name=workers.name if mine and workers is not None else "",
                set_uid=workers.uid if mine and workers is not None else "",
                labelled=not view.impostors and all(pod.metadata.labels.get(LEADER_UID) == leader_uid for pod in untold),
            )
        )

    def _expect_pod(self, target: Target, pod: Pod | None) -> None:
        if pod is None:
            return
        meta = pod.metadata
        self._expectations.expect_version(
            target.view.key, uid=meta.uid, resource_version=meta.resource_version, by_uid=self._stores.pods.by_uid
        )

    def tell_admitted(self, target: Target, *, why: str) -> None:
        """The leader that was held is let in (4.3)."""
        what = f"Group {target.view.key.index} may start: {why}"
        meta = target.leader.metadata
        self._tell(target, "Normal", "GroupReplacementAdmitted", what, related=PodId(meta.name, meta.uid))

    def _tell(
        self,
        target: Target,
        kind: EventType,
        reason: str,
        message: str,
        *,
        related: PodId | None = None,
        on_pod: bool = False,
        evidence: str = "",
    ) -> None:
        if target.lws is None:
            return
        pod = None
        if related is not None:
            pod = ObjectRef(api_version="v1", kind="Pod", namespace=target.view.key.namespace, name=related.name, uid=related.uid)
        about, beside = reference(target.lws), pod
        if on_pod and pod is not None:
            about, beside = pod, about
        self._recorder.event(
            about,
            type=kind,
            reason=reason,
            message=message,
            action=reason,
            related=beside,
            annotations={EVIDENCE: evidence} if evidence else None,
        )
