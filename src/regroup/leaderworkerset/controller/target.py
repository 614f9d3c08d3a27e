"""What a decision is carried out on: the view that it was taken on, and the objects behind it."""

from dataclasses import dataclass
from typing import Any

from regroup.kube.pod import Pod
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.view import GroupView


@dataclass(frozen=True, slots=True)
class Target:
    """What a decision is about: the view that it was taken on and the objects behind it."""

    view: GroupView
    lws: LeaderWorkerSet | None
    at_revision: LeaderWorkerSet | None
    """The LeaderWorkerSet at the group's own revision."""

    @property
    def leader(self) -> Pod:
        leader = self.view.leader
        assert leader is not None  # noqa: S101 - decisions that name a leader are only taken with one
        return leader

    @property
    def owner(self) -> LeaderWorkerSet:
        assert self.lws is not None  # noqa: S101 - only let-go and stay are decided without one
        return self.lws


def worker_set_body(target: Target) -> dict[str, Any]:
    """The worker set that the group is to have, from the group's own revision."""
    source = target.at_revision or target.owner
    return objects.worker_set(source, leader=target.leader, topology_value=target.view.topology_value)
