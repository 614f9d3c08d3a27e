"""Nodes and pods to schedule in tests."""

from typing import Any

import msgspec

from regroup.sandbox.scheduler.facts import PodFacts, facts
from regroup.sandbox.scheduler.placement import place
from regroup.sandbox.scheduler.state import ClusterState
from regroup.sandbox.scheduler.views import SchedulerNode, SchedulerPod


def make_node(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    unschedulable: bool = False,
    annotations: dict[str, str] | None = None,
) -> SchedulerNode:
    body = {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {"unschedulable": unschedulable, "taints": taints or []},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", **(allocatable or {})}},
    }
    return msgspec.convert(body, SchedulerNode)


def make_pod(
    name: str,
    *,
    namespace: str = "d",
    labels: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> SchedulerPod:
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"containers": [{"resources": {"requests": requests or {}}}], **spec},
    }
    return msgspec.convert(body, SchedulerPod)


def cluster(*nodes: SchedulerNode) -> ClusterState:
    state = ClusterState()
    for node in nodes:
        state.set_node(node)
    return state


def put(state: ClusterState, pod: SchedulerPod, node: str) -> PodFacts:
    """Place ``pod`` on ``node`` whatever the rules say."""
    found = facts(pod)
    state.add_pod(found, node)
    return found


def why(state: ClusterState, pod: SchedulerPod) -> str:
    """The reasons in the sentence for a pod that finds no place."""
    placement = place(facts(pod), state)
    assert placement.node is None, placement
    return placement.message.split(" no new claims")[0]


def where(state: ClusterState, pod: SchedulerPod) -> str | None:
    return place(facts(pod), state).node
