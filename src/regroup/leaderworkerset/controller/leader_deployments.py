"""Keeps the leader Deployment of a Hash LeaderWorkerSet as its spec says (spec/leaderworkerset.md 3.2, 6.3).

The rollout is the Deployment's own: its leaders are ready only as groups, and the gates pace what replaces them. Writes only
what differs.
"""

from typing import Any

from regroup.kube.resources import DEPLOYMENTS
from regroup.kube.workloads import Deployment
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.leader_writer import Key, LeaderWriter, noted_workload, template_covers
from regroup.leaderworkerset.controller.stores import Stores
from regroup.leaderworkerset.controller.telling import Teller
from regroup.leaderworkerset.controller.unblocking import Unblocker
from regroup.leaderworkerset.keys import REVISION
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.status.hashed import Report
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client


class LeaderDeployments:
    """The leader Deployments of all Hash LeaderWorkerSets."""

    def __init__(self, client: Client, *, stores: Stores, expectations: Expectations[Key], teller: Teller) -> None:
        self._teller = teller
        self._writer = LeaderWriter(
            client,
            resource=DEPLOYMENTS,
            view=Deployment,
            store=stores.deployments,
            noun="Deployment",
            expectations=expectations,
            teller=teller,
        )
        self._unblocker = Unblocker(client, stores=stores, expectations=expectations)
        self.find = self._writer.find
        self.forget = self._writer.forget

    def as_before(self, lws: LeaderWorkerSet, existing: Deployment, *, revision: str) -> bool:
        """Whether the template is what the spec asks for, under the name ``revision``."""
        return template_covers(existing, objects.leader_deployment(lws, revision=revision, workload=noted_workload(existing)))

    async def bring(self, key: Key, lws: LeaderWorkerSet, *, current: str, workload: str = "") -> Deployment | None:
        """Bring the Deployment to what the spec says. Gives it as it is now. ``workload``: what a new one names, where it is
        placed by one (3.6). Raises ``ApiError``, ``Taken``."""
        existing = self.find(lws)
        workload = noted_workload(existing) or workload
        wanted = objects.leader_deployment(lws, revision=current, workload=workload)
        if existing is not None and self._says(key, existing, wanted):
            await self._unblocker.unblock(key, lws, existing)
            return existing
        applied = await self._writer.apply(key, lws, existing, wanted)
        if applied is None:
            return existing
        if existing is None:
            what = f"Created leader Deployment {lws.name} with {applied.replicas} groups"
            self._teller.tell(lws, "Normal", "GroupsProgressing", what)
        elif existing.metadata.labels.get(REVISION) != current:
            self._teller.tell(lws, "Normal", "GroupsUpdating", f"Updating all groups to revision {current}")
        return applied

    def _says(self, key: Key, existing: Deployment, wanted: dict[str, Any]) -> bool:
        spec = wanted["spec"]
        if existing.replicas != spec["replicas"] or not _rolls_as(existing, spec["strategy"]):
            return False
        return self._writer.says(key, existing, wanted)


def report_of(deployment: Deployment) -> Report:
    """What the Deployment says of itself, for the status."""
    status = deployment.status
    return Report(
        revision=deployment.metadata.labels.get(REVISION, ""),
        observed=status.observed_generation >= deployment.metadata.generation,
        replicas=status.replicas,
        updated=status.updated_replicas,
        ready=status.ready_replicas,
    )


def _rolls_as(existing: Deployment, wanted: dict[str, Any]) -> bool:
    strategy = existing.spec.strategy
    rolling = strategy.rolling_update if strategy is not None else None
    if strategy is None or rolling is None:
        return False
    config = wanted["rollingUpdate"]
    return (strategy.type, rolling.max_unavailable, rolling.max_surge) == (
        wanted["type"],
        config["maxUnavailable"],
        config["maxSurge"],
    )
