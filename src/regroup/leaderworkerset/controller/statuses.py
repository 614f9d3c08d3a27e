"""Writes the status of LeaderWorkerSets: only what changed, joined over groups and passes (spec/leaderworkerset.md 7.2)."""

from typing import Any

import structlog

from regroup.kube.meta import Condition, find_condition
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.stores import Stores
from regroup.leaderworkerset.controller.telling import reference
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.status.ordinal import (
    ALL_READY,
    AVAILABLE,
    DEGRADED,
    EXCEEDED,
    GROUPS_PROGRESSING,
    GROUPS_UPDATING,
    PROGRESSING,
    UPDATING,
    Tally,
)
from regroup.runtime.clock import Clock
from regroup.runtime.conditions import to_wire
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import Conflict, NotFound

Key = tuple[str, str]

_PATIENT = 10.0
"""Seconds that a change which nobody waits for is held back, to be joined with the next one. For a moment of each recreation a
group has no leader, and fewer replicas exist: a write that says so would only be followed by one that takes it back."""

_LONGEST = 2.0
"""Seconds that the numbers of a long change, such as a thousand groups that start one after the other, may be behind. What turns
a condition is never held back for them."""
_TICK = 0.001
"""Seconds that a timer may fire early: what is due within them is due."""
_PASS = 0.5
"""Seconds within which a next write counts as one in a row, beside the pause before it."""


class Statuses:
    """The last writes of all statuses, so that they can be paced. ``interval``: seconds between two writes of one status."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        expectations: Expectations[Key],
        stores: Stores,
        recorder: EventRecorder,
        interval: float,
    ) -> None:
        self._client = client
        self._clock = clock
        self._expectations = expectations
        self._stores = stores
        self._recorder = recorder
        self._interval = interval
        self._written: dict[Key, float] = {}
        self._pauses: dict[Key, float] = {}
        """Seconds that are waited after the last write; they double while writes come in a row."""
        self._held: dict[Key, float] = {}
        self._log = structlog.get_logger("leaderworkerset.status")

    async def write(self, lws: LeaderWorkerSet, result: Tally, *, replicas: int) -> float | None:
        """Write what the groups amount to, if it differs; gives seconds until the pass has to come back, or None."""
        key = (lws.namespace, lws.name)
        selector = objects.hpa_selector(lws.name)
        body = {
            "conditions": to_wire(result.conditions),
            "readyReplicas": result.ready,
            "updatedReplicas": result.updated,
            "replicas": replicas,
            "hpaPodSelector": selector,
            "observedGeneration": lws.metadata.generation,
        }
        if _same(lws, result, replicas=replicas, selector=selector):
            self._held.pop(key, None)
            return None
        wait = self._wait(key, lws, result)
        if wait > _TICK:
            return wait
        return await self._send(key, lws, body, result)

    def forget(self, key: Key) -> None:
        """The LeaderWorkerSet is gone."""
        for kept in (self._written, self._pauses, self._held):
            kept.pop(key, None)

    def _wait(self, key: Key, lws: LeaderWorkerSet, result: Tally) -> float:
        now = self._clock.monotonic()
        wait = 0.0
        if key in self._written:
            pause = self._interval if _turns(lws, result) else max(self._interval, self._pauses.get(key, 0.0))
            wait = self._written[key] + pause - now
        if not _urgent(lws, result):
            since = self._held.setdefault(key, now)
            wait = max(wait, since + _PATIENT - now)
        return wait

    async def _send(self, key: Key, lws: LeaderWorkerSet, body: dict[str, Any], result: Tally) -> float | None:
        meta = lws.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": body}
        try:
            written = await self._client.merge_patch(
                LEADERWORKERSETS, meta.name, patch, namespace=meta.namespace, type=LeaderWorkerSet, subresource="status"
            )
        except NotFound:
            return None
        except Conflict:
            # Somebody wrote the object since our cache was filled (behaviour 154): its event brings us back, the time is for
            # an event that got lost.
            return self._interval or _PATIENT
        now = self._clock.monotonic()
        last, pause = self._written.get(key), self._pauses.get(key, self._interval)
        in_a_row = last is not None and now - last < 2 * pause + _PASS
        self._pauses[key] = min(_LONGEST, 2 * pause) if in_a_row else self._interval
        self._written[key] = now
        self._held.pop(key, None)
        self._expectations.expect_version(
            key, uid=meta.uid, resource_version=written.metadata.resource_version, by_uid=self._stores.lws.by_uid
        )
        self._tell(lws, result)
        return None

    def _tell(self, lws: LeaderWorkerSet, result: Tally) -> None:
        """Events for what became true, after the write that says so."""
        numbers = f"{result.ready} ready groups of {lws.spec.replicas} total groups"
        # Progress that a failure leads to is told as that failure: a recreation costs two events, not four.
        asked = lws.status.observed_generation != lws.metadata.generation
        if asked and _became_true(PROGRESSING, lws, result):
            self._event(lws, GROUPS_PROGRESSING, f"Replicas are progressing, with {numbers}")
        if _became_true(UPDATING, lws, result):
            self._event(lws, GROUPS_UPDATING, f"A rolling update is in progress, with {numbers}")
        if _became_true(AVAILABLE, lws, result):
            self._event(lws, ALL_READY, f"All replicas are ready, with {numbers}")
        if _became_true(DEGRADED, lws, result):
            self._event(lws, EXCEEDED, f"A replica used up its restart budget, with {numbers}")

    def _event(self, lws: LeaderWorkerSet, reason: str, message: str) -> None:
        self._recorder.event(reference(lws), type="Normal", reason=reason, message=message, action=reason)


def _same(lws: LeaderWorkerSet, result: Tally, *, replicas: int, selector: str) -> bool:
    status = lws.status
    return (
        (status.ready_replicas, status.updated_replicas, status.replicas) == (result.ready, result.updated, replicas)
        and status.hpa_pod_selector == selector
        and status.observed_generation == lws.metadata.generation
        and tuple(status.conditions) == tuple(result.conditions)
    )


def _urgent(lws: LeaderWorkerSet, result: Tally) -> bool:
    """Something that somebody may be waiting for: ready groups, progress of a rollout, a condition, the generation."""
    status = lws.status
    if status.ready_replicas != result.ready or status.updated_replicas < result.updated:
        return True
    if status.observed_generation != lws.metadata.generation:
        return True
    return _signs(status.conditions) != _signs(result.conditions)


def _turns(lws: LeaderWorkerSet, result: Tally) -> bool:
    """A condition turns, or the status says for the first time what became of a new generation."""
    return lws.status.observed_generation != lws.metadata.generation or _signs(lws.status.conditions) != _signs(result.conditions)


def _signs(conditions: Any) -> list[tuple[str, str, str]]:
    return [(condition.type, condition.status, condition.reason) for condition in conditions]


def _became_true(kind: str, lws: LeaderWorkerSet, result: Tally) -> bool:
    return _is_true(find_condition(result.conditions, kind)) and not _is_true(find_condition(lws.status.conditions, kind))


def _is_true(condition: Condition | None) -> bool:
    return condition is not None and condition.status == "True"
