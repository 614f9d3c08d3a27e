"""Leader election on a ``coordination.k8s.io`` Lease, with client-go's rules.

A candidate trusts only its own monotonic clock: a lease is free when its record has not changed for ``lease_duration`` as seen
by us, whatever times stand in it. The leader renews every ``retry_period`` and gives up ``renew_deadline`` after it *began* the
last renewal that succeeded, so that two never lead at once as long as clocks run at about the same speed and the leader's work
ends within the difference to ``lease_duration``. Each request has a time limit below the deadline. A clean stop releases the
lease; losing it ends the process.
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
from regroup.wire.errors import AlreadyExists, Conflict, Forbidden, NotFound, Unauthorized, WireError

JITTER = 1.2
RELEASE_LIMIT = 3.0
"""Seconds for giving the lease back at the stop: the process must end soon (case C126)."""
RELEASE_PAUSE = 0.1
"""Seconds between two tries of that, when somebody else's write came in between."""


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
        self._renewed_at = 0.0
        """When the last attempt that succeeded began: the server's record cannot be older."""
        self._written = False
        """Whether a write of ours may have reached the server."""
        self._leads = False

    def statistics(self) -> ElectionStatistics:
        spec = self._observed.spec if self._observed else LeaseSpec()
        return ElectionStatistics(self._identity, self._leads, spec.holder_identity or "", spec.lease_transitions or 0)

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run ``lead`` while it is held.

        Returns when ``lead`` returns. Raises ``LeadershipLost`` after cancelling ``lead`` when the lease was lost, and
        ``Forbidden``, ``Unauthorized`` or ``NotFound`` (no such namespace) when the first look shows that we can never hold it.
        Cancelling is a clean stop: the lease is released so that the next candidate need not wait.
        """
        try:
            await self._acquire()
            await self._hold(lead)
        finally:
            self._leads = False
            await self._release()

    async def _hold(self, lead: Callable[[], Awaitable[None]]) -> None:
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
            # The work ends before the lease is given away, and the lease is kept until the work has ended: two never act at once.
            for task in (work, renewal):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _acquire(self) -> None:
        waiting_for = ""
        first = True
        while not await self._try(strict=first):
            first = False
            holder = self._observed.spec.holder_identity or "" if self._observed else ""
            if holder != waiting_for:
                waiting_for = holder
                self._log.info("waiting for the lease", holder=holder or "nobody that answers")
            await asyncio.sleep(self._timing.retry_period * (1 + (JITTER - 1) * self._rng.random()))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._timing.retry_period)
            left = self._renewed_at + self._timing.renew_deadline - self._clock.monotonic()
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

    def _held_by_another(self) -> bool:
        return self._observed is not None and (self._observed.spec.holder_identity or "") not in {"", self._identity}

    async def _try(self, *, strict: bool = False) -> bool:
        """One attempt to take or keep the lease. True when it is ours now. ``strict`` raises what waiting will not mend."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._timing.renew_deadline / 2):
                ours = await self._attempt()
        except (WireError, TimeoutError) as error:
            if strict and isinstance(error, Forbidden | Unauthorized | NotFound):
                raise
            quiet = isinstance(error, Conflict)
            (self._log.debug if quiet else self._log.warning)("lease attempt failed", error=str(error)[:300] or "timed out")
            return False
        if ours:
            self._renewed_at = began
        return ours

    async def _attempt(self) -> bool:
        if self._leads and await self._keep():
            return True
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace, type=Lease)
        except NotFound:
            if self._held_by_another() and not self._ran_out():
                # Somebody deleted it under its holder, who may still believe in it.
                return False
            return await self._create()
        self._observe(lease)
        spec = lease.spec
        mine = spec.holder_identity == self._identity
        if not mine and spec.holder_identity and not self._ran_out():
            return False
        body = self._body(
            acquired=spec.acquire_time if mine and spec.acquire_time else self._clock.now(),
            transitions=(spec.lease_transitions or 0) + (0 if mine else 1),
        )
        # Between the GET and this PUT another may have taken it: the resourceVersion makes that a Conflict.
        body["metadata"]["resourceVersion"] = lease.metadata.resource_version
        self._written = True
        self._observe(await self._client.replace(LEASES, self._name, body, namespace=self._namespace, type=Lease))
        return True

    async def _keep(self) -> bool:
        """Renew what is held without a look before it, as client-go does: half the requests of a quiet operator. The version of
        our last write is the precondition, so whoever wrote meanwhile makes this a conflict, and the slow way looks."""
        known = self._observed
        if known is None or known.spec.holder_identity != self._identity or not known.spec.acquire_time:
            return False
        body = self._body(acquired=known.spec.acquire_time, transitions=known.spec.lease_transitions or 0)
        body["metadata"]["resourceVersion"] = known.metadata.resource_version
        try:
            self._observe(await self._client.replace(LEASES, self._name, body, namespace=self._namespace, type=Lease))
        except (Conflict, NotFound):
            return False
        return True

    async def _create(self) -> bool:
        body = self._body(acquired=self._clock.now(), transitions=0)
        self._written = True
        try:
            self._observe(await self._client.create(LEASES, body, namespace=self._namespace, type=Lease))
        except AlreadyExists:
            return False
        return True

    async def _release(self) -> None:
        """Give the lease back if it is ours. Looks first: a renewal that was cut off at the stop may have been done or not."""
        if not self._written:
            return
        try:
            async with asyncio.timeout(RELEASE_LIMIT):
                while True:
                    if await self._try_release():
                        return
                    await asyncio.sleep(RELEASE_PAUSE)
        except (WireError, TimeoutError) as error:
            why = str(error)[:300] or "timed out"
            self._log.warning("lease not released; the next leader waits for it to run out", error=why)

    async def _try_release(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace, type=Lease)
        except NotFound:
            return True
        if lease.spec.holder_identity != self._identity:
            return True
        body = self._body(acquired=self._clock.now(), transitions=lease.spec.lease_transitions or 0)
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        body["metadata"]["resourceVersion"] = lease.metadata.resource_version
        try:
            await self._client.replace(LEASES, self._name, body, namespace=self._namespace)
        except Conflict:
            # The cut-off renewal was done in between: look again.
            return False
        self._log.info("released the lease")
        return True

    def _ran_out(self) -> bool:
        """Whether the lease as we last saw it has not been renewed for its whole length."""
        spec = self._observed.spec if self._observed else LeaseSpec()
        return self._clock.monotonic() >= self._observed_at + self._duration(spec)

    def _duration(self, spec: LeaseSpec) -> float:
        """Never less than our own, whatever the record says; a holder with a longer one is given it."""
        return max(float(spec.lease_duration_seconds or 0), self._timing.lease_duration)

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
