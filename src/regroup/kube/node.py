"""Nodes as the node-loss rule sees them. Pure."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from regroup.kube.meta import Condition, ObjectView, View, find_condition

UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"


class Taint(View, frozen=True, gc=False, kw_only=True):
    """``spec.taints[]``."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class NodeSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a node."""

    unschedulable: bool = False
    raw_taints: tuple[Taint, ...] | None = msgspec.field(name="taints", default=None)

    @property
    def taints(self) -> Sequence[Taint]:
        return self.raw_taints or ()


class NodeStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a node."""

    raw_conditions: tuple[Condition, ...] | None = msgspec.field(name="conditions", default=None)

    @property
    def conditions(self) -> Sequence[Condition]:
        return self.raw_conditions or ()


class Node(ObjectView, frozen=True, gc=False, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    raw_status: NodeStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> NodeStatus:
        return self.raw_status or NodeStatus()

    @property
    def ready(self) -> Condition | None:
        return find_condition(self.status.conditions, "Ready")

    def taint(self, key: str) -> Taint | None:
        """The taint of that key, whatever its effect."""
        return next((taint for taint in self.spec.taints if taint.key == key), None)
