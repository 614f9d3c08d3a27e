"""Writes the status of InferenceServices: only what changed, figures that nobody waits for together (spec/omenative.md 1.1.5)."""

from collections.abc import Mapping
from typing import Any

from regroup.kube.meta import object_ref
from regroup.omenative.api.types import InferenceService, InferenceServiceStatus
from regroup.omenative.controller.service_stores import ServiceKey, ServiceStores
from regroup.omenative.keys import INFERENCE_SERVICES
from regroup.omenative.service.project import differences
from regroup.omenative.service.readiness import ComponentState, status_wire
from regroup.runtime.clock import Clock
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import Conflict, NotFound

_PATIENT = 10.0
"""Seconds that figures are held back, to be joined with the next ones: while an Instance restarts they move with each pod."""
_SOON = 1.0


class ServiceStatuses:
    """The writer."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        stores: ServiceStores,
        expectations: Expectations[ServiceKey],
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._clock = clock
        self._stores = stores
        self._expectations = expectations
        self._recorder = recorder
        self._held: dict[ServiceKey, float] = {}

    async def write(
        self, service: InferenceService, status: InferenceServiceStatus, states: Mapping[str, ComponentState]
    ) -> float | None:
        """Write ``status``, if it differs, and tell the troubles that are new; gives seconds until the pass has to come back."""
        key = (service.namespace, service.name)
        changes = differences(status_wire(service.status), status_wire(status))
        if not changes:
            self._held.pop(key, None)
            return None
        if not _urgent(service, status):
            now = self._clock.monotonic()
            wait = self._held.setdefault(key, now) + _PATIENT - now
            if wait > 0:
                return wait
        return await self._send(key, service, changes, states)

    def forget(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._held.pop(key, None)

    async def _send(
        self, key: ServiceKey, service: InferenceService, changes: dict[str, Any], states: Mapping[str, ComponentState]
    ) -> float | None:
        meta = service.metadata
        body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": changes}
        try:
            written = await self._client.merge_patch(
                INFERENCE_SERVICES, meta.name, body, namespace=meta.namespace, type=InferenceService, subresource="status"
            )
        except NotFound:
            return None
        except Conflict:
            return _SOON  # somebody wrote it since our cache was filled: its event brings us back
        self._held.pop(key, None)
        self._expectations.expect_version(
            key, uid=meta.uid, resource_version=written.metadata.resource_version, by_uid=self._stores.services.by_uid
        )
        self._tell(service, states)
        return None

    def _tell(self, service: InferenceService, states: Mapping[str, ComponentState]) -> None:
        """One event for each trouble that the status did not say before."""
        said = {(one.reason, one.message) for one in service.status.conditions}
        for trouble in dict.fromkeys(state.trouble for state in states.values()):
            if trouble is None or (trouble.reason, trouble.message) in said:
                continue
            reference = object_ref(service, api_version=INFERENCE_SERVICES.api_version, kind=INFERENCE_SERVICES.kind)
            self._recorder.event(reference, type="Warning", reason=trouble.reason, message=trouble.message, action=trouble.reason)


def _urgent(service: InferenceService, status: InferenceServiceStatus) -> bool:
    """Something that somebody may wait for: a condition, the generation, a component or its revision."""
    old = service.status
    if old.observed_generation != status.observed_generation or old.url != status.url:
        return True
    if _signs(old) != _signs(status):
        return True
    return _revisions(old) != _revisions(status)


def _signs(status: InferenceServiceStatus) -> list[tuple[str, str, str]]:
    return [(one.type, one.status, one.reason) for one in status.conditions]


def _revisions(status: InferenceServiceStatus) -> list[tuple[Any, ...]]:
    return [
        (name, lifecycle.get("currentRevision"), lifecycle.get("updateRevision"), lifecycle.get("replicas"))
        for name, component in status.components.items()
        for lifecycle in ((component or {}).get("lifecycle") or {},)
    ]
