"""A stand-in for storage: every PersistentVolumeClaim is bound to a volume of its own as soon as it exists.

There is no storage behind it. It only lets pods with claims be scheduled, as dynamic provisioning would.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from regroup.kube.meta import ObjectView, View
from regroup.runtime.controller import Controller, Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.store import Change
from regroup.sandbox.controllers.resources import PERSISTENT_VOLUME_CLAIMS
from regroup.wire.errors import NotFound

NAME = "persistentvolume-binder"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

Key = tuple[str, str]


class Requests(View, frozen=True, gc=False, kw_only=True):
    """``spec.resources``."""

    requests: dict[str, Any] | None = None


class ClaimSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a PersistentVolumeClaim."""

    volume_name: str = ""
    raw_access_modes: tuple[str, ...] | None = msgspec.field(name="accessModes", default=None)
    resources: Requests | None = None


class ClaimStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a PersistentVolumeClaim."""

    phase: str = ""


class BindableClaim(ObjectView, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim as the binder sees it."""

    spec: ClaimSpec = ClaimSpec()
    raw_status: ClaimStatus | None = msgspec.field(name="status", default=None)

    @property
    def bound(self) -> bool:
        return self.raw_status is not None and self.raw_status.phase == "Bound"


def binding(claim: BindableClaim) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The patches of the claim and of its status that bind it; None for what is done already."""
    if claim.metadata.deleting or (claim.bound and claim.spec.volume_name):
        return None, None
    uid = claim.metadata.uid
    volume = claim.spec.volume_name or f"pvc-{uid}"
    spec = None
    if not claim.spec.volume_name:
        annotations = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
        spec = {"metadata": {"uid": uid, "annotations": annotations}, "spec": {"volumeName": volume}}
    requests = claim.spec.resources.requests if claim.spec.resources is not None else None
    status = {
        "phase": "Bound",
        "accessModes": list(claim.spec.raw_access_modes or ()),
        "capacity": {"storage": (requests or {}).get("storage", "0")},
    }
    return spec, {"metadata": {"uid": uid}, "status": status}


class VolumeBinder:
    """Binds claims. A key is a claim."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._claims = manager.cache.informer(PERSISTENT_VOLUME_CLAIMS, type=BindableClaim)
        self.controller: Controller[Key] = Controller(NAME, self.reconcile, clock=manager.clock, workers=2)
        self.controller.watches(self._claims, _key)

    async def reconcile(self, key: Key) -> Result:
        """Bind one claim: first the volume's name, then the status that announces it."""
        claim = self._claims.store.get(*key)
        if claim is None:
            return Result()
        spec, status = binding(claim)
        namespace, name = key
        try:
            if spec is not None:
                await self._client.merge_patch(PERSISTENT_VOLUME_CLAIMS, name, spec, namespace=namespace)
            if status is not None:
                await self._client.merge_patch(PERSISTENT_VOLUME_CLAIMS, name, status, namespace=namespace, subresource="status")
        except NotFound:
            return Result()
        return Result()


def setup(manager: Manager, *, recorder: EventRecorder | None = None) -> None:  # noqa: ARG001 - every controller is set up alike
    """Add the binder to the manager."""
    manager.add_controller(VolumeBinder(manager).controller)


def _key(change: Change[BindableClaim]) -> Iterable[Key]:
    return ((change.new.metadata.namespace, change.new.metadata.name),) if change.new is not None else ()
