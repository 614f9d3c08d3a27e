"""The scheduler's picture of the cluster: counts kept by increments equal counts made anew, and its queue."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sandbox.scheduler_fixtures import cluster, make_node, make_pod, put, where

from regroup.sandbox.scheduler.facts import PodFacts, facts
from regroup.sandbox.scheduler.queue import SchedulingQueue
from regroup.sandbox.scheduler.state import ClusterState

ZONE = "zone"


def pod_named(index: int, app: str) -> PodFacts:
    term = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]}}
    away = {
        "topologyKey": ZONE,
        "labelSelector": {
            "matchExpressions": [{"key": "app", "operator": "Exists"}, {"key": "app", "operator": "NotIn", "values": [app]}]
        },
    }
    kind = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: dict[str, Any] = {"podAffinity": {kind: [term]}, "podAntiAffinity": {kind: [away]}}
    return facts(make_pod(f"p{index}", labels={"app": app}, requests={"cpu": "100m"}, affinity=affinity))


NODES = {"a": "x", "b": "x", "c": "y"}
STEP = st.tuples(st.sampled_from(("add", "remove", "relabel", "drop", "back")), st.integers(0, 5), st.sampled_from("abc"))


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=25))
def test_counts_by_increments_equal_counts_made_anew(steps: list[tuple[str, int, str]]) -> None:
    """After any sequence of pods that come, move and go, and nodes that change, vanish and return: what is taken, what terms
    mean and what keeps away equal a state built from nothing."""
    pods = [pod_named(index, "web" if index % 2 else "db") for index in range(6)]
    zones, placed = dict(NODES), dict[str, str]()
    present = set(NODES)
    state = cluster(*(make_node(name, labels={ZONE: zone}) for name, zone in zones.items()))
    for pod in pods[:2]:
        state.topology.meant(pod.affinity[0], state.placed())
    for action, index, node in steps:
        pod = pods[index]
        if action == "add":
            state.add_pod(pod, node)
            placed[pod.uid] = node
        elif action == "remove":
            state.remove_pod(pod.uid)
            placed.pop(pod.uid, None)
        elif action == "relabel" and node in present:
            zones[node] = "y" if zones[node] == "x" else "x"
            state.set_node(make_node(node, labels={ZONE: zones[node]}))
        elif action == "drop":
            state.remove_node(node)
            present.discard(node)
        elif action == "back":
            state.set_node(make_node(node, labels={ZONE: zones[node]}))
            present.add(node)
    fresh = cluster(*(make_node(name, labels={ZONE: zones[name]}) for name in sorted(present)))
    for pod in pods:
        if pod.uid in placed:
            fresh.add_pod(pod, placed[pod.uid])
    assert taken(state) == taken(fresh)
    for pod in pods:
        for term in (*pod.affinity, *pod.anti_affinity):
            assert state.topology.meant(term, state.placed()) == fresh.topology.meant(term, fresh.placed())
        assert state.topology.forbidden(pod) == fresh.topology.forbidden(pod)


def taken(state: ClusterState) -> dict[str, dict[str, int]]:
    return {name: {resource: amount for resource, amount in node.taken.items() if amount} for name, node in state.nodes.items()}


def test_a_heartbeat_of_a_node_changes_nothing() -> None:
    """Only what placements rest on counts as a change, so that heartbeats wake nobody."""
    state = cluster(make_node("a"))
    assert not state.set_node(make_node("a"))
    assert state.set_node(make_node("a", unschedulable=True))


def test_pods_of_a_node_that_is_not_known_yet_count_when_it_comes() -> None:
    """Watches have no order between them: a bound pod may be seen before its node."""
    state = ClusterState()
    put(state, make_pod("one", requests={"cpu": "3"}), "a")
    state.set_node(make_node("a"))
    assert where(state, make_pod("two", requests={"cpu": "2"})) is None


def test_the_queue_serves_priority_then_arrival() -> None:
    """As kube-scheduler's PrioritySort."""
    queue = SchedulingQueue()
    for name, priority in (("a", 0), ("b", 5), ("c", 5), ("d", 0)):
        queue.add(facts(make_pod(name, priority=priority)))
    served = [pod.name for pod in iter(lambda: queue.pop(now=0.0), None)]
    assert served == ["b", "c", "a", "d"]


def test_a_parked_pod_waits_for_a_change_and_for_its_back_off() -> None:
    """1 s, 2 s, 4 s, 8 s, 10 s; a change that does not help it wakes it not."""
    queue = SchedulingQueue()
    pod = facts(make_pod("a"))
    queue.add(pod)
    now, waits = 0.0, []
    for _ in range(5):
        assert queue.pop(now=now) == pod
        queue.park(pod, now=now)
        queue.cluster_changed(lambda _: False)
        assert queue.next_due() is None
        queue.cluster_changed(lambda _: True)
        due = queue.next_due()
        assert due is not None
        assert queue.pop(now=due - 0.001) is None
        waits.append(due - now)
        now = due
    assert waits == [1, 2, 4, 8, 10]


def test_a_removed_pod_is_not_served() -> None:
    """Stale entries of the heaps are skipped; a pod that is added twice is served once."""
    queue = SchedulingQueue()
    one, two = facts(make_pod("a")), facts(make_pod("b"))
    for pod in (one, two, two):
        queue.add(pod)
    queue.remove(one.uid)
    assert queue.pop(now=0.0) == two
    assert queue.pop(now=0.0) is None
    assert one.uid not in queue
