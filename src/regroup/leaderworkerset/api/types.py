"""LeaderWorkerSet as we read it: frozen views with the effective values (spec/leaderworkerset.md 2). Pure.

A field as it stands in the object has the prefix ``raw_`` where its effective value differs. Pod templates stay plain dicts:
they are passed on, never looked into beyond what identity needs, and never changed in place.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from regroup.kube.meta import Condition, ObjectView, View
from regroup.leaderworkerset.keys import AFTER_START_EXPERIMENT

Template = dict[str, Any]
IntOrPercent = int | str

ON_POD_RESTART = "RecreateGroupOnPodRestart"
AFTER_START = "RecreateGroupAfterStart"
NONE = "None"
DEPRECATED_DEFAULT = "Default"
RECREATING = frozenset({ON_POD_RESTART, AFTER_START})

ORDINAL = "Ordinal"
HASH = "Hash"
POST_TERMINATION = "PostTermination"
IMMEDIATE = "Immediate"
LEADER_CREATED = "LeaderCreated"
LEADER_READY = "LeaderReady"
SHARED = "Shared"
UNIQUE_PER_REPLICA = "UniquePerReplica"
PARALLEL = "Parallel"
DEFAULT_TERMINATION = "Default"
LEADER_WORKER = "LeaderWorker"
LEADER_EXCLUDED = "LeaderExcluded"
ROLLING_UPDATE = "RollingUpdate"

BACKOFF_BASE = 10
BACKOFF_CAP = 300


class RestartBackoff(View, frozen=True, gc=False, kw_only=True):
    """``restartBackoff``; ``base`` and ``cap`` are the effective seconds."""

    base_seconds: int | None = None
    cap_seconds: int | None = None

    @property
    def base(self) -> int:
        return BACKOFF_BASE if self.base_seconds is None else self.base_seconds

    @property
    def cap(self) -> int:
        return BACKOFF_CAP if self.cap_seconds is None else self.cap_seconds


class SubGroupPolicy(View, frozen=True, gc=False, kw_only=True):
    """``subGroupPolicy``."""

    raw_type: str | None = msgspec.field(name="subGroupPolicyType", default=None)
    size: int | None = msgspec.field(name="subGroupSize", default=None)

    @property
    def type(self) -> str:
        return self.raw_type or LEADER_WORKER


class LeaderWorkerTemplate(View, frozen=True, gc=False, kw_only=True):
    """``spec.leaderWorkerTemplate``."""

    leader_template: Template | None = None
    worker_template: Template = msgspec.field(default_factory=dict)
    raw_size: int | None = msgspec.field(name="size", default=None)
    raw_restart_policy: str | None = msgspec.field(name="restartPolicy", default=None)
    max_group_restarts: int | None = None
    restart_backoff: RestartBackoff | None = None
    sub_group_policy: SubGroupPolicy | None = None
    raw_volume_claim_templates: tuple[Template, ...] | None = msgspec.field(name="volumeClaimTemplates", default=None)
    persistent_volume_claim_retention_policy: dict[str, str] | None = None

    @property
    def size(self) -> int:
        """Pods in a group, leader included."""
        return 1 if self.raw_size is None else self.raw_size

    @property
    def restart_policy(self) -> str:
        """One of the three policies: unset is RecreateGroupOnPodRestart, the deprecated ``Default`` is None (5.8)."""
        if self.raw_restart_policy == DEPRECATED_DEFAULT:
            return NONE
        return self.raw_restart_policy or ON_POD_RESTART

    @property
    def recreates(self) -> bool:
        """Whether a failure recreates the whole group."""
        return self.restart_policy in RECREATING

    @property
    def volume_claim_templates(self) -> Sequence[Template]:
        return self.raw_volume_claim_templates or ()

    @property
    def effective_leader_template(self) -> Template:
        """What leaders are made from."""
        return self.worker_template if self.leader_template is None else self.leader_template


class RollingUpdateConfiguration(View, frozen=True, gc=False, kw_only=True):
    """``rolloutStrategy.rollingUpdateConfiguration``."""

    raw_partition: int | None = msgspec.field(name="partition", default=None)
    raw_max_unavailable: IntOrPercent | None = msgspec.field(name="maxUnavailable", default=None)
    raw_max_surge: IntOrPercent | None = msgspec.field(name="maxSurge", default=None)

    @property
    def partition(self) -> int:
        return self.raw_partition or 0

    @property
    def max_unavailable(self) -> IntOrPercent:
        return 1 if self.raw_max_unavailable is None else self.raw_max_unavailable

    @property
    def max_surge(self) -> IntOrPercent:
        return 0 if self.raw_max_surge is None else self.raw_max_surge


class RolloutStrategy(View, frozen=True, gc=False, kw_only=True):
    """``spec.rolloutStrategy``."""

    raw_type: str | None = msgspec.field(name="type", default=None)
    rolling_update_configuration: RollingUpdateConfiguration | None = None

    @property
    def type(self) -> str:
        return self.raw_type or ROLLING_UPDATE

    @property
    def rolling_update(self) -> RollingUpdateConfiguration:
        return self.rolling_update_configuration or RollingUpdateConfiguration()


class NetworkConfig(View, frozen=True, gc=False, kw_only=True):
    """``spec.networkConfig``."""

    subdomain_policy: str | None = None


class LeaderWorkerSetSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec``."""

    raw_replicas: int | None = msgspec.field(name="replicas", default=None)
    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    raw_rollout_strategy: RolloutStrategy | None = msgspec.field(name="rolloutStrategy", default=None)
    raw_startup_policy: str | None = msgspec.field(name="startupPolicy", default=None)
    network_config: NetworkConfig | None = None
    raw_group_identity: str | None = msgspec.field(name="groupIdentity", default=None)
    raw_group_replacement_policy: str | None = msgspec.field(name="groupReplacementPolicy", default=None)
    raw_pod_termination_policy: str | None = msgspec.field(name="podTerminationPolicy", default=None)
    scheduling: dict[str, Any] | None = None

    @property
    def replicas(self) -> int:
        """Groups wanted."""
        return 1 if self.raw_replicas is None else self.raw_replicas

    @property
    def rollout_strategy(self) -> RolloutStrategy:
        return self.raw_rollout_strategy or RolloutStrategy()

    @property
    def startup_policy(self) -> str:
        return self.raw_startup_policy or LEADER_CREATED

    @property
    def subdomain_policy(self) -> str:
        return (self.network_config.subdomain_policy if self.network_config else None) or SHARED

    @property
    def group_identity(self) -> str:
        return self.raw_group_identity or ORDINAL

    @property
    def group_replacement_policy(self) -> str:
        return self.raw_group_replacement_policy or POST_TERMINATION

    @property
    def pod_termination_policy(self) -> str:
        return self.raw_pod_termination_policy or DEFAULT_TERMINATION


class LeaderWorkerSetStatus(View, frozen=True, gc=False, kw_only=True):
    """``status``."""

    raw_conditions: tuple[Condition, ...] | None = msgspec.field(name="conditions", default=None)
    ready_replicas: int = 0
    updated_replicas: int = 0
    replicas: int = 0
    hpa_pod_selector: str = ""
    observed_generation: int = 0

    @property
    def conditions(self) -> Sequence[Condition]:
        return self.raw_conditions or ()


class LeaderWorkerSet(ObjectView, frozen=True, gc=False, kw_only=True):
    """A LeaderWorkerSet, live or as a revision says (``revision.restore``)."""

    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()
    raw_status: LeaderWorkerSetStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> LeaderWorkerSetStatus:
        return self.raw_status or LeaderWorkerSetStatus()

    @property
    def template(self) -> LeaderWorkerTemplate:
        """``spec.leaderWorkerTemplate``."""
        return self.spec.leader_worker_template

    @property
    def hash_mode(self) -> bool:
        """Groups are named by a drawn key, not by an ordinal."""
        return self.spec.group_identity == HASH

    @property
    def parallel(self) -> bool:
        """podTerminationPolicy Parallel (5.9)."""
        return self.spec.pod_termination_policy == PARALLEL

    @property
    def guards_start(self) -> bool:
        """Failures while a group starts are forgiven: by the policy, or by the deprecated annotation (5.4, 5.8)."""
        policy = self.template.restart_policy
        return policy == AFTER_START or (policy == ON_POD_RESTART and AFTER_START_EXPERIMENT in self.metadata.annotations)


def decode(obj: Mapping[str, Any]) -> LeaderWorkerSet:
    """The view of a plain dict. Raises ``msgspec.ValidationError`` with the path of what has the wrong type."""
    return msgspec.convert(obj, LeaderWorkerSet)
