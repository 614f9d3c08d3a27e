"""The PodGroups and Workloads of the cluster, once it serves them (spec/leaderworkerset.md 3.6). Decides nothing.

Neither API need be there when the operator starts: the cluster is asked again until it serves what the provider needs, and
groups wait for it behind their gates meanwhile.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from regroup.kube.pod import Pod
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.keys import NAME
from regroup.leaderworkerset.objects import gang
from regroup.leaderworkerset.objects.gang import PodGroup, Provider, Workload
from regroup.leaderworkerset.view import PodGroups, PodGroupState
from regroup.runtime.cache import Cache, Informer
from regroup.runtime.clock import Clock
from regroup.runtime.store import Store
from regroup.wire.client import Client
from regroup.wire.errors import Forbidden, NotFound
from regroup.wire.resource import Resource

PROBE_AGAIN = 10.0
"""Seconds between two questions whether the cluster serves the API."""
BY_OWNER = "owner"
"""Index of Workloads: the UID of the controller that they belong to."""

_WORST = (PodGroupState.UNSERVED, PodGroupState.FOREIGN, PodGroupState.GOING, PodGroupState.MISSING, PodGroupState.THERE)


@dataclass(frozen=True, slots=True)
class Served:
    """What the cluster serves: the resource of PodGroups, with their cache, and the same of Workloads where there are any."""

    pod_group: Resource
    pod_groups: Store[PodGroup]
    workload: Resource | None = None
    workloads: Store[Workload] | None = None

    @property
    def version(self) -> str:
        return self.pod_group.version


class Gangs:
    """Scheduling objects of one provider."""

    def __init__(
        self,
        client: Client,
        cache: Cache | None,
        *,
        provider: Provider,
        clock: Clock,
        namespaces: Sequence[str] = (),
        on_served: Callable[[Informer[PodGroup], Informer[Workload] | None], None] | None = None,
    ) -> None:
        self.provider = provider
        self.served: Served | None = None
        self.why_not = ""
        """Why nothing is served, for a person."""
        self._client, self._cache, self._clock = client, cache, clock
        self._namespace = namespaces[0] if namespaces else None
        self._on_served = on_served
        self._asked_at: float | None = None
        self._asking = asyncio.Lock()
        self._log = structlog.get_logger("leaderworkerset.gang")

    async def read_once(self, *, namespace: str, label_selector: str) -> None:
        """What is there now, without a cache: for who only explains. Raises ``WireError``."""
        found = await self._find() if self.provider is not Provider.NONE else None
        if found is None:
            return
        pod_group, workload = found
        groups: Store[PodGroup] = Store()
        page = await self._client.list_all(pod_group, namespace=namespace, label_selector=label_selector, type=PodGroup)
        groups.replace(page.items)
        self.served = Served(pod_group, groups)
        if workload is not None:
            workloads: Store[Workload] = Store(indexers={BY_OWNER: _owner_index})
            workloads.replace((await self._client.list_all(workload, namespace=namespace, type=Workload)).items)
            self.served = Served(pod_group, groups, workload, workloads)

    async def ready(self) -> None:
        """See whether the cluster serves the API, unless that is known or was asked just now. Raises ``WireError``."""
        if self.provider is Provider.NONE or self.served is not None:
            return
        async with self._asking:
            now = self._clock.monotonic()
            if self.served is not None or (self._asked_at is not None and now - self._asked_at < PROBE_AGAIN):
                return
            found = await self._find()
            self._asked_at = self._clock.monotonic()
            if found is not None:
                await self._start(found)

    def state(self, leader: Pod | None, lws: LeaderWorkerSet | None) -> PodGroups:
        """How the PodGroups of a group stand."""
        if leader is None or lws is None or self.provider is Provider.NONE:
            return PodGroups()
        wanted = gang.wanted(leader, provider=self.provider)
        if not wanted:
            return PodGroups()
        if self.served is None:
            return PodGroups(PodGroupState.UNSERVED, why=self.why_not or "the cluster was not asked yet for its PodGroups")
        owner = leader.metadata.uid if self.provider is Provider.VOLCANO else lws.metadata.uid
        found = [self._judge(one.name, leader, owner) for one in wanted]
        state, why = min(found, key=lambda one: _WORST.index(one[0]))
        missing = [one.name for one, (is_so, _) in zip(wanted, found, strict=True) if is_so is PodGroupState.MISSING]
        if missing and self.provider is Provider.KUBERNETES and (waits := self._not_yet(lws, missing[0])):
            return PodGroups(PodGroupState.GOING, why=waits)
        return PodGroups(state, missing, why)

    def _not_yet(self, lws: LeaderWorkerSet, name: str) -> str:
        """Why a group cannot make its PodGroup itself now; empty when it can."""
        if gang.delegated_by(lws):
            return f"PodGroup {name} would have to be made from the Workload of a parent ({gang.delegated_by(lws)})"
        if gang.used_level(lws) is gang.Level.ALL:
            return f"PodGroup {name} of all replicas is not made yet"
        return "" if self.workload_of(lws) is not None else f"the Workload of {lws.metadata.key} does not exist yet"

    def workload_of(self, lws: LeaderWorkerSet) -> Workload | None:
        """The Workload that a LeaderWorkerSet owns, whatever its name is."""
        if self.served is None or self.served.workloads is None:
            return None
        owned = self.served.workloads.index(BY_OWNER, lws.metadata.uid)
        return next((found for found in owned if not found.metadata.deleting), None)

    def pod_group_by_uid(self, uid: str) -> PodGroup | None:
        return self.served.pod_groups.by_uid(uid) if self.served is not None else None

    def _judge(self, name: str, leader: Pod, owner_uid: str) -> tuple[PodGroupState, str]:
        assert self.served is not None  # noqa: S101 - the caller has looked
        found = self.served.pod_groups.get(leader.metadata.namespace, name)
        if found is None:
            return PodGroupState.MISSING, ""
        owner = found.metadata.controller
        if found.metadata.deleting:
            return PodGroupState.GOING, f"PodGroup {name} is terminating"
        if owner is not None and owner.uid == owner_uid:
            return PodGroupState.THERE, ""
        if owner is not None and owner.kind == "Pod" and owner.name == leader.metadata.name:
            return PodGroupState.GOING, f"PodGroup {name} of the previous leader is not gone yet"
        whose = f"{owner.kind} {owner.name}" if owner is not None else "nobody"
        return PodGroupState.FOREIGN, f"PodGroup {name} exists and belongs to {whose}"

    async def _find(self) -> tuple[Resource, Resource | None] | None:
        """The resources that are served: of the newest version, where there are several."""
        choices: list[tuple[Resource, Resource | None]] = [(gang.VOLCANO_POD_GROUPS, None)]
        if self.provider is Provider.KUBERNETES:
            choices = [
                (gang.native("podgroups", "PodGroup", version), gang.native("workloads", "Workload", version))
                for version in gang.NATIVE_VERSIONS
            ]
        for pod_group, workload in choices:
            try:
                for resource in (pod_group, workload) if workload is not None else (pod_group,):
                    await self._client.list(resource, namespace=self._namespace, limit=1)
            except NotFound:
                continue
            except Forbidden as error:
                self._cannot(f"{pod_group} may not be read: {error}")
                return None
            return pod_group, workload
        names = " or ".join(str(pod_group) for pod_group, _ in choices)
        self._cannot(f"the cluster does not serve {names}, so that no gang can be placed")
        return None

    def _cannot(self, why: str) -> None:
        if why != self.why_not:
            self._log.warning("gangs cannot be scheduled", provider=str(self.provider), why=why[:500])
        self.why_not = why[:500]

    async def _start(self, found: tuple[Resource, Resource | None]) -> None:
        pod_group, workload = found
        assert self._cache is not None  # noqa: S101 - only who has one waits for it
        groups = self._cache.informer(pod_group, type=PodGroup, label_selector=NAME)
        workloads = None
        if workload is not None:
            indexers = {BY_OWNER: _owner_index}
            workloads = self._cache.informer(workload, type=Workload, label_selector=NAME, indexers=indexers)
        for informer in (groups, workloads) if workloads is not None else (groups,):
            for reflector in informer.reflectors:
                await reflector.synced.wait()
        self.served = Served(pod_group, groups.store, workload, workloads.store if workloads is not None else None)
        self.why_not = ""
        self._log.info("gangs are scheduled", provider=str(self.provider), resource=str(pod_group))
        if self._on_served is not None:
            self._on_served(groups, workloads)


def _owner_index(found: Workload) -> Iterable[str]:
    owner = found.metadata.controller
    return (owner.uid,) if owner is not None else ()
