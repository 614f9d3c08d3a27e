"""One row of an InferenceReplica's status: an Instance as it is remembered (spec/omenative.md 1.2, 3.1). Pure.

A row is all that survives a restart of the operator: a pass writes the rows first and touches pods after.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from regroup.kube.meta import View

PENDING = "Pending"
CREATING = "Creating"
READY = "Ready"
UPDATING = "Updating"
RESTARTING = "Restarting"
MIGRATING = "Migrating"
FAILED = "Failed"
DELETING = "Deleting"
PHASES = (PENDING, CREATING, READY, UPDATING, RESTARTING, MIGRATING, FAILED, DELETING)

CREATE = "Create"
UPDATE = "Update"
RESTART = "Restart"
MIGRATE = "Migrate"
DELETE = "Delete"


class Operation(View, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """``operation``: work in flight, or kept for inspection on a Failed row. No deadline means that it never expires."""

    id: str = ""
    type: str = ""
    step: str = ""
    reason: str = ""
    """Why it was opened; never rewritten by a later pass."""
    started_at: datetime | None = None
    last_progress_at: datetime | None = None
    deadline: datetime | None = None
    retry_count: int = 0
    target_revision: str = ""
    strategy: str = ""
    waiting: str = ""
    """Hold token while the clock is parked: QuotaExceeded, Unschedulable, PodGroupTerminating, NodeUnknown, Paused; or
    SourceUnrouted, during which the clock runs on."""
    surge_index: int | None = None
    request_uuid: str = msgspec.field(name="requestUUID", default="")
    from_node: str = ""
    hint_target_nodes: tuple[str, ...] | None = None
    capacity_refused_at: datetime | None = None


class LastFailure(View, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """``lastFailure``: the newest failure that could be read. Survives the recovery."""

    pod_name: str = ""
    container_name: str = ""
    reason: str = ""
    exit_code: int | None = None
    message: str = ""
    time: datetime | None = None


class Row(View, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """``instanceStatuses[]``, keyed by ``index``."""

    index: int
    incarnation: int = msgspec.field(default=0)
    """From 1 on; one more with every restart and every update that recreates."""
    phase: str = ""
    running_revision: str = ""
    target_revision: str = ""
    pod_count: int = 0
    serving_pod_count: int = 0
    available_pod_count: int = 0
    admitted: bool = False
    ready_since: datetime | None = None
    """When the row last *entered* Ready."""
    operation: Operation | None = None
    active_ordinal: int = 0
    """Ordinal of the live pod of a single-pod Instance under SurgeThenDrain: 0 or 1."""
    last_failure: LastFailure | None = None
    raw_announced: tuple[str, ...] | None = msgspec.field(name="announced", default=None)

    @property
    def announced(self) -> Sequence[str]:
        """``<Reason>@<episode>`` of the events that are told once (4.10)."""
        return self.raw_announced or ()
