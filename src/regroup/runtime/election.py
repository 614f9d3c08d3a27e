"""Leader election on a ``coordination.k8s.io`` Lease, with client-go's rules.

A candidate trusts only its own monotonic clock: a lease is free when its record has not changed for ``lease_duration`` as seen
by us, whatever times stand in it. The leader renews every ``retry_period`` and gives up when no renewal succeeded within
``renew_deadline``, so that two never lead at once as long as clocks run at about the same speed. Each request has a time limit
below the deadline. A clean stop releases the lease; losing it ends the process.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from regroup.kube.meta import ObjectView, View
from regroup.kube.resources import LEASES
from regroup.runtime.clock import Clock, micro_timestamp
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, Conflict, NotFound, WireError

JITTER = 1.2


class LeadershipLost(Exception):
    """The lease could not be renewed in time or somebody else holds it: stop at once."""


@dataclass(frozen=True, slots=True)
class ElectionTiming:
    """Seconds, with client-go's defaults."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * JITTER:
            raise ValueError(
                "leader election needs lease duration > renew deadline > 1.2 x retry period, "
                f"got {self.lease_duration}, {self.renew_deadline}, {self.retry_period}"
            )


class LeaseSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(ObjectView, frozen=True, gc=False, kw_only=True):
    """A Lease."""

    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True, slots=True)
class ElectionStatistics:
    """What this candidate knows: itself, whether it leads, and who does."""

    identity: str
    leads: bool
    holder: str
    transitions: int


class Election:
    """One candidate for one Lease."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        rng: random.Random,
        timing: ElectionTiming | None = None,
        log: Any = None,
    ) -> None:
        self._client = client
        self._namespace, self._name, self._identity = namespace, name, identity
        self._clock, self._rng = clock, rng
        self._timing = timing or ElectionTiming()
        self._log = (log or structlog.get_logger("election")).bind(lease=f"{namespace}/{name}", identity=identity)
        self._observed: Lease | None = None
        self._observed_at = 0.0
        self._leads = False

    def statistics(self) -> ElectionStatistics:
        spec = self._observed.spec if self._observed else LeaseSpec()
        return ElectionStatistics(self._identity, self._leads, spec.holder_identity or "", spec.lease_transitions or 0)

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run ``lead`` while it is held.

        Returns when ``lead`` returns. Raises ``LeadershipLost`` after cancelling ``lead`` when the lease was lost.
        Cancelling is a clean stop: the lease is released so that the next candidate need not wait.
        """
        await self._acquire()
        self._leads = True
        self._log.info("leading")
        work = asyncio.ensure_future(lead())
        renewal = asyncio.create_task(self._renew(), name="lease renewal")
        try:
            done, _ = await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
            if renewal in done:
                renewal.result()
            work.result()
        finally:
            self._leads = False
            for task in (renewal, work):
                task.cancel()
            # The work has ended before the lease is given away: two never act at once.
            await asyncio.gather(renewal, work, return_exceptions=True)
            await self._release()

    async def _acquire(self) -> None:
        waiting_for = ""
        while not await self._try():
            holder = self._observed.spec.holder_identity or "" if self._observed else ""
            if holder != waiting_for:
                waiting_for = holder
                self._log.info("waiting for the lease", holder=holder or "nobody that answers")
            await asyncio.sleep(self._timing.retry_period * (1 + (JITTER - 1) * self._rng.random()))

    async def _renew(self) -> None:
        last = self._clock.monotonic()
        while True:
            await asyncio.sleep(self._timing.retry_period)
            left = last + self._timing.renew_deadline - self._clock.monotonic()
            try:
                async with asyncio.timeout(max(left, 0)):
                    while not await self._try():
                        if self._held_by_another():
                            raise LeadershipLost(f"the lease {self._namespace}/{self._name} is held by another")
                        await asyncio.sleep(self._timing.retry_period)
            except TimeoutError:
                raise LeadershipLost(
                    f"the lease {self._namespace}/{self._name} was not renewed within {self._timing.renew_deadline:g} s"
                ) from None
            last = self._clock.monotonic()

    def _held_by_another(self) -> bool:
        return self._observed is not None and (self._observed.spec.holder_identity or "") not in {"", self._identity}

    async def _try(self) -> bool:
        """One attempt to take or keep the lease. True when it is ours now."""
        try:
            async with asyncio.timeout(self._timing.renew_deadline / 2):
                return await self._attempt()
        except (WireError, TimeoutError) as error:
            quiet = isinstance(error, Conflict)
            (self._log.debug if quiet else self._log.warning)("lease attempt failed", error=str(error)[:300] or "timed out")
            return False

    async def _attempt(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace, type=Lease)
        except NotFound:
            return await self._create()
        self._observe(lease)
        spec = lease.spec
        mine = spec.holder_identity == self._identity
        if not mine and spec.holder_identity and self._clock.monotonic() < self._observed_at + self._duration(spec):
            return False
        body = self._body(
            acquired=spec.acquire_time if mine and spec.acquire_time else self._clock.now(),
            transitions=(spec.lease_transitions or 0) + (0 if mine else 1),
        )
        # Between the GET and this PUT another may have taken it: the resourceVersion makes that a Conflict.
        body["metadata"]["resourceVersion"] = lease.metadata.resource_version
        self._observe(await self._client.replace(LEASES, self._name, body, namespace=self._namespace, type=Lease))
        return True

    async def _create(self) -> bool:
        body = self._body(acquired=self._clock.now(), transitions=0)
        try:
            self._observe(await self._client.create(LEASES, body, namespace=self._namespace, type=Lease))
        except AlreadyExists:
            return False
        return True

    async def _release(self) -> None:
        lease = self._observed
        if lease is None or lease.spec.holder_identity != self._identity:
            return
        now = self._clock.now()
        body = self._body(acquired=now, transitions=lease.spec.lease_transitions or 0)
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        body["metadata"]["resourceVersion"] = lease.metadata.resource_version
        try:
            async with asyncio.timeout(self._timing.renew_deadline / 2):
                await self._client.replace(LEASES, self._name, body, namespace=self._namespace)
        except (WireError, TimeoutError) as error:
            self._log.warning("lease not released; the next leader waits for it to run out", error=str(error)[:300])
        else:
            self._log.info("released the lease")

    def _duration(self, spec: LeaseSpec) -> float:
        return float(spec.lease_duration_seconds or self._timing.lease_duration)

    def _observe(self, lease: Lease) -> None:
        if self._observed is None or self._observed.metadata.resource_version != lease.metadata.resource_version:
            self._observed_at = self._clock.monotonic()
        self._observed = lease

    def _body(self, *, acquired: datetime, transitions: int) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._timing.lease_duration),
                "acquireTime": micro_timestamp(acquired),
                "renewTime": micro_timestamp(self._clock.now()),
                "leaseTransitions": transitions,
            },
        }
