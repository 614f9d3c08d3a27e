"""Claims of ephemeral volumes: each pod gets one for each of its ``spec.volumes[].ephemeral``, which it owns, so that the claim
goes when the pod goes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regroup.kube.meta import object_ref, owner_reference
from regroup.kube.resources import PODS
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.informers import pod_informer
from regroup.sandbox.controllers.resources import PERSISTENT_VOLUME_CLAIMS
from regroup.sandbox.controllers.views import Claim, Pod
from regroup.wire.errors import AlreadyExists, WireError

NAME = "ephemeral-volume-controller"
WORKERS = 2

Key = tuple[str, str]


class NotTheOwner(WireError):
    """A claim has the name that a pod's volume needs, and belongs to somebody else."""


def claim_name(pod: Pod, volume: str) -> str:
    """The claim of a pod's ephemeral volume."""
    return f"{pod.metadata.name}-{volume}"


def claim_of(pod: Pod, volume: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """The claim to be made for an ephemeral volume of ``pod``."""
    template = source.get("volumeClaimTemplate") or {}
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(pod, volume),
            "namespace": pod.metadata.namespace,
            "labels": dict(meta.get("labels") or {}),
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": [owner_reference(pod, api_version="v1", kind="Pod")],
        },
        "spec": dict(template.get("spec") or {}),
    }


def ephemeral_volumes(pod: Pod) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Name and source of each ephemeral volume."""
    return [(volume.name, volume.ephemeral) for volume in pod.spec.raw_volumes or () if volume.ephemeral is not None]


class EphemeralVolumes:
    """Makes the claims. A key is a pod."""

    def __init__(self, manager: Manager, *, recorder: EventRecorder | None) -> None:
        self._client = manager.client
        self._recorder = recorder
        self._pods = pod_informer(manager)
        self._claims = manager.cache.informer(PERSISTENT_VOLUME_CLAIMS, type=Claim)
        self.controller: Controller[Key] = Controller(NAME, self.reconcile, clock=manager.clock, workers=WORKERS)
        self.controller.watches(self._pods, _key_of_pod)
        self.controller.watches(self._claims, self._keys_of_claim)

    async def reconcile(self, key: Key) -> Result:
        """Make the claims that a pod lacks; one that somebody else has is told and never touched."""
        pod = self._pods.store.get(*key)
        if pod is None or pod.deleting:
            return Result()
        for volume, source in ephemeral_volumes(pod):
            try:
                await self._provide(pod, volume, source)
            except WireError as error:
                self._tell(pod, f"ephemeral volume {volume}: {error}")
                raise
        return Result()

    async def _provide(self, pod: Pod, volume: str, source: Mapping[str, Any]) -> None:
        name, namespace = claim_name(pod, volume), pod.metadata.namespace
        found = self._claims.store.get(namespace, name)
        if found is None:
            try:
                await self._client.create(PERSISTENT_VOLUME_CLAIMS, claim_of(pod, volume, source), namespace=namespace)
            except AlreadyExists:
                # Ours that the cache has not shown, or somebody else's: a live look tells.
                found = await self._client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace=namespace, type=Claim)
            else:
                return
        owner = found.metadata.controller
        if owner is None or owner.uid != pod.metadata.uid:
            raise NotTheOwner(f"PVC {namespace}/{name} was not created for pod {pod.metadata.key} (pod is not owner)")

    def _tell(self, pod: Pod, message: str) -> None:
        if self._recorder is not None:
            ref = object_ref(pod, api_version="v1", kind=PODS.kind)
            self._recorder.event(ref, type="Warning", reason="FailedBinding", message=message, action="Binding")

    def _keys_of_claim(self, change: Change[Claim]) -> Iterable[Key]:
        """The pods that wait for a claim of this name to go: when one is deleted, those whose names it may begin with."""
        if change.new is not None:
            return ()
        meta = change.object.metadata
        parts = meta.name.split("-")
        names = ("-".join(parts[:count]) for count in range(1, len(parts)))
        return [(meta.namespace, name) for name in names if self._pods.store.get(meta.namespace, name) is not None]


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:
    """Add the controller to the manager."""
    manager.add_controller(EphemeralVolumes(manager, recorder=recorder).controller)


def _key_of_pod(change: Change[Pod]) -> Iterable[Key]:
    """Only pods that have such volumes, and only when they are new: their volumes cannot be changed."""
    pod = change.new
    if pod is None or pod.deleting or change.old is not None or not ephemeral_volumes(pod):
        return ()
    return ((pod.metadata.namespace, pod.metadata.name),)
