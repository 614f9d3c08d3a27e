"""Keeps the leader StatefulSet of an Ordinal LeaderWorkerSet where its rollout stands (spec/leaderworkerset.md 3.1, 6.2).

Writes only what differs. Where the rollout goes is decided in ``rollout``.
"""

from collections.abc import Sequence
from typing import Any

from regroup.kube.resources import STATEFULSETS
from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller.leader_writer import Key, LeaderWriter, noted_workload, template_covers
from regroup.leaderworkerset.controller.stores import Stores
from regroup.leaderworkerset.controller.telling import Teller
from regroup.leaderworkerset.keys import REPLICAS
from regroup.leaderworkerset.objects import rollout
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.status.ordinal import GroupFacts
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client


class LeaderSets:
    """The leader StatefulSets of all Ordinal LeaderWorkerSets."""

    def __init__(self, client: Client, *, stores: Stores, expectations: Expectations[Key], teller: Teller) -> None:
        self._teller = teller
        self._writer = LeaderWriter(
            client,
            resource=STATEFULSETS,
            view=StatefulSet,
            store=stores.sets,
            noun="set",
            expectations=expectations,
            teller=teller,
        )
        self._agreed: dict[Key, tuple[object, ...]] = {}
        """What was last found to be as wanted: a pass on which nothing of it moved compares no templates."""
        self.find = self._writer.find

    def forget(self, key: Key) -> None:
        """The LeaderWorkerSet is gone."""
        self._writer.forget(key)
        self._agreed.pop(key, None)

    def as_before(self, lws: LeaderWorkerSet, existing: StatefulSet, *, revision: str) -> bool:
        """Whether the template is what the spec asks for, under the name ``revision``."""
        wanted = objects.leader_set(
            lws,
            revision=revision,
            replicas=existing.replicas,
            partition=existing.partition,
            workload=noted_workload(existing),
        )
        return template_covers(existing, wanted)

    async def roll(
        self,
        key: Key,
        lws: LeaderWorkerSet,
        *,
        current: str,
        is_new: bool,
        facts: Sequence[GroupFacts],
        workload: str = "",
    ) -> StatefulSet | None:
        """Bring the leader set to where the rollout stands. Gives it as it is now. ``workload``: what a new one names, where it
        is placed by one (3.6). Raises ``ApiError``, ``Taken``."""
        existing = self.find(lws)
        config = lws.spec.rollout_strategy.rolling_update
        target = rollout.plan(
            replicas=lws.spec.replicas,
            strategy=rollout.Strategy(config.partition, config.max_unavailable, config.max_surge),
            current=_current(existing),
            states={group.index: group.state for group in facts},
            new_revision=is_new and existing is not None,
        )
        asked = _asked(lws, existing, current=current, replicas=target.replicas, partition=target.partition)
        if existing is not None and self._agreed.get(key) == asked:
            return existing
        workload = noted_workload(existing) or workload
        wanted = objects.leader_set(
            lws, revision=current, replicas=target.replicas, partition=target.partition, workload=workload
        )
        if existing is not None and self._says(key, existing, wanted):
            self._agreed[key] = asked
            return existing
        applied = await self._writer.apply(key, lws, existing, wanted)
        if applied is None:
            return existing
        self._tell_rollout(lws, existing, applied, why=target.why)
        return applied

    def _says(self, key: Key, existing: StatefulSet, wanted: dict[str, Any]) -> bool:
        spec = wanted["spec"]
        partition = spec["updateStrategy"]["rollingUpdate"]["partition"]
        if existing.replicas != spec["replicas"] or existing.partition != partition:
            return False
        return self._writer.says(key, existing, wanted)

    def _tell_rollout(self, lws: LeaderWorkerSet, before: StatefulSet | None, after: StatefulSet, *, why: str) -> None:
        if before is None:
            self._teller.tell(lws, "Normal", "GroupsProgressing", f"Created leader set {lws.name} with {after.replicas} groups")
            return
        if after.partition < before.partition:
            what = f"Updating groups {after.partition} to {before.partition - 1}: {why}"
            self._teller.tell(lws, "Normal", "GroupsUpdating", what)
        if lws.spec.replicas <= after.replicas < before.replicas and before.metadata.annotations.get(REPLICAS) == str(
            lws.spec.replicas
        ):
            self._teller.tell(
                lws, "Normal", "GroupsProgressing", f"Removed surge groups {after.replicas} to {before.replicas - 1}"
            )


def _asked(
    lws: LeaderWorkerSet, existing: StatefulSet | None, *, current: str, replicas: int, partition: int
) -> tuple[object, ...]:
    """Everything that the comparison of a leader set with what is wanted rests on."""
    meta = existing.metadata if existing is not None else None
    live = (meta.uid, meta.generation, meta.raw_labels, meta.raw_annotations) if meta is not None else ()
    owner = lws.metadata
    return (live, owner.uid, owner.generation, owner.raw_labels, owner.raw_annotations, current, replicas, partition)


def _current(existing: StatefulSet | None) -> rollout.Current | None:
    if existing is None:
        return None
    noted = existing.metadata.annotations.get(REPLICAS, "")
    return rollout.Current(existing.replicas, existing.partition, int(noted) if noted.isdigit() else None)
