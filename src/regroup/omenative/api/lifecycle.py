"""``lifecycle`` of a component, as an InferenceService, a runtime or an InferenceReplica has it (spec/omenative.md 1.1.2). Pure.

Raw values only: who wins is for ``resolve``, what a percentage comes to for whoever knows the number of Instances.
"""

from regroup.kube.meta import View

IntOrPercent = int | str

NONE = "None"
RECREATE = "RecreateInstanceOnPodRestart"
RESTART_POLICIES = (NONE, RECREATE)

SURGE_THEN_DRAIN = "SurgeThenDrain"
RECREATE_POD = "RecreatePod"
IN_PLACE_IF_POSSIBLE = "InPlaceIfPossible"
IN_PLACE_ONLY = "InPlaceOnly"
UPDATE_STRATEGIES = (SURGE_THEN_DRAIN, RECREATE_POD, IN_PLACE_IF_POSSIBLE, IN_PLACE_ONLY)


class RollingUpdate(View, frozen=True, gc=False, kw_only=True):
    """``lifecycle.updateStrategy.rollingUpdate``. Counts are Instances; None is unset."""

    max_unavailable: IntOrPercent | None = None
    max_surge: IntOrPercent | None = None
    partition: int | None = None


class InPlaceUpdate(View, frozen=True, gc=False, kw_only=True):
    """``lifecycle.updateStrategy.inPlaceUpdateStrategy``. Seconds."""

    grace_period_seconds: int | None = None
    mark_not_ready_during_lifecycle: bool | None = None


class UpdateStrategy(View, frozen=True, gc=False, kw_only=True):
    """``lifecycle.updateStrategy``."""

    type: str | None = None
    rolling_update: RollingUpdate | None = None
    in_place_update_strategy: InPlaceUpdate | None = None


class MigrationPolicy(View, frozen=True, gc=False, kw_only=True):
    """``lifecycle.migrationPolicy``."""

    mode: str | None = None


class Lifecycle(View, frozen=True, gc=False, kw_only=True):
    """``lifecycle``. ``instance_ready_timeout`` is a Go duration as it was written."""

    restart_policy: str | None = None
    update_strategy: UpdateStrategy | None = None
    ready_policy: str | None = None
    instance_ready_timeout: str | None = None
    min_ready_seconds: int | None = None
    migration_policy: MigrationPolicy | None = None

    @property
    def rolling_update(self) -> RollingUpdate:
        """``updateStrategy.rollingUpdate``, all unset where there is none."""
        return (self.update_strategy.rolling_update if self.update_strategy else None) or RollingUpdate()
