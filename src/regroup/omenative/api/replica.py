"""InferenceReplica as we read it (spec/omenative.md 1.2). Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from regroup.kube.meta import Condition, ObjectView, View
from regroup.omenative.api.columns import COLUMNAR, DENSE, UnreadableRows, expand
from regroup.omenative.api.lifecycle import NONE, RECREATE, Lifecycle
from regroup.omenative.api.row import Row
from regroup.omenative.keys import DEFAULT_RUNNER, LEADER, WORKER

FREEZE = "Freeze"
RECOVER = "Recover"


class Runner(View, frozen=True, gc=False, kw_only=True):
    """``spec.runners[]``: ``template`` is a pod template, passed on as it is."""

    name: str = DEFAULT_RUNNER
    raw_size: int | None = msgspec.field(name="size", default=None)
    template: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def size(self) -> int:
        return 1 if self.raw_size is None else self.raw_size


class ParentRef(View, frozen=True, gc=False, kw_only=True):
    """``spec.parentRef``: the owning InferenceService."""

    name: str = ""


class Pacing(View, frozen=True, gc=False, kw_only=True):
    """``spec.pacing``."""

    partition: int | None = None
    max_unavailable: int | str | None = None
    rollback_to_revision: str = ""


class InferenceReplicaSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec``."""

    parent_ref: ParentRef | None = None
    component: str = ""
    raw_replicas: int | None = msgspec.field(name="replicas", default=None)
    raw_runners: tuple[Runner, ...] | None = msgspec.field(name="runners", default=None)
    raw_lifecycle: Lifecycle | None = msgspec.field(name="lifecycle", default=None)
    min_ready_seconds: int = 0
    topology_key: str = ""
    topology_spread: str = ""
    topology_spread_key: str = ""
    pairing_protocol: str = ""
    pacing: Pacing | None = None
    paused: bool = False
    pause_mode: str = ""
    revision_history_limit: int | None = None

    @property
    def replicas(self) -> int:
        """Instances wanted; 0 or unset runs 1."""
        return self.raw_replicas or 1

    @property
    def runners(self) -> Sequence[Runner]:
        return self.raw_runners or ()

    @property
    def lifecycle(self) -> Lifecycle:
        return self.raw_lifecycle or Lifecycle()

    def runner(self, name: str) -> Runner | None:
        """The runner of that name, if there is one."""
        return next((runner for runner in self.runners if runner.name == name), None)

    @property
    def multi_pod(self) -> bool:
        """A leader and workers, and not one pod."""
        return self.runner(LEADER) is not None and self.runner(WORKER) is not None

    @property
    def pods_per_instance(self) -> int:
        return sum(runner.size for runner in self.runners)

    @property
    def restart_policy(self) -> str:
        """The policy in force: the resolved value, else the default for the shape (seed: "Default for")."""
        return self.lifecycle.restart_policy or (RECREATE if self.multi_pod else NONE)

    @property
    def frozen_pause(self) -> bool:
        """Paused so deep that no repair starts (4.9)."""
        return self.paused and self.pause_mode == FREEZE


class RetryBlock(View, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """``status.retryBlocks[]``: how often a revision has failed (5.4)."""

    target_revision: str = ""
    state: str = ""
    attempts_started: int = 0
    next_retry_at: datetime | None = None
    first_failure_at: datetime | None = None
    last_failure_at: datetime | None = None
    reason: str = ""


class RolloutHold(View, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """``status.rolloutHold``: why nothing can move, and since when."""

    gate: str = ""
    reason: str = ""
    target: str = ""
    since: datetime | None = None


class InferenceReplicaStatus(View, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """``status``. Rows are plain (``raw_rows``) where we wrote last; another's may be columns, which our first write replaces."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    serving_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    updated_ready_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    label_selector: str = ""
    raw_rows: tuple[Row, ...] | None = msgspec.field(name="instanceStatuses", default=None)
    raw_retry_blocks: tuple[RetryBlock, ...] | None = msgspec.field(name="retryBlocks", default=None)
    raw_conditions: tuple[Condition, ...] | None = msgspec.field(name="conditions", default=None)
    rollout_hold: RolloutHold | None = None
    raw_encoding: str | None = msgspec.field(name="instanceStatusEncoding", default=None)
    raw_columns: dict[str, Any] | None = msgspec.field(name="instanceStatusColumns", default=None)

    @property
    def rows(self) -> Sequence[Row]:
        """The rows; none where they cannot be read."""
        try:
            return self._read()
        except UnreadableRows:
            return ()

    @property
    def encoding(self) -> str:
        """How the rows are stored."""
        return self.raw_encoding if self.raw_encoding and not self.raw_rows else DENSE

    @property
    def unreadable(self) -> str:
        """Why the rows that are there cannot be read; empty when they can, or when there are none."""
        try:
            self._read()
        except UnreadableRows as error:
            return f"status.instanceStatusColumns.{error}" if self.raw_encoding == COLUMNAR else str(error)
        return ""

    def _read(self) -> Sequence[Row]:
        """Who writes columns takes plain rows away, and we do the reverse: where both are, plain ones are the newer (9.33)."""
        if self.raw_rows or not (self.raw_encoding or self.raw_columns):
            return self.raw_rows or ()
        if self.raw_encoding not in {None, COLUMNAR}:
            raise UnreadableRows(f"status.instanceStatusEncoding: {self.raw_encoding[:40]!r} is not known")
        return expand(self.raw_columns or {})

    @property
    def retry_blocks(self) -> Sequence[RetryBlock]:
        return self.raw_retry_blocks or ()

    @property
    def conditions(self) -> Sequence[Condition]:
        return self.raw_conditions or ()


class InferenceReplica(ObjectView, frozen=True, gc=False, kw_only=True):
    """An InferenceReplica: one component of one InferenceService."""

    spec: InferenceReplicaSpec = InferenceReplicaSpec()
    raw_status: InferenceReplicaStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> InferenceReplicaStatus:
        return self.raw_status or InferenceReplicaStatus()

    @property
    def service_name(self) -> str:
        """The InferenceService's name, which pods carry as a label; a standalone replica's own name."""
        return self.spec.parent_ref.name if self.spec.parent_ref else self.metadata.name


def decode(obj: Mapping[str, Any]) -> InferenceReplica:
    """The view of a plain dict. Raises ``msgspec.ValidationError`` with the path of what has the wrong type."""
    return msgspec.convert(obj, InferenceReplica)
