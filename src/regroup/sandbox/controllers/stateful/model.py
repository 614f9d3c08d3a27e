"""A StatefulSet as its own controller sees it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from regroup.kube import workloads
from regroup.kube.meta import View

API_VERSION = "apps/v1"
KIND = "StatefulSet"
DEFAULT_HISTORY_LIMIT = 10


class ClaimRetention(View, frozen=True, gc=False, kw_only=True):
    """``spec.persistentVolumeClaimRetentionPolicy``."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"

    @property
    def deletes(self) -> bool:
        """Whether claims are ever deleted with what they belong to."""
        return "Delete" in {self.when_deleted, self.when_scaled}


class StatefulSetSpec(workloads.StatefulSetSpec, frozen=True, gc=False, kw_only=True):
    """``spec``, with what only the controller needs."""

    selector: dict[str, Any] | None = None
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    raw_volume_claim_templates: tuple[dict[str, Any], ...] | None = msgspec.field(name="volumeClaimTemplates", default=None)
    retention: ClaimRetention | None = msgspec.field(name="persistentVolumeClaimRetentionPolicy", default=None)


class StatefulSetStatus(workloads.StatefulSetStatus, frozen=True, gc=False, kw_only=True):
    """``status``, with the collisions of revision names."""

    collision_count: int | None = None


class StatefulSet(workloads.StatefulSet, frozen=True, gc=False, kw_only=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    raw_status: StatefulSetStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> StatefulSetStatus:
        return self.raw_status or StatefulSetStatus()

    @property
    def parallel(self) -> bool:
        """Pods are made and removed without waiting for each other."""
        return self.spec.pod_management_policy == "Parallel"

    @property
    def start(self) -> int:
        """The first ordinal: ``spec.ordinals.start``."""
        return self.spec.ordinals.start if self.spec.ordinals is not None else 0

    @property
    def on_delete(self) -> bool:
        """Update strategy ``OnDelete``: pods change their revision only when somebody deletes them."""
        return self.spec.update_strategy is not None and self.spec.update_strategy.type == "OnDelete"

    @property
    def history_limit(self) -> int:
        limit = self.spec.revision_history_limit
        return DEFAULT_HISTORY_LIMIT if limit is None else limit

    @property
    def claim_templates(self) -> Sequence[Mapping[str, Any]]:
        return self.spec.raw_volume_claim_templates or ()

    @property
    def retention(self) -> ClaimRetention:
        return self.spec.retention or ClaimRetention()

    @property
    def match_labels(self) -> Mapping[str, str]:
        """``spec.selector.matchLabels``: the labels of its claims."""
        return (self.spec.selector or {}).get("matchLabels") or {}

    def owns_ordinal(self, ordinal: int) -> bool:
        """Whether a pod of that ordinal is wanted."""
        return self.start <= ordinal < self.start + self.replicas
