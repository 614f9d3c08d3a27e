"""Carries out what a pass came to. Decides nothing: each action names the UID that was judged and may be done twice."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec

from regroup.kube.meta import ObjectView, find_condition
from regroup.kube.resources import PODS
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.controller.belongings import controlled
from regroup.omenative.controller.stores import BY_COMPONENT, ReplicaKey, Stores, component_text
from regroup.omenative.engine.refusals import NAME_TAKEN, classify
from regroup.omenative.keys import (
    INCARNATION,
    INFERENCE_REPLICAS,
    INSTANCE_INDEX,
    POD_GROUPS,
    POD_ORDINAL,
    RUNNER,
    SERVING_GATE,
)
from regroup.omenative.objects import instances as objects
from regroup.omenative.objects.instances import component_labels
from regroup.omenative.outcome import (
    OF_REPLICA,
    Action,
    CreatePod,
    DeletePod,
    DeletePodGroup,
    DropAnnotation,
    DropFinalizer,
    EnsurePodGroup,
    PatchImages,
    Refusal,
    SetGate,
)
from regroup.omenative.view import InstancePod, ReplicaView
from regroup.runtime.clock import Clock, timestamp
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, WireError
from regroup.wire.patches import pointer

_AT_ONCE = 16
"""Instances that are worked on at the same time."""
GATE_MANAGER = "regroup-serving"
"""Field manager of the serving condition: it owns that one entry and nothing else of a pod's status."""


@dataclass(slots=True)
class Report:
    """What became of the actions."""

    refusals: list[Refusal] = field(default_factory=list)
    errors: list[WireError] = field(default_factory=list)
    """Failures that are no word on the object: the pass is tried again with back-off."""
    overtaken: bool = False
    """Something was not as judged: another look on newer objects decides anew."""


class Actor:
    """The hands of the replica controller."""

    def __init__(self, client: Client, *, clock: Clock, stores: Stores, expectations: Expectations[ReplicaKey]) -> None:
        self._client = client
        self._clock = clock
        self._stores = stores
        self._expectations = expectations

    async def carry_out(self, actions: Sequence[Action], view: ReplicaView) -> Report:
        """Do all of it: Instances beside each other, the actions of one Instance in their order. A failure stops only its own
        Instance.

        What concerns the whole replica (index -1) comes last, and not after a failure: an order is taken from its mailbox once it
        is carried out, so that none is lost with a process that dies between the two.
        """
        report = Report()
        room = asyncio.Semaphore(_AT_ONCE)
        by_instance: dict[int, list[Action]] = {}
        for action in actions:
            by_instance.setdefault(action.index, []).append(action)
        of_replica = by_instance.pop(OF_REPLICA, [])

        async def one(work: Sequence[Action]) -> None:
            async with room:
                await self._instance(work, view, report)

        async with asyncio.TaskGroup() as tasks:
            for work in by_instance.values():
                tasks.create_task(one(work))
        if not report.errors:
            await self._instance(of_replica, view, report)
        return report

    async def _instance(self, work: Sequence[Action], view: ReplicaView, report: Report) -> None:
        # Neighbours of one kind do not depend on each other: the pods of a gang are made, or told to end, together.
        for kind, group in groupby(work, key=type):
            before = len(report.refusals) + len(report.errors)
            alike = list(group)
            if kind is DeletePod and await self._delete_together(
                [one for one in alike if isinstance(one, DeletePod)], view, report
            ):
                continue
            await asyncio.gather(*(self._try(action, view, report) for action in alike))
            if len(report.refusals) + len(report.errors) > before:
                return

    async def _try(self, action: Action, view: ReplicaView, report: Report) -> None:
        try:
            await self._do(action, view, report)
        except (NotFound, Conflict):
            report.overtaken = True
        except WireError as error:
            report.errors.append(error)

    async def _do(self, action: Action, view: ReplicaView, report: Report) -> None:
        replica = view.replica
        match action:
            case CreatePod():
                await self._create(action, view, report)
            case DeletePod():
                await self._delete(action, replica)
            case SetGate():
                await self._set_gate(action, replica)
            case PatchImages():
                await self._patch_images(action, replica)
            case EnsurePodGroup():
                await self._ensure_pod_group(action, replica)
            case DeletePodGroup():
                await self._gone(lambda: self._client.delete(POD_GROUPS, action.name, namespace=replica.namespace))
            case DropAnnotation():
                await self._drop_annotation(action, replica)
            case DropFinalizer():
                await self._drop_finalizer(action, replica)
            case _:
                raise TypeError(f"no hand for {type(action).__name__}")

    async def _create(self, action: CreatePod, view: ReplicaView, report: Report) -> None:
        replica = view.replica
        revision = next(one for one in view.revisions if one.name == action.revision)
        grace = view.settings.live.termination_grace_period_seconds
        body = objects.pod(replica, revision, action, termination_grace=grace)
        try:
            made = await self._client.create(PODS, body, namespace=replica.namespace, type=InstancePod)
        except AlreadyExists:
            await self._claim(action, replica, report)
            return
        except ApiError as error:
            kind = classify(code=error.code, message=error.message)
            if kind is None:
                raise
            report.refusals.append(Refusal(index=action.index, pod=action.name, kind=kind, message=error.message[:1024]))
            return
        self._expect(replica, made, created=True)

    async def _claim(self, action: CreatePod, replica: InferenceReplica, report: Report) -> None:
        """A name that is taken: by ourselves (the cache is behind) or by a stranger, whose pod is never touched."""
        found = await self._client.get(PODS, action.name, namespace=replica.namespace, type=InstancePod)
        owner = found.metadata.controller
        if controlled(replica, found):
            changed = _changed_labels(found, action, replica)
            if not changed:
                # Of this incarnation: it was made by a pass whose answer was lost. Of an earlier one: it is still going.
                self._expect(replica, found, created=True)
                report.overtaken = True
                return
            # We look our pods up by their labels, so it takes part in nothing until it has them again.
            message = f"pod {action.name} exists without its labels {', '.join(changed)}: give them back, or delete it"
        else:
            whose = f"{owner.kind} {owner.name}" if owner is not None else "nobody that we know"
            message = f"pod {action.name} exists and belongs to {whose}"
        report.refusals.append(Refusal(index=action.index, pod=action.name, kind=NAME_TAKEN, message=message))

    async def _delete_together(self, deletions: Sequence[DeletePod], view: ReplicaView, report: Report) -> bool:
        """End several pods of one incarnation of an Instance with one request; False where that cannot be said by labels.

        The selector names an incarnation. The API server deletes what it finds by names, which those of the next one have again:
        none is made before this request has ended, because the pass that would waits for it. A pod that our cache has under it
        and that was not judged stands in the way: then each goes by its UID.
        """
        replica = view.replica
        judged = {deletion.uid for deletion in deletions}
        pods = [pod for pod in view.pods if pod.uid in judged]
        incarnations = {pod.metadata.labels.get(INCARNATION, "") for pod in pods}
        if (
            len(deletions) < 2
            or len(pods) != len(judged)
            or len(incarnations) != 1
            or any(one.grace is not None for one in deletions)
        ):
            return False
        wanted = {**component_labels(replica), INSTANCE_INDEX: str(deletions[0].index), INCARNATION: incarnations.pop()}
        labelled = self._stores.pods.index(BY_COMPONENT, component_text(replica))
        alike = {pod.uid for pod in labelled if all(pod.metadata.labels.get(name) == value for name, value in wanted.items())}
        if not wanted[INCARNATION] or alike != judged:
            return False
        selector = ",".join(f"{name}={value}" for name, value in wanted.items())
        try:
            await self._client.delete_collection(PODS, namespace=replica.namespace, label_selector=selector)
        except WireError as error:
            report.errors.append(error)
            return True
        for uid in judged:
            self._expectations.expect_deleted(_key(replica), uid=uid, by_uid=self._stores.pods.by_uid)
        return True

    async def _delete(self, action: DeletePod, replica: InferenceReplica) -> None:
        try:
            await self._client.delete(
                PODS, action.name, namespace=replica.namespace, uid=action.uid, grace_period_seconds=action.grace
            )
        except NotFound:
            return
        self._expectations.expect_deleted(_key(replica), uid=action.uid, by_uid=self._stores.pods.by_uid)

    async def _set_gate(self, action: SetGate, replica: InferenceReplica) -> None:
        pod = self._stores.pods.by_uid(action.uid)
        status = "False" if action.holders else "True"
        before = find_condition(pod.status.conditions, SERVING_GATE) if pod is not None else None
        since = before.last_transition_time if before is not None and before.status == status else None
        condition = {
            "type": SERVING_GATE,
            "status": status,
            "reason": "NotReady" if action.holders else "Serving",
            "message": msgspec.json.encode([{"userAgent": agent, "key": key} for agent, key in action.holders]).decode(),
            "lastTransitionTime": timestamp(since or self._clock.now()),
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": action.name, "namespace": replica.namespace, "uid": action.uid},
            "status": {"conditions": [condition]},
        }
        # Applied by a manager of its own, the entry is ours alone: a kubelet that writes the others meanwhile is no conflict.
        written = await self._client.apply(
            PODS,
            action.name,
            body,
            namespace=replica.namespace,
            subresource="status",
            field_manager=GATE_MANAGER,
            type=InstancePod,
        )
        self._expect(replica, written)

    async def _patch_images(self, action: PatchImages, replica: InferenceReplica) -> None:
        pod = self._stores.pods.by_uid(action.uid)
        if pod is None:
            raise NotFound(404, message=f"pod {action.name} is gone")
        places = {container.name: place for place, container in enumerate(pod.spec.containers)}
        ops: list[Mapping[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": action.uid}]
        for name, image in action.images:
            path = f"/spec/containers/{places[name]}"
            ops += [
                {"op": "test", "path": f"{path}/name", "value": name},
                {"op": "replace", "path": f"{path}/image", "value": image},
            ]
        ops += [{"op": "add", "path": pointer("metadata", "labels", key), "value": value} for key, value in action.labels]
        try:
            written = await self._client.json_patch(PODS, action.name, ops, namespace=replica.namespace, type=InstancePod)
        except Invalid as error:
            raise Conflict(409, message=f"pod {action.name} is not as it was: {error}") from error
        self._expect(replica, written)

    async def _ensure_pod_group(self, action: EnsurePodGroup, replica: InferenceReplica) -> None:
        body = objects.pod_group(replica, index=action.index, min_member=action.min_member, timeout=action.timeout)
        try:
            made = await self._client.create(POD_GROUPS, body, namespace=replica.namespace, type=ObjectView)
        except AlreadyExists:
            return
        store = self._stores.pod_groups
        if store is not None:
            self._expectations.expect_created(_key(replica), uid=made.metadata.uid, by_uid=store.by_uid)

    async def _drop_annotation(self, action: DropAnnotation, replica: InferenceReplica) -> None:
        path = pointer("metadata", "annotations", action.key)
        ops = [
            {"op": "test", "path": "/metadata/uid", "value": replica.metadata.uid},
            {"op": "test", "path": path, "value": action.value},
            {"op": "remove", "path": path},
        ]
        await self._patch_replica(ops, replica)

    async def _drop_finalizer(self, action: DropFinalizer, replica: InferenceReplica) -> None:
        if action.name not in replica.metadata.finalizers:
            return
        path = f"/metadata/finalizers/{list(replica.metadata.finalizers).index(action.name)}"
        ops = [
            {"op": "test", "path": "/metadata/uid", "value": replica.metadata.uid},
            {"op": "test", "path": path, "value": action.name},
            {"op": "remove", "path": path},
        ]
        await self._patch_replica(ops, replica)

    async def _patch_replica(self, ops: Sequence[Mapping[str, Any]], replica: InferenceReplica) -> None:
        try:
            written = await self._client.json_patch(
                INFERENCE_REPLICAS, replica.name, ops, namespace=replica.namespace, type=InferenceReplica
            )
        except (NotFound, Invalid, Conflict):
            return  # somebody took it away or wrote another order: the next pass reads what stands then
        meta = written.metadata
        self._expectations.expect_version(
            _key(replica), uid=meta.uid, resource_version=meta.resource_version, by_uid=self._stores.replicas.by_uid
        )

    async def _gone(self, delete: Callable[[], Awaitable[None]]) -> None:
        try:
            await delete()
        except NotFound:
            return

    def _expect(self, replica: InferenceReplica, pod: InstancePod, *, created: bool = False) -> None:
        meta = pod.metadata
        if created:
            self._expectations.expect_created(_key(replica), uid=meta.uid, by_uid=self._stores.pods.by_uid)
        else:
            self._expectations.expect_version(
                _key(replica), uid=meta.uid, resource_version=meta.resource_version, by_uid=self._stores.pods.by_uid
            )


def _changed_labels(found: InstancePod, action: CreatePod, replica: InferenceReplica) -> list[str]:
    """The labels, as they are to be, by which a pod of ours is known and that somebody has changed."""
    wanted = {
        **component_labels(replica),
        INSTANCE_INDEX: str(action.index),
        RUNNER: action.runner,
        POD_ORDINAL: str(action.ordinal),
    }
    return [f"{name}={value}" for name, value in wanted.items() if found.metadata.labels.get(name) != value]


def _key(replica: InferenceReplica) -> ReplicaKey:
    return (replica.namespace, replica.name)
