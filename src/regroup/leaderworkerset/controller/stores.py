"""The cache as this package reads it: one store a kind, and the names of their indexes. No request, no decision."""

from dataclasses import dataclass

from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.workloads import ControllerRevision, Deployment, ReplicaSet, Service, StatefulSet
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.runtime.store import Store

BY_GROUP = "group"
BY_NODE = "node"
BY_LWS = "lws"
BY_LEADERS = "leaders"
"""Leader pods by ``<namespace>/<LeaderWorkerSet>``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """All stores."""

    lws: Store[LeaderWorkerSet]
    pods: Store[Pod]
    sets: Store[StatefulSet]
    deployments: Store[Deployment]
    replica_sets: Store[ReplicaSet]
    services: Store[Service]
    revisions: Store[ControllerRevision]
    nodes: Store[Node]
